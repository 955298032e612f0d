package cli

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/sign"
	"notifier/internal/testkit"
)

// attempt sends a callback and returns the status; 0 if no response came within the patience.
func attempt(t *testing.T, address, id string, patience time.Duration) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Webhook-Id", id)
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// Each notice has its position in the script, and the last answer is repeated.
func TestReceiveFollowsScript(t *testing.T) {
	t.Parallel()
	address, end := receivedWith(t, nil, "--then", "503x2, timeout,reset,200", "--json")
	for i, want := range []int{503, 503, 0, 0, 200, 200} {
		patience := time.Minute
		if want == 0 {
			patience = 200 * time.Millisecond
		}
		if got := attempt(t, address, "msg_a", patience); got != want {
			t.Errorf("attempt %d: %d, want %d", i+1, got, want)
		}
	}
	if got := attempt(t, address, "msg_b", time.Minute); got != 503 {
		t.Errorf("another notice begins with %d", got)
	}
	out := end()
	contains(t, out, "exit 0", `"answer":"timeout"`, `"answer":"reset"`, `"answer":"200"`, `"signature":"not verified"`)
}

// A hanging callback does not delay the receiver's end.
func TestReceiveEndsWhileACallbackHangs(t *testing.T) {
	t.Parallel()
	address, out, end := receiving(t, nil, "--then", "timeout")
	done := make(chan int, 1)
	go func() {
		res, err := http.Post("http://"+address, "", nil)
		if err == nil {
			_ = res.Body.Close()
		}
		done <- 0
	}()
	testkit.Until(t, "the callback is printed", func() bool { return out.has("attempt") })
	from := time.Now()
	contains(t, end(), "exit 0")
	<-done
	if took := time.Since(from); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
}

// The lateness is measured at the callback's arrival, before --delay.
func TestReceivePrintsLatenessOfArrival(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	address, end := receivedWith(t, nil, "--delay", delay.String(), "--json")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now()
	req.Header.Set("Notifier-Due", due.UTC().Format(time.RFC3339Nano))

	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	most := time.Since(due) - delay

	var line struct {
		Late float64 `json:"late_ms"`
	}
	out := end()
	_, from, _ := strings.Cut(out, " 0 ")
	if err := json.NewDecoder(strings.NewReader(from)).Decode(&line); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if late := time.Duration(line.Late * 1e6); late > most {
		t.Errorf("late by %s, want at most the %s between due time and arrival", late, most)
	}
}

// Ctrl-C does not wait for --delay.
func TestReceiveEndsDuringDelay(t *testing.T) {
	t.Parallel()
	address, out, end := receiving(t, nil, "--delay", "1h")
	done := make(chan error, 1)
	go func() {
		res, err := http.Post("http://"+address, "", nil)
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	testkit.Until(t, "the callback is printed", func() bool { return out.has("attempt") })
	contains(t, end(), "exit 0")
	if err := <-done; err == nil {
		t.Error("the callback was answered")
	}
}

// The receiver verifies what the service signs, with each scheme and with several.
func TestReceiveVerifiesEachScheme(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := func(name string, private crypto.Signer, err error) (key, pub string) {
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		key = write(name+".pem", "PRIVATE KEY", der, err)
		der, err = x509.MarshalPKIXPublicKey(private.Public())
		return key, write(name+"-pub.pem", "PUBLIC KEY", der, err)
	}
	_, ed, err := ed25519.GenerateKey(nil)
	edKey, edPub := pair("ed", ed, err)
	rsaPrivate, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey, rsaPub := pair("rsa", rsaPrivate, err)

	list := []string{"standard,jws"}
	for _, s := range sign.Schemes {
		list = append(list, string(s))
	}
	for _, schemes := range list {
		d := newTestCLI(t)
		d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN=" + schemes, "NOTIFIER_ROUTE_ORDERS_ALLOW=127.0.0.0/8"}, environ...)
		args := []string{"--sign", schemes, "--json"}
		var env []string
		if strings.HasPrefix(schemes, "standard,") || slices.Contains([]string{"standard", "stripe", "github"}, schemes) {
			d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_PER=route", "NOTIFIER_ROUTE_ORDERS_SECRET=" + secret}, d.env...)
			env = []string{"RECEIVER_SECRET=" + secret}
		}
		if strings.Contains(schemes, "jws") || strings.Contains(schemes, "25519") {
			d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_KEY_FILE=" + edKey}, d.env...)
			args = append(args, "--key-file", edPub, "--host", "127.0.0.1")
		}
		if strings.HasPrefix(schemes, "sorted") {
			key := strings.Repeat("k", 32)
			d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_PER=route", "NOTIFIER_ROUTE_ORDERS_SIGN_TEXT_KEY=" + key}, d.env...)
			env = []string{"RECEIVER_SECRET=" + key}
		} else if strings.Contains(schemes, "pay") {
			d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_KEY_FILE=" + rsaKey}, d.env...)
			args = append(args, "--key-file", rsaPub)
		}
		if schemes == "wechatpay" {
			d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_KEY_ID=PUB_1"}, d.env...)
		}
		address, end := receivedWith(t, env, args...)
		d.run(0, "send-test", "orders", "--to", "http://"+address+"/hook")
		if got := attempt(t, address, "msg_unsigned", time.Minute); got != 401 {
			t.Errorf("%s: an unsigned callback is answered with %d", schemes, got)
		}
		var signed struct{ Signature string }
		out := end()
		line := out[strings.Index(out, "{"):]
		if err := json.NewDecoder(strings.NewReader(line)).Decode(&signed); err != nil || signed.Signature != "right" {
			t.Errorf("%s: %v: %s", schemes, err, out)
		}
	}
}
