package clienttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-envconfig"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"notifier/client"
	"notifier/client/clienttest"
	"notifier/client/webhook"
	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	// derived is the key of 127.0.0.1, derived from the secret by another program.
	derived = "whsec_1oOOu/JO0mNCKhPmYmmGMUGCwlf/5mI19jW3MH/wJPM="
)

// world is one of the two compared services, with functions that let time pass.
type world struct {
	t       *testing.T
	c       *client.Client
	url     string
	shop    string
	lines   []string
	ids     map[string]string                                 // by key, ids of the entries that were taken last
	pass    func(key string, until func(*client.Notice) bool) // lets time pass until a notice meets a condition
	takeOne func(route string) clienttest.Entry
	due     func(key string) // makes the next attempt of a scheduled notice due
}

// receiver answers with the status in its path. It fails the test if the signature is invalid.
func receiver(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := webhook.Payload(r, 1<<20)
		if err == nil {
			err = webhook.Verify(r.Header, body, derived)
		}
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		switch r.URL.Path {
		case "/500":
			http.Error(w, "database", http.StatusInternalServerError)
		case "/404":
			http.Error(w, strings.Repeat("ä", 400), http.StatusNotFound)
		case "/410":
			http.Error(w, "gone", http.StatusGone)
		case "/423":
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "locked", http.StatusLocked)
		case "/abort":
			w.Header().Set("Webhook-Delivery", "abort-message")
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, "ok "+r.Method+" "+r.Header.Get("X-Tenant")+" "+r.Header.Get("Content-Type")+" "+string(body))
		}
	})
}

func realWorld(t *testing.T) *world {
	server := testkit.StartRedis(t)
	env := map[string]string{"NOTIFIER_REDIS_URL": server.URL(), "NOTIFIER_LISTEN": "127.0.0.1:0",
		"NOTIFIER_ROUTES":      "hook,push,jobs,test1,test2,sealed",
		"NOTIFIER_SEAL_KEYS":   "k=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
		"NOTIFIER_HISTORY_URL": "sqlite://" + t.TempDir() + "/history.db"}
	for name, value := range map[string]string{"HOOK_PREFIX": "cmp:hook", "HOOK_TARGET": "notice", "HOOK_RETRY": "1h,2h",
		"HOOK_SECRET": secret,
		"HOOK_ALLOW":  "127.0.0.1", "PUSH_PREFIX": "cmp:push", "PUSH_TARGET": "list:pushed", "PUSH_RETRY": "1h", "JOBS_PREFIX": "cmp:jobs",
		"TEST1_PREFIX": "cmp:test1", "TEST1_TARGET": "notice", "TEST1_RETRY": "1h,2h", "TEST1_SECRET": secret, "TEST1_ALLOW": "127.0.0.1",
		"TEST2_PREFIX": "cmp:test2", "TEST2_TARGET": "notice", "TEST2_RETRY": "none", "TEST2_SECRET": secret, "TEST2_ALLOW": "127.0.0.1",
		"SEALED_PREFIX": "cmp:sealed", "SEALED_TARGET": "list:sealed", "SEALED_RETRY": "1h", "SEALED_ACK": "report", "SEALED_TIMEOUT": "5m",
		"SEALED_SEAL": "route",
		"JOBS_TARGET": "list:jobs", "JOBS_RETRY": "1h", "JOBS_ACK": "report", "JOBS_TIMEOUT": "5m"} {
		env["NOTIFIER_ROUTE_"+name] = value
	}
	c, err := config.Load(envconfig.MapLookuper(env), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := app.New(app.Options{Config: c, Version: "test", Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	shop := httptest.NewServer(receiver(t))
	t.Cleanup(shop.Close)
	w := &world{t: t, shop: shop.URL, url: "http://" + p.Addr(), ids: map[string]string{}}
	if w.c, err = client.New(client.Options{URL: w.url, Retries: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.c.Close)
	testkit.Until(t, "the service is ready", func() bool { h, err := w.c.Ready(t.Context()); return err == nil && h.Ready })
	w.pass = func(key string, until func(*client.Notice) bool) {
		testkit.Until(t, key, func() bool { n, err := w.c.Get(t.Context(), key); return err == nil && until(n) })
	}
	w.due = func(key string) {
		if _, err := w.c.Fire(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	r := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = r.Close() })
	w.takeOne = func(route string) clienttest.Entry {
		got, err := r.BLPop(t.Context(), time.Minute, map[string]string{"push": "pushed", "jobs": "jobs", "sealed": "sealed"}[route]).Result()
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			ID, Key string
			Attempt int
			Due     time.Time
			Type    string `json:"content_type"`
			Body    json.RawMessage
			Sealed  string
		}
		if err := json.Unmarshal([]byte(got[1]), &e); err != nil {
			t.Fatal(err)
		}
		return clienttest.Entry{ID: e.ID, Key: e.Key, Attempt: e.Attempt, Due: e.Due, ContentType: e.Type, Body: e.Body, Sealed: e.Sealed}
	}
	return w
}

func fakeWorld(t *testing.T) *world {
	hour := time.Hour
	s := clienttest.New(clienttest.Options{Receiver: receiver(t), Routes: []clienttest.Route{
		{Name: "hook", Prefix: "cmp:hook", Retry: []time.Duration{hour, 2 * hour}, Secret: derived},
		{Name: "test1", Prefix: "cmp:test1", Retry: []time.Duration{hour, 2 * hour}, Secret: derived},
		{Name: "test2", Prefix: "cmp:test2", Retry: []time.Duration{}, Secret: derived},
		{Name: "push", Prefix: "cmp:push", Target: "list:pushed", Retry: []time.Duration{hour}},
		{Name: "sealed", Prefix: "cmp:sealed", Target: "list:sealed", Retry: []time.Duration{hour}, Report: true, Timeout: 5 * time.Minute,
			Sealed: true},
		{Name: "jobs", Prefix: "cmp:jobs", Target: "list:jobs", Retry: []time.Duration{hour}, Report: true, Timeout: 5 * time.Minute},
	}})
	t.Cleanup(s.Close)
	w := &world{t: t, c: s.Client(), url: s.URL, shop: "http://127.0.0.1:1", ids: map[string]string{}}
	w.pass = func(key string, until func(*client.Notice) bool) {
		s.Advance(time.Second)
		if n, err := w.c.Get(t.Context(), key); err != nil || !until(n) {
			t.Errorf("%s: %+v, %v", key, n, err)
		}
	}
	w.due = func(key string) {
		n, err := w.c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		s.Advance(n.Due.Sub(s.Now()))
	}
	w.takeOne = func(route string) clienttest.Entry {
		s.Advance(0)
		list := s.Take(route)
		if len(list) != 1 {
			t.Fatalf("%s: %d entries", route, len(list))
		}
		return list[0]
	}
	return w
}

// note records the answer to a call, without values that always differ.
func (w *world) note(what string, answer any, err error) {
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		at := ""
		if len(p.Errors) > 0 { // the fake returns only the first error
			at = p.Errors[0].Location
		}
		w.lines = append(w.lines, fmt.Sprintf("%s: %d %s, state %q, differs %v, wrong %s", what, p.Status, p.Title, p.State, p.Differs, at))
	case err != nil:
		w.lines = append(w.lines, fmt.Sprintf("%s: %v", what, err))
	default:
		b, merr := json.Marshal(answer)
		if merr != nil {
			w.t.Fatal(merr)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			w.t.Fatal(err)
		}
		b, _ = json.Marshal(masked(v))
		w.lines = append(w.lines, what+": "+string(b))
	}
}

// masked replaces times, ids and origins of URLs by dots, so that only their presence is compared.
func masked(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = masked(v[i])
		}
	case map[string]any:
		delete(v, "value") // of an invalid field; the fake does not return the value
		if errs, ok := v["errors"].([]any); ok {
			v["errors"] = errs[:1]
		}
		for name, x := range v {
			if slices.Contains([]string{"id", "due", "next_attempt_at", "created_at", "settled_at", "expires", "at", "duration_ms", "detail",
				"message", "tick", "next", "anchor"}, name) {
				v[name] = "•"
				continue
			}
			if text, ok := x.(string); ok && name == "url" {
				x = origins.ReplaceAllString(text, "•")
			}
			v[name] = masked(x)
		}
	}
	return v
}

// notice records the JSON of an answer with a notice.
func (w *world) notice(what string, n *client.Notice, err error) {
	if err != nil {
		w.note(what, nil, err)
		return
	}
	w.note(what, json.RawMessage(n.JSON), nil)
}

func (w *world) schedule(r client.Request) {
	n, err := w.c.Schedule(w.t.Context(), r)
	w.notice("schedule "+r.Key+" "+r.OnDuplicate, n, err)
}

func (w *world) get(key string) {
	n, err := w.c.Get(w.t.Context(), key)
	w.notice("get "+key, n, err)
}

func (w *world) post(method, path, ctype, body string) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", ctype)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if !json.Valid([]byte(line)) { // an array over several lines
			line = string(b)
		}
		w.note(fmt.Sprintf("%s %s %d: %d %s", method, path, i, res.StatusCode, res.Header.Get("Content-Type")), json.RawMessage(line), nil)
	}
	http.DefaultClient.CloseIdleConnections()
}

// settled returns a condition: the notice has this state after that many attempts.
func settled(state client.State, attempts int) func(*client.Notice) bool {
	return func(n *client.Notice) bool { return n.State == state && len(n.Attempts) >= attempts }
}

// The fake and the real service on a real Redis give the same answers to the same calls.
func TestServiceAnswersLikeRealService(t *testing.T) {
	fake, service := fakeWorld(t), realWorld(t)
	for _, part := range []func(*world){delivering, reporting, scheduling, addresses, repeating, expiring, recurring, changing,
		bulk, bulkJobs, tests, listing, opening} {
		part(fake)
		part(service)
	}
	for i := range max(len(fake.lines), len(service.lines)) {
		switch {
		case i >= len(fake.lines) || i >= len(service.lines):
			t.Fatalf("%d answers of the fake, %d of the service", len(fake.lines), len(service.lines))
		case fake.lines[i] != service.lines[i]:
			t.Errorf("the fake:    %s\nthe service: %s", fake.lines[i], service.lines[i])
		}
	}
	t.Logf("%d answers are the same", len(service.lines))
}

func scheduling(w *world) {
	const key = "cmp:hook:a:1"
	r := client.Request{Key: key, Delay: time.Hour, URL: w.shop + "/200", Body: []byte(`{"a" : 1}`),
		Headers:  map[string]string{"x-tenant": "7"},
		Audience: "shop-7"}
	w.schedule(r)
	w.schedule(r)
	r.Delay = 2 * time.Hour // not a part of the content
	w.schedule(r)
	r.Body, r.Method, r.Retry, r.Audience = []byte(`{"a":2}`), "PUT", client.Ladder(90*time.Second), ""
	w.schedule(r)
	r.OnDuplicate = client.Keep
	w.schedule(r)
	r.OnDuplicate = client.Replace
	w.schedule(r)
	w.get(key)
	text := "a&b"
	w.schedule(client.Request{Key: "cmp:hook:a:2", Due: time.Now().Add(time.Hour), URL: w.shop, BodyText: &text, ContentType: "text/plain"})
	w.schedule(client.Request{Key: "cmp:hook:a:3", Delay: time.Hour, URL: w.shop, BodyBase64: []byte{0, 1, 255}})
	w.schedule(client.Request{Key: "cmp:hook:a:4", Delay: time.Hour, URL: w.shop})
	w.schedule(client.Request{Key: "cmp:hook:a:headers", Delay: time.Hour, URL: w.shop, Headers: map[string]string{"Authorization": "Bearer 1",
		"X-Api-Key": "2", "Key": "3", "X-Sig": "4", "Sig": "5", "X-Session": "6", "X-Keyed": "7", "X-Trace": "8", "shop_key": "9"}})
	w.schedule(client.Request{Key: "cmp:hook:a:withheld", Delay: time.Hour, URL: w.shop, Headers: map[string]string{"Cookie": "a=1"}})
	for _, retry := range []string{"none", "standard", "wechat", "alipay", "1h, 90m"} {
		w.schedule(client.Request{Key: "cmp:hook:retry:" + retry[:2], Delay: time.Hour, URL: w.shop, Retry: retry})
	}
	for i, wrong := range []client.Request{{}, {Key: "a"}, {Key: "cmp:hook:a:5"}, {Key: "cmp:push:a:5", URL: w.shop}, {Key: "other:hook:a:1"},
		{Key: "cmp:hook:a:5", URL: "shop"}, {Key: "cmp:hook:a:5", URL: w.shop, Method: "DELETE"}, {Key: "cmp:hook:a:5", URL: w.shop,
			Retry: "soon"},
		{Key: "cmp:hook:a:5", URL: w.shop, OnDuplicate: "maybe"}, {Key: "cmp:hook:a:5", URL: w.shop, Delay: -1}} {
		_, err := w.c.Schedule(w.t.Context(), wrong)
		w.note(fmt.Sprint("wrong ", i), nil, err)
	}
	for _, body := range []string{`{"key":"cmp:push:raw:1","delay":3600}`, `{"key":"cmp:push:raw:3","colour":"red"}`, `{`, `[]`, `{"key":7}`,
		`{"key":"cmp:push:raw:2","delay":"1h","due":"2031-01-01T00:00:00Z"}`, `{"key":"cmp:push:raw:6","delay":"1w1d12h"}`,
		`{"key":"cmp:push:raw:4","retry":["1s",60],"delay":"1h"}`, `{"key":"cmp:push:raw:7","delay":"1d-1h","retry":"2w"}`} {
		w.post("POST", "/v1/notices", "application/json", body)
	}
	w.post("POST", "/v1/notices/batch", "application/x-ndjson", `{"key":"cmp:push:b:1","delay":"1h","body":1}`+"\n"+`{"key":"x"}`+"\n"+
		`{"key":"cmp:push:b:1","delay":"1h","body":2}`+"\n")
	w.post("POST", "/v1/notices/batch", "application/json", `[{"key":"cmp:push:b:2","delay":"1h"}]`)
	w.post("POST", "/v1/notices/batch", "application/json", `[{"key":"cmp:push:b:2","delay":"1h"}]`)
	w.post("POST", "/v1/notices/batch", "application/json", `[]`)
}

func changing(w *world) {
	ctx := w.t.Context()
	const key = "cmp:hook:change:1"
	w.schedule(client.Request{Key: key, Delay: time.Hour, URL: w.shop + "/200"})
	for name, call := range inOrder(map[string]func(string) (*client.Notice, error){
		"3 redrive": func(k string) (*client.Notice, error) { return w.c.Redrive(ctx, k) },
		"4 ack":     func(k string) (*client.Notice, error) { return w.c.Ack(ctx, k, client.Report{Attempt: 1, ID: "msg_x"}) },
		"5 cancel":  func(k string) (*client.Notice, error) { return w.c.Cancel(ctx, k) },
		"6 cancel":  func(k string) (*client.Notice, error) { return w.c.Cancel(ctx, k) },
	}) {
		for _, k := range []string{key, "cmp:hook:change:none", "nokey"} {
			n, err := call(k)
			w.notice(name+" "+k, n, err)
		}
	}
	w.schedule(client.Request{Key: key, Delay: time.Hour, URL: w.shop + "/200"}) // a cancelled notice still has the key
	w.schedule(client.Request{Key: key, Delay: time.Hour, URL: w.shop + "/200", OnDuplicate: client.Replace})
	w.get(key)
	w.get("cmp:hook:change:none")
	w.post("POST", "/v1/notices/"+key+"/ack", "application/json", `{"attempt":0,"id":"x"}`)
	w.post("POST", "/v1/notices/"+key+"/ack", "application/json", `{"attempt":1}`)
}

func inOrder[V any](m map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

func delivering(w *world) {
	ctx := w.t.Context()
	for _, path := range []string{"200", "500", "404", "410", "423", "abort"} {
		key := "cmp:hook:go:" + path
		w.schedule(client.Request{Key: key, URL: w.shop + "/" + path, Body: []byte(`{"n":1}`), Headers: map[string]string{"X-Tenant": "7"}})
		switch path {
		case "200":
			w.pass(key, settled(client.Delivered, 1))
		case "410", "abort":
			w.pass(key, settled(client.Dead, 1))
		case "423":
			w.pass(key, func(n *client.Notice) bool { return n.State == client.Scheduled && time.Until(n.Due) > 30*time.Minute })
		default:
			w.pass(key, settled(client.Scheduled, 1))
		}
		w.get(key)
	}
	for _, path := range []string{"404", "423"} { // in the fake they become due together with the next
		n, err := w.c.Cancel(ctx, "cmp:hook:go:"+path)
		w.notice("cancel a claimed notice", n, err)
	}
	// Up to the end of the ladder, and a redrive.
	const key = "cmp:hook:go:500"
	for range 2 {
		n, err := w.c.Get(ctx, key)
		if err != nil {
			w.t.Fatal(err)
		}
		attempts := len(n.Attempts)
		w.due(key)
		w.pass(key, func(n *client.Notice) bool { return len(n.Attempts) > attempts && n.State != client.Claimed })
		w.get(key)
	}
	n, err := w.c.Redrive(ctx, key)
	w.notice("redrive", n, err)
	w.pass(key, settled(client.Scheduled, 4))
	w.get(key)
	n, err = w.c.Cancel(ctx, "cmp:hook:go:200")
	w.notice("cancel a delivered notice", n, err)
	n, err = w.c.Cancel(ctx, "cmp:hook:go:410")
	w.notice("cancel a dead letter", n, err)
	resending(w)
	w.schedule(client.Request{Key: "cmp:hook:go:get", URL: w.shop + "/200?a=1", Method: "GET", Body: []byte(`{"b":"x y","c":2}`)})
	w.pass("cmp:hook:go:get", settled(client.Delivered, 1))
	w.get("cmp:hook:go:get")
}

func resending(w *world) {
	ctx := w.t.Context()
	const key = "cmp:hook:go:200"
	was, err := w.c.Get(ctx, key)
	if err != nil {
		w.t.Fatal(err)
	}
	resend := func(what string, n client.Notice) {
		again, err := w.c.Resend(ctx, &n)
		w.notice("resend "+what, again, err)
	}
	later, other, none, cancelled := *was, *was, *was, *was
	later.Ending, other.ID, none.Key, none.Ending = 2, "msg_0123456789abcdef0123456789", "nokey", 0
	cancelled.Key = "cmp:hook:go:410"
	for what, n := range inOrder(map[string]client.Notice{"later": later, "other": other, "none": none, "cancelled": cancelled}) {
		resend(what, n)
	}
	resend("delivered", *was)
	w.pass(key, settled(client.Delivered, 2))
	w.get(key)
	resend("again", *was)
	w.post("POST", "/v1/notices/"+key+"/resend", "application/json", `{"id":"x","ending":1}`)
}

// bulk changes all dead letters that match.
func bulk(w *world) {
	ctx := w.t.Context()
	const route, prefix = "hook", "cmp:hook:bulk"
	all := []string{prefix + ":1", prefix + ":2", prefix + ":3"}
	died := func(attempts int) {
		for _, key := range all {
			w.pass(key, settled(client.Dead, attempts))
		}
	}
	for _, key := range all {
		w.schedule(client.Request{Key: key, URL: w.shop + "/410"})
	}
	died(1)

	redrive := func(route string, b client.Bulk) {
		r, err := w.c.RedriveRoute(ctx, route, b)
		w.note(fmt.Sprintf("redrive %s %+v", route, b), json.RawMessage(r.JSON), err)
	}
	purge := func(route string, b client.Bulk) {
		r, err := w.c.Purge(ctx, route, b)
		w.note(fmt.Sprintf("purge %s %+v", route, b), json.RawMessage(r.JSON), err)
	}
	long := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, b := range []client.Bulk{{Prefix: prefix}, {Prefix: prefix + ":"}, {Prefix: "cmp:hook:other"}, {Prefix: prefix, Reason: "gone"},
		{Prefix: prefix, Reason: "timeout"}, {Prefix: prefix, Host: "127.0.0.1"}, {Prefix: prefix, Host: "shop.example"},
		{Prefix: prefix, Until: long}, {Prefix: prefix, Since: long}, {Reason: "none"}, {Prefix: "a:b:c:d"}, {Host: "http://shop.example/"},
		{Since: long, Until: long}, {Cursor: "%"}, {Cursor: "bm90aGluZw"}} {
		b.DryRun = true
		redrive(route, b)
		purge(route, b)
	}
	redrive(route, client.Bulk{DryRun: true, Rate: "fast"})
	redrive("none", client.Bulk{})
	purge("none", client.Bulk{})
	purge(route, client.Bulk{Rate: "1/s"})
	for _, call := range []string{"redrive?dry_run=maybe", "redrive?limit=1", "purge?host=a&host=b", "redrive?since=today"} {
		w.post("POST", "/v1/routes/"+route+"/"+call, "application/json", "")
	}
	w.post("POST", "/v1/routes/"+route+"/purge", "application/json", `{"prefix":"cmp"}`)
	w.post("POST", "/v1/routes/"+route+"/purge", "application/json", `{`)

	redrive(route, client.Bulk{Prefix: prefix})
	died(2)
	w.get(all[0])
	redrive(route, client.Bulk{Prefix: prefix, Rate: "1000/s"})
	died(3)
	purge(route, client.Bulk{Prefix: prefix, Host: "127.0.0.1"})
	w.get(all[0])
	purge(route, client.Bulk{Prefix: prefix})
}

// tests sends tests. The service takes three at once for each route.
func tests(w *world) {
	ctx := w.t.Context()
	test := func(key string) {
		r, err := w.c.SendTest(ctx, key)
		w.note("test "+key, json.RawMessage(r.JSON), err)
	}
	for path, route := range inOrder(map[string]string{"200": "test1", "423": "test1", "500": "test1", "404": "test2", "410": "test2",
		"abort": "test2"}) {
		key := "cmp:" + route + ":go:" + path
		w.schedule(client.Request{Key: key, Delay: time.Hour, URL: w.shop + "/" + path, Body: []byte(`{"n":1}`), Headers: map[string]string{"X-Tenant": "7"}})
		test(key)
		w.get(key)
	}
	w.schedule(client.Request{Key: "cmp:push:test:1", Delay: time.Hour})
	for _, key := range []string{"cmp:push:test:1", "cmp:hook:test:none", "nokey"} {
		test(key)
	}
	w.post("POST", "/v1/notices/cmp:test1:go:200/test", "application/json", `{"url":"http://127.0.0.1/"}`)
}

func reporting(w *world) {
	ctx := w.t.Context()
	report := func(what, key string, call func(context.Context, string, client.Report) (*client.Notice, error), r client.Report) {
		if r.ID == "" {
			r.ID = w.ids[key]
		}
		n, err := call(ctx, key, r)
		w.notice(what+" "+key, n, err)
	}
	take := func(route, key string, so func(*client.Notice) bool) {
		e := w.takeOne(route)
		w.note("take", map[string]any{"key": e.Key, "attempt": e.Attempt, "type": e.ContentType, "body": string(e.Body)}, nil)
		w.ids[key] = e.ID
		w.pass(key, so)
		w.get(key)
	}
	const job, push = "cmp:jobs:a:1", "cmp:push:a:1"
	w.schedule(client.Request{Key: job, Body: []byte(`{"job":1}`)})
	take("jobs", job, func(n *client.Notice) bool { return n.State == client.Claimed })
	report("ack of another", job, w.c.Ack, client.Report{Attempt: 1, ID: "msg_other"})
	report("ack of attempt 2", job, w.c.Ack, client.Report{Attempt: 2})
	report("defer", job, w.c.Defer, client.Report{Attempt: 1, After: time.Hour})
	report("ack late", job, w.c.Ack, client.Report{Attempt: 1})
	w.due(job)
	take("jobs", job, func(n *client.Notice) bool { return n.State == client.Claimed })
	report("nack", job, w.c.Nack, client.Report{Attempt: 1, Response: "no"})
	report("nack again", job, w.c.Nack, client.Report{Attempt: 1, Response: "no"})
	w.due(job)
	take("jobs", job, func(n *client.Notice) bool { return n.State == client.Claimed })
	report("ack", job, w.c.Ack, client.Report{Attempt: 2, Response: "yes"})
	report("ack again", job, w.c.Ack, client.Report{Attempt: 2})
	report("nack after", job, w.c.Nack, client.Report{Attempt: 2})

	w.schedule(client.Request{Key: push, Body: []byte(`[1]`)})
	take("push", push, settled(client.Delivered, 1))
	report("ack", push, w.c.Ack, client.Report{Attempt: 1})
	report("nack", push, w.c.Nack, client.Report{Attempt: 1, Permanent: true, Response: "never"})
	report("nack again", push, w.c.Nack, client.Report{Attempt: 1, Permanent: true, Response: "never"})
}

func listing(w *world) {
	ctx := w.t.Context()
	for _, q := range []client.Query{{Route: "hook", State: client.Dead}, {State: client.Dead, Reason: "gone"}, {Prefix: "cmp:jobs"},
		{Route: "none"}, {Reason: "gone"}, {State: client.Dead, Host: "127.0.0.1"}, {State: client.Dead, Host: "shop.example"},
		{State: "asleep"}, {Limit: 1001}, {Cursor: "%"}} {
		p, err := w.c.List(ctx, q)
		if err == nil {
			// A page of the real service may be short although more follow.
			for all := p; all.Cursor != ""; p.Items = append(p.Items, all.Items...) {
				q.Cursor = all.Cursor
				if all, err = w.c.List(ctx, q); err != nil {
					w.t.Fatal(err)
				}
			}
			q.Cursor = ""
			// The real service sorts by time, the fake by key.
			slices.SortFunc(p.Items, func(a, b client.Notice) int { return strings.Compare(a.Key, b.Key) })
			for _, n := range p.Items {
				w.notice(fmt.Sprintf("list %+v", q), &n, nil)
			}
			continue
		}
		w.note(fmt.Sprintf("list %+v", q), nil, err)
	}
	h, err := w.c.Ready(ctx)
	w.note("ready", map[string]bool{"ready": h.Ready}, err)
}
