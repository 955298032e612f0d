package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/api"
)

// dice makes invalid and hostile requests.
type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) junk() string {
	switch d.IntN(6) {
	case 0:
		b := make([]byte, d.IntN(40))
		for i := range b {
			b[i] = byte(d.IntN(256))
		}
		return string(b)
	case 1:
		return strings.Repeat(pick(d, "A", "../", "%2e%2e%2f", ":", "\x00", "ä", "'", "${jndi:ldap://x}"), d.IntN(200))
	case 2:
		return pick(d, "__proto__", "constructor", "null", "NaN", "Infinity", "-0", "1e309", "9223372036854775808", "0x10", "true", "\u2028",
			"\ufeff")
	case 3:
		return pick(d, "; DROP TABLE notices", "\r\nX-Injected: 1", "<script>", "{{7*7}}", "notifier:{0}:records:app1", "EVAL", "*3\r\n$3\r\nSET")
	}
	return ""
}

func (d dice) key() string {
	switch d.IntN(8) {
	case 0:
		return d.junk()
	case 1:
		return "app1:jobs:t:" + d.junk()
	case 2:
		return pick(d, "app2:a:b:c:d", "app2:a:b", "app2::b:c", ":::", "app2:a:b:c/", "app2:a:b:c%2f..", "app2:a:b:"+strings.Repeat("x", 129),
			"notifier:a:b:c", "app22:a:b:c", "APP2:a:b:c", "app2:a:b:c ", "app2：a:b:c")
	}
	return fmt.Sprintf("%s:%s:t:%d", pick(d, "app1", "app2"), pick(d, "jobs", "fixed", "orders"), d.IntN(12))
}

func (d dice) value() string {
	return pick(d, `null`, `true`, `-1`, `0`, `1e999`, `-1e-999`, `123456789012345678901234567890`, `""`, `"x"`, `[]`, `{}`, `[[[[]]]]`,
		`{"a":{"a":{"a":1}}}`, `"\ud800"`, `"\u0000"`, `"1h"`, `"99999999h"`, `"-1s"`, `"2031-01-01T00:00:00Z"`, `"9999-99-99T99:99:99Z"`,
		`"`+"\xff"+`"`, `"http://127.0.0.1:1/"`, `"http://[::1"`, `"reject"`, `"replace"`, `["1s"]`, `["1s",-1]`, `{"x":"y"}`, `{"host":"y"}`,
		`{"x":1}`,
		strings.Repeat("[", 200)+strings.Repeat("]", 200), `"`+strings.Repeat("x", 3000)+`"`, `tru`, `"unclosed`, `'single'`, `1 2`)
}

func (d dice) body() string {
	if d.IntN(8) == 0 {
		return pick(d, "", "{", "[", "]", "\x00", "null", "[{}]", "{}{}", d.junk(), strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 11000),
			"\ufeff{}")
	}
	var b strings.Builder
	b.WriteString(`{`)
	if d.IntN(8) > 0 {
		fmt.Fprintf(&b, `"key":%q`, d.key())
	} else {
		b.WriteString(`"key":` + d.value())
	}
	for range d.IntN(4) {
		name := pick(d, "delay", "due", "body", "body_text", "body_base64", "content_type", "url", "headers", "method", "retry", "on_duplicate",
			"attempt", "after", "permanent", "response", "key", "Key", "bogus", "__proto__", "state")
		fmt.Fprintf(&b, `,"%s":%s`, name, d.value())
	}
	b.WriteString(`}`)
	if d.IntN(6) == 0 {
		return "[" + b.String() + "," + d.value() + "]"
	}
	return b.String()
}

func (d dice) path() string {
	escape := func(s string) string {
		if d.IntN(3) == 0 {
			return strings.ReplaceAll(url.PathEscape(s), ":", "%3A")
		}
		return url.PathEscape(s)
	}
	key := escape(d.key())
	p := pick(d, "/v1/notices", "/v1/notices", "/v1/notices", "/v1/notices/batch", "/v1/notices/"+key, "/v1/notices/"+key,
		"/v1/notices/"+key+"/"+pick(d, "fire", "redrive", "ack", "nack", "defer", "x"),
		"/v1/routes", "/v1/routes/"+pick(d, "jobs", "other", escape(d.junk()))+"/"+pick(d, "pause", "resume", "redrive"), "/v1/stats", "/healthz",
		"/readyz", "/metrics", "/openapi.json", "/"+escape(d.junk()), "//v1//notices", "/v1/notices/%2e%2e/%2e%2e/etc/passwd",
		"/v1/notices/"+key+"/../..")
	for range max(0, d.IntN(6)-3) {
		p += pick(d, "?", "&") + pick(d, "limit", "state", "route", "prefix", "cursor", "since", "until", "reason", "dry_run", "x", "%zz",
			";") + "=" +
			pick(d, "1", "0", "1000", "dead", "scheduled", "jobs", "app1", "true", "2031-01-01T00:00:00Z", url.QueryEscape(d.junk()), "%zz")
	}
	return p
}

func (d dice) request() *http.Request {
	method := pick(d, "GET", "GET", "POST", "POST", "POST", "POST", "POST", "PATCH", "PATCH", "DELETE", "DELETE", "PUT", "HEAD", "OPTIONS",
		"TRACE", "CONNECT", "BREW")
	target := d.path()
	u, err := url.ParseRequestURI(target)
	if err != nil { // net/http answers it with 400 before any handler
		target = "/v1/notices"
		u = &url.URL{Path: target}
	}
	r := httptest.NewRequest(method, "/", strings.NewReader(d.body()))
	r.URL, r.RequestURI = u, target
	r.Host = pick(d, "localhost", "127.0.0.1:80", "notifier")
	if d.IntN(10) > 0 {
		r.Header.Set("Authorization", "Bearer "+pick(d, "token-of-all", "token-of-one", "token-of-two", "token-of-two"))
	} else {
		r.Header.Set("Authorization", pick(d, "Bearer", "Bearer x", "Basic eDp4", d.junk()))
	}
	for range max(0, d.IntN(5)-2) {
		name := pick(d, "Content-Type", "Accept", "X-Request-Id", "Traceparent", "Content-Encoding", "Origin", "Expect", "If-Match",
			"X-Http-Method-Override")
		r.Header.Set(name, pick(d, "application/json", "application/x-ndjson", "text/html", "*/*", "gzip", "DELETE", "null", d.junk()))
	}
	return r
}

// 50,000 requests, random and hostile: never a 5xx, never a panic, and nothing
// changes by a request that is refused or that only reads.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) {
		for i := range o.Clients {
			o.Clients[i].Rate = 1e6
		}
	})
	d := dice{rand.New(rand.NewPCG(7, 20261121))}
	statuses := map[int]int{}
	before := 0
	for i := range 50_000 {
		r := d.request()
		call := r.Method + " " + r.RequestURI
		token := r.Header.Get("Authorization")
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		statuses[w.Code]++
		after := b.engine.Changes()
		refused := w.Code >= 400 || r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS"
		switch {
		case w.Code >= 500:
			t.Fatalf("request %d, %q, is answered %d %s", i, call, w.Code, w.Body)
		case refused && after != before:
			t.Fatalf("request %d, %q, is answered %d, and something changed", i, call, w.Code)
		case w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json":
			t.Fatalf("request %d, %q, is answered %d without a problem", i, call, w.Code)
		case w.Header().Get("X-Injected") != "":
			t.Fatalf("request %d, %q, injected a header", i, call)
		case strings.HasSuffix(token, "token-of-two") && strings.Contains(w.Body.String(), `"route":"jobs"`):
			t.Fatalf("request %d, %q, shows app2's client a notice of app1: %s", i, call, w.Body)
		}
		before = after
	}
	t.Logf("statuses %v; %d changes, %d notices", statuses, before, b.engine.Len())
	for _, want := range []int{200, 201, 207, 400, 401, 403, 404, 405, 406, 409, 415, 422} {
		if statuses[want] == 0 {
			t.Errorf("no request was answered %d: the requests are not what they should be", want)
		}
	}
	for key := range b.engine.All() {
		if strings.HasPrefix(key, "app1:") || strings.HasPrefix(key, "app2:") {
			continue
		}
		t.Errorf("%q was kept", key)
	}
}
