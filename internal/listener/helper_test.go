package listener

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder records all calls of a Listener.
type recorder struct {
	mu       sync.Mutex
	counts   map[notice.EventResult]int
	hints    []string
	wakes    []string
	paused   int
	begun    int
	events   []bool
	keyspace []string
	adopting []bool
	full     bool // Expired returns false
}

func (e *recorder) do(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *recorder) Event(result notice.EventResult) { e.do(func() { e.counts[result]++ }) }
func (e *recorder) Subscription()                   { e.do(func() { e.counts["subscriptions"]++ }) }

// Expired implements Hints.
func (e *recorder) Expired(r *route.Route, key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.full {
		return false
	}
	e.hints = append(e.hints, r.Name+" "+key)
	return true
}

func (e *recorder) Keyspace(r *route.Route, key, event string) {
	e.do(func() { e.keyspace = append(e.keyspace, r.Name+" "+key+" "+event) })
}

// Wake implements Wakes.
func (e *recorder) Wake(p keys.Partition, due time.Time) {
	e.do(func() { e.wakes = append(e.wakes, fmt.Sprintf("%d %s %d", p.Shard, p.Prefix, due.UnixMilli())) })
}

// Ticks implements Wakes.
func (e *recorder) Ticks(p keys.Partition, at time.Time) {
	e.do(func() { e.wakes = append(e.wakes, fmt.Sprintf("%d %s ticks %d", p.Shard, p.Prefix, at.UnixMilli())) })
}

// Expires implements Wakes.
func (e *recorder) Expires(p keys.Partition, at time.Time) {
	e.do(func() { e.wakes = append(e.wakes, fmt.Sprintf("%d %s expires %d", p.Shard, p.Prefix, at.UnixMilli())) })
}

func (e *recorder) Paused() { e.do(func() { e.paused++ }) }
func (e *recorder) Places() {}

// Subscribed implements State.
func (e *recorder) Subscribed()      { e.do(func() { e.begun++ }) }
func (e *recorder) Events(ok bool)   { e.do(func() { e.events = append(e.events, ok) }) }
func (e *recorder) Adopting(ok bool) { e.do(func() { e.adopting = append(e.adopting, ok) }) }

// until waits until f, called under the lock, returns true.
func (e *recorder) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	testkit.Await(t, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !f() {
			return fmt.Errorf("%s: counts %v, hints %v, wakes %v, paused %d, begun %d, events %v",
				what, e.counts, e.hints, e.wakes, e.paused, e.begun, e.events)
		}
		return nil
	})
}

func routes(t testing.TB, adopt bool) *route.Table {
	t.Helper()
	rs, err := route.NewTable([]*route.Route{{Name: "app1", Prefix: "app1"}, {Name: "old", Prefix: "old", Adopt: adopt}})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func newListener(t testing.TB, c *redis.Client, namespace string, change func(*Options)) (*Listener, *recorder, *observer.ObservedLogs) {
	t.Helper()
	e := &recorder{counts: map[notice.EventResult]int{}}
	core, logs := observer.New(zapcore.DebugLevel)
	o := Options{Client: c, Space: keys.Space{Namespace: namespace, Shards: 2}, Routes: routes(t, false), Configure: true,
		Hints: e, Wakes: e, State: e,
		Observer: e, Logger: zap.New(core), Beat: 20 * time.Millisecond, Check: 50 * time.Millisecond, Flags: 50 * time.Millisecond,
		Silence: 20 * time.Second}
	if c != nil {
		o.DB = c.Options().DB
	}
	if change != nil {
		change(&o)
	}
	return New(o), e, logs
}

// run runs l until the end of the test, and fails the test if l does not stop then.
func run(t *testing.T, l *Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("Run did not end")
		}
		if n := l.Alive(); n != 0 {
			t.Errorf("%d subscriptions are counted as alive after the end", n)
		}
	})
}
