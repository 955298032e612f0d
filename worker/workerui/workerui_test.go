package workerui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/history"
	"notifier/internal/testkit"
	"notifier/worker"
	_ "notifier/worker/sqlitehistory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "0123456789abcdef0123456789abcdef"

// newWorker returns a worker of which the test ends.
func newWorker(t *testing.T, o worker.Options) *worker.Worker {
	t.Helper()
	srv := testkit.SharedRedis(t)
	o.Redis, o.Namespace, o.ShutdownTimeout = srv.URL(), srv.Namespace(), time.Second
	w, err := worker.New(o)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// call makes a request and returns the status and the text of the answer.
func call(t *testing.T, method, url, bearer, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}

	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}

	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}

	return res.StatusCode, string(text)
}

// awaitText waits until an address answers with a text.
func awaitText(t *testing.T, url, bearer, want string) {
	t.Helper()
	testkit.Await(t, func() error {
		status, text := call(t, "GET", url, bearer, "")
		if status != http.StatusOK || !strings.Contains(text, want) {
			return fmt.Errorf("%s answers %d without %q: %s", url, status, want, text)
		}
		return nil
	})
}

func TestNoticeIsScheduledListedAndHandled(t *testing.T) {
	address := "sqlite://" + t.TempDir() + "/history.db"
	w := newWorker(t, worker.Options{History: address})
	got := make(chan string, 1)
	w.Handle("shop:orders:close", func(_ context.Context, n *worker.Notice) error {
		got <- n.Key + " " + string(n.Body)
		return nil
	})
	h, err := Handler(w, Options{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	s := httptest.NewServer(h)
	defer s.Close()
	awaitText(t, s.URL+"/readyz", "", "")
	const key = "shop:orders:close:4711"
	status, text := call(t, "POST", s.URL+"/v1/notices", "", `{"key": "`+key+`", "delay": "1h", "body": {"n": 1}}`)
	if status/100 != 2 {
		t.Fatalf("schedule: %d %s", status, text)
	}

	awaitText(t, s.URL+"/ui/notices?prefix=shop:orders", "", "4711")
	awaitText(t, s.URL+"/v1/notices/"+key, "", `"scheduled"`)
	if status, text := call(t, "POST", s.URL+"/v1/notices/"+key+"/fire", "", ""); status/100 != 2 {
		t.Fatalf("fire: %d %s", status, text)
	}

	select {
	case text := <-got:
		if !strings.HasPrefix(text, key+" ") || !strings.Contains(text, "1") {
			t.Errorf("handled %s", text)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the notice was not handled")
	}

	awaitText(t, s.URL+"/ui/notices/"+key, "", "4711")
	awaitText(t, s.URL+"/v1/history?key="+key, "", `"delivered"`)
	d, err := history.Open(history.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = d.Close() }()
	if page, err := d.Find(t.Context(), history.Query{Key: key, Limit: 1}); err != nil || len(page.Rows) != 1 {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}

func TestClientsNeedTheirTokens(t *testing.T) {
	w := newWorker(t, worker.Options{})
	h, err := Handler(w, Options{Clients: []Client{{Name: "ops", Token: token, Role: "read"}}})
	if err != nil {
		t.Fatal(err)
	}

	s := httptest.NewServer(h)
	defer s.Close()
	if status, text := call(t, "GET", s.URL+"/v1/notices", "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}

	awaitText(t, s.URL+"/v1/notices", token, `"items"`)
	awaitText(t, s.URL+"/v1/recurrences", token, `"items"`)
	if status, text := call(t, "POST", s.URL+"/v1/notices", token, `{"key": "a:b:c:1"}`); status != http.StatusForbidden {
		t.Errorf("schedule with the role read: %d %s", status, text)
	}
	if status, text := call(t, "GET", s.URL+"/ui/notices", "", ""); status == http.StatusOK && !strings.Contains(text, "password") {
		t.Errorf("the pages without a session: %d %s", status, text)
	}
}

// The address behind a trusted proxy is that of the caller in the audit.
func TestTrustedProxyNamesItsCaller(t *testing.T) {
	w := newWorker(t, worker.Options{})
	w.Handle("shop:orders:close", func(context.Context, *worker.Notice) error { return nil })
	h, err := Handler(w, Options{Clients: []Client{{Name: "ops", Token: token, Role: "admin"}},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}

	s := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Forwarded-For", "192.0.2.9") // as a proxy in front of the handler does
		h.ServeHTTP(a, r)
	}))
	defer s.Close()
	if status, text := call(t, "POST", s.URL+"/v1/routes/shop:orders:close/pause", token, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}

	awaitText(t, s.URL+"/v1/audit", token, `"192.0.2.9"`)
}

func TestMetricsAreServedToClientsWithoutPrefix(t *testing.T) {
	w := newWorker(t, worker.Options{})
	figures := http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(a, "orders_total 1\n") })
	other := strings.Repeat("x", 32)
	h, err := Handler(w, Options{Metrics: figures, Clients: []Client{{Name: "ops", Token: token, Role: "read"},
		{Name: "shop", Token: other, Role: "read", Prefix: "shop"}}})
	if err != nil {
		t.Fatal(err)
	}

	s := httptest.NewServer(h)
	defer s.Close()
	for bearer, want := range map[string]int{"": http.StatusUnauthorized, other: http.StatusForbidden, token: http.StatusOK} {
		status, text := call(t, "GET", s.URL+"/metrics", bearer, "")
		if status != want || strings.Contains(text, "orders_total") != (want == 200) {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
}

// The checks of doctor run with the worker's options: they find its Redis and namespace.
func TestDoctorPageShowsTheChecks(t *testing.T) {
	w := newWorker(t, worker.Options{})
	w.Handle("shop:orders:close", func(context.Context, *worker.Notice) error { return nil })
	h, err := Handler(w, Options{})
	if err != nil {
		t.Fatal(err)
	}

	s := httptest.NewServer(h)
	defer s.Close()
	awaitText(t, s.URL+"/ui/doctor", "", "every notice has a configured prefix")
	awaitText(t, s.URL+"/ui/doctor", "", "no running worker handles prefix shop:orders:close")
}

// Without clients, another machine must not reach the API.
func TestWithoutClientsOnlyLoopbackIsAnswered(t *testing.T) {
	called := 0
	h := guard(true, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	for ip, want := range map[string]int{"127.0.0.1": 200, "::1": 200, "192.0.2.7": 401, "": 401} {
		r, a := httptest.NewRequest("GET", "http://localhost/v1/notices", nil), httptest.NewRecorder()
		if ip != "" {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 80}))
		}

		if h.ServeHTTP(a, r); a.Code != want {
			t.Errorf("%q: %d, want %d", ip, a.Code, want)
		}
	}

	if called != 2 {
		t.Errorf("%d of 4 connections were served, want 2", called)
	}
}

func TestWrongOptionsAreErrors(t *testing.T) {
	w := newWorker(t, worker.Options{})
	for want, list := range map[string][]Client{
		"[0].Token: (not shown)":                 {{Name: "ops", Token: "short", Role: "read"}},
		"[0].Token: is missing; want a token; ":  {{Name: "ops", Role: "read"}},
		`[0].Role="root"`:                        {{Name: "ops", Token: token, Role: "root"}},
		`[0].Rate="often"`:                       {{Name: "ops", Token: token, Role: "read", Rate: "often"}},
		"[1].Token: (not shown) is the token of": {{Name: "a", Token: token, Role: "read"}, {Name: "b", Token: token, Role: "read"}},
		"[0].Name":                               {{Token: token, Role: "read"}},
		`Options.Clients="a b"`:                  {{Name: "a b", Token: token, Role: "read"}},
	} {
		_, err := Handler(w, Options{Clients: list})
		if !errors.Is(err, worker.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "NOTIFIER_") {
			t.Errorf("%v, want ErrConfig with %q and no variable", err, want)
		}
	}

	if _, err := Handler(w, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Handler(w, Options{}); !errors.Is(err, worker.ErrConfig) {
		t.Errorf("%v for the second handler, want ErrConfig", err)
	}
}
