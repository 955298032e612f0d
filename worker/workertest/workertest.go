package workertest

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"notifier/internal/embedded"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/wire"
	"notifier/worker"
	"notifier/worker/internal/seam"
)

// Worker is a worker in a bubble. Its first Advance runs it.
type Worker struct {
	*worker.Worker
	t      *testing.T
	em     *embedded.Emulation
	redis  *redis.Client
	leapt  atomic.Int64
	ctx    context.Context // of Worker.Run
	done   chan error      // nil before the first Advance
	active *activity
}

// space names the keys of the worker.
var space = keys.Space{Namespace: "notifier", Shards: 1}

// start is the time by the clock of Redis at the beginning. That of a bubble begins in 2000, which scripts take for a wrong
// clock.
var start = time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)

// Run calls f in a bubble of testing/synctest, with a worker that has no handlers yet. When f returns, it ends the worker.
func Run(t *testing.T, f func(t *testing.T, w *Worker)) {
	t.Helper()
	name := t.Name()
	a := &activity{stop: make(chan struct{}), most: stuckAfter, fail: func(text string) { panic("workertest: " + name + ": " + text) }}
	go a.watch()
	defer close(a.stop)
	synctest.Test(t, func(t *testing.T) {
		em, err := embedded.NewEmulation()
		if err != nil {
			t.Fatal(err)
		}

		defer em.Close()
		own := client(em)
		defer func() { _ = own.Close() }()
		o := worker.Options{ShutdownTimeout: time.Minute}
		w := &Worker{t: t, em: em, redis: own, active: a}
		w.leap(time.Until(start))
		seam.Set(&o, seam.Seam{Conn: &wire.Conn{Commander: client(em)}, Now: w.Now,
			Change: func(o *engine.Options) { o.Alarm = pace.Portable }})
		if w.Worker, err = worker.New(o); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(context.Background())
		w.ctx = ctx
		defer func() {
			cancel()
			if w.done == nil {
				_ = w.Close(context.Background())
			} else if err := <-w.done; err != nil {
				t.Errorf("run the worker: %v", err)
			}
		}()
		f(t, w)
	})
}

// client returns a client of the emulated Redis, set up as package wire does it, without limits for which it would wait.
func client(em *embedded.Emulation) *redis.Client {
	return redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		c, _, err := em.Pipe(func() {}, func() {})
		return c, err
	}, MaxRetries: -1, DialTimeout: 2 * time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
		ContextTimeoutEnabled: true, PoolSize: 10_000, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
}

// Now returns the time by the clock of Redis. It begins at midnight of 2031-01-01, UTC.
func (w *Worker) Now() time.Time { return time.Now().Add(time.Duration(w.leapt.Load())) }

// leap moves the clock of Redis.
func (w *Worker) leap(d time.Duration) {
	w.leapt.Add(int64(d))
	w.em.Leap(d)
}

const (
	minStep = time.Millisecond
	maxStep = time.Second
)

// Advance moves the clock of Redis forward by d. Each notice that is due on the way is handled at its time. Handlers that
// still sleep at the end go on in the next Advance. The first call runs the worker. It must be called from the goroutine
// of the test.
func (w *Worker) Advance(d time.Duration) {
	w.t.Helper()
	w.active.begin()
	defer w.active.end()
	w.begin()
	for step, target := minStep, w.Now().Add(d); ; {
		synctest.Wait()
		w.active.moved()
		now := w.Now()
		next, some := w.next()
		busy, running := w.inFlight(), w.Stats().Running
		due := some && !next.After(now)
		switch left := target.Sub(now); {
		case left <= 0 && !due && busy == running:
			return
		case due || busy > 0: // a claim or settle is about to be sent, or a handler sleeps
			time.Sleep(step)
			step = min(2*step, maxStep)
			if left > 0 {
				step = max(min(step, left), minStep)
			}
		default:
			if some {
				left = min(left, next.Sub(now))
			}

			w.leap(left)
			time.Sleep(minStep) // Redis sends the event in the next millisecond
			step = minStep
		}
	}
}

// begin runs the worker.
func (w *Worker) begin() {
	w.t.Helper()
	if w.done != nil {
		return
	}

	w.done = make(chan error, 1)
	go func() { w.done <- w.Run(w.ctx) }()
	synctest.Wait() // its engine exists, or it has failed
	select {
	case err := <-w.done:
		w.done <- nil
		w.t.Fatalf("run the worker: %v", err)
	case <-seam.Engine(w.Worker).Subscribed():
	}
}

// next returns when the next notice is due or expires or, if it is claimed, when its lease ends.
func (w *Worker) next() (at time.Time, some bool) {
	w.t.Helper()
	all := keys.Partition{Prefix: "*"}
	names, err := w.redis.Keys(w.ctx, space.Shadow(all)).Result()
	if err != nil {
		w.t.Fatal(err)
	}

	expiring, err := w.redis.Keys(w.ctx, space.Expiring(all)).Result()
	if err != nil {
		w.t.Fatal(err)
	}

	for _, name := range append(names, expiring...) {
		list, err := w.redis.ZRangeWithScores(w.ctx, name, 0, 0).Result()
		if err != nil {
			w.t.Fatal(err)
		}

		for _, z := range list {
			if due := time.UnixMilli(int64(z.Score)); !some || due.Before(at) {
				at, some = due, true
			}
		}
	}

	return at, some
}

// inFlight returns the number of claimed notices whose results are not stored.
func (w *Worker) inFlight() (n int) {
	for _, r := range seam.Engine(w.Worker).Stats() {
		n += r.InFlight
	}
	return n
}
