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
	"notifier/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ear notes all that a Listener tells.
type ear struct {
	mu       sync.Mutex
	counts   map[string]int
	hints    []string
	wakes    []string
	paused   int
	begun    int
	events   []bool
	keyspace []string
	full     bool // hints are not taken
}

func (e *ear) do(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *ear) Event(result string) { e.do(func() { e.counts[result]++ }) }
func (e *ear) Subscription()       { e.do(func() { e.counts["subscriptions"]++ }) }

// until waits until what f looks at under the lock is so.
func (e *ear) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for {
		e.mu.Lock()
		ok := f()
		e.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(limit) {
			e.do(func() {
				t.Fatalf("waited in vain for %s: counts %v, hints %v, wakes %v, paused %d, begun %d, events %v",
					what, e.counts, e.hints, e.wakes, e.paused, e.begun, e.events)
			})
		}
		time.Sleep(2 * time.Millisecond) // sleep: polls until the limit
	}
}

func routes(t testing.TB, adopt bool) *route.Table {
	t.Helper()
	rs, err := route.NewTable([]*route.Route{{Name: "app1", Prefix: "app1"}, {Name: "old", Prefix: "old", Adopt: adopt}})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func newListener(t testing.TB, c *redis.Client, namespace string, change func(*Options)) (*Listener, *ear, *observer.ObservedLogs) {
	t.Helper()
	e := &ear{counts: map[string]int{}}
	core, logs := observer.New(zapcore.DebugLevel)
	o := Options{Client: c, Space: keys.Space{Namespace: namespace, Shards: 2}, Routes: routes(t, false), Configure: true,
		Hint: func(r *route.Route, key string) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.full {
				return false
			}
			e.hints = append(e.hints, r.Name+" "+key)
			return true
		},
		Wake: func(shard int, prefix string, due time.Time) {
			e.do(func() { e.wakes = append(e.wakes, fmt.Sprintf("%d %s %d", shard, prefix, due.UnixMilli())) })
		},
		Paused: func() { e.do(func() { e.paused++ }) },
		Begun:  func() { e.do(func() { e.begun++ }) },
		Events: func(ok bool) { e.do(func() { e.events = append(e.events, ok) }) },
		Keyspace: func(r *route.Route, key, event string) {
			e.do(func() { e.keyspace = append(e.keyspace, r.Name+" "+key+" "+event) })
		},
		Observer: e, Logger: zap.New(core), Beat: 20 * time.Millisecond, Check: 50 * time.Millisecond, Silence: 20 * time.Second}
	if c != nil {
		o.DB = c.Options().DB
	}
	if change != nil {
		change(&o)
	}
	return New(o), e, logs
}

// run runs l until the test's end, and fails if it does not end then.
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
