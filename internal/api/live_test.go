package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/api"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// live is the API over the real engine and a real Redis.
type live struct {
	*bench
	engine *engine.Engine

	mu      sync.Mutex
	sent    map[string][]string // bodies by key, in the order of delivery
	refuse  bool
	arrived chan struct{}
}

// Handle is the receiver.
func (l *live) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[n.Key] = append(l.sent[n.Key], string(n.Body))
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	if l.refuse {
		return notice.DeadResult(notice.ReasonGone, "gone")
	}
	return notice.DeliveredResult(200)
}

func newLive(t *testing.T, change ...func(*api.Options)) *live {
	t.Helper()
	srv, table := testkit.SharedRedis(t), routes(t)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{sent: map[string][]string{}, arrived: make(chan struct{}, 1)}
	l.engine = engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: table,
		Handler: l, Instance: "test", Concurrency: 64, Grace: 50 * time.Millisecond,
		Metrics: telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()}), Retention: time.Hour, Retain: 100_000, ConfigureRedis: true,
		Drain:  10 * time.Second,
		Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		_ = conn.Close()
	})
	l.bench = newBench(t, append(change, func(o *api.Options) { o.Engine = l.engine })...)
	// Writes are refused until the engine has read the layout.
	testkit.Until(t, "ready", func() bool { return l.do("GET", "/readyz", "").status == 200 })
	return l
}

// await polls a notice until it is in one of the states.
func (l *live) await(key string, states ...notice.State) string {
	l.t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		a := l.do("GET", "/v1/notices/"+key, "").is(200)
		state, _ := a.json()["state"].(string)
		for _, s := range states {
			if state == string(s) {
				return state
			}
		}
		select {
		case <-l.arrived: // something was delivered: look again
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			l.t.Fatalf("%s stays %s, want %v", key, state, states)
		}
	}
}

func (l *live) deliveries(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.sent[key]...)
}

func TestLiveCalls(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	const key = "app2:a:b:1"
	body := `{"key":"` + key + `","delay":"1h","body":{"a" : 1},"headers":{"x-a":"1"},"retry":["1s"]}`
	l.do("POST", "/v1/notices", body).is(201).says(`"body":{"a" : 1}`, `"max_attempts":2`)
	l.do("POST", "/v1/notices", body).is(200)
	l.do("POST", "/v1/notices", strings.Replace(body, "1}", "2}", 1)).is(409).says("body", `"state":"scheduled"`)
	l.do("POST", "/v1/notices", strings.Replace(body, `"retry"`, `"on_duplicate":"keep","url":null,"retry"`, 1)).is(422)
	l.do("PATCH", "/v1/notices/"+key, `{"due":"2031-01-01T00:00:00.123Z"}`).is(200).says(`"due":"2031-01-01T00:00:00.123Z"`,
		`"before":"scheduled"`)
	l.do("GET", "/v1/notices?prefix=app2:a&state=scheduled", "").is(200).says(key)
	l.do("GET", "/v1/notices?prefix=app2:b", "").is(200).says(`"items":[]`)
	l.do("GET", "/v1/notices?cursor=e30", "").is(400).says("query.cursor")
	l.do("POST", "/v1/notices/"+key+"/redrive", "").is(409)
	l.do("GET", "/v1/notices/app9:no:route:1", "").is(404)
	l.do("DELETE", "/v1/notices/app9:no:route:1", "").is(404)
	l.do("POST", "/v1/notices/"+key+"/fire", "").is(200)
	l.await(key, notice.Delivered)
	if got := l.deliveries(key); len(got) != 1 || got[0] != `{"a" : 1}` {
		t.Errorf("delivered %q", got)
	}
	l.do("POST", "/v1/notices", body).is(200).says(`"state":"delivered"`)
	l.do("DELETE", "/v1/notices/"+key, "").is(409)
	l.do("GET", "/v1/notices?state=delivered&route=other", "").is(200).says(key, `"status":200`)

	l.mu.Lock()
	l.refuse = true
	l.mu.Unlock()
	for i := range 3 {
		l.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app2:a:d:%d"}`, i)).is(201)
		l.await(fmt.Sprintf("app2:a:d:%d", i), notice.Dead)
	}
	l.do("POST", "/v1/routes/other/redrive?dry_run=true&reason=gone", "").is(200).says(`"matched":3,"redriven":0`)
	l.do("POST", "/v1/routes/other/redrive?reason=dns", "").is(200).says(`"matched":0`)
	l.mu.Lock()
	l.refuse = false
	l.mu.Unlock()
	l.do("POST", "/v1/routes/other/redrive?prefix=app2:a:d", "").is(200).says(`"matched":3,"redriven":3`)
	for i := range 3 {
		l.await(fmt.Sprintf("app2:a:d:%d", i), notice.Delivered)
	}
	l.do("POST", "/v1/routes/other/pause", "").is(200)
	l.do("GET", "/v1/routes", "").is(200).says(`"paused":true`)
	l.do("POST", "/v1/routes/other/resume", "").is(200)
	l.do("GET", "/v1/stats", "").is(200).says(`"settled":4`)
	l.do("GET", "/readyz", "").is(200)
}

func TestLiveScopes(t *testing.T) {
	t.Parallel()
	l := newLive(t, withClients)
	one, two := l.as("token-of-one"), l.as("token-of-two")
	for i := range 5 {
		one.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app1:jobs:t:%d","delay":"1h"}`, i)).is(201)
		two.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app2:jobs:t:%d","delay":"1h"}`, i)).is(201)
	}
	for mine, b := range map[string]*bench{"app1:": one, "app2:": two} {
		a := b.do("GET", "/v1/notices", "").is(200)
		if strings.Count(a.raw, `"key":"`+mine) != 5 || strings.Count(a.raw, `"key"`) != 5 {
			t.Errorf("the client of %s sees %s", mine, a.raw)
		}
	}
	two.do("DELETE", "/v1/notices/app1:jobs:t:1", "").is(404)
	one.do("GET", "/v1/notices/app1:jobs:t:1", "").is(200).says(`"state":"scheduled"`)
}

// Cancel against delivery, 1,000 times: what was cancelled before its attempt
// is never sent, and nothing is sent twice.
func TestLiveCancelRace(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	cancelled, delivered, running := 0, 0, make([]bool, 1000)
	race(1000, 16, func(i int) {
		key := fmt.Sprintf("app2:race:c:%d", i)
		l.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"delay":"3ms"}`, key)).is(201)
		<-time.After(time.Duration(rand.IntN(6000)) * time.Microsecond) // around the moment it is due
		running[i] = strings.Contains(l.do("DELETE", "/v1/notices/"+key, "").raw, `"in_flight":true`)
	})
	for i := range 1000 {
		key := fmt.Sprintf("app2:race:c:%d", i)
		state, n := l.await(key, notice.Cancelled, notice.Delivered), len(l.deliveries(key))
		switch {
		case state == "delivered" && n == 1:
			delivered++
		case state == "cancelled" && (n == 0 || n == 1 && running[i]): // it was in flight, and the answer said so
			cancelled++
		default:
			t.Errorf("%s is %s and was sent %d times", key, state, n)
		}
	}
	t.Logf("%d cancelled, %d delivered", cancelled, delivered)
}

// Replace against delivery, 1,000 times: the new notice is delivered once, the
// old one at most once: when its attempt was in flight already.
func TestLiveReplaceRace(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	race(1000, 16, func(i int) {
		key := fmt.Sprintf("app2:race:r:%d", i)
		l.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"delay":"%dms","body":"old"}`, key, 1+rand.IntN(3))).is(201)
		if rand.IntN(2) == 0 {
			<-time.After(time.Duration(rand.IntN(4)) * time.Millisecond)
		}
		l.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"delay":"1ms","body":"new","on_duplicate":"replace"}`, key)).is(201)
	})
	both := 0
	for i := range 1000 {
		key := fmt.Sprintf("app2:race:r:%d", i)
		l.await(key, notice.Delivered)
		got := strings.Join(l.deliveries(key), " ")
		switch got {
		case `"new"`:
		case `"old" "new"`, `"new" "old"`: // an attempt in flight may be overtaken
			both++
		default:
			t.Errorf("%s was sent as %s", key, got)
		}
		l.do("GET", "/v1/notices/"+key, "").is(200).says(`"body":"new"`)
	}
	t.Logf("%d of 1000 were replaced after the old one was sent", both)
}

func race(n, workers int, do func(i int)) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	wg.Wait()
}

// Hostile requests also meet the real scripts: no 5xx.
func TestLiveHostileRequests(t *testing.T) {
	t.Parallel()
	l := newLive(t, withClients)
	d := dice{rand.New(rand.NewPCG(3, 5))}
	for i := range 5000 {
		r := d.request()
		call := r.Method + " " + r.RequestURI
		w := httptest.NewRecorder()
		l.handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("request %d, %q, is answered %d %s", i, call, w.Code, w.Body)
		}
	}
}
