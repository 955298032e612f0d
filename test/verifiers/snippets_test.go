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
	schemes              string // all, or empty for standard, wechatpay and alipay
	prepare, run         []string
}

var languages = []language{
	{source: "../../../examples/verify/main.go", file: "main.go", schemes: "all",
		prepare: []string{"go", "build", "-C", "../..", "-o", "DIR/verify", "./examples/verify"}, run: []string{"DIR/verify"}},
	{source: "verify.py", file: "verify.py", run: []string{"python3", "DIR/verify.py"}, driver: `
import sys
scheme, key, body = sys.argv[1], open(sys.argv[2]).read(), open(sys.argv[3], "rb").read()
headers = dict(a.split("=", 1) for a in sys.argv[4:])
sys.exit(0 if globals()[scheme](key, headers, body) else 1)
`},
	{source: "verify.mjs", file: "verify.mjs", run: []string{"node", "DIR/verify.mjs"}, driver: `
import { readFileSync } from "node:fs";
const [scheme, key, body, ...pairs] = process.argv.slice(2);
const headers = Object.fromEntries(pairs.map((p) => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
process.exit({ standard, wechatpay, alipay }[scheme](readFileSync(key, "utf8"), headers, readFileSync(body)) ? 0 : 1);
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
exit($scheme($key, $headers, $body) ? 0 : 1);
`},
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
		if l.schemes != "all" && c.scheme != "standard" && c.scheme != "wechatpay" && c.scheme != "alipay" {
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
		"standard-ed25519": edKey.public, "jws": edKey.public}
	got := make(chan received, len(keys))
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
		case rsaKey.public:
			env[begin+"SIGN_KEY"], env[begin+"SIGN_KEY_ID"] = rsaKey.private, serial
		default:
			env[begin+"SIGN_KEY"] = edKey.private
		}
	}
	env["ROUTES"] = strings.Join(names, ",")
	s := serve(t, redisServer(t), env)
	for _, name := range names {
		typ, text := "application/json", body
		if name == "alipay" {
			typ, text = "application/x-www-form-urlencoded", form
		}
		if err := s.schedule(fmt.Sprintf("app:%s:paid:1", name), typ, text); err != nil {
			t.Fatal(err)
		}
	}
	for range keys {
		select {
		case c := <-got:
			all = append(all, c)
		case <-time.After(time.Minute):
			t.Fatal("a callback did not come")
		}
	}
	return keys, all
}
