package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/redistest"
)

// copied schedules as a copy of an older deploy/schedule.lua does: it looks under
// no other prefix.
func (s *Store) copied(t *testing.T, under, key, text string) {
	t.Helper()
	n, p := notice.Notice{Content: body(text)}, keys.Partition{Prefix: under}
	args := []any{s.space.ClaimPrefix(0), s.space.Wake(), p.Wake(), "1", "", keys.AppendDigest(nil, key), key, "r+3600000", n.AppendTail(nil)}
	if _, err := s.w.Run(t.Context(), scheduleScript, s.space.States(p), args); err != nil {
		t.Fatal(err)
	}
}

func TestAMoveNeverDropsWhatDiffers(t *testing.T) {
	t.Parallel()
	const from, to, key = "app1", "app1:m", "app1:m:t:1"
	deliver := func(t *testing.T, s *Store, under string) {
		t.Helper()
		if _, err := s.Amend(t.Context(), under, key, Fire, When{}); err != nil {
			t.Fatal(err)
		}
		c, err := s.ClaimKeys(t.Context(), keys.Partition{Prefix: under}, Lease{"t", lease}, []string{key})
		if err != nil || len(c.Won) != 1 {
			t.Fatal(c, err)
		}
		c.Won[0].Add(notice.Attempt{Number: 1, Status: 200})
		if _, err := s.Settle(t.Context(), keys.Partition{Prefix: under}, []Settlement{{Claim: c.Won[0], Ending: EndDelivered}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name        string
		first       string // content under from
		second      string // and under to
		do          func(t *testing.T, s *Store)
		moved       int
		stuck       bool
		left, there string // contents afterwards
		state       notice.State
	}{
		{"the same twice", "1", "1", nil, 1, false, "", "1", notice.Scheduled},
		{"both pending, and they differ", "1", "2", nil, 0, true, "1", "2", notice.Scheduled},
		{"the first is delivered, the same is pending", "1", "1", func(t *testing.T, s *Store) { deliver(t, s, from) }, 1, false, "", "1", notice.Delivered},
		{"the second is delivered, the same is pending", "1", "1", func(t *testing.T, s *Store) { deliver(t, s, to) }, 1, false, "", "1", notice.Delivered},
		{"the second is delivered, another is pending", "1", "2", func(t *testing.T, s *Store) { deliver(t, s, to) }, 1, false, "", "1", notice.Scheduled},
		{"the first is delivered, another is pending", "1", "2", func(t *testing.T, s *Store) { deliver(t, s, from) }, 0, false, "1", "2", notice.Scheduled},
		{"the first is claimed", "1", "1", func(t *testing.T, s *Store) {
			t.Helper()
			if _, err := s.Amend(t.Context(), from, key, Fire, When{}); err != nil {
				t.Fatal(err)
			}
			if c, err := s.ClaimKeys(t.Context(), keys.Partition{Prefix: from}, Lease{"t", lease}, []string{key}); err != nil || len(c.Won) != 1 {
				t.Fatal(c, err)
			}
		}, 0, false, "1", "1", notice.Claimed},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := redistest.Shared(t)
			s := with(t, srv, 1, from, to)
			s.copied(t, from, key, c.first)
			s.copied(t, to, key, c.second)
			if c.do != nil {
				c.do(t, s)
			}
			n, stuck, err := s.Rehome(t.Context(), keys.Partition{Prefix: from}, to, []string{key})
			if err != nil || n != c.moved || slices.Contains(stuck, key) != c.stuck {
				t.Errorf("%d moved, stuck %v, %v", n, stuck, err)
			}
			for under, want := range map[string]string{from: c.left, to: c.there} {
				f, err := s.FindMany(t.Context(), keys.Partition{Prefix: under}, []string{key})
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if f[0].Notice != nil {
					got = string(f[0].Body)
				}
				if got != want || under == to && f[0].State != c.state {
					t.Errorf("under %s lies %q, %s, want %q, %s", under, got, f[0].State, want, c.state)
				}
			}
			left := srv.Client().Keys(t.Context(), srv.Namespace()+":{0}:*:"+from).Val()
			if c.left == "" && len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// A notice is moved to and fro while others look for it.
func TestANoticeIsFoundWhileItIsMoved(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	ctx := t.Context()
	a, b := with(t, srv, 1, "app1"), with(t, srv, 1, "app1", "app1:m")
	for _, s := range []*Store{a, b} {
		if err := s.Learn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const key = "app1:m:t:1"
	if _, err := a.Schedule(ctx, keys.Partition{Prefix: "app1"}, []Request{{Key: key, Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for at := []string{"app1", "app1:m"}; ; slices.Reverse(at) {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := b.Rehome(ctx, keys.Partition{Prefix: at[0]}, at[1], []string{key}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	missed := 0
	for range 500 {
		if _, err := a.Find(ctx, "app1", key); err != nil {
			missed++
		}
		r, err := b.Schedule(ctx, keys.Partition{Prefix: "app1:m"}, []Request{{Key: key, Delay: time.Hour}})
		if err != nil || r[0].Created {
			t.Fatalf("%+v, %v: a second notice", r, err)
		}
	}
	close(stop)
	<-done
	if missed > 0 {
		t.Errorf("it was missed %d times", missed)
	}
}

// The hot path sends what it did before: the guard and the other prefixes are
// part of the script's own call.
func TestNothingMoreIsAskedWhereAllHaveOneConfiguration(t *testing.T) {
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:0"})
	before := calls(t, srv, "evalsha")
	for i := range 10 {
		s.put(t, Request{Key: "app1:a:b:x" + strings.Repeat("1", i+1), Delay: time.Hour})
	}
	if n := calls(t, srv, "evalsha") - before; n != 10 {
		t.Errorf("%d calls for 10 notices", n)
	}
}
