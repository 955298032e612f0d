package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/client"
	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, wrap func(http.Handler) http.Handler) (*client.Client, *enginetest.Engine) {
	t.Helper()
	table, err := route.NewTable([]*route.Route{{Name: "jobs", Prefix: "app1:jobs", Target: route.Target{Kind: route.KindList},
		Ladder: notice.DefaultLadder}, {Name: "orders", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice},
		Ladder: notice.DefaultLadder}})
	if err != nil {
		t.Fatal(err)
	}
	engine := enginetest.New(t, table)
	h := api.New(api.Options{Engine: engine, Recurrences: engine.Recurrences(), Routes: table,
		Clients: []auth.Client{{Name: "a", Token: "hunter2", Role: auth.Admin}}})
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL, Token: "hunter2", Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, engine
}

func TestClientCalls(t *testing.T) {
	c, e := serve(t, nil)
	ctx := t.Context()
	const key = "app1:jobs:t:1"
	n, err := c.Schedule(ctx, client.Request{Key: key, Delay: time.Hour, Body: json.RawMessage(`{"a" : 1}`),
		Headers: map[string]string{"x-a": "1"}, Retry: client.Ladder(time.Second)})
	if err != nil || !n.Created || n.State != "scheduled" || n.MaxAttempts != 2 {
		t.Fatalf("%+v, %v", n, err)
	}
	if f, _ := e.Find(ctx, key); string(f.Body) != `{"a" : 1}` {
		t.Errorf("body %q", f.Body)
	}
	if n, err = c.Get(ctx, key); err != nil || n.Created || !strings.Contains(string(n.JSON), key) {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err = c.Reschedule(ctx, key, time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil || n.Due.Year() != 2031 {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err = c.RescheduleIn(ctx, key, 2*time.Hour); err != nil || n.Due.Year() == 2031 {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err = c.Readdress(ctx, key, client.Address{URL: "https://new.example/"}); !client.IsStatus(err, 422) {
		t.Errorf("the address of a notice for a list: %v", err)
	}
	if _, err = c.Fire(ctx, key); err != nil {
		t.Error(err)
	}
	id := e.Hand(key)
	if n, err = c.Defer(ctx, key, client.Report{Attempt: 1, ID: id, After: 5 * time.Second}); err != nil || n.State != "scheduled" {
		t.Errorf("%+v, %v", n, err)
	}
	e.Hand(key)
	if n, err = c.Nack(ctx, key, client.Report{Attempt: 1, ID: id, Permanent: true, Response: "no"}); err != nil || n.State != "dead" {
		t.Errorf("%+v, %v", n, err)
	}
	if p, err := c.List(ctx, client.Query{Route: "jobs", State: "dead", Limit: 5}); err != nil || len(p.Items) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if r, err := c.RedriveRoute(ctx, "jobs", client.Bulk{DryRun: true}); err != nil || r.Matched != 1 || r.Redriven != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Purge(ctx, "jobs", client.Bulk{DryRun: true}); err != nil || r.Matched != 1 || r.Purged != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if n, err = c.Redrive(ctx, key); err != nil || n.State != "scheduled" {
		t.Errorf("%+v, %v", n, err)
	}
	e.Hand(key)
	if _, err = c.Ack(ctx, key, client.Report{Attempt: 2, ID: "msg_another"}); !client.IsStatus(err, 409) {
		t.Error(err)
	}
	if n, err = c.Ack(ctx, key, client.Report{Attempt: 2, ID: id}); err != nil || n.State != "delivered" {
		t.Errorf("%+v, %v", n, err)
	}
	_, err = c.Cancel(ctx, key)
	if !client.IsStatus(err, 409) {
		t.Error(err)
	}
	if _, err = c.Get(ctx, "app1:jobs:t:2"); !client.IsStatus(err, 404) || !strings.Contains(err.Error(), "404 Not Found: no notice") {
		t.Error(err)
	}
	if r, err := c.Pause(ctx, "jobs"); err != nil || !r.Paused {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Resume(ctx, "jobs"); err != nil || r.Paused {
		t.Errorf("%+v, %v", r, err)
	}
	e.Record("app1:jobs:batch", 1)
	e.Record("app1:jobs:check", 0)
	batch := client.RecordedPrefix{Prefix: "app1:jobs:batch", Workers: 1}
	if l, err := c.Recorded(ctx); err != nil || len(l.Items) != 2 || l.Items[0] != batch {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := c.Release(ctx, "app1:jobs:batch"); !client.IsStatus(err, 409) {
		t.Errorf("%v, want 409 for a prefix with a worker", err)
	}
	if r, err := c.Release(ctx, "app1:jobs:check"); err != nil || r.Prefix != "app1:jobs:check" || r.Route != "jobs" {
		t.Errorf("%+v, %v", r, err)
	}
	if s, err := c.Stats(ctx); err != nil || len(s.Routes) != 3 || s.Routes[0].Settled != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	e.SetReady(fleet.Readiness{Reasons: []string{"down"}})
	if h, err := c.Ready(ctx); err != nil || h.Ready || len(h.Reasons) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	rs, err := c.ScheduleLines(ctx, [][]byte{[]byte(`{"key":"app1:jobs:t:7"}`), []byte(`{}`)}, client.Repeatable())
	if err != nil || len(rs) != 2 || rs[0].Status != 201 || rs[1].Problem == nil {
		t.Errorf("%+v, %v", rs, err)
	}
}

// Idempotent calls are retried after a lost answer, others are not.
func TestClientRetriesIdempotentCalls(t *testing.T) {
	var calls, failing atomic.Int32
	c, e := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			if failing.Add(-1) < 0 {
				h.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(httptest.NewRecorder(), r) // the call is executed and its answer lost
			panic(http.ErrAbortHandler)
		})
	})
	failing.Store(2)
	n, err := c.Schedule(t.Context(), client.Request{Key: "app1:jobs:t:1"})
	if err != nil || n.Created || calls.Load() != 3 || e.Changes() != 1 {
		t.Errorf("%v after %d calls, %d changes", err, calls.Load(), e.Changes())
	}
	for name, call := range map[string]func() error{
		"replace": func() error {
			_, err := c.Schedule(t.Context(), client.Request{Key: "app1:jobs:t:1", OnDuplicate: "replace"})
			return err
		},
		"defer": func() error {
			_, err := c.Defer(t.Context(), "app1:jobs:t:1", client.Report{Attempt: 1, ID: e.Hand("app1:jobs:t:1")})
			return err
		},
		"fire": func() error { _, err := c.Fire(t.Context(), "app1:jobs:t:1"); return err },
	} {
		calls.Store(0)
		failing.Store(1)
		if err := call(); err == nil || calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls, want an error after one", name, err, calls.Load())
		}
	}
	calls.Store(0)
	failing.Store(1)
	if n, err := c.Ack(t.Context(), "app1:jobs:t:1", client.Report{Attempt: 1, ID: e.Hand("app1:jobs:t:1")}); err != nil || n.Changed ||
		n.State != "delivered" ||
		calls.Load() != 2 {
		t.Errorf("ack: %v after %d calls", err, calls.Load())
	}
	calls.Store(0)
	e.Fail(wire.ErrFull)
	if _, err := c.Schedule(t.Context(), client.Request{Key: "app1:jobs:t:2"}); !client.IsStatus(err, 507) || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

func TestClientWaitsForRetryAfter(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			return
		}
		_, _ = fmt.Fprint(w, `{"routes":[]}`)
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if _, err := c.Stats(t.Context()); err != nil || calls.Load() != 2 || time.Since(began) < time.Second {
		t.Errorf("%v after %d calls and %s", err, calls.Load(), time.Since(began))
	}
}

func TestErrorHidesToken(t *testing.T) {
	c, err := client.New(client.Options{URL: "http://127.0.0.1:1", Token: "hunter2", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stats(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(),
		"127.0.0.1:1") {
		t.Errorf("%v", err)
	}
	for _, bad := range []client.Options{{}, {URL: "localhost:8080"}, {URL: "ftp://h"}, {URL: "http://u:hunter2@h"}, {URL: "http://h",
		Token: "hunter2\n"}} {
		if _, err := client.New(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", bad.URL, err)
		}
	}
}

// Iterators of the history and the audit follow the cursor, and stop after the first error.
func TestIteratorsFollowCursor(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch q.Get("cursor") {
		case "":
			if r.URL.Path == "/v1/history" && q.Get("outcome") != "dead,replaced" {
				t.Errorf("outcome %q", q.Get("outcome"))
			}
			_, _ = io.WriteString(w, `{"items":[{"key":"a:b:c:1"},{"key":"a:b:c:2"}],"cursor":"x"}`)
		case "x":
			_, _ = io.WriteString(w, `{"items":[{"key":"a:b:c:3"}],"cursor":"y"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	var got []string
	var failed error
	for e, err := range c.Endings(t.Context(), client.HistoryQuery{Outcome: []client.State{client.Dead, client.Replaced}}) {
		if failed = err; err == nil {
			got = append(got, e.Key)
		}
	}
	if want := []string{"a:b:c:1", "a:b:c:2", "a:b:c:3"}; !slices.Equal(got, want) || !client.IsStatus(failed, 404) {
		t.Errorf("%q, %v, want %q and a 404", got, failed, want)
	}
	for e, err := range c.AuditEntries(t.Context(), client.AuditQuery{}) {
		if err != nil || e.Key != "a:b:c:1" {
			t.Errorf("%+v, %v", e, err)
		}
		break
	}
}
