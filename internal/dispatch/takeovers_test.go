package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// heldBy adds n notices that are claimed with that token.
func (s *fakeStore) heldBy(token string, n int) (list []*entry) {
	from := len(s.entries)
	s.put("a", 0, n)
	for i, e := range s.entries[from:] {
		e.claimed, e.token = true, fmt.Sprintf("%s-%d", token, i)
	}
	return slices.Clone(s.entries[from:])
}

// The claims of a dead instance are reclaimed, as slots become free and once the route is not
// paused, and count as interrupted. Claims of other instances are left alone.
func TestClaimsOfADeadInstanceAreHandled(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"answered", nil}, {"the reply is lost", errUnanswered}, {"redis is down", errDown}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := newFakeStore(), taking(time.Second)
				dead, alive := s.heldBy("dead", 25), s.heldBy("deadly", 3)
				d := begin(options(s, w, 100, testRoute("a", 10)))
				d.SetPaused(func(keys.Partition) bool { return true })
				d.TakeOver("dead", keys.Partition{Prefix: "a"})
				after(time.Minute)
				if w.count() != 0 {
					t.Error("a paused route reclaimed")
				}
				s.do(func() { s.claim = c.err })
				d.SetPaused(none)
				synctest.Wait()
				s.do(func() { s.claim = nil })
				after(time.Minute)
				if w.count() != len(dead) || w.most["a"] > 10 {
					t.Errorf("%d handled, %d at once; want %d, up to 10", w.count(), w.most["a"], len(dead))
				}
				if c.err == nil && !slices.ContainsFunc(s.calls, func(call string) bool { return strings.HasPrefix(call, "over dead+ ") }) {
					t.Errorf("no call continues at the last cursor: %q", s.calls)
				}
				for _, e := range dead {
					if a := e.n.Attempts; len(a) != 2 || a[0].Reason != notice.ReasonInterrupted || a[1].Reason != "" {
						t.Errorf("%s: %+v", e.n.Key, a)
					}
				}
				for _, e := range alive {
					if !strings.HasPrefix(e.token, "deadly-") {
						t.Errorf("%s was reclaimed from a live instance", e.n.Key)
					}
				}
				quiet(t, d)
				drain(t, d)
			})
		})
	}
}

// declaredDead is a Fleet whose id has changed.
type declaredDead struct {
	id      string
	refused atomic.Int64
}

func (f *declaredDead) ClaimID() string { return f.id }
func (f *declaredDead) MayStart(string) bool {
	return f.refused.Add(-1) < 0
}
func (f *declaredDead) Lost(string) bool { return f.refused.Load() > 0 }

// No handler starts for a claim that other instances may have reclaimed. It is released without
// using an attempt, and handled under the next claim.
func TestNoHandlerStartsAfterThisInstanceWasDeclaredDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 4)
		f := &declaredDead{id: "me"}
		f.refused.Store(4)
		o := options(s, w, 10, testRoute("a", 8))
		o.Fleet = f
		d := begin(o)
		time.Sleep(settleInterval)
		synctest.Wait()
		if w.count() != 0 || s.endings()[store.EndPostponed] != 4 {
			t.Errorf("%d handlers started, %v; want 4 deferred", w.count(), s.endings())
		}
		for _, token := range s.tokens {
			if !strings.HasPrefix(token, "me-") {
				t.Errorf("a claim under the token %s", token)
			}
		}
		after(time.Second)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Minute)
		if w.count() != 4 || s.endings()[store.EndDelivered] != 4 {
			t.Errorf("%d handled, %v", w.count(), s.endings())
		}
		for _, e := range s.entries {
			if e.n.AttemptsMade != 1 {
				t.Errorf("%s: %d attempts made", e.n.Key, e.n.AttemptsMade)
			}
		}
		quiet(t, d)
		drain(t, d)
	})
}
