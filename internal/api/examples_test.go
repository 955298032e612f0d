//go:build !quick

package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/queue"
)

// Each example of docs/examples whose language is here schedules a notice
// against the API, and tells right signatures from wrong ones.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	s := httptest.NewServer(b.handler)
	defer s.Close()
	const secret, id, body = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "msg_1", "{\"a\" : \"ä\x00\xff\"}\r\n\n"
	sign := func(at int64, secret string) string {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%d.%s", id, at, body)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	now := time.Now().Unix()
	stamp, right := strconv.FormatInt(now, 10), sign(now, secret)
	wrong := sign(now, "whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2")
	ran := 0
	for n, command := range [][]string{{"sh", "curl.sh"}, {"python3", "notifier.py"}, {"node", "notifier.mjs"}, {"java", "Notifier.java"},
		{"php", "notifier.php"}} {
		file := filepath.Join("../../docs/examples", command[1])
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if !installed(command[0]) || command[0] == "sh" && (!installed("curl") || !installed("openssl")) {
			t.Logf("%s is not installed here; %s was not run", command[0], command[1])
			continue
		}
		ran++
		start := []string{file}
		if command[0] == "java" && installed("javac") { // once, instead of at each start
			dir := t.TempDir()
			if out, err := exec.CommandContext(t.Context(), "javac", "-d", dir, file).CombinedOutput(); err != nil {
				t.Fatalf("javac: %v %s", err, out)
			}
			start = []string{"-XX:TieredStopAtLevel=1", "-cp", dir, "Notifier"}
		}
		key, hook := fmt.Sprintf("app1:jobs:example:%d", n), ""
		run := func(stdin string, args ...string) (string, error) {
			c := exec.CommandContext(t.Context(), command[0], append(slices.Clone(start), args...)...)
			c.Env = append(os.Environ(), "NOTIFIER_URL="+s.URL, "NOTIFIER_TOKEN=token-of-one", "KEY="+key, "WEBHOOK_SECRET="+secret,
				"HOOK_URL="+hook)
			c.Stdin = strings.NewReader(stdin)
			out, err := c.CombinedOutput()
			return string(out), err
		}
		for _, want := range []string{"201", "200"} {
			if out, err := run("", "schedule"); err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%s schedule: %q, %v, want %s", command[1], out, err, want)
			}
		}
		hook = "ftp://shop.example"
		if out, err := run("", "schedule"); err == nil {
			t.Errorf("%s exits with 0 after a 422: %s", command[1], out)
		}
		for _, c := range []struct {
			stdin, stamp, signature string
			want                    bool
		}{
			{body, stamp, right, true}, {body, stamp, wrong + " " + right, true}, {body, stamp, wrong, false}, {body + " ", stamp, right, false},
			{body, strconv.FormatInt(now-400, 10), sign(now-400, secret), false},
		} {
			if out, err := run(c.stdin, "verify", id, c.stamp, c.signature); (err == nil) != c.want {
				t.Errorf("%s verify %s %s: %v %s, want right = %v", command[1], c.stamp, c.signature, err, out, c.want)
			}
		}
	}
	if ran == 0 {
		t.Error("none of the languages is installed; at least a shell with curl and openssl, Python or Node is needed")
	}
}

func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func TestPythonExampleOpensSealedEntries(t *testing.T) {
	t.Parallel()
	if !installed("python3") {
		t.Log("python3 is not installed here; notifier.py was not run")
		return
	}
	b := newBench(t, withClients)
	s := httptest.NewServer(b.handler)
	defer s.Close()
	const key = "app1:jobs:t:1"
	for _, x := range []struct {
		notice.Content
		keep bool
	}{
		{notice.Content{Body: []byte(`{"card":"ä"}`)}, false}, {notice.Content{Body: []byte("\xff\x00")}, false}, {notice.Content{}, false},
		{notice.Content{Body: []byte("text")}, true},
	} {
		n := &notice.Notice{Key: key, Made: 1, Content: x.Content}
		if !x.keep {
			n.Content = notice.Content{Sealed: b.engine.SealText("m17", key, x.Content)}
		}
		c := exec.CommandContext(t.Context(), "python3", "../../docs/examples/notifier.py", "content")
		c.Env = append(os.Environ(), "NOTIFIER_URL="+s.URL, "NOTIFIER_TOKEN=token-of-one")
		c.Stdin = strings.NewReader(string(queue.Envelope(n)))
		if out, err := c.CombinedOutput(); err != nil || string(out) != string(x.Body) {
			t.Errorf("%q, %v, want %q", out, err, x.Body)
		}
	}
}
