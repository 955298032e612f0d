package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// caller is a client without a prefix.
var caller = api.TestCaller{Name: "all", All: true}

// newSender returns a Sender that makes real calls. Its route orders may reach the private hosts of allow.
func newSender(t *testing.T, allow string, timeout time.Duration) *api.TestSender {
	t.Helper()
	orders := &route.Route{Name: "orders", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice}, Ladder: notice.DefaultLadder,
		Timeout: timeout, Concurrency: 4, Ack: route.Ack{Kind: route.Ack2xx}}
	if allow != "" {
		var err error
		if orders.Allow, err = route.ParseAllow(allow); err != nil {
			t.Fatal(err)
		}
	}
	list := &route.Route{Name: "jobs", Prefix: "app1:jobs", Target: route.Target{Kind: route.KindList, Key: "todo"}, Timeout: time.Second,
		Concurrency: 4}
	table, err := route.NewTable([]*route.Route{orders, list})
	if err != nil {
		t.Fatal(err)
	}
	h := callback.New(callback.Options{})
	t.Cleanup(h.Close)
	return api.NewTestSender(api.TestOptions{Routes: table, Probe: h.Probe})
}

func noticeTo(address string) *store.Found {
	return &store.Found{Notice: &notice.Notice{Key: "app1:orders:paid:1", Route: "app1:orders", Content: notice.Content{URL: address}}}
}

func TestTestCallsTheReceiverOfTheNotice(t *testing.T) {
	t.Parallel()
	var key, path string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, path = r.Header.Get("Notifier-Key"), r.URL.Path
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(strings.Repeat("x", 1000)))
	}))
	defer shop.Close()

	x, err := newSender(t, "127.0.0.1", time.Second).Send(t.Context(), caller, noticeTo(shop.URL+"/hook"))
	if err != nil {
		t.Fatal(err)
	}
	if key != "app1:orders:test:test" || path != "/hook" {
		t.Errorf("the receiver was sent %q at %q", key, path)
	}
	if x.Host != "127.0.0.1" || x.Outcome != notice.OutcomeRetry || x.Reason != notice.ReasonStatus5xx || x.Exchange.Status != 503 ||
		x.Answer != strings.Repeat("x", notice.KeptResponse) || x.Took <= 0 || x.Final || x.Next != notice.DefaultLadder[0] {
		t.Errorf("%+v", x)
	}
}

// Without NOTIFIER_ROUTE_<NAME>_ALLOW, a test reaches no private address: a notice's url may come from a merchant.
func TestTestReachesNoPrivateAddress(t *testing.T) {
	t.Parallel()
	called := false
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer shop.Close()

	named := strings.Replace(shop.URL, "127.0.0.1", "localhost", 1)
	for _, address := range []string{shop.URL, named, "http://169.254.169.254/latest/meta-data"} {
		x, err := newSender(t, "", time.Second).Send(t.Context(), caller, noticeTo(address))
		if err != nil {
			t.Fatal(err)
		}
		if x.Reason != notice.ReasonBlocked || x.Exchange.Status != 0 || x.Answer == "" {
			t.Errorf("%s: %+v", address, x)
		}
	}
	if called {
		t.Error("a private address was called")
	}
}

func TestTestEndsAtTheTimeoutOfTheRoute(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer shop.Close()
	defer close(release)

	x, err := newSender(t, "127.0.0.1", 20*time.Millisecond).Send(t.Context(), caller, noticeTo(shop.URL))
	if err != nil || x.Reason != notice.ReasonTimeout || x.Exchange.Status != 0 {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestTestNeedsARouteWithHTTP(t *testing.T) {
	t.Parallel()
	s := newSender(t, "", time.Second)
	for _, prefix := range []string{"app1:jobs", "app1:removed"} {
		f := &store.Found{Notice: &notice.Notice{Key: prefix + ":a:1", Route: prefix}}
		if _, err := s.Send(t.Context(), caller, f); !errors.Is(err, api.ErrTestTarget) || s.Tests(f) {
			t.Errorf("%s: %v, tests %v", prefix, err, s.Tests(f))
		}
	}
	var none *api.TestSender
	if _, err := none.Send(t.Context(), caller, noticeTo("https://shop.example/")); !errors.Is(err, api.ErrTestTarget) {
		t.Errorf("without a Sender: %v", err)
	}
}

// Without its key, the body of a sealed notice is missing: an empty body would be sent.
func TestSealedNoticeIsNotSent(t *testing.T) {
	t.Parallel()
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a test was sent") }))
	defer shop.Close()
	f := noticeTo(shop.URL)
	f.Sealed = "s1c:AAAAAAAAAAAAAAAA:x"
	s := newSender(t, "127.0.0.1", time.Second)
	if _, err := s.Send(t.Context(), caller, f); !errors.Is(err, api.ErrTestSealed) || s.Tests(f) {
		t.Errorf("%v, tests %v", err, s.Tests(f))
	}
}
