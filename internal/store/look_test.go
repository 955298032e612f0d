package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// While a due notice waits for its claim, the next notice must be returned too. Otherwise it is
// found one grace after the first.
func TestLookSeesBeyondWhatIsDue(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	past := time.Now().Add(30 * time.Second)
	s.put(t, Request{Key: "app1:a:b:next", Due: past.Add(time.Hour)})
	s.put(t, Request{Key: "app1:a:b:later", Due: past.Add(2 * time.Hour)})
	for _, k := range []string{"app1:a:b:now", "app1:a:b:claimed"} {
		s.put(t, Request{Key: k})
	}
	s.take(t, "app1:a:b:claimed", "t-1")
	look := func(n int) string {
		t.Helper()
		v, err := s.Look(t.Context(), []Look{{partition, time.Hour, 5 * time.Millisecond, n, false, false}})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, x := range v[0].Near {
			b.WriteString(x.Key[9:] + " ")
		}
		return b.String()
	}
	// The end of a lease is to come like any other.
	if got := look(10); got != "now claimed " {
		t.Errorf("saw %q", got)
	}
	if got := look(1); got != "now claimed " {
		t.Errorf("with room for one: saw %q", got)
	}
}

// A notice that is due before the next to come wakes the reconcilers, whatever
// else is overdue.
func TestAnOverdueHeadDoesNotKeepTheWake(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:overdue"})
	s.put(t, Request{Key: "app1:a:b:far", Delay: time.Hour})
	ps := srv.Client().Subscribe(t.Context(), s.space.Wake())
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: "app1:a:b:farther", Delay: 2 * time.Hour})
	near := s.put(t, Request{Key: "app1:a:b:near", Delay: time.Minute})
	m, err := ps.ReceiveTimeout(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatalf("no wake: %v", err)
	}
	if want := near.Due.UnixMilli(); !strings.Contains(m.(interface{ String() string }).String(), strconv.FormatInt(want, 10)) {
		t.Errorf("%v, want one for %d", m, want)
	}
}

// Notices of one due time wake the sweepers once. A wake of another notice follows, so that none is waited for in vain.
func TestEqualDueTimesSendOneWake(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ps := srv.Client().Subscribe(t.Context(), s.space.Wake())
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}

	due := time.Now().Add(time.Hour)
	for i := range 5 {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:%d", i), Due: due})
	}
	earlier := s.put(t, Request{Key: "app1:a:b:earlier", Delay: time.Minute})
	for _, want := range []time.Time{due, earlier.Due} {
		m, err := ps.ReceiveTimeout(t.Context(), 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(m), strconv.FormatInt(want.UnixMilli(), 10)) {
			t.Errorf("%v, want one for %d", m, want.UnixMilli())
		}
	}
}

// A look may have been made that saw the next to come and all within reach.
func TestWhatComesWithinALooksReachSendsAWake(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx := t.Context()
	s.put(t, Request{Key: "app1:a:b:moved", Delay: time.Hour})
	s.put(t, Request{Key: "app1:a:b:tried"})
	claim := s.take(t, "app1:a:b:tried", "t1")
	var list []redis.Z // something is due each ms, so that nothing of what follows is the next to come
	for from, i := time.Now().UnixMilli(), int64(0); i < 60_000; i++ {
		list = append(list, redis.Z{Score: float64(from + i), Member: fmt.Sprintf("app1:a:b:%d", i)})
	}
	if err := srv.Client().ZAdd(ctx, s.space.Shadow(partition), list...).Err(); err != nil {
		t.Fatal(err)
	}
	ps := srv.Client().Subscribe(ctx, s.space.Wake())
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	const near = LookAhead - time.Millisecond
	for name, f := range map[string]func() error{
		"schedule": func() error {
			_, err := s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:new", Delay: near}})
			return err
		},
		"reschedule": func() error {
			_, err := s.Amend(ctx, prefix, "app1:a:b:moved", Reschedule, When{Delay: near})
			return err
		},
		"settle": func() error {
			_, err := s.Settle(ctx, partition, []Settlement{{Claim: claim, Ending: EndRetry, After: near}})
			return err
		},
	} {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := ps.ReceiveTimeout(ctx, 30*time.Second); err != nil {
			t.Errorf("%s: no wake: %v", name, err)
		}
	}
}

// shadow writes notices into a shadow zset, due from an instant on, one a second.
func (s *Store) shadow(t *testing.T, prefix string, n int, from time.Time) {
	t.Helper()
	var list []redis.Z
	for i := range n {
		due := from.Add(time.Duration(i) * time.Second).UnixMilli()
		list = append(list, redis.Z{Score: float64(due), Member: fmt.Sprintf("%s:a:b:%03d", prefix, i)})
	}
	if err := s.c.ZAdd(t.Context(), s.space.Shadow(keys.Partition{Prefix: prefix}), list...).Err(); err != nil {
		t.Fatal(err)
	}
}

// One call looks at several partitions, each with its own bounds, and one that cannot
// be read is no reason for the others to wait.
func TestLookAtSeveralPartitions(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	soon := time.Now().Add(time.Hour)
	s.shadow(t, "app1", 40, soon)
	s.shadow(t, "app2", 40, soon)
	s.shadow(t, "app5", 1, time.Now().Add(-time.Minute))
	at := func(prefix string) keys.Partition { return keys.Partition{Prefix: prefix} }
	if err := srv.Client().Set(t.Context(), s.space.Shadow(at("app3")), "not a zset", 0).Err(); err != nil {
		t.Fatal(err)
	}
	v, err := s.Look(t.Context(), []Look{{at("app1"), 0, 2 * time.Hour, 10, false, false}, {at("app3"), 0, 0, 10, false, false},
		{at("app2"), 0, 2 * time.Hour, 100, false, false},
		{at("app4"), 0, 0, 10, false, false}, {at("app5"), 0, 0, 10, false, false}, {at("app5"), time.Hour, 0, 10, false, false},
		{at("app1"), 0, 0, 10, false, false}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		near    int
		cut     bool
		overdue int64
	}{{10, true, 0}, {}, {40, false, 0}, {}, {0, false, 1}, {1, false, 0}, {1, false, 0}} {
		if g := v[i]; len(g.Near) != want.near || g.Cut != want.cut || g.Overdue != want.overdue || (g.Err != nil) != (i == 1) {
			t.Errorf("look %d: %d near, cut %t, %d overdue, %v; want %+v", i, len(g.Near), g.Cut, g.Overdue, g.Err, want)
		}
	}
	if !errors.As(v[1].Err, new(redis.Error)) {
		t.Errorf("a key of another type: %v", v[1].Err)
	}
	if v[6].Near[0].Key != "app1:a:b:000" || v[6].Near[0].At.UnixMilli() != soon.UnixMilli() {
		t.Errorf("the next of app1: %+v", v[6].Near[0])
	}
}

// Behind more due notices than it may list, a look lists those that are due next.
func TestLookBeyondABacklog(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	now := time.Now()
	s.shadow(t, "app1", 60, now.Add(-30*time.Minute))
	s.shadow(t, "app2", 60, now.Add(-30*time.Minute))
	for prefix, at := range map[string]time.Time{"app1": now.Add(time.Minute), "app2": now.Add(time.Hour)} {
		var list []redis.Z
		for i := range 100 {
			list = append(list, redis.Z{Score: float64(at.UnixMilli()), Member: fmt.Sprintf("%s:a:b:later%02d", prefix, i)})
		}
		if err := s.c.ZAdd(t.Context(), s.space.Shadow(keys.Partition{Prefix: prefix}), list...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Look(t.Context(), []Look{{keys.Partition{Prefix: "app1"}, time.Hour, 10 * time.Minute, 10, false, false},
		{keys.Partition{Prefix: "app2"}, time.Hour, 10 * time.Minute, 10, false, false}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{64, 1} {
		if g := v[i]; len(g.Near) != 10+want || !g.Cut || !g.Gap || g.Near[10].Key != fmt.Sprintf("app%d:a:b:later00", i+1) {
			t.Errorf("%d of 10 and %d, cut %t, gap %t", len(g.Near), want, g.Cut, g.Gap)
		}
	}
}

// Together they show no more than a bound, and each a few nevertheless.
func TestLooksAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var list []Look
	for _, prefix := range []string{"app1", "app2", "app3"} {
		s.shadow(t, prefix, 600, time.Now().Add(time.Minute))
		list = append(list, Look{keys.Partition{Prefix: prefix}, 0, 2 * time.Hour, 512, false, false})
	}
	v, err := s.Look(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	if len(v[0].Near) != 512 || len(v[1].Near) != 512 || len(v[2].Near) != 16 || !v[2].Cut {
		t.Errorf("%d, %d, %d", len(v[0].Near), len(v[1].Near), len(v[2].Near))
	}
}
