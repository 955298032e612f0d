package callback

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/notice"
	"notifier/internal/route"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(envFrozen); address != "" {
		frozenHelper(address)
		return
	}
	goleak.VerifyTestMain(m)
}

var made = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func testNotice(body string) *notice.Notice {
	return &notice.Notice{Key: "shop:trans:paid:4711", Route: "shop", Made: notice.MadeAt(made), Due: made.Add(15 * time.Second),
		Content: notice.Content{Body: []byte(body)}}
}

func fixedRoute(address string) *route.Route {
	target, err := route.ParseTarget(address)
	if err != nil {
		panic(err)
	}
	return &route.Route{Name: "shop", Prefix: "shop", Target: target,
		Timeout: 30 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, HostConcurrency: 16}
}

func noticeRoute(allow ...string) *route.Route {
	r := fixedRoute("notice")
	if len(allow) > 0 {
		var err error
		if r.Allow, err = route.ParseAllow(strings.Join(allow, ",")); err != nil {
			panic(err)
		}
	}
	return r
}

func newHandler(t testing.TB, o Options) *Handler {
	t.Helper()
	o.TLSTimeout = cmp.Or(o.TLSTimeout, 30*time.Second) // many handshakes at once on a busy machine
	h := New(o)
	t.Cleanup(h.Close)
	return h
}

// server is a receiver that ends before the leak check. Its handlers must not wait for anything but their
// request's context.
func server(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func expect(t testing.TB, got notice.Result, o notice.Outcome, r notice.Reason) {
	t.Helper()
	if got.Outcome != o || got.Reason != r {
		t.Errorf("%s %q (status %d, %q), want %s %q", got.Outcome, got.Reason, got.Status, got.Response, o, r)
	}
}

func background(t testing.TB) context.Context { return t.Context() }
