package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

const paying = "shop:orders:pay"

// handling returns a running worker with handlers for prefixes.
func handling(t *testing.T, srv *testkit.Redis, h *handled, prefixes ...string) (stop func()) {
	t.Helper()
	w := newWorker(t, srv)
	for _, p := range prefixes {
		w.Handle(p, h.notice)
	}

	return start(t, w)
}

// awaitUnhandled waits until an instance counts n prefixes with pending notices and no worker.
func awaitUnhandled(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	testkit.Await(t, func() error {
		g, err := e.Gauges(t.Context())
		if err == nil && g.Unhandled != n {
			return fmt.Errorf("%d prefixes are unhandled, want %d", g.Unhandled, n)
		}
		return err
	})
}

// awaitWorkers waits until n workers handle a recorded prefix.
func awaitWorkers(t *testing.T, e *engine.Engine, prefix string, n int) {
	t.Helper()
	testkit.Await(t, func() error {
		list, err := e.Recorded(t.Context())
		if err == nil && !slices.ContainsFunc(list, func(x fleet.Recorded) bool {
			return x.Prefix == prefix && x.Workers == n && time.Since(x.Handled) < time.Minute
		}) {
			return fmt.Errorf("recorded are %+v, want %s with %d workers", list, prefix, n)
		}
		return err
	})
}

// releasePrefix releases a prefix once its workers have left.
func releasePrefix(t *testing.T, e *engine.Engine, prefix string) {
	t.Helper()
	awaitWorkers(t, e, prefix, 0)
	if err := e.Release(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
}

// only fails the test unless h has handled exactly the notices ks, each once.
func (h *handled) only(t *testing.T, ks ...string) {
	t.Helper()
	h.want(t, len(ks))
	got := h.counts()
	for _, k := range ks {
		if got[k] != 1 {
			t.Errorf("%s was handled %d times, want once", k, got[k])
		}

		delete(got, k)
	}

	if len(got) > 0 {
		t.Errorf("also handled: %v", got)
	}
}

// A worker with a handler for a whole application, and a service with routes for the application and a part of it. The
// service was not running when the worker started, so nothing refused the handler.
func TestReleaseGivesAnApplicationBackToItsRoute(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	stop := handling(t, srv, byWorker, "shop")
	e, _ := service(t, srv, byService, "shop", "shop:orders")
	scheduleAt(t, e, 0, "shop:cart:abandoned:1", "shop:orders:pay:1")
	byWorker.only(t, "shop:cart:abandoned:1")
	byService.only(t, "shop:orders:pay:1") // the longer prefix
	awaitWorkers(t, e, "shop", 1)
	if err := e.Release(t.Context(), "shop"); !errors.Is(err, store.ErrHandled) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("%v, want ErrHandled with the remedy while the worker is running", err)
	}

	awaitUnhandled(t, e, 0)
	stop()
	scheduleAt(t, e, 0, "shop:cart:abandoned:2")
	scheduleAt(t, e, time.Hour, "shop:cart:abandoned:3")
	awaitUnhandled(t, e, 1)
	releasePrefix(t, e, "shop")
	byService.only(t, "shop:orders:pay:1", "shop:cart:abandoned:2")
	awaitUnhandled(t, e, 0)
	if c, err := e.Fire(t.Context(), "shop:cart:abandoned:3"); err != nil || !c.Done {
		t.Fatalf("%+v, %v", c, err)
	}

	byService.want(t, 3)
	byWorker.only(t, "shop:cart:abandoned:1")
}

// A service starts with a route whose prefix a running worker has.
func TestRouteOfServiceWithRecordedPrefixDeliversNothing(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, byWorker := newHandled(), newHandled()
	first, _ := service(t, srv, byService, "shop")
	stop := handling(t, srv, byWorker, closing)
	mistaken, _ := service(t, srv, byService, "shop", closing)
	scheduleAt(t, first, 0, "shop:orders:close:1")
	scheduleAt(t, mistaken, 0, "shop:orders:close:2", "shop:orders:pay:1")
	byWorker.only(t, "shop:orders:close:1", "shop:orders:close:2")
	byService.only(t, "shop:orders:pay:1")

	stop()
	scheduleAt(t, mistaken, 0, "shop:orders:close:3", "shop:orders:pay:2")
	byService.only(t, "shop:orders:pay:1", "shop:orders:pay:2")

	// After the release, the route delivers.
	releasePrefix(t, first, closing)
	byService.only(t, "shop:orders:pay:1", "shop:orders:pay:2", "shop:orders:close:3")
	byWorker.only(t, "shop:orders:close:1", "shop:orders:close:2")
}

// A handler gets another prefix. The notices of the old one wait until it is released, and then go to the longest match.
func TestNoticesOfARenamedHandlerGoToTheLongestMatch(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, before, after := newHandled(), newHandled(), newHandled()
	e, _ := service(t, srv, byService, "shop")
	stop := handling(t, srv, before, closing, "shop:refunds:poll")
	scheduleAt(t, e, 0, "shop:orders:close:1")
	before.only(t, "shop:orders:close:1")
	stop()

	handling(t, srv, after, "shop:orders")
	scheduleAt(t, e, 0, "shop:orders:close:2", "shop:refunds:poll:2", "shop:orders:pay:2")
	after.only(t, "shop:orders:pay:2")
	awaitUnhandled(t, e, 2)
	releasePrefix(t, e, closing)
	releasePrefix(t, e, "shop:refunds:poll")
	after.only(t, "shop:orders:pay:2", "shop:orders:close:2") // recorded for this worker
	byService.only(t, "shop:refunds:poll:2")
	awaitUnhandled(t, e, 0)
}

// One of two workers has a handler that is new.
func TestCanaryHandlesItsNewPrefixUntilItIsReleased(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, stable, canary := newHandled(), newHandled(), newHandled()
	e, _ := service(t, srv, byService, "shop")
	handling(t, srv, stable, closing)
	stop := handling(t, srv, canary, closing, paying)
	awaitWorkers(t, e, closing, 2)
	awaitWorkers(t, e, paying, 1)
	scheduleAt(t, e, 0, keysOf(paying, 20)...)
	scheduleAt(t, e, 200*time.Millisecond, keysOf(closing, 50)...)
	testkit.Until(t, "70 notices are handled", func() bool { return len(stable.counts())+len(canary.counts()) >= 70 })

	for k := range stable.counts() {
		if !strings.HasPrefix(k, closing+":") || canary.counts()[k] > 0 {
			t.Errorf("the stable worker handled %s, the canary %d times", k, canary.counts()[k])
		}
	}

	// The canary ends. Its own prefix waits, the common one does not.
	if err := e.Release(t.Context(), paying); !errors.Is(err, store.ErrHandled) {
		t.Errorf("%v, want ErrHandled while the canary is running", err)
	}

	stop()
	awaitWorkers(t, e, closing, 1)
	handledByStable := len(stable.counts())
	scheduleAt(t, e, 0, paying+":late", closing+":late")
	stable.want(t, handledByStable+1)
	awaitUnhandled(t, e, 1)
	if err := e.Release(t.Context(), closing); !errors.Is(err, store.ErrHandled) {
		t.Errorf("%v, want ErrHandled for the prefix of the stable worker", err)
	}

	releasePrefix(t, e, paying)
	byService.only(t, paying+":late")
}

// A version of the worker with a new handler is rolled back, and comes again.
func TestRecordOutlivesARollback(t *testing.T) {
	srv := testkit.SharedRedis(t)
	byService, old, next := newHandled(), newHandled(), newHandled()
	e, stopService := service(t, srv, byService, "shop")
	stopOld := handling(t, srv, old, closing)
	stopOld()
	stopNext := handling(t, srv, next, closing, paying)
	scheduleAt(t, e, 0, "shop:orders:pay:1")
	next.only(t, "shop:orders:pay:1")
	stopNext()
	handling(t, srv, old, closing)
	scheduleAt(t, e, 0, "shop:orders:pay:2", "shop:orders:close:2", "shop:cart:abandoned:2")
	old.only(t, "shop:orders:close:2")
	byService.only(t, "shop:cart:abandoned:2")

	// Also a service that starts now reads the record before it claims anything.
	stopService()
	e, _ = service(t, srv, byService, "shop")
	scheduleAt(t, e, 0, "shop:cart:abandoned:3")
	byService.only(t, "shop:cart:abandoned:2", "shop:cart:abandoned:3")
	awaitUnhandled(t, e, 1)
	handling(t, srv, next, closing, paying)
	next.want(t, 2)
	if next.counts()["shop:orders:pay:2"] != 1 {
		t.Errorf("the new version handled %v", next.counts())
	}
}

// A worker does not start while an instance is alive whose version does not follow records.
func TestRunFailsBesideVersionWithoutRecords(t *testing.T) {
	srv := testkit.SharedRedis(t)
	e, _ := service(t, srv, newHandled(), "shop")
	about, err := json.Marshal(fleet.About{Label: "web-7", Version: "v0.9", Routes: map[string]string{"shop": "x"}})
	if err != nil {
		t.Fatal(err)
	}

	heartbeat := fleet.Heartbeat{ID: "aaaaaaaaaaaa", About: string(about)}
	if _, err := fleet.NewStore(e.Store().Layout).Publish(t.Context(), heartbeat); err != nil {
		t.Fatal(err)
	}

	w := newWorker(t, srv)
	w.Handle(closing, newHandled().notice)
	if err := w.Run(t.Context()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "web-7 has version v0.9") {
		t.Errorf("%v, want ErrConfig with the instance and its version", err)
	}

	if list, err := e.Recorded(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("recorded: %+v, %v after a failed Run", list, err)
	}
}

// logLines is a log that a test reads.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default: // the test has read what it wants
	}

	return len(line), nil
}

// Each worker applies its own retry delays and limits. A difference is logged.
func TestDifferentHandlersOfOnePrefixAreLogged(t *testing.T) {
	srv := testkit.SharedRedis(t)
	log := make(logLines, 1000)
	one, err := New(Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}

	h := newHandled()
	one.Handle(closing, h.notice)
	one.Handle(paying, h.notice)
	start(t, one)
	two := newWorker(t, srv)
	two.Handle(closing, h.notice, Retry(time.Second))
	two.Handle(paying, h.notice)
	start(t, two)
	line := ""
	for !strings.Contains(line, "has other retry delays or limits for the prefix of a handler") {
		line = testkit.Next(t, "the difference is logged", log)
	}
	if !strings.Contains(line, "prefix="+closing) {
		t.Errorf("logged: %s", line)
	}
}
