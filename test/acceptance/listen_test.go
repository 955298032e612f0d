//go:build !quick

package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/client/webhook"
)

// signedRequest is a request that a hook got.
type signedRequest struct {
	header http.Header
	body   []byte
}

// verifies reports whether a key verifies the request.
func (r *signedRequest) verifies(key string) bool {
	return webhook.Verify(r.header, r.body, key) == nil
}

// hook is a receiver that keeps whole requests, which are verified later.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	got []signedRequest
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, signedRequest{r.Header, body})
	}))
	t.Cleanup(h.Close)
	return h
}

// wait waits for n requests, and returns them by webhook-id.
func (h *hook) wait(t *testing.T, n int) []signedRequest {
	t.Helper()
	var got []signedRequest
	await(t, waitTimeout, fmt.Sprintf("%d requests", n), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		got = slices.Clone(h.got)
		return len(got) >= n
	})
	slices.SortFunc(got, func(a, b signedRequest) int {
		return strings.Compare(a.header.Get("Webhook-Id"), b.header.Get("Webhook-Id"))
	})
	return got
}

// The deliveries verify with the route's secret and the copies with the key that listen prints, and neither verifies with the
// other's. When copies cannot be forwarded, the deliveries are as before. An open stream ends when the instance stops.
func TestListenCopiesDeliveries(t *testing.T) {
	t.Parallel()
	const n, secret = 20, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	shop, laptop := newHook(t), newHook(t)
	s := launch(t, newRedis(t).URL(), route("pay", "app1:pay", shop.URL+"/hook", "SECRET="+secret, "HEADERS=X-Of-Route=hunter2"))
	command, out := s.run("listen", "--prefix", "app1:pay", "--forward-to", laptop.URL+"/local")
	await(t, waitTimeout, "copies", func() bool { return strings.Contains(out.String(), "ready: copies come from 1 of 1 instance") })
	_, rest, _ := strings.Cut(out.String(), "the key of this connection: ")
	key, _, _ := strings.Cut(rest, "\n")

	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:a:%d", i), time.Now()) })
	sent, copied := shop.wait(t, n), laptop.wait(t, n)
	for i := range sent {
		sentOne, copyOne := &sent[i], &copied[i]
		if !sentOne.verifies(secret) || sentOne.verifies(key) || sentOne.header.Get("X-Of-Route") != "hunter2" {
			t.Errorf("delivery %d: verifies %v with the route's secret and %v with the printed key: %v", i, sentOne.verifies(secret),
				sentOne.verifies(key), sentOne.header)
		}
		if !copyOne.verifies(key) || copyOne.verifies(secret) || copyOne.header.Get("X-Of-Route") != "" {
			t.Errorf("copy %d: verifies %v with the printed key and %v with the route's secret: %v", i, copyOne.verifies(key),
				copyOne.verifies(secret), copyOne.header)
		}
		if string(sentOne.body) != string(copyOne.body) || sentOne.header.Get("Webhook-Id") != copyOne.header.Get("Webhook-Id") {
			t.Errorf("the copy of %s %s is %s %s", sentOne.header.Get("Webhook-Id"), sentOne.body, copyOne.header.Get("Webhook-Id"), copyOne.body)
		}
	}

	laptop.Close()
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:b:%d", i), time.Now()) })
	await(t, waitTimeout, "a line for each copy", func() bool { return strings.Count(out.String(), "refused") == n })
	for _, r := range shop.wait(t, 2*n) {
		if !r.verifies(secret) || r.header.Get("Notifier-Attempt") != "1" {
			t.Errorf("while copies cannot be forwarded: %v", r.header)
		}
	}
	if got := s.metric("notifier_attempts_total", `outcome="delivered"`); got != 2*n {
		t.Errorf("%v attempts are delivered, want %d", got, 2*n)
	}
	if code, took := s.stop(waitTimeout); code != 0 || took > 20*time.Second { // below NOTIFIER_SHUTDOWN_TIMEOUT
		t.Errorf("exit code %d after %s with an open stream", code, took)
	}
	await(t, waitTimeout, "the end of the stream", func() bool {
		return strings.Contains(out.String(), "this instance is stopping; connecting again")
	})
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	exits(t, command, out, 0)
}
