package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
)

// fakeStore is the Redis of a Janitor: the keys under each prefix.
type fakeStore struct {
	mu      sync.Mutex
	down    error
	paused  []string
	unread  int  // of so many shards, the first ones, it cannot be read
	stale   bool // a copy is
	asked   int  // for what is paused
	known   []string
	kept    map[string][]string // by prefix
	claimed map[string]bool
	over    map[string]bool // settled
	settled int             // to be trimmed
	trims   []int
	scans   int
	serving map[string][]string // by instance
	twice   map[string]bool     // keys whose other notice differs
}

func (s *fakeStore) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fakeStore) Trim(_ context.Context, _ int, _ []store.Trim, n int) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := min(n, s.settled)
	s.settled -= gone
	s.trims = append(s.trims, gone)
	return gone, gone == n, s.down
}

func (s *fakeStore) Prefixes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known)
}

func (s *fakeStore) Holds(_ context.Context, shard int, prefixes []string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shard == 0 && slices.ContainsFunc(prefixes, func(p string) bool { return len(s.kept[p]) > 0 }), s.down
}

func (s *fakeStore) Serve(_ context.Context, instance string, prefixes []string, _ time.Duration) (map[string][]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving == nil {
		s.serving = map[string][]string{}
	}
	s.serving[instance] = prefixes
	return maps.Clone(s.serving), s.down
}

func (s *fakeStore) Unserve(_ context.Context, instance string, _ []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.serving, instance)
	return s.down
}

func (s *fakeStore) Unsettled(_ context.Context, p keys.Partition) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept[p.Prefix] {
		if p.Shard == 0 && k != "" && !s.over[k] {
			n++
		}
	}
	return n, s.down
}

// ScanKeys returns two keys a call, so that cursors matter.
func (s *fakeStore) ScanKeys(_ context.Context, p keys.Partition, cursor uint64, _ int64) ([]string, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans++
	if all := s.kept[p.Prefix]; p.Shard != 0 || s.down != nil || int(cursor) >= len(all) {
		return nil, 0, s.down
	} else if end := cursor + 2; int(end) < len(all) {
		return slices.Clone(all[cursor:end]), end, nil
	}
	return slices.Clone(s.kept[p.Prefix][cursor:]), 0, nil
}

func (s *fakeStore) Defined(context.Context, keys.Partition, uint64) ([]string, uint64, error) {
	return nil, 0, nil
}
func (s *fakeStore) Redefine(context.Context, keys.Partition, string, []string) error { return nil }

// Rehome leaves gaps in place of moved keys, so that the scan continues as HSCAN does.
func (s *fakeStore) Rehome(_ context.Context, from keys.Partition, to string, ks []string) (moved int, stuck []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range ks {
		if s.twice[k] {
			stuck = append(stuck, k)
			continue
		}
		if i := slices.Index(s.kept[from.Prefix], k); i >= 0 && !s.claimed[k] {
			s.kept[from.Prefix][i] = ""
			s.kept[to] = append(s.kept[to], k)
			moved++
		}
	}
	return moved, stuck, s.down
}

func (s *fakeStore) Pauses(context.Context) (store.Pauses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.down != nil {
		return store.Pauses{}, s.down
	}
	p := store.Pauses{Shards: make([][]string, 2), Stale: s.stale}
	for shard := range p.Shards {
		if shard >= s.unread {
			p.Shards[shard] = append([]string{}, s.paused...)
		}
	}
	return p, nil
}

func (s *fakeStore) AddOrdered(context.Context, []string) error    { return nil }
func (s *fakeStore) ForgetOrdered(context.Context, []string) error { return nil }

func (s *fakeStore) CopyPaused(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = false
	return s.down
}

// sweepUp removes the gaps.
func (s *fakeStore) sweepUp() {
	for p, ks := range s.kept {
		s.kept[p] = slices.DeleteFunc(ks, func(k string) bool { return k == "" })
	}
}

func newFakeStore() *fakeStore {
	return &fakeStore{kept: map[string][]string{}, claimed: map[string]bool{}, over: map[string]bool{}}
}

func table(t *testing.T, prefixes ...string) *route.Table {
	t.Helper()
	var all []*route.Route
	for _, p := range prefixes {
		all = append(all, &route.Route{Name: p, Prefix: p})
	}
	rs, err := route.NewTable(all)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// two shards.
var two = keys.Space{Shards: 2}

// work is the rest of the process.
type work struct {
	paused func(keys.Partition) bool // the function that was set last
	set    func()                    // called by SetPaused; may be nil
	moved  []string
}

func (w *work) SetPaused(paused func(keys.Partition) bool) {
	if w.paused = paused; w.set != nil {
		w.set()
	}
}

func (w *work) Moved(p keys.Partition) {
	w.moved = append(w.moved, fmt.Sprintf("%s/%d", p.Prefix, p.Shard))
}

func keep(s *fakeStore, rs *route.Table) (*Janitor, *observer.ObservedLogs, *[]string) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := &work{}
	o := JanitorOptions{Store: s, Layout: s, Registry: s, Routes: rs, Shards: two, Work: w, Logger: zap.New(core)}
	return NewJanitor(o), logs, &w.moved
}

func TestTidyTrimsAllExpiredNotices(t *testing.T) {
	s := newFakeStore()
	s.settled = 3*batch + 7
	k, _, _ := keep(s, table(t, "a"))
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []int{batch, batch, batch, 7, 0}; !slices.Equal(s.trims, want) {
		t.Errorf("trimmed %v, want %v", s.trims, want)
	}
	s.down = errDown
	if err := k.Tidy(t.Context()); err == nil {
		t.Error("no error")
	}
}

// A removed route with one delivered notice was logged as an error, raised an alert, and kept that
// notice forever.
func TestSettledNoticeIsNoOrphan(t *testing.T) {
	s := newFakeStore()
	s.known = []string{"z"}
	s.kept["z"] = []string{"z:m:t:1", "z:m:t:2"}
	s.over["z:m:t:1"], s.over["z:m:t:2"] = true, true
	k, logs, _ := keep(s, table(t, "a"))
	tidy := func(trims int) {
		t.Helper()
		s.trims = nil
		if err := k.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.trims) != trims {
			t.Errorf("%d trims, want %d", len(s.trims), trims)
		}
	}
	tidy(3) // the route in two shards, and the rest
	if k.Orphans() != 0 || logs.FilterMessageSnippet("prefix without a route").Len() != 0 {
		t.Errorf("%d orphans, %v", k.Orphans(), logs.All())
	}
	s.kept["z"] = append(s.kept["z"], "z:m:t:3")
	tidy(3)
	if k.Orphans() != 1 || logs.FilterMessageSnippet("prefix without a route").Len() != 1 {
		t.Errorf("%d orphans, %v", k.Orphans(), logs.All())
	}
}

func TestJanitorMovesNoticesOfRemovedPrefixes(t *testing.T) {
	s := newFakeStore()
	s.known = []string{"a", "a:old", "z"}
	s.kept["a:old"] = []string{"a:old:t:1", "a:old:t:2", "a:old:t:3"}
	s.kept["z"] = []string{"z:m:t:1", "z:m:t:2"}
	s.claimed["a:old:t:2"] = true
	k, logs, moved := keep(s, table(t, "a", "b"))
	for range 3 {
		if err := k.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.sweepUp()
	}
	if got := s.kept["a"]; !slices.Equal(got, []string{"a:old:t:1", "a:old:t:3"}) {
		t.Errorf("moved %v", got)
	}
	// Claimed notices wait for their settle, and notices without a route for one that covers them.
	if n := k.Orphans(); n != 3 || !slices.Contains(s.known, "a:old") || !slices.Contains(s.known, "z") {
		t.Errorf("%d orphans under %v, want 3 and both prefixes kept", n, s.known)
	}
	if n := logs.FilterMessageSnippet("prefix without a route").Len(); n != 2 {
		t.Errorf("orphans were logged %d times, want once a prefix", n)
	}
	if !slices.Contains(*moved, "a/0") {
		t.Errorf("no instance got the move: %v", *moved)
	}
	s.claimed = map[string]bool{}
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.sweepUp()
	if len(s.kept["a:old"]) != 0 || k.Orphans() != 2 {
		t.Errorf("%v, %d orphans", s.kept, k.Orphans())
	}
	// An instance of an old configuration writes there again.
	s.kept["a:old"] = []string{"a:old:t:9"}
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.kept["a"]; !slices.Contains(got, "a:old:t:9") {
		t.Errorf("a removed prefix is forgotten while an instance writes there: %v", s.kept)
	}
}

// Instances of two configurations run next to each other. Neither takes the notices that the other
// serves. Notices that the older one schedules are moved as long as it is alive, and once
// afterwards.
func TestJanitorLeavesNoticesOfOtherConfiguration(t *testing.T) {
	s := newFakeStore()
	s.known = []string{"a", "a:pay"}
	before, _, _ := keep(s, table(t, "a"))
	after, _, _ := keep(s, table(t, "a", "a:pay"))
	round := func(ks ...*Janitor) {
		t.Helper()
		for _, k := range ks {
			if _, err := k.Announce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range ks {
			k.mover.nextSeparate = time.Time{}
			if err := k.Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.sweepUp()
		}
	}
	lies := func(prefix string, want ...string) {
		t.Helper()
		if got := s.kept[prefix]; !slices.Equal(got, want) {
			t.Errorf("under %s lie %v, want %v", prefix, got, want)
		}
	}
	s.kept["a"] = []string{"a:pay:t:1"}
	round(after, before)
	lies("a:pay", "a:pay:t:1")
	for i := range 3 {
		s.kept["a"] = append(s.kept["a"], fmt.Sprintf("a:pay:t:again%d", i))
		round(before, after)
		lies("a")
	}
	lies("a:pay", "a:pay:t:1", "a:pay:t:again0", "a:pay:t:again1", "a:pay:t:again2")
	if before.Orphans() != 0 {
		t.Errorf("%d orphans", before.Orphans())
	}
	// The older instance's last notice is found although it has ended by then.
	s.kept["a"] = append(s.kept["a"], "a:pay:t:last")
	if err := before.serving.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	round(after)
	lies("a")
	scans := s.scans
	round(after)
	if s.scans != scans {
		t.Errorf("%d more scans, want none when all have one configuration", s.scans-scans)
	}
	// The newer instance ends instead: its notices move back.
	round(before)
	if err := after.serving.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	round(before)
	lies("a:pay")
	if n := len(s.kept["a"]); n != 5 {
		t.Errorf("%d returned, want 5", n)
	}
}

func TestUnservedNoticeIsMovedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.known = []string{"a", "a:old", "a:pay"}
		k, _, _ := keep(s, table(t, "a"))
		s.serving = map[string][]string{"other": {"a", "a:pay"}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(tidyEvery + time.Second) // virtual
		s.do(func() { s.kept["a:old"], s.kept["a:pay"] = []string{"a:old:t:1"}, []string{"a:pay:t:1"} })
		k.Unserved("a:pay")
		k.Unserved("a:old")
		time.Sleep(2 * unservedEvery)
		synctest.Wait()
		s.do(func() {
			if !slices.Equal(s.kept["a"], []string{"a:old:t:1"}) || !slices.Equal(s.kept["a:pay"], []string{"a:pay:t:1"}) {
				t.Errorf("%v", s.kept)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(s.serving) != 1 {
			t.Errorf("it still says that it serves: %v", s.serving)
		}
	})
}

func TestDifferentNoticesOfOneKeyAreKept(t *testing.T) {
	s := newFakeStore()
	s.known = []string{"a", "a:old"}
	s.kept["a:old"] = []string{"a:old:t:1", "a:old:t:2"}
	s.twice = map[string]bool{"a:old:t:1": true}
	k, logs, _ := keep(s, table(t, "a"))
	for range 3 {
		if err := k.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.sweepUp()
	}
	if !slices.Equal(s.kept["a:old"], []string{"a:old:t:1"}) || k.Orphans() != 1 ||
		logs.FilterMessageSnippet("two different notices of one key").Len() != 1 {
		t.Errorf("%v, %d orphans, %d lines", s.kept, k.Orphans(), logs.Len())
	}
}

// A route is added for some of the keys that another covers. Without the move those notices would
// be searched for under the wrong prefix.
func TestJanitorMovesNoticesToLongerPrefix(t *testing.T) {
	s := newFakeStore()
	s.known = []string{"a"}
	s.kept["a"] = []string{"a:pay:t:1", "a:mail:t:2", "a:pay:t:3"}
	s.claimed["a:pay:t:3"] = true
	k, _, _ := keep(s, table(t, "a", "a:pay", "b"))
	tidy := func() {
		t.Helper()
		k.mover.nextSeparate = time.Time{}
		if err := k.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.sweepUp()
	}
	tidy()
	if got := s.kept["a:pay"]; !slices.Equal(got, []string{"a:pay:t:1"}) || !slices.Equal(s.kept["a"], []string{"a:mail:t:2", "a:pay:t:3"}) {
		t.Errorf("%v", s.kept)
	}
	s.claimed = map[string]bool{}
	tidy()
	if got := s.kept["a:pay"]; len(got) != 2 || k.Orphans() != 0 {
		t.Errorf("%v, %d orphans", s.kept, k.Orphans())
	}
	scans := s.scans
	tidy()
	if s.scans != scans {
		t.Errorf("%d more scans, want none when it is done", s.scans-scans)
	}
}

func TestJanitorFollowsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.down = errDown
		core, logs := observer.New(zapcore.WarnLevel)
		var told []string
		w := &work{}
		w.set = func() {
			said := ""
			for _, p := range []string{"a", "b"} {
				if w.paused(keys.Partition{Prefix: p}) {
					said += p
				}
			}
			s.do(func() { told = append(told, said) })
		}
		k := NewJanitor(JanitorOptions{Store: s, Layout: s, Registry: s, Routes: table(t, "a", "b"), Shards: two, Work: w, Logger: zap.New(core)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		last := func() string {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return strings.Join(told, ",")
		}

		time.Sleep(10*pausedRetry + time.Millisecond)
		if got := last(); got != "" || logs.Len() != 1 {
			t.Errorf("%q was published without an answer; %d warnings, want one", got, logs.Len())
		}
		s.do(func() { s.down, s.paused = nil, []string{"b"} })
		time.Sleep(pausedRetry + time.Millisecond)
		if got := last(); got != "b" {
			t.Errorf("told %q", got)
		}
		s.do(func() { s.paused = []string{"a"} })
		k.Check()
		k.Check()
		if got := last(); !strings.HasPrefix(got, "b,a") {
			t.Errorf("told %q", got)
		}
		s.do(func() { s.asked = 0 })
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.asked > 12 || s.asked < 9 || s.settled != 0 {
			t.Errorf("asked %d times in a minute", s.asked)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A shard whose pauses have never been read delivers nothing, and the others are not affected. A
// state that was read once holds.
func TestShardWithUnknownPausesIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.unread, s.paused, s.stale = 1, []string{"b"}, true
		w := &work{}
		k := NewJanitor(JanitorOptions{Store: s, Layout: s, Registry: s, Routes: table(t, "a", "b"), Shards: two, Work: w, Logger: zap.NewNop()})
		expect := func(when string, want string) {
			t.Helper()
			got := ""
			for _, p := range []keys.Partition{{Prefix: "a"}, {Prefix: "b"}, {Prefix: "a", Shard: 1}, {Prefix: "b", Shard: 1}} {
				if w.paused(p) {
					got += fmt.Sprint(p.Prefix, p.Shard, " ")
				}
			}
			if got != want {
				t.Errorf("%s: %sare paused, want %s", when, got, want)
			}
		}
		if err := k.followPaused(t.Context()); !errors.Is(err, errSomePaused) {
			t.Error(err)
		}
		expect("one shard cannot be read", "a0 b0 b1 ")
		if s.stale {
			t.Error("the copies were not made right")
		}
		s.unread, s.paused = 0, []string{"a"}
		if err := k.followPaused(t.Context()); err != nil {
			t.Error(err)
		}
		expect("all can be read", "a0 a1 ")
		s.unread, s.paused = 1, nil
		if err := k.followPaused(t.Context()); err != nil {
			t.Error(err)
		}
		expect("one cannot be read again", "a0 ")
	})
}

// receiversOf has read the paused receivers of the first n shards.
type receiversOf int

func (receiversOf) Follow(context.Context) error { return nil }
func (n receiversOf) IsRead(shard int) bool      { return shard < int(n) }

// A partition of a route that calls receivers is paused until the paused receivers were read for its shard.
func TestShardWithUnknownReceiversIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, routes := newFakeStore(), &work{}, table(t, "a", "b")
		routes.Prefix("a").Target.Kind = route.KindNotice
		k := NewJanitor(JanitorOptions{Store: s, Layout: s, Registry: s, Routes: routes, Shards: two, Work: w,
			Receivers: receiversOf(1), Logger: zap.NewNop()})
		if err := k.followPaused(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p, want := range map[keys.Partition]bool{{Prefix: "a"}: false, {Prefix: "a", Shard: 1}: true, {Prefix: "b", Shard: 1}: false} {
			if w.paused(p) != want {
				t.Errorf("%v: paused %t", p, !want)
			}
		}
	})
}

// counted counts how often the paused receivers are read.
type counted struct{ reads, shards atomic.Int32 }

func (c *counted) Follow(context.Context) error { c.reads.Add(1); c.shards.Store(2); return nil }
func (c *counted) IsRead(shard int) bool        { return shard < int(c.shards.Load()) }

// The paused receivers are read every 30 s, for a new shard, and after a Check.
func TestPausedReceiversAreReadWhenTheyMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &counted{}, newFakeStore()
		k := NewJanitor(JanitorOptions{Store: s, Layout: s, Registry: s, Routes: table(t, "a"), Shards: two, Work: &work{}, Receivers: c,
			Logger: zap.NewNop()})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- k.Run(ctx) }()
		expect := func(what string, after time.Duration, want int32) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := c.reads.Load(); got != want {
				t.Errorf("%s: read %d times, want %d", what, got, want)
			}
		}
		expect("at the start", time.Second, 1)
		expect("before 30 s", 28*time.Second, 1)
		expect("after 30 s", 20*time.Second, 2)
		k.Check()
		expect("after a Check", time.Millisecond, 3)
		c.shards.Store(1)
		expect("with a new shard", 7*time.Second, 4)
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
