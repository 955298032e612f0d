package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// handled records which notices were handled, and how often.
type handled struct {
	mu   sync.Mutex
	n    map[string]int
	more chan struct{}
}

func newHandled() *handled { return &handled{n: map[string]int{}, more: make(chan struct{}, 1)} }

func (h *handled) add(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n[key]++
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *handled) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]int{}
	for k, n := range h.n {
		out[k] = n
	}

	return out
}

// want waits until n different notices were handled.
func (h *handled) want(t *testing.T, n int) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%d notices are handled", n), func() bool { return len(h.counts()) >= n })
}

// Handle implements dispatch.Handler, for the service.
func (h *handled) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	h.add(n.Key)
	return notice.DeliveredResult(200)
}

func (h *handled) notice(_ context.Context, n *Notice) error {
	h.add(n.Key)
	return nil
}

// service runs an instance of the service with a route for each prefix. stop ends it.
func service(t *testing.T, srv *testkit.Redis, h *handled, prefixes ...string) (e *engine.Engine, stop func()) {
	t.Helper()
	var routes []*route.Route
	for i, p := range prefixes {
		routes = append(routes, &route.Route{Name: fmt.Sprintf("r%d", i), Prefix: p, Target: route.Target{Kind: route.KindLog},
			Ladder: notice.DefaultLadder, Timeout: time.Second, Concurrency: 16})
	}

	table, err := route.NewTable(routes)
	if err != nil {
		t.Fatal(err)
	}

	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}

	e = engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace()}, Routes: table, Handler: h, Instance: "service",
		Version: "v1", Concurrency: 64, Grace: grace, Retention: time.Hour, Retain: retain, ConfigureRedis: true, Takeover: takeover,
		Drain: time.Second, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run the service: %v", err)
		}

		_ = conn.Close()
	})
	t.Cleanup(stop)
	<-e.Subscribed()
	return e, stop
}

// newWorker returns a worker on srv.
func newWorker(t *testing.T, srv *testkit.Redis) *Worker {
	t.Helper()
	w, err := New(Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// start runs a worker until stop is called or the test ends.
func start(t *testing.T, w *Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run the worker: %v", err)
		}
	})
	t.Cleanup(stop)
	if err := w.begin(ctx); err != nil {
		t.Fatal(err)
	}

	<-w.engine.Subscribed()
	return stop
}

func scheduleAt(t *testing.T, e *engine.Engine, delay time.Duration, ks ...string) {
	t.Helper()
	for _, k := range ks {
		if r, err := e.Schedule(t.Context(), store.Request{Key: k, Delay: delay}); err != nil || !r.Created {
			t.Fatalf("schedule %s: %+v, %v", k, r, err)
		}
	}
}

func keysOf(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s:%d", prefix, i))
	}
	return list
}

const closing = "shop:orders:close"

func TestServiceLeavesRecordedPrefixToWorkers(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	one, _ := service(t, srv, byService, "shop")
	two, _ := service(t, srv, byService, "shop")

	// Before a worker has recorded the prefix, its notices are the service's.
	scheduleAt(t, one, 0, "shop:orders:close:before")
	byService.want(t, 1)
	scheduleAt(t, one, 3*time.Second, "shop:orders:close:stored") // under shop, due after the record

	w := newWorker(t, srv)
	w.Handle(closing, byWorker.notice)
	stop := start(t, w)
	scheduleAt(t, one, 100*time.Millisecond, "shop:orders:close:1", "shop:orders:pay:1")
	scheduleAt(t, two, 0, "shop:orders:close:2", "shop:orders:pay:2")
	for i := range 50 {
		r := Request{Key: fmt.Sprintf("shop:orders:close:w%d", i), Delay: time.Duration(i) * time.Millisecond}
		if _, err := w.Schedule(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}

	byService.want(t, 3)
	byWorker.want(t, 53)

	// While no worker runs, the notices wait, and any instance accepts them, also one that starts now.
	stop()
	three, _ := service(t, srv, byService, "shop")
	scheduleAt(t, three, 0, "shop:orders:close:3", "shop:orders:pay:3")
	scheduleAt(t, one, 0, "shop:orders:close:4", "shop:orders:pay:4")
	byService.want(t, 5)

	again := newWorker(t, srv)
	again.Handle(closing, byWorker.notice)
	start(t, again)
	byWorker.want(t, 55)
	for k := range byService.counts() {
		if strings.HasPrefix(k, closing) && k != "shop:orders:close:before" {
			t.Errorf("the service delivered %s", k)
		}
	}

	for k, n := range byWorker.counts() {
		if n != 1 || !strings.HasPrefix(k, closing) {
			t.Errorf("the worker handled %s %d times", k, n)
		}
	}
}

func TestRunFailsBesideRouteOfOtherTarget(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService := newHandled()
	e, stop := service(t, srv, byService, closing)
	scheduleAt(t, e, 0, "shop:orders:close:1") // the janitor has announced the routes, or does so before this is claimed
	byService.want(t, 1)

	w := newWorker(t, srv)
	w.Handle(closing, newHandled().notice)
	if err := w.Run(t.Context()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), closing) {
		t.Fatalf("%v, want ErrConfig with the prefix", err)
	}

	members := srv.Client().SMembers(t.Context(), e.Store().Space().Routes()).Val()
	if len(members) != 1 || members[0] != closing {
		t.Errorf("notifier:routes is %q after a failed Run", members)
	}

	stop()
	next := newWorker(t, srv)
	next.Handle(closing, newHandled().notice)
	start(t, next)
}

func TestServiceDoesNotDeliverItsOwnRouteOnceRecorded(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	w := newWorker(t, srv)
	w.Handle(closing, byWorker.notice)
	stop := start(t, w)
	stop()

	e, _ := service(t, srv, byService, closing, "shop")
	scheduleAt(t, e, 0, "shop:orders:close:1", "shop:orders:pay:1")
	byService.want(t, 1)
	if n := byService.counts()["shop:orders:close:1"]; n != 0 {
		t.Error("the service delivered a notice of a recorded prefix")
	}
}

func TestReleasedPrefixMovesToTheLongestMatch(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	e, _ := service(t, srv, byService, "shop")
	w := newWorker(t, srv)
	w.Handle(closing, byWorker.notice)
	stop := start(t, w)
	scheduleAt(t, e, 0, "shop:orders:close:1")
	byWorker.want(t, 1)
	if err := e.Release(t.Context(), closing); !errors.Is(err, store.ErrHandled) {
		t.Fatalf("%v, want ErrHandled while the worker runs", err)
	}

	stop()
	scheduleAt(t, e, 0, "shop:orders:close:2", "shop:orders:pay:1")
	byService.want(t, 1)
	if err := e.Release(t.Context(), closing); err != nil {
		t.Fatal(err)
	}

	byService.want(t, 2)
	if err := e.Release(t.Context(), closing); !errors.Is(err, store.ErrNotRecorded) {
		t.Errorf("%v, want ErrNotRecorded for a second release", err)
	}

	// A worker that starts later records the prefix again.
	next := newWorker(t, srv)
	next.Handle(closing, byWorker.notice)
	start(t, next)
	scheduleAt(t, e, 0, "shop:orders:close:3")
	byWorker.want(t, 2)
}

func TestTwoWorkersShareTheirNoticesBesideTwoServices(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	one, _ := service(t, srv, byService, "shop")
	service(t, srv, byService, "shop")
	var stops []func()
	for range 2 {
		w := newWorker(t, srv)
		w.Handle(closing, byWorker.notice)
		w.Handle("shop:refunds", byWorker.notice, Order())
		stops = append(stops, start(t, w))
	}

	scheduleAt(t, one, 200*time.Millisecond, keysOf(closing, 100)...)
	scheduleAt(t, one, 200*time.Millisecond, keysOf("shop:refunds:poll", 100)...)
	scheduleAt(t, one, 200*time.Millisecond, keysOf("shop:orders:pay", 100)...)
	stops[0]() // a rolling restart
	byWorker.want(t, 200)
	byService.want(t, 100)
	for k, n := range byWorker.counts() {
		if n != 1 {
			t.Errorf("the workers handled %s %d times", k, n)
		}
	}
}
