package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func routes(t testing.TB) *route.Table {
	t.Helper()
	base := func(name, prefix string, kind route.Kind) *route.Route {
		return &route.Route{Name: name, Prefix: prefix, Target: route.Target{Kind: kind}, Ladder: notice.DefaultLadder,
			Timeout: 10 * time.Second, Concurrency: 64, Ack: route.Ack{Kind: route.Ack2xx}}
	}
	jobs := base("jobs", "app1:jobs", route.KindList)
	jobs.Target.Key, jobs.Ack.Kind, jobs.Timeout = "todo", route.AckReport, time.Minute
	orders := base("orders", "app1:orders", route.KindNotice)
	orders.Secrets = []sign.Secret{sign.SecretOf([]byte("a secret of twenty-four b"))}
	table, err := route.NewTable([]*route.Route{
		orders, base("fixed", "app1:fixed", route.KindFixed), jobs, base("other", "app2", route.KindLog),
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// bench is an API over an engine with a Redis of its own.
type bench struct {
	t       testing.TB
	engine  *enginetest.Engine
	handler http.Handler
	token   string
}

func newBench(t testing.TB, change ...func(*api.Options)) *bench {
	t.Helper()
	table := routes(t)
	b := &bench{t: t, engine: enginetest.New(t, table)}
	o := api.Options{Engine: b.engine, Routes: table, Version: "test", Loopback: true, Recurrences: b.engine.Recurrences()}
	for _, f := range change {
		f(&o)
	}
	b.handler = api.New(o)
	return b
}

func withClients(o *api.Options) {
	o.Clients = []auth.Client{{Name: "all", Token: "token-of-all", Role: auth.Admin}, {Name: "one", Token: "token-of-one", Prefix: "app1",
		Role: auth.Admin},
		{Name: "two", Token: "token-of-two", Prefix: "app2", Role: auth.Admin}}
}

// as is the same API with another token.
func (b *bench) as(token string) *bench {
	c := *b
	c.token = token
	return &c
}

type answer struct {
	t      testing.TB
	status int
	header http.Header
	raw    string
}

// do makes a call; extra holds header names and values in turn.
func (b *bench) do(method, target, body string, extra ...string) answer {
	b.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:8080"
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	for i := 0; i+1 < len(extra); i += 2 {
		if extra[i] == "Host" {
			r.Host = extra[i+1]
			continue
		}
		r.Header.Set(extra[i], extra[i+1])
	}
	return b.serve(r)
}

func (b *bench) serve(r *http.Request) answer {
	b.t.Helper()
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	res := w.Result()
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{b.t, res.StatusCode, res.Header, string(raw)}
}

// is checks the status, and for a problem that it is one.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("answered %d, want %d: %s", a.status, status, a.raw)
	}
	if status >= 400 {
		p := a.json()
		if a.header.Get("Content-Type") != "application/problem+json" || p["status"] != float64(status) || p["title"] == "" {
			a.t.Fatalf("%s is no problem: %s", a.header.Get("Content-Type"), a.raw)
		}
	}
	return a
}

func (a answer) says(want ...string) answer {
	a.t.Helper()
	for _, s := range want {
		if !strings.Contains(a.raw, s) {
			a.t.Errorf("the answer does not say %q: %s", s, a.raw)
		}
	}
	return a
}

// id is the id of the notice that the answer shows.
func (a answer) id() string {
	a.t.Helper()
	id, ok := a.json()["id"].(string)
	if !ok {
		a.t.Fatalf("no id in %s", a.raw)
	}
	return id
}

// into reads the answer into a value.
func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.raw), v); err != nil {
		a.t.Fatalf("%v in %q", err, a.raw)
	}
}

func (a answer) json() map[string]any {
	a.t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.raw), &m); err != nil {
		a.t.Fatalf("%v in %q", err, a.raw)
	}
	return m
}
