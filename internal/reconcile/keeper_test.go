package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/route"
)

// shelf is what a Keeper sees of Redis: which keys lie under which prefix.
type shelf struct {
	mu      sync.Mutex
	down    error
	paused  []string
	asked   int // for what is paused
	known   []string
	kept    map[string][]string // by prefix
	claimed map[string]bool
	settled int // to be trimmed
	trims   []int
	scans   int
}

func (s *shelf) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *shelf) Trim(_ context.Context, _ string, _, n int, _ time.Duration) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := min(n, s.settled)
	s.settled -= gone
	s.trims = append(s.trims, gone)
	return gone, s.down
}

func (s *shelf) Prefixes(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known), s.down
}

func (s *shelf) Register(_ context.Context, prefixes []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range prefixes {
		if !slices.Contains(s.known, p) {
			s.known = append(s.known, p)
		}
	}
	return s.down
}

func (s *shelf) Forget(_ context.Context, prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = slices.DeleteFunc(s.known, func(p string) bool { return p == prefix })
	return s.down
}

// Kept gives two keys a call, so that cursors matter.
func (s *shelf) Kept(_ context.Context, prefix string, shard int, cursor uint64, _ int64) ([]string, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans++
	all := s.kept[prefix]
	if shard != 0 || s.down != nil || int(cursor) >= len(all) {
		return nil, 0, s.down
	}
	end := min(int(cursor)+2, len(all))
	next := uint64(end)
	if end == len(all) {
		next = 0
	}
	return slices.Clone(all[cursor:end]), next, nil
}

// Rehome leaves the gaps of what it moves, so that the scan goes on as HSCAN
// does.
func (s *shelf) Rehome(_ context.Context, from, to string, _ int, ks []string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := 0
	for _, k := range ks {
		if i := slices.Index(s.kept[from], k); i >= 0 && !s.claimed[k] {
			s.kept[from][i] = ""
			s.kept[to] = append(s.kept[to], k)
			moved++
		}
	}
	return moved, s.down
}

func (s *shelf) Paused(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return slices.Clone(s.paused), s.down
}

// sweepUp drops the gaps.
func (s *shelf) sweepUp() {
	for p, ks := range s.kept {
		s.kept[p] = slices.DeleteFunc(ks, func(k string) bool { return k == "" })
	}
}

func newShelf() *shelf {
	return &shelf{kept: map[string][]string{}, claimed: map[string]bool{}}
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

func keep(s *shelf, rs *route.Table) (*Keeper, *observer.ObservedLogs, *[]string) {
	core, logs := observer.New(zapcore.InfoLevel)
	var moved []string
	k := NewKeeper(s, rs, 2, func(func(string) bool) {},
		func(prefix string, shard int) { moved = append(moved, fmt.Sprintf("%s/%d", prefix, shard)) }, zap.New(core))
	return k, logs, &moved
}

func TestTidyTrimsAllThereIs(t *testing.T) {
	s := newShelf()
	s.settled = 3*step + 7
	k, _, _ := keep(s, table(t, "a"))
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []int{step, step, step, 7, 0}; !slices.Equal(s.trims, want) {
		t.Errorf("trimmed %v, want %v", s.trims, want)
	}
	s.down = errDown
	if err := k.Tidy(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestRehomesWhatThePrefixesThatAreGoneHold(t *testing.T) {
	s := newShelf()
	s.known = []string{"a:old", "z"}
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
	// What is claimed waits for its settle, and what nobody covers for a route.
	if n := k.Orphans(); n != 3 || !slices.Contains(s.known, "a:old") || !slices.Contains(s.known, "z") {
		t.Errorf("%d orphans under %v, want 3 and both prefixes kept", n, s.known)
	}
	if n := logs.FilterMessageSnippet("no route covers").Len(); n != 2 {
		t.Errorf("orphans were told of %d times, want once a prefix", n)
	}
	if !slices.Contains(*moved, "a/0") {
		t.Errorf("nobody was told of the move: %v", *moved)
	}
	s.claimed = map[string]bool{}
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(s.known, "a:old") || !slices.Contains(s.known, "a") || k.Orphans() != 2 {
		t.Errorf("known %v, %d orphans", s.known, k.Orphans())
	}
}

// A route is added for a part of what another covers. What that one holds of
// the part would be looked for where it is not.
func TestMovesNoticesToARouteThatCoversThemMoreClosely(t *testing.T) {
	s := newShelf()
	s.known = []string{"a"}
	s.kept["a"] = []string{"a:pay:t:1", "a:mail:t:2", "a:pay:t:3"}
	s.claimed["a:pay:t:3"] = true
	k, _, _ := keep(s, table(t, "a", "a:pay", "b"))
	tidy := func() {
		t.Helper()
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

func TestFollowsWhatIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.down = errDown
		core, logs := observer.New(zapcore.WarnLevel)
		var told []string
		k := NewKeeper(s, table(t, "a", "b"), 1, func(paused func(string) bool) {
			said := ""
			for _, p := range []string{"a", "b"} {
				if paused(p) {
					said += p
				}
			}
			s.do(func() { told = append(told, said) })
		}, func(string, int) {}, zap.New(core))
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
			t.Errorf("%q was told without an answer; %d warnings, want one", got, logs.Len())
		}
		s.do(func() { s.down, s.paused = nil, []string{"b"} })
		time.Sleep(pausedRetry + time.Millisecond)
		if got := last(); got != "b" {
			t.Errorf("told %q", got)
		}
		s.do(func() { s.paused = []string{"a"} })
		k.Recheck()
		k.Recheck()
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
