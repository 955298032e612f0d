package verifiers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// received is a callback as it came.
type received struct {
	scheme string
	header http.Header
	body   []byte
}

// language runs the code of docs/examples/verify in one language. driver is the main program,
// which the test adds. Its arguments are the scheme, a key file, a body file, and name=value for
// each header. It exits with 0 if the callback is valid.
type language struct {
	source, file, driver string
	schemes              string // all, or empty for those of documented
	json                 bool   // reads JSON objects of the sorted schemes
	prepare, run         []string
}

var languages = []language{
	{source: "../../../examples/verify/main.go", file: "main.go", schemes: "all",
		json:    true,
		prepare: []string{"go", "build", "-C", "../..", "-o", "DIR/verify", "./examples/verify"}, run: []string{"DIR/verify"}},
	{source: "verify.py", file: "verify.py", json: true, run: []string{"python3", "DIR/verify.py"}, driver: `
import sys
scheme, key, body = sys.argv[1], open(sys.argv[2]).read(), open(sys.argv[3], "rb").read()
headers = dict(a.split("=", 1) for a in sys.argv[4:])
sys.exit(0 if globals()[{"sorted": "sorted_fields"}.get(scheme, scheme.replace("-", "_"))](key, headers, body) else 1)
`},
	{source: "verify.mjs", file: "verify.mjs", run: []string{"node", "DIR/verify.mjs"}, driver: `
import { readFileSync } from "node:fs";
const [scheme, key, body, ...pairs] = process.argv.slice(2);
const headers = Object.fromEntries(pairs.map((p) => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
process.exit({ standard, wechatpay, alipay, sorted: sortedFields, "sorted-jeepay": sortedJeepay }[scheme](readFileSync(key, "utf8"), headers, readFileSync(body)) ? 0 : 1);
`},
	{source: "Verify.java", file: "Verify.java", prepare: []string{"javac", "-d", "DIR", "DIR/Verify.java"}, run: []string{"java", "-cp", "DIR", "Driver"}, driver: `
class Driver {
    public static void main(String[] args) throws Exception {
        String key = java.nio.file.Files.readString(java.nio.file.Path.of(args[1]));
        byte[] body = java.nio.file.Files.readAllBytes(java.nio.file.Path.of(args[2]));
        var headers = new HashMap<String, String>();
        for (int i = 3; i < args.length; i++) headers.put(args[i].split("=", 2)[0], args[i].split("=", 2)[1]);
        boolean ok = switch (args[0]) {
            case "standard" -> Verify.standard(key, headers, body);
            case "wechatpay" -> Verify.wechatpay(key, headers, body);
            case "sorted", "sorted-jeepay" -> Verify.sorted(key, body, args[0].equals("sorted-jeepay"));
            default -> Verify.alipay(key, headers, body);
        };
        System.exit(ok ? 0 : 1);
    }
}
`},
	{source: "verify.php", file: "verify.php", run: []string{"php", "DIR/verify.php"}, driver: `
[$scheme, $key, $body] = [$argv[1], file_get_contents($argv[2]), file_get_contents($argv[3])];
$headers = [];
foreach (array_slice($argv, 4) as $pair) [$n, $headers[$n]] = explode('=', $pair, 2);
$scheme = ['sorted' => 'sorted_fields', 'sorted-jeepay' => 'sorted_jeepay'][$scheme] ?? $scheme;
exit($scheme($key, $headers, $body) ? 0 : 1);
`},
}

// documented are the schemes that the code of docs/examples/verify has in each language.
var documented = []string{"standard", "wechatpay", "alipay", "sorted", "sorted-jeepay"}

// texts are the bodies that are signed with the schemes whose key is a text: each rule of the order, and both algorithms.
var texts = map[string][]string{
	"sorted": {form + "&sign_type=MD5&Zone=&trade=%26x%3D1", `{"trade_no":"4711","b":1.50,"B":true,"a":null,"sign_type":"HMAC-SHA256","c":"测试"}`},
	"sorted-jeepay": {"a=1&a1=2&mchNo=M1&Way_Code=4711&wayCode=X&zone=%E6%B5%8B&signType=HMAC-SHA256",
		`{"a1":4711,"a":"1","Zone":"","b":false}`},
}

// The code of docs/examples/verify accepts real callbacks, and refuses changed ones.
func TestDocumentedCodeVerifies(t *testing.T) {
	keys, callbacks := capture(t)
	for _, l := range languages {
		t.Run(filepath.Base(l.source), func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join("../../docs/examples/verify", l.source))
			if err != nil {
				t.Fatal(err)
			}

			tool := append(append([]string{}, l.prepare...), l.run...)[0]
			if _, err := exec.LookPath(tool); err != nil {
				t.Fatalf("%s is not installed: run scripts/verifiers-deps.sh", tool)
			}
			l.try(t, string(code), keys, callbacks)
		})
	}
}

func (l language) try(t *testing.T, code string, keys map[string]string, callbacks []received) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(l.file, []byte(code+"\n"+l.driver))
	run := func(command []string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var all []string
		for _, word := range command {
			all = append(all, strings.ReplaceAll(word, "DIR", dir))
		}

		all = append(all, args...)
		out, err := exec.CommandContext(ctx, all[0], all[1:]...).CombinedOutput()
		return string(out), err
	}
	if l.prepare != nil {
		if out, err := run(l.prepare); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, c := range callbacks {
		object := strings.HasPrefix(string(c.body), "{") && texts[c.scheme] != nil
		if l.schemes != "all" && !slices.Contains(documented, c.scheme) || object && !l.json {
			continue
		}
		args := []string{c.scheme, write("key", []byte(keys[c.scheme])), write("body", c.body)}
		for name := range c.header {
			args = append(args, strings.ToLower(name)+"="+c.header.Get(name))
		}
		if out, err := run(l.run, args...); err != nil {
			t.Errorf("%s: the callback is refused: %v %s", c.scheme, err, out)
		}
		write("body", bytes.Replace(c.body, []byte("4711"), []byte("4712"), 1))
		if out, err := run(l.run, args...); err == nil || strings.Contains(out, "rror") {
			t.Errorf("%s: a changed callback: %v %s", c.scheme, err, out)
		}
	}
}

// capture makes one callback with each scheme, and returns them with the receivers' keys.
func capture(t *testing.T) (keys map[string]string, all []received) {
	rsaKey, edKey := newRSA(t), newEd25519(t)
	keys = map[string]string{"standard": secret, "stripe": secret, "github": secret, "wechatpay": rsaKey.public, "alipay": rsaKey.public,
		"standard-ed25519": edKey.public, "jws": edKey.public, "sorted": textKey, "sorted-jeepay": textKey}
	got := make(chan received, 2*len(keys))
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got <- received{r.URL.Path[1:], r.Header, data}
	}))
	t.Cleanup(receiver.Close)
	env := map[string]string{}
	var names []string
	for scheme, key := range keys {
		name := strings.ReplaceAll(scheme, "-", "")
		names = append(names, name)
		begin := "ROUTE_" + strings.ToUpper(name) + "_"
		env[begin+"PREFIX"], env[begin+"TARGET"], env[begin+"SIGN"] = "app:"+name, receiver.URL+"/"+scheme, scheme
		switch key {
		case secret:
			env[begin+"SECRET"] = secret
		case textKey:
			env[begin+"SIGN_TEXT_KEY"] = textKey
		case rsaKey.public:
			env[begin+"SIGN_KEY"], env[begin+"SIGN_KEY_ID"] = rsaKey.private, serial
		default:
			env[begin+"SIGN_KEY"] = edKey.private
		}
	}
	env["ROUTES"] = strings.Join(names, ",")
	s := serve(t, redisServer(t), env)
	sent := 0
	for scheme := range keys {
		bodies := texts[scheme]
		if scheme == "alipay" {
			bodies = []string{form}
		} else if bodies == nil {
			bodies = []string{body}
		}
		for i, text := range bodies {
			typ := "application/x-www-form-urlencoded"
			if strings.HasPrefix(text, "{") {
				typ = "application/json"
			}
			if err := s.schedule(fmt.Sprintf("app:%s:paid:%d", strings.ReplaceAll(scheme, "-", ""), i), typ, text); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	for range sent {
		select {
		case c := <-got:
			all = append(all, c)
		case <-time.After(time.Minute):
			t.Fatal("a callback did not come")
		}
	}
	return keys, all
}
