package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a handler that records its calls, and answers with given results.
type sink struct {
	mu     sync.Mutex
	got    map[string][]time.Time
	due    map[string]time.Time
	seen   chan string
	answer func(n *notice.Notice) notice.Result
}

func newSink(room int) *sink {
	return &sink{got: map[string][]time.Time{}, due: map[string]time.Time{}, seen: make(chan string, room)}
}

func (s *sink) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	s.mu.Lock()
	s.got[n.Key] = append(s.got[n.Key], time.Now())
	s.due[n.Key] = n.Due
	s.mu.Unlock()
	res := notice.DeliveredResult(200)
	if s.answer != nil {
		res = s.answer(n)
	}
	s.seen <- n.Key
	return res
}

// await waits for n calls of the handler.
func (s *sink) await(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		testkit.Next(t, fmt.Sprintf("call %d of %d", i+1, n), s.seen)
	}
}

// once fails if a notice was handled other than once, or before it was due.
func (s *sink) once(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) != want {
		t.Errorf("%d notices were handled, want %d", len(s.got), want)
	}
	for k, at := range s.got {
		if len(at) != 1 {
			t.Errorf("%s was handled %d times", k, len(at))
		}
		if early := s.due[k].Sub(at[0]); early > 0 {
			t.Errorf("%s was handled %s early", k, early)
		}
	}
}

type world struct {
	*Engine
	srv  *testkit.Redis
	stop func()
}

// pauseRoute pauses a route, and waits until this instance knows it: until then it may still claim.
func (w *world) pauseRoute(t *testing.T, prefix string) {
	t.Helper()
	if err := w.Pause(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}

	eventually(t, "the pause to be known", func() bool {
		for shard := range w.store.Space().Places() {
			if !w.dispatch.Paused(keys.Partition{Prefix: prefix, Shard: shard}) {
				return false
			}
		}
		return true
	})
}

func testRoute(name, prefix string) *route.Route {
	return &route.Route{Name: name, Prefix: prefix, Target: route.Target{Kind: route.KindLog},
		Ladder: notice.Ladder{20 * time.Millisecond, 40 * time.Millisecond}, Timeout: 2 * time.Second, Ack: route.Ack{Kind: route.Ack2xx},
		Concurrency: 64, HostConcurrency: 16}
}

func start(t *testing.T, srv *testkit.Redis, h dispatch.Handler, change func(*Options), routes ...*route.Route) *world {
	t.Helper()
	table, err := route.NewTable(routes)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: table,
		Handler: h, Instance: t.Name(), Concurrency: 512, Grace: 50 * time.Millisecond,
		Metrics: telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()}), Retention: time.Hour, Retain: 100000, ConfigureRedis: true,
		Drain: 10 * time.Second, Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))}
	if change != nil {
		change(&o)
	}
	e := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &world{Engine: e, srv: srv}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		e.Close(context.Background())
		_ = conn.Close()
	})
	t.Cleanup(w.stop)
	testkit.Next(t, "subscribed", e.Subscribed())
	return w
}

func (w *world) put(t *testing.T, n int, req func(i int) store.Request) {
	t.Helper()
	for i := 0; i < n; {
		var reqs []store.Request
		for ; i < n && len(reqs) < 1000; i++ {
			reqs = append(reqs, req(i))
		}
		for _, r := range w.ScheduleMany(context.Background(), reqs) {
			if r.Err != nil || !r.Created {
				t.Fatalf("schedule: %+v", r)
			}
		}
	}
}

func key(i int) string { return fmt.Sprintf("app1:trans:notice:%d", i) }

func TestDeliversOnTimeAmongManyOthers(t *testing.T) {
	t.Parallel()
	s := newSink(2000)
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("r", "app1"))
	w.put(t, 20000, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:far:x:%d", i), Delay: time.Hour}
	})
	from := time.Now().Add(300 * time.Millisecond)
	w.put(t, 1000, func(i int) store.Request {
		return store.Request{Key: key(i), Due: from.Add(time.Duration(i) * time.Millisecond)}
	})
	s.await(t, 1000)
	w.stop()
	s.once(t, 1000)
	st := w.Stats()[0]
	t.Logf("lateness p50 %s, p99 %s", st.LatenessP50, st.LatenessP99)
}

func TestAtOnceAndLater(t *testing.T) {
	t.Parallel()
	s := newSink(10)
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("r", "app1"))
	for i, d := range []time.Duration{0, 30 * time.Millisecond} {
		r, err := w.Schedule(context.Background(), store.Request{Key: key(i), Delay: d})
		if err != nil || !r.Created {
			t.Fatal(err, r)
		}
		s.await(t, 1)
	}
	w.stop()
	s.once(t, 2)
}

func TestLadderThenDead(t *testing.T) {
	t.Parallel()
	s := newSink(10)
	s.answer = func(n *notice.Notice) notice.Result { return notice.RetryResult(notice.ReasonStatus5xx, "no") }
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("r", "app1"))
	ctx := context.Background()
	if _, err := w.Schedule(ctx, store.Request{Key: key(1), Content: notice.Content{Body: []byte(`{"a": 1}`)}}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 3)
	f := w.until(t, key(1), notice.Dead)
	if f.AttemptsMade != 3 || len(f.Attempts) != 3 || f.Reason != notice.ReasonStatus5xx || string(f.Body) != `{"a": 1}` {
		t.Fatalf("%+v", f.Notice)
	}
	s.mu.Lock()
	at := s.got[key(1)]
	s.mu.Unlock()
	for i, step := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond} {
		if d := at[i+1].Sub(at[i]); d < step {
			t.Errorf("step %d took %s, want at least %s", i+1, d, step)
		}
	}
	c, err := w.Redrive(ctx, key(1), notice.Expiry{})
	if err != nil || !c.Done || c.Before != notice.Dead || c.Redriven != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	s.await(t, 3)
	if f = w.until(t, key(1), notice.Dead); f.AttemptsMade != 6 || f.Redriven != 3 {
		t.Fatalf("%+v", f.Notice)
	}
}

func (w *world) until(t *testing.T, key string, want notice.State) store.Found {
	t.Helper()
	var f store.Found
	testkit.Await(t, func() (err error) {
		if f, err = w.Find(context.Background(), key); err != nil || f.State != want {
			return fmt.Errorf("%s is %q (%v), want %s", key, f.State, err, want)
		}
		return nil
	})
	return f
}

func TestNothingIsLostWithoutEvents(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig(`rename-command CONFIG ""`))
	s := newSink(500)
	w := start(t, srv, s, nil, testRoute("r", "app1"))
	from := time.Now().Add(100 * time.Millisecond)
	w.put(t, 200, func(i int) store.Request {
		return store.Request{Key: key(i), Due: from.Add(time.Duration(i) * time.Millisecond)}
	})
	s.await(t, 200)
	// That no events come is observed within three beats.
	eventually(t, "ready and degraded", func() bool {
		r := w.Ready(context.Background())
		return r.Ready && len(r.Degraded) == 1 && !r.Degraded[0].Urgent
	})
	w.stop()
	s.once(t, 200)
}

// Without Redis there are no sweeps either, so only the outage is a reason.
func TestUnreadyWithoutRedisForOneReason(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	w := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	srv.Kill()
	eventually(t, "the end of the subscription", func() bool { return w.listener.Alive() == 0 && !w.events.Load() })
	if r := w.Ready(context.Background()); r.Ready || len(r.Degraded) > 0 || !slices.Equal(r.Reasons, []string{"redis does not answer"}) {
		t.Errorf("without Redis: %+v", r)
	}
}

func TestPanicCostsOneAttempt(t *testing.T) {
	t.Parallel()
	s := newSink(10)
	s.answer = func(n *notice.Notice) notice.Result {
		if n.NextAttempt() == 1 {
			s.seen <- n.Key
			panic("oh")
		}
		return notice.DeliveredResult(200)
	}
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.Logger = zap.NewNop() }, testRoute("r", "app1"))
	if _, err := w.Schedule(context.Background(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 2)
	f := w.until(t, key(1), notice.Delivered)
	if f.AttemptsMade != 2 || f.Attempts[0].Reason != notice.ReasonPanic {
		t.Fatalf("%+v", f.Notice)
	}
}

func TestManyDueInOneMillisecond(t *testing.T) {
	t.Parallel()
	const n = 20000
	s := newSink(n)
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("r", "app1"))
	due := time.Now().Add(1500 * time.Millisecond)
	w.put(t, n, func(i int) store.Request { return store.Request{Key: key(i), Due: due} })
	s.await(t, n)
	w.stop()
	s.once(t, n)
}

func TestThreeInstancesShare(t *testing.T) {
	t.Parallel()
	const n = 1500
	srv := testkit.SharedRedis(t)
	all := newSink(n)
	var mine [3]*sink
	var worlds [3]*world
	for i := range mine {
		mine[i] = newSink(n)
		mine[i].answer = func(x *notice.Notice) notice.Result { return all.Handle(t.Context(), nil, x) }
		worlds[i] = start(t, srv, mine[i], nil, testRoute("r", "app1"))
	}
	from := time.Now().Add(300 * time.Millisecond)
	worlds[0].put(t, n, func(i int) store.Request {
		return store.Request{Key: key(i), Due: from.Add(time.Duration(i) * time.Millisecond)}
	})
	all.await(t, n)
	for i, w := range worlds {
		w.stop()
		if len(mine[i].got) == 0 {
			t.Errorf("instance %d took nothing", i)
		}
	}
	all.once(t, n)
}

func TestSettingsMustMatchTheData(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	o := w.o
	o.Space.Shards = 4
	if err := New(o).Run(context.Background()); !errors.Is(err, store.ErrLayout) {
		t.Errorf("%v, want ErrLayout", err)
	}
}
