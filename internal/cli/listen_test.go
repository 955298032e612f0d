package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"notifier/client/webhook"
	"notifier/internal/api"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// listening is a notifier listen that runs.
type listening struct {
	t         *testing.T
	out, errs *written
	end       func() int
}

func listen(t *testing.T, d *testCLI, args ...string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{t: t, out: &written{}, errs: &written{}}
	done := make(chan int, 1)
	go func() {
		done <- Main(ctx, Process{Args: append([]string{"listen"}, args...), Environ: d.env, Stdin: strings.NewReader(""), Stdout: l.out,
			Stderr: l.errs, Version: "1"}, d.deps)
	}()
	l.end = func() int {
		cancel()
		return <-done
	}
	return l
}

// until waits for a text in the output.
func (l *listening) until(w *written, text string) {
	l.t.Helper()
	testkit.Await(l.t, func() error {
		if !w.has(text) {
			return fmt.Errorf("listen does not print %q: %s%s", text, l.out.text(), l.errs.text())
		}
		return nil
	})
}

func (w *written) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// tapped is a copy of an attempt that was delivered.
func tapped(id, body string) *tracing.Copy {
	c := &tracing.Copy{Key: "app1:jobs:t:" + id, Route: "jobs", ID: "msg_" + id, Attempt: 2, Target: route.KindFixed, Method: http.MethodPost,
		URL: "https://shop.example/hook", Standard: true, Headers: []notice.Header{{Name: "webhook-id", Value: "msg_" + id}},
		Outcome: notice.OutcomeDelivered, Status: http.StatusOK}
	c.SetBody([]byte(body))
	return c
}

// A forwarded copy verifies with the key that listen prints, and its line has both answers.
func TestListenForwardsCopiesSignedAnew(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 2)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)

	l := listen(t, d, "--prefix", "app1:jobs", "--forward-to", receiver.URL+"/hook")
	l.until(l.errs, "ready: copies come from 1 of 1 instance")
	_, rest, _ := strings.Cut(l.errs.text(), "the key of this connection: ")
	secret, _, _ := strings.Cut(rest, "\n")
	if !d.engine.Copied(tapped("1", `{"order":4711}`)) || !d.engine.Copied(tapped("2", strings.Repeat("x", 100<<10))) {
		t.Fatal("no tap wants the copies")
	}

	l.until(l.out, "app1:jobs:t:1  attempt 2  POST https://shop.example/hook  200 delivered  → 204 in ")
	l.until(l.out, "not forwarded: the body is cut")
	r := <-got
	if err := webhook.Verify(r.header, r.body, secret); err != nil || string(r.body) != `{"order":4711}` {
		t.Errorf("%v: %s %v", err, r.body, r.header)
	}
	if err := webhook.Verify(r.header, []byte(`{"order":4712}`), secret); err == nil {
		t.Error("a changed copy verifies")
	}
	if len(got) > 0 {
		t.Error("the cut copy was forwarded")
	}
	if code := l.end(); code != 0 {
		t.Errorf("exits with %d", code)
	}
}

// A receiver that refuses connections ends neither the stream nor the output.
func TestListenPrintsFailedForwards(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	l := listen(t, d, "--forward-to", "127.0.0.1:"+freePort(t), "--print-json")
	l.until(l.errs, "ready:")
	d.engine.Copied(tapped("1", `{}`))
	l.until(l.out, "\n")

	var line struct {
		Copy      struct{ Key, Body string }
		Forwarded struct{ Error string }
	}
	if err := json.Unmarshal([]byte(l.out.text()), &line); err != nil || line.Copy.Key != "app1:jobs:t:1" || line.Copy.Body != "{}" ||
		!strings.Contains(line.Forwarded.Error, "refused") {
		t.Errorf("%v: %s", err, l.out.text())
	}
	if code := l.end(); code != 0 {
		t.Errorf("exits with %d", code)
	}
}

// While the service is unavailable listen connects again, and continues.
func TestListenConnectsAgain(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.engine.Fail(wire.ErrUnavailable)
	l := listen(t, d)
	l.until(l.errs, "connecting again")
	d.engine.Fail(nil)
	l.until(l.errs, "ready:")
	d.engine.Copied(tapped("1", `{}`))
	l.until(l.out, "app1:jobs:t:1")
	if code := l.end(); code != 0 {
		t.Errorf("exits with %d", code)
	}
}

func TestListenRefusesToForwardMaskedCopies(t *testing.T) {
	t.Parallel()
	rules, err := mask.New(false, "$.card")
	if err != nil {
		t.Fatal(err)
	}
	d := newTestCLI(t, func(o *api.Options) { o.Mask = rules })
	_, errs := d.run(2, "listen", "--forward-to", "localhost:3000")
	contains(t, errs, "this service masks bodies")
	_, errs = d.run(2, "listen", "--forward-to", "ftp://localhost")
	contains(t, errs, "want an address such as localhost:3000/hook")
}
