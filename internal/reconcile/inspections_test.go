package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/store"
)

// many is a Redis whose partitions are empty.
type many struct {
	mu     sync.Mutex
	calls  []int // how many partitions each looked at
	hang   chan struct{}
	err    error
	broken string // the prefix of a partition that cannot be read
}

var errBroken = errors.New("cannot be read")

func (m *many) Look(ctx context.Context, list []store.Look) ([]store.View, error) {
	m.mu.Lock()
	m.calls = append(m.calls, len(list))
	hang, err := m.hang, m.err
	m.mu.Unlock()
	if hang != nil && len(list) > 1 {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	time.Sleep(time.Millisecond)
	views := make([]store.View, len(list))
	for i, l := range list {
		views[i].Now = time.Now()
		if l.Partition.Prefix == m.broken {
			views[i].Err = errBroken
		}
	}
	return views, err
}

func (*many) Touch(context.Context, []string) (store.Touched, error) { return store.Touched{}, nil }
func (*many) TouchGroups(context.Context, string, []store.TouchGroup) (int, error) {
	return 0, nil
}

// sharing runs Sweepers of that many routes in each shard with shared inspections, in virtual time.
func sharing(t *testing.T, m *many, routes, shards int, cluster bool, f func(all []*Sweeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		looks, begun := NewInspections(m, m, cluster), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var all []*Sweeper
		for i := range routes * shards {
			w := NewSweeper(SweeperOptions{Store: looks, Dispatch: &fake{}, Begun: begun, Grace: testGrace, Events: flowing{}, Alarm: pace.Portable,
				Partition: keys.Partition{Prefix: fmt.Sprint("app", i/shards), Shard: i % shards}, Logger: zap.NewNop()})
			all = append(all, w)
			wg.Go(func() { _ = w.Run(ctx) })
		}
		time.Sleep(time.Second)
		f(all)
		cancel()
		wg.Wait()
	})
}

func (m *many) during(d time.Duration) (calls []int) {
	m.mu.Lock()
	m.calls = nil
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Inspections of idle routes share calls: of all shards outside a cluster, of one shard in a
// cluster.
func TestIdleInspectionsShareCalls(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		m := &many{}
		sharing(t, m, 60, 2, cluster, func(all []*Sweeper) {
			looked, calls := 0, m.during(100*time.Second)
			for _, n := range calls {
				looked += n
				if n > store.MaxLooks {
					t.Errorf("a call for %d", n)
				}
			}
			if looked != 10*len(all) {
				t.Errorf("cluster %t: %d looks of 120 partitions in 100 s, want 10 of each", cluster, looked)
			}
			if len(calls) > 10*4 {
				t.Errorf("cluster %t: %d calls, want 4 every ten seconds at most: %v", cluster, len(calls), calls)
			}
		})
	}
}

// A wake causes a separate inspection at once, whatever the others wait for.
func TestWakeWaitsForNoSharedCall(t *testing.T) {
	m := &many{}
	sharing(t, m, 60, 1, false, func(all []*Sweeper) {
		hang := make(chan struct{})
		m.mu.Lock()
		m.hang = hang
		m.mu.Unlock()
		for _, w := range all[1:] {
			w.Now()
		}
		time.Sleep(100 * time.Millisecond) // sleep: virtual
		if calls := m.during(0); len(calls) != 0 {
			t.Errorf("%v calls while one hangs", calls)
		}
		all[0].Wake(time.Now())
		if calls := m.during(2 * time.Millisecond); len(calls) != 1 || calls[0] != 1 {
			t.Errorf("a wake made the calls %v, want one for itself", calls)
		}
		close(hang)
	})
}

// An error of a call is retried by all its partitions with growing waits. An error of one partition
// is retried by that one alone.
func TestErrorsOfSharedCallsAreRetried(t *testing.T) {
	m := &many{broken: "app7"}
	sharing(t, m, 60, 1, false, func([]*Sweeper) {
		calls := m.during(10 * time.Second)
		alone := 0
		for _, n := range calls {
			if n == 1 {
				alone++
			}
		}
		if alone < 20 || len(calls) > 60 {
			t.Errorf("calls %v, want about four a second for the partition that cannot be read", calls)
		}
		m.mu.Lock()
		m.err = errBroken
		m.mu.Unlock()
		time.Sleep(20 * time.Second) // sleep: virtual, until all have failed
		if calls := m.during(10 * time.Second); len(calls) < 20 || len(calls) > 160 {
			t.Errorf("%d calls in 10 s while all fail: %v", len(calls), calls)
		}
	})
}
