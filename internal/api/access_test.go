package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/notice"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic token-of-all", "token-of-all", "Bearer token-of-all x"} {
		a := b.do("GET", "/v1/notices", "", "Authorization", auth).is(401)
		if a.header.Get("WWW-Authenticate") == "" {
			t.Error("a 401 without WWW-Authenticate")
		}
		if strings.Contains(a.raw, "token-of") {
			t.Errorf("the answer repeats a token: %s", a.raw)
		}
	}
	b.do("GET", "/nothing", "").is(401)
	b.do("GET", "/metrics", "").is(401)
	b.as("token-of-all").do("GET", "/v1/notices", "").is(200)
	b.as("token-of-all").do("GET", "/v1/notices", "", "Host", "notifier.example").is(200)
	b.do("GET", "/v1/notices", "", "Authorization", "bearer token-of-one").is(200)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		b.do("GET", path, "").is(200)
	}
	for path, c := range map[string][2]string{"/docs": {"text/html; charset=utf-8", `<article id="schedule">`},
		"/docs/style.css": {"text/css; charset=utf-8", "article"}} {
		if a := b.do("GET", path, "").is(200).says(c[1]); a.header.Get("Content-Type") != c[0] {
			t.Errorf("%s is %q", path, a.header.Get("Content-Type"))
		}
	}
}

// Wrong tokens are limited by address, and a correct one from the same address is not.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	for range 10 {
		b.as("wrong").do("GET", "/v1/routes", "").is(401)
	}
	a := b.as("wrong").do("GET", "/v1/routes", "").is(429)
	if a.header.Get("Retry-After") != "6" {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	b.as("token-of-one").do("GET", "/v1/routes", "").is(200)
	b.as("").do("GET", "/v1/routes", "").is(401)
}

// A client neither sees nor changes notices outside its prefix, and its answers do not show whether they exist.
func TestScopes(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	one, two := b.as("token-of-one"), b.as("token-of-two")
	one.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1","body":"secret of one"}`).is(201)
	two.do("POST", "/v1/notices", `{"key":"app2:jobs:t:1","body":"secret of two"}`).is(201)
	two.do("POST", "/v1/notices", `{"key":"app1:jobs:t:2"}`).is(403)
	two.do("POST", "/v1/notices", `{"key":"app22:jobs:t:2"}`).is(403)
	two.do("POST", "/v1/notices/batch", `[{"key":"app1:jobs:t:2"},{"key":"app2:jobs:t:2"}]`).is(207).says(`"status":403`, `"status":201`)
	before := b.engine.Changes()
	for _, c := range [][3]string{
		{"GET", ""}, {"DELETE", ""}, {"PATCH", "", `{"delay":"1s"}`}, {"POST", "/fire"}, {"POST", "/redrive"},
		{"POST", "/ack", `{"attempt":1,"id":"msg_1"}`}, {"POST", "/nack", `{"attempt":1,"id":"msg_1"}`}, {"POST", "/defer", `{"attempt":1,"id":"msg_1"}`},
	} {
		there := two.do(c[0], "/v1/notices/app1:jobs:t:1"+c[1], c[2]).is(404)
		absent := two.do(c[0], "/v1/notices/app1:jobs:t:9"+c[1], c[2]).is(404)
		if strings.ReplaceAll(there.raw, "t:1", "t:9") != absent.raw {
			t.Errorf("%v shows whether the notice exists: %s, %s", c, there.raw, absent.raw)
		}
		own := two.do(c[0], "/v1/notices/app2:jobs:t:9"+c[1], c[2]).is(404)
		if strings.ReplaceAll(own.raw, "app2", "app1") != absent.raw {
			t.Errorf("%v shows whether a key is in the prefix: %s, %s", c, own.raw, absent.raw)
		}
	}
	for _, path := range []string{"/v1/notices", "/v1/notices?prefix=app1", "/v1/notices?prefix=app1:", "/v1/notices?prefix=app2:",
		"/v1/stats", "/v1/routes"} {
		for _, c := range []struct{ mine, others, reply string }{
			{"app2", "app1", two.do("GET", path, "").is(200).raw}, {"app1", "app2", one.do("GET", path, "").is(200).raw},
		} {
			if strings.Contains(c.reply, c.others) || strings.Contains(c.reply, "secret of") && !strings.Contains(c.reply, c.mine) {
				t.Errorf("the client of %s sees on %s: %s", c.mine, path, c.reply)
			}
		}
	}
	for _, call := range []string{"pause", "resume", "redrive"} {
		two.do("POST", "/v1/routes/jobs/"+call, "").is(404)
	}
	two.do("GET", "/v1/notices?route=jobs", "").is(404)
	two.do("GET", "/metrics", "").is(403)
	two.do("GET", "/v1/instances", "").is(403)
	if b.engine.Changes() != before {
		t.Error("a client changed notices outside its prefix")
	}
	two.do("POST", "/v1/routes/other/pause", "").is(200).says(`"paused":true`)
}

// A client whose scope is narrower than the route has its part of it.
func TestNarrowScope(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "n", Token: "n", Prefix: "app2:mod", Role: auth.Admin},
			{Name: "all", Token: "all", Role: auth.Admin}}
	})
	n := b.as("n")
	for _, key := range []string{"app2:mod:t:1", "app2:mods:t:1", "app2:other:t:1"} {
		b.as("all").do("POST", "/v1/notices", `{"key":"`+key+`"}`).is(201)
		b.engine.Move(key, notice.Dead, notice.ReasonStatus5xx)
	}
	for _, q := range []string{"", "&prefix=app2", "&prefix=app2:mod", "&prefix=app2:mod:t", "&route=other"} {
		if a := n.do("GET", "/v1/notices?state=dead"+q, "").is(200); strings.Count(a.raw, `"key"`) != 1 || !strings.Contains(a.raw,
			"app2:mod:t:1") {
			t.Errorf("%s: %s", q, a.raw)
		}
	}
	n.do("GET", "/v1/notices?state=dead&prefix=app2:mods", "").is(200).says(`"items":[]`)
	n.do("POST", "/v1/routes/other/pause", "").is(403)
	n.do("POST", "/v1/routes/other/redrive", "").is(200).says(`"redriven":1`)
	if a := n.do("GET", "/v1/stats", "").is(200); strings.Contains(a.raw, "app2") {
		t.Errorf("the numbers of the wider route are shown: %s", a.raw)
	}
}

func TestWithoutClients(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, host := range []string{"localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"} {
		b.do("GET", "/v1/notices", "", "Host", host).is(200)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "10.0.0.1", "localhost.evil.example", "", "127.0.0.1.evil.example"} {
		b.do("GET", "/v1/notices", "", "Host", host).is(421)
	}
	b.do("POST", "/v1/notices", one, "Sec-Fetch-Site", "cross-site").is(403)
	b.do("POST", "/v1/notices", one, "Origin", "https://evil.example").is(403)
	b.do("POST", "/v1/notices", one, "Origin", "http://localhost:8080").is(201)
	open := newBench(t, func(o *api.Options) { o.Loopback = false })
	open.do("GET", "/v1/notices", "").is(401).says("NOTIFIER_CLIENTS")
}

func TestNegotiation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for ct, want := range map[string]int{
		"application/json": 201, "application/json; charset=UTF-8": 201, "": 201, "application/x-www-form-urlencoded": 201,
		"application/cloudevents+json": 201, "text/plain": 415, "application/xml": 415, "multipart/form-data; boundary=x": 415,
		"application/json; charset=latin1": 415, ";;": 415, "application/x-ndjson": 415,
	} {
		b.engine.Clear()
		b.do("POST", "/v1/notices", one, "Content-Type", ct).is(want)
	}
	b.do("POST", "/v1/notices", one, "Content-Encoding", "gzip").is(415)
	for accept, want := range map[string]int{
		"": 200, "*/*": 200, "application/json": 200, "text/html, application/*;q=0.5": 200, "text/html": 406, "application/xml": 406,
		"application/json;q=0": 406, "text/html, image/gif, *; q=.2, */*; q=.2": 200, "application/x-ndjson": 406,
	} {
		b.do("GET", "/v1/notices", "", "Accept", accept).is(want)
	}
	b.engine.Clear()
	b.do("POST", "/v1/notices/batch", one, "Accept", "application/x-ndjson").is(201)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:c"}`).is(201)
	for path, want := range map[string]int{
		"/v1/notices/app2:a:b:c": 200, "/v1/notices/app2%3Aa%3ab%3Ac": 200, "/v1/notices/app2:a:b:c/": 404, "/v1/notices/app2:a:b%2Fc": 422,
		"/v1/notices/app2:a:b:c%2F..": 422, "/v1/notices/": 404, "/v1//notices": 404, "/v1/notices/../notices": 404, "/v1/notices/batch": 422,
		"/v1/notices/%00": 422, "/v1/notices/%ff:a:b:c": 422, "/v1/notices/a:b": 422, "/V1/notices": 404, "/": 404, "/v1": 404,
		"/v1/notices/app2:a:b:c?x=1": 422, "/v1/notices/app2:a:b:c?%zz": 400, "/v1/routes/%2e%2e": 404, "/v1/%6eotices": 200,
		"/v1/notices/" + strings.Repeat("x", 9000): 414, "/v1/notices/app2:a:b:" + strings.Repeat("x", 129): 422,
	} {
		if a := b.do("GET", path, ""); a.status != want {
			t.Errorf("%.60s is answered %d, want %d: %.200s", path, a.status, want, a.raw)
		}
	}
	for path, want := range map[string]string{"/v1/notices": "GET, HEAD, POST", "/v1/notices/app2:a:b:c": "DELETE, GET, HEAD, PATCH",
		"/v1/notices/app2:a:b:c/fire": "POST", "/v1/notices/batch": "DELETE, GET, HEAD, PATCH, POST", "/healthz": "GET, HEAD"} {
		if got := b.do("PUT", path, "").is(405).header.Get("Allow"); got != want {
			t.Errorf("%s allows %q, want %q", path, got, want)
		}
	}
	b.do("OPTIONS", "/v1/notices", "").is(204)
	b.do("HEAD", "/v1/notices/app2:a:b:c", "").is(200)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if id := b.do("GET", "/healthz", "", "X-Request-Id", "abc-1").header.Get("X-Request-Id"); id != "abc-1" {
		t.Errorf("%q", id)
	}
	for _, bad := range []string{"", "a b", "a\x7f", strings.Repeat("x", 200), "<script>"} {
		if id := b.do("GET", "/healthz", "", "X-Request-Id", bad).header.Get("X-Request-Id"); len(id) != 24 {
			t.Errorf("%q became %q", bad, id)
		}
	}
}

type panicky struct{ api.Engine }

func (panicky) Now() time.Time { return time.Now() }

func TestPanicAndLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	log := zap.New(zapcore.NewCore(enc, zapcore.AddSync(&out), zapcore.DebugLevel))
	b := newBench(t, withClients, func(o *api.Options) { o.Engine, o.Logger = panicky{}, log })
	b.as("token-of-all").do("GET", "/v1/notices/app2:a:b:c", "", "X-Request-Id", "rid-7").is(500).says("rid-7")
	for _, want := range []string{"panicked", "rid-7", `"client":"all"`, `"status":500`, "/v1/notices/app2:a:b:c"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log does not hold %q: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "token-of") {
		t.Error("a token is logged")
	}
}

func TestServerHasTimeouts(t *testing.T) {
	t.Parallel()
	s := api.Server(http.NotFoundHandler(), ":0")
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= s.ReadTimeout || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("%+v", s)
	}
}

// A request without a body has arrived with its header: streams of events, downloads and profiles may take longer than
// ReadTimeout.
func TestReadTimeoutLimitsBodiesOnly(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			t.Errorf("%s: %v", r.Method, r.Context().Err())
		case <-time.After(4 * limit):
			w.WriteHeader(http.StatusNoContent)
		}
	}), "")
	srv.Config.ReadTimeout = limit
	srv.Start()
	defer srv.Close()
	for range 2 { // the second on the same connection
		res, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			t.Error(res.Status)
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("GET", "/metrics", "").is(404)
	b = newBench(t, func(o *api.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("notifier_up 1")) })
	})
	b.do("GET", "/metrics", "", "Accept", "application/openmetrics-text").is(200).says("notifier_up")
}

// The engine is not called for a notice outside the client's prefix, so the time of an answer cannot show
// whether it exists. The engine of this test panics if it is called.
func TestOutsideTheScopeNothingIsAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) { o.Engine = panicky{} }).as("token-of-two")
	for _, c := range [][3]string{{"GET", ""}, {"DELETE", ""}, {"PATCH", "", `{"delay":1}`}, {"POST", "/fire"}, {"POST", "/redrive"},
		{"POST", "/ack", `{"attempt":1,"id":"msg_1"}`}, {"POST", "/nack", `{"attempt":1,"id":"msg_1"}`}, {"POST", "/defer", `{"attempt":1,"id":"msg_1"}`}} {
		b.do(c[0], "/v1/notices/app1:jobs:t:1"+c[1], c[2]).is(404)
	}
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(403)
	b.do("POST", "/v1/notices/batch", `{"key":"app1:jobs:t:1"}`).is(207)
	b.do("GET", "/v1/notices?prefix=app1", "").is(200).says(`"items":[]`)
	b.do("GET", "/v1/notices?route=jobs", "").is(404)
	b.do("POST", "/v1/routes/jobs/redrive", "").is(404)
}

func TestServerRefusesLongHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.Server(b.handler, "")
	s.Start()
	defer s.Close()
	for size, want := range map[int]int{1 << 10: 200, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/notices", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a header of %d bytes is answered %d, want %d", size, res.StatusCode, want)
		}
	}
}
