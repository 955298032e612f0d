package callback

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
)

var errNotDialled = errors.New("not dialled")

// FuzzHeadersGoWhereCallIsDialled checks that the scheme, host and port that select the route's headers are
// the ones that the call connects to, over both transports.
func FuzzHeadersGoWhereCallIsDialled(f *testing.F) {
	for _, s := range []string{"https://shop.example", "HTTPS://Shop.EXAMPLE.:0443/x", "http://shop.example:443/", "https://shop.example:/",
		"https://shop.example@evil.example/",
		"https://u:p@shop.example:8443/", "https://b\u00fccher.example", "https://[0:0::1]:443/", "http://[fe80::1%25eth0]:8080/",
		"https://[::ffff:10.0.0.1]/", "http://127.0.0.\uff11/",
		"https://shop.example:00000/", "https://shop.example:99999/", "https://shop.example#@evil.example/",
		"https://shop.example?@evil.example/", "http://shop%2eexample/", "http://[fe80::%250]:00"} {
		f.Add(s)
	}
	var dialled atomic.Pointer[string]
	h := newHandler(f, Options{})
	h.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled.Store(&addr)
		return nil, errNotDialled
	}
	f.Fuzz(func(t *testing.T, address string) {
		address, err := notice.CanonicalURL(address)
		if err != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		to, err := destinationOf(u)
		if err != nil {
			return
		}
		if to.origin.Secure != (to.at.Scheme == "https") || to.at.Scheme != u.Scheme {
			t.Errorf("%q: TLS %v, decided by %s", address, to.origin.Secure, to.at)
		}
		list, err := route.ParseOrigins("*")
		if err != nil {
			t.Fatal(err)
		}
		r := fixedRoute("notice")
		r.Headers, r.HeadersTo, r.Timeout = []notice.Header{{Name: "Authorization", Value: "Bearer abc"}}, list, time.Second
		s := &routeState{route: r, guard: &guard{r}, signing: r.Signing(), chain: chainOf(t, r), now: time.Now}
		n := testNotice("x")
		n.URL = address
		c, err := s.call(n, to, made, false)
		if err != nil {
			return
		}
		sent := false
		for _, x := range c.Fields {
			sent = sent || x.Name == "Authorization" && x.Value == "Bearer abc"
		}
		if sent && !(to.origin.Secure && strings.HasSuffix(to.origin.Addr, ":443")) {
			t.Errorf("%q: headers for https on port 443 go to %+v", address, to.origin)
		}
		pool, err := h.newTransport(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		dialled.Store(nil)
		x := &transport.Exchange{Request: &c.Request, Progress: &transport.Progress{}, Deadline: time.Now().Add(time.Second)}
		if err := pool.Do(t.Context(), x); !errors.Is(err, errNotDialled) {
			t.Fatalf("%q: %v, not dialled", address, err)
		}
		if at := dialled.Load(); *at != to.at.Addr() {
			t.Errorf("%q is dialled at %s, and %s decides about the headers", address, *at, to.at.Addr())
		}
	})
}

// A port with leading zeros was a separate destination, with separate limits and a separate breaker.
func TestPortIsNormalized(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"https://shop.example:0443/": "shop.example:443",
		"http://shop.example:00080/": "shop.example:80", "https://[::1]:08443/": "[::1]:8443"} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		to, err := destinationOf(u)
		if err != nil || to.port != want || to.origin.Addr != want {
			t.Errorf("%s: limits of %s, dialled at %s: %v", address, to.port, to.origin.Addr, err)
		}
	}
}

// A notice that was scheduled before HEADERS_TO changed uses no attempt and is not called.
func TestNoticeOutsideHeadersToIsDeferred(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	port := base[strings.LastIndexByte(base, ':')+1:]
	now := made
	h := newHandler(t, Options{Resolver: loopbackNames(t),
		Now: func() time.Time { return now }})
	n := testNotice("x")
	n.URL, n.Due = "http://shop.example:"+port+"/hook", now
	at := func(to string) *route.Route {
		r := noticeRoute("*.example")
		r.Headers = []notice.Header{{Name: "Authorization", Value: "Bearer abc"}}
		var err error
		if r.HeadersTo, err = route.ParseOrigins(to); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, to := range []string{"shop.example", "*", "http://shop.example", "shop.example:" + port, "shop.example:*"} {
		r := at(to)
		for late, want := range map[time.Duration]time.Duration{0: time.Minute, 20 * time.Minute: 5 * time.Minute,
			24 * time.Hour: 15 * time.Minute} {
			now = n.Due.Add(late)
			res := h.Handle(background(t), r, n)
			expect(t, res, notice.OutcomeDeferred, notice.ReasonHeaders)
			if res.After != want || !res.Unsent || !strings.Contains(res.Response, "leads to http://shop.example:"+port) {
				t.Errorf("HEADERS_TO=%s, %s late: %+v", to, late, res)
			}
		}
		if x := h.Probe(background(t), r, n); x.Result.Reason != notice.ReasonHeaders || x.Final || x.URL == "" {
			t.Errorf("HEADERS_TO=%s: %+v", to, x)
		}
	}
	if len(got) > 0 {
		t.Fatalf("%d calls were made", len(got))
	}
	for to, want := range map[string]string{"http://shop.example:" + port: "Bearer abc", "http://shop.example:*": "Bearer abc",
		"http://*:*": "Bearer abc", "pay.example": ""} {
		expect(t, h.Handle(background(t), at(to), n), notice.OutcomeDelivered, "")
		if sent := (<-got).Header.Get("Authorization"); sent != want {
			t.Errorf("HEADERS_TO=%s: Authorization %q, want %q", to, sent, want)
		}
	}
}

// A receiver cannot redirect the headers to another scheme or port.
func TestRedirectDoesNotForwardHeaders(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	s := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, base, http.StatusPermanentRedirect) })
	r := noticeRoute("127.0.0.0/8")
	r.Headers = []notice.Header{{Name: "Authorization", Value: "Bearer abc"}}
	var err error
	if r.HeadersTo, err = route.ParseOrigins(s.URL); err != nil {
		t.Fatal(err)
	}
	n := testNotice("x")
	n.URL = s.URL + "/hook"
	expect(t, newHandler(t, Options{}).Handle(background(t), r, n), retry, notice.ReasonRedirect)
	if len(got) > 0 {
		t.Error("the redirect was followed")
	}
}
