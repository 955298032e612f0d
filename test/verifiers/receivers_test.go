package verifiers

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// completeReceivers are the complete receivers of docs/receivers.md, relative to docs/examples/receivers. DIR is a folder of the test,
// PORT the port.
var completeReceivers = []struct {
	file         string
	prepare, run []string
}{
	{file: "receiver.py", run: []string{"python3", "receiver.py"}},
	{file: "receiver.mjs", run: []string{"node", "receiver.mjs"}},
	{file: "Receiver.java", prepare: []string{"javac", "-d", "DIR", "Receiver.java"}, run: []string{"java", "-cp", "DIR", "Receiver"}},
	{file: "receiver.php", run: []string{"php", "-S", "127.0.0.1:PORT", "receiver.php"}},
	{file: "../../../examples/receiver/main.go", prepare: []string{"go", "build", "-o", "DIR/receiver", "../../../examples/receiver/main.go"},
		run: []string{"DIR/receiver"}},
}

// output is what a program has written. It may be used concurrently.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Each complete receiver accepts a real callback and does its work once. It refuses what is forged, old or too large.
func TestCompleteReceivers(t *testing.T) {
	_, callbacks := capture(t)
	var real received
	for _, c := range callbacks {
		if c.scheme == "standard" {
			real = c
		}
	}
	for _, r := range completeReceivers {
		t.Run(r.file, func(t *testing.T) {
			address, out := begin(t, r.prepare, r.run)
			call := func(h http.Header, body string) int {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/callbacks", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = h
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
					return 0
				}
				_ = resp.Body.Close()
				return resp.StatusCode
			}
			now, text, large := time.Now().Unix(), string(real.body), strings.Repeat(" ", 1<<20+1)
			for _, c := range []struct {
				about  string
				header http.Header
				body   string
				want   int
			}{
				{"the callback", real.header, text, 200},
				{"the callback again", real.header, text, 200},
				{"a resend", resent(real.header), text, 200},
				{"the resend again", resent(real.header), text, 200},
				{"another body", real.header, strings.Replace(text, "4711", "4712", 1), 401},
				{"no signature", http.Header{}, text, 401},
				{"a signature of an empty key", signed("msg_2", now, "", text), text, 401},
				{"an old callback", signed("msg_3", now-301, secret, text), text, 401},
				{"a callback of the future", signed("msg_4", now+600, secret, text), text, 401},
				{"no number", http.Header{"Webhook-Id": {"a"}, "Webhook-Timestamp": {"soon"}, "Webhook-Signature": {"v1,x"}}, text, 401},
				{"too large a body", signed("msg_6", now, secret, large), large, 413},
				{"work that fails", signed("msg_5", now, secret, "{"), "{", 500},
				{"its next attempt", signed("msg_5", now, secret, `{"order":"4713"}`), `{"order":"4713"}`, 200},
			} {
				if r.file == "Receiver.java" && c.want == 500 {
					continue // its work reads no JSON
				}
				if got := call(c.header, c.body); got != c.want {
					t.Errorf("%s: %d, want %d\n%s", c.about, got, c.want, out)
				}
			}
			until(t, "the output, which may come after the answer", func() bool { return strings.Contains(out.String(), "paid 4713") })
			if got := out.String(); strings.Count(got, "paid 4711") != 2 || strings.Count(got, "paid 4713") != 1 {
				t.Errorf("the work was done otherwise than once, and once for the resend:\n%s", got)
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if got := call(signed("msg_7", now, secret, `{"order":"4714"}`), `{"order":"4714"}`); got != 200 && got != 409 {
						t.Errorf("concurrent callbacks: %d", got)
					}
				})
			}
			all.Wait()
			if got := call(signed("msg_7", now, secret, `{"order":"4714"}`), `{"order":"4714"}`); got != 200 ||
				strings.Count(out.String(), "paid 4714") > 1 {
				t.Errorf("after concurrent callbacks: %d\n%s", got, out)
			}
		})
	}
}

// resent returns the headers of a callback after an operator's resend.
func resent(h http.Header) http.Header {
	h = h.Clone()
	h.Set("Notifier-Resend", "1")
	return h
}

// signed returns the headers of a callback with the scheme standard.
func signed(id string, at int64, key, body string) http.Header {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", id, at, body)
	return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at, 10)},
		"Webhook-Signature": {"v1,bm90aGluZw== v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
}

// begin starts a receiver and waits until it answers.
func begin(t *testing.T, prepare, run []string) (address string, out *output) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = l.Close()
	dir, other := t.TempDir(), "whsec_"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 24))
	out = &output{}
	command := func(words []string) *exec.Cmd {
		line := strings.NewReplacer("DIR", dir, "PORT", port).Replace(strings.Join(words, "\n"))
		words = strings.Split(line, "\n")
		if _, err := exec.LookPath(words[0]); err != nil && !filepath.IsAbs(words[0]) {
			t.Fatalf("%s is not installed: run scripts/verifiers-deps.sh", words[0])
		}
		c := exec.CommandContext(t.Context(), words[0], words[1:]...)
		c.Dir, c.Stdout, c.Stderr = "../../docs/examples/receivers", out, out
		c.Env = append(os.Environ(), "PORT="+port, "EVENTS="+dir, "WEBHOOK_SECRET="+other+","+secret)
		return c
	}
	if prepare != nil {
		if err := command(prepare).Run(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c := command(run)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the receiver's output: %s", out)
		}
	})
	until(t, "the receiver listens", func() bool { return listens(address) })
	return address, out
}

// The pages that merchants get contain the receivers as they are tested, and lead to no other page.
func TestPagesForMerchantsHaveTheReceivers(t *testing.T) {
	for _, page := range []string{"receivers.md", "receivers.zh-CN.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range completeReceivers {
			code, err := os.ReadFile(filepath.Join("../../docs/examples/receivers", r.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(code, []byte("\n")); n > 80 {
				t.Errorf("%s has %d lines, want at most 80", r.file, n)
			}
			if !bytes.Contains(text, append(code, "```\n"...)) {
				t.Errorf("%s does not contain %s as it is", page, r.file)
			}
		}
		for _, part := range strings.Split(string(text), "](")[1:] {
			link, _, _ := strings.Cut(part, ")")
			if !strings.HasPrefix(link, "#") && link != "https://www.standardwebhooks.com" && !strings.HasPrefix(link, "receivers.") {
				t.Errorf("%s leads to %s", page, link)
			}
		}
	}
}
