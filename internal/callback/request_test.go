package callback

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/tracing"
)

// received is one request as the receiver saw it.
type received struct {
	*http.Request
	body string
}

func capture(t testing.TB) (string, <-chan received) {
	ch := make(chan received, 64)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		ch <- received{r, string(b)}
		_, _ = io.WriteString(w, "success")
	})
	return s.URL, ch
}

func TestRequestHasContractHeaders(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{UserAgent: "notifier/1"})
	r := fixedRoute(base + "/notify?a=1")
	r.Headers = []notice.Header{{Name: "X-Shop", Value: "7"}, {Name: "X-Both", Value: "route"}, {Name: "Authorization", Value: "Bearer abc"}}
	n := testNotice(`{"paid": true}`)
	n.Headers = []notice.Header{{Name: "X-Both", Value: "notice"}}
	n.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	n.AttemptsMade = 2
	res := h.Handle(background(t), r, n)
	expect(t, res, notice.OutcomeDelivered, "")
	if res.Status != 200 || res.Response != "success" {
		t.Errorf("%+v", res)
	}
	req := <-got
	if req.Method != "POST" || req.URL.String() != "/notify?a=1" || req.body != `{"paid": true}` || req.ContentLength != 14 {
		t.Errorf("%s %s %q %d", req.Method, req.URL, req.body, req.ContentLength)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "notifier/1", "Webhook-Id": n.ID(), "Notifier-Key": n.Key,
		"Notifier-Attempt": "3", "Notifier-Due": "2026-11-21T12:00:15.000Z", "X-Shop": "7", "X-Both": "notice",
		"Authorization": "Bearer abc", "Traceparent": n.Traceparent, "Webhook-Signature": "", "Accept-Encoding": "", "Notifier-Body": "",
	} {
		if got := strings.Join(req.Header.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := strconv.ParseInt(req.Header.Get("Webhook-Timestamp"), 10, 64); err != nil {
		t.Error(err)
	}
}

// Without a span the receiver gets the stored trace context. With one it gets that of the attempt, and no
// tracestate of another trace.
func TestTraceContextIsThatOfTheAttempt(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := fixedRoute(base)
	n := testNotice("{}")
	n.Traceparent, n.Tracestate = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "shop=1"
	const attempt = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct {
		span          trace.SpanContext
		parent, state string
	}{
		{trace.SpanContext{}, n.Traceparent, "shop=1"},
		{tracing.Parse(attempt, ""), attempt, ""},
		{tracing.Parse(attempt, "shop=2"), attempt, "shop=2"},
	} {
		expect(t, h.Handle(trace.ContextWithSpanContext(background(t), c.span), r, n), notice.OutcomeDelivered, "")
		req := <-got
		parent, state := req.Header.Values("Traceparent"), req.Header.Values("Tracestate")
		if strings.Join(parent, "|") != c.parent || strings.Join(state, "|") != c.state || req.Header.Get("Baggage") != "" {
			t.Errorf("with %v: sent %q and %q", c.span, parent, state)
		}
	}
}

func TestBodiesArriveAsScheduled(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := fixedRoute(base)
	for _, c := range []struct{ body, typ, want string }{
		{`{"a":1.50,  "a":2}`, "", "application/json"},
		{"<xml><return_code><![CDATA[SUCCESS]]></return_code></xml>", "text/xml; charset=utf-8", "text/xml; charset=utf-8"},
		{"a=1&b=%20x+y", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded"},
		{"plain\r\ntext", "text/plain", "text/plain"},
		{"\x00\xff\xfe bytes", "application/octet-stream", "application/octet-stream"},
		{"no type at all", "", ""},
		{"", "", ""},
		{strings.Repeat("x", 1<<20), "text/plain", "text/plain"},
	} {
		n := testNotice(c.body)
		n.ContentType = c.typ
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		req := <-got
		if req.body != c.body || req.Header.Get("Content-Type") != c.want {
			t.Errorf("%.40q as %q arrived as %.40q, %q", c.body, c.typ, req.body, req.Header.Get("Content-Type"))
		}
	}
	n := testNotice("")
	n.Lost = true
	h.Handle(background(t), r, n)
	if req := <-got; req.Header.Get("Notifier-Body") != "lost" {
		t.Error("a lost body is not reported")
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := fixedRoute(base + "/p?k=v")
	r.Method = "PUT"
	n := testNotice("x")
	h.Handle(background(t), r, n)
	if req := <-got; req.Method != "PUT" || req.body != "x" {
		t.Errorf("%s %q", req.Method, req.body)
	}
	for _, c := range []struct{ body, typ, want string }{
		{`{"id":12345678901234567890,"s":"a b&c","t":true,"z":null,"o":{"x":[1]}}`, "",
			"k=v&id=12345678901234567890&o=%7B%22x%22%3A%5B1%5D%7D&s=a+b%26c&t=true&z="},
		{"b=2&a=1", "application/x-www-form-urlencoded; charset=utf-8", "k=v&b=2&a=1"},
		{"b=张&&a=%e5+x y#z|&a\n", "application/x-www-form-urlencoded", "k=v&b=%E5%BC%A0&&a=%e5+x%20y%23z%7C&a"},
		{"", "", "k=v"},
	} {
		n := testNotice(c.body)
		n.Method, n.ContentType = "GET", c.typ
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		req := <-got
		if req.Method != "GET" || req.URL.RawQuery != c.want || req.body != "" || req.Header.Get("Content-Type") != "" {
			t.Errorf("%s %s %q", req.Method, req.URL, req.body)
		}
	}
	for body, typ := range map[string]string{"<x/>": "text/xml", "[1]": "application/json", "%zz": "application/x-www-form-urlencoded",
		"a=1\r\nX: y": "application/x-www-form-urlencoded", "a=1;b=2": "application/x-www-form-urlencoded", "text": ""} {
		n := testNotice(body)
		n.Method, n.ContentType = "GET", typ
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDead, notice.ReasonInvalid)
	}
}

// Servers answer 400 to a request line with spaces, bytes outside ASCII and some other characters.
func TestRequestLineHasCanonicalURL(t *testing.T) {
	t.Parallel()
	const given, want = "/a%2Fb|c//./[x];v?d=2026-11-28 10:00&n=张三&y=1+2&z=%zz", "/a%2Fb%7Cc//./[x];v?d=2026-11-28%2010:00&n=%E5%BC%A0%E4%B8%89&y=1+2&z=%25zz"
	base, got := capture(t)
	h := newHandler(t, Options{})
	n := testNotice("x")
	expect(t, h.Handle(background(t), fixedRoute(base+given), n), notice.OutcomeDelivered, "")
	if req := <-got; req.RequestURI != want {
		t.Errorf("the fixed address is called as %s", req.RequestURI)
	}
	n.URL = base + given
	expect(t, h.Handle(background(t), noticeRoute("127.0.0.1"), n), notice.OutcomeDelivered, "")
	if req := <-got; req.RequestURI != want {
		t.Errorf("the notice's address is called as %s", req.RequestURI)
	}
	for _, bad := range []string{base + "/100%", base + "/ ", "http://127.0.0.1:70000/"} {
		n.URL = bad
		expect(t, h.Handle(background(t), noticeRoute("127.0.0.1"), n), notice.OutcomeDead, notice.ReasonInvalid)
	}
}

func TestReservedHeadersAreDropped(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := fixedRoute(base)
	n := testNotice("x")
	n.Headers = []notice.Header{{Name: "Webhook-Id", Value: "forged"}, {Name: "Host", Value: "evil"}, {Name: "Content-Length", Value: "9"},
		{Name: "notifier-key", Value: "forged"}, {Name: "User-Agent", Value: "x"}, {Name: "X-Ok", Value: "1"},
		{Name: "Webhook_signature", Value: "forged"}, {Name: "Notifier_key", Value: "forged"}, {Name: "Content_length", Value: "9"}}
	h.Handle(background(t), r, n)
	req := <-got
	if req.Header.Get("Webhook-Id") != n.ID() || req.Host == "evil" || req.Header.Get("Notifier-Key") != n.Key ||
		req.Header.Get("X-Ok") != "1" || req.Header["Webhook_signature"] != nil || req.Header["Notifier_key"] != nil ||
		req.Header["Content_length"] != nil {
		t.Errorf("%v %s", req.Header, req.Host)
	}
	for _, v := range []string{"a\r\nX-Evil: 1", "a\nb", "a\x00b"} {
		n.Headers = []notice.Header{{Name: "X-A", Value: v}}
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDead, notice.ReasonInvalid)
	}
	x := fixedRoute(base)
	x.Headers = []notice.Header{{Name: "Webhook-Id", Value: "forged"}}
	n.Headers = nil
	h.Handle(background(t), x, n)
	if id := (<-got).Header.Get("Webhook-Id"); id != n.ID() {
		t.Errorf("a route's header of a reserved name was sent: %s", id)
	}
}

func TestUserinfoBecomesBasicAuth(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	u, _ := url.Parse(base)
	u.User = url.UserPassword("shop", "pä:ss")
	h.Handle(background(t), fixedRoute(u.String()), testNotice("x"))
	if user, pw, ok := (<-got).BasicAuth(); !ok || user != "shop" || pw != "pä:ss" {
		t.Errorf("%q %q %v", user, pw, ok)
	}
}

func TestNoticeTargets(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := noticeRoute("127.0.0.0/8")
	n := testNotice("x")
	expect(t, h.Handle(background(t), r, n), notice.OutcomeDead, notice.ReasonInvalid)
	for _, bad := range []string{"ftp://h/", "://", "http://", "http://user:hunter2@ho st/", "//h/p"} {
		n.URL = bad
		res := h.Handle(background(t), r, n)
		expect(t, res, notice.OutcomeDead, notice.ReasonInvalid)
		if strings.Contains(res.Response, "hunter2") {
			t.Error(res.Response)
		}
	}
	n.URL = strings.Replace(base, "127.0.0.1", "127.0.0.1.", 1) + "/mine" // in another spelling
	expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
	if req := <-got; req.URL.Path != "/mine" {
		t.Error(req.URL)
	}
}

func TestDestinationsAreNormalized(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://Shop.Example/a": "shop.example:80", "http://shop.example.:80": "shop.example:80", "https://u:p@SHOP.example": "shop.example:443",
		"https://b\u00fccher.example/": "xn--bcher-kva.example:443", "http://[0:0::1]/": "[::1]:80",
		"https://shop.example:8443/x": "shop.example:8443", "http://[::1]/": "[::1]:80", "http://[::1]:81/": "[::1]:81",
	} {
		n := testNotice("x")
		n.URL = in
		to, err := (&routeState{guard: &guard{noticeRoute()}}).target(n)
		if err != nil || to.port != want {
			t.Errorf("%s: %s, %v, want %s", in, to.port, err, want)
		}
	}
}

// Without a span, the trace context of a call costs no allocation.
func TestUntracedRequestAllocatesNothing(t *testing.T) {
	c, ctx := &call{}, t.Context()
	if n := testing.AllocsPerRun(1000, func() { c.setTrace(ctx) }); n != 0 || len(c.Fields) != 0 {
		t.Errorf("%v allocations, %v", n, c.Fields)
	}
}
