package store

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// settledOnly are scripts that remove settled notices only. Those are in no sequence.
var settledOnly = []string{"bury.lua", "trim.lua", "unbury.lua"}

// Every script that removes a notice from a shadow or from the dead letters, or its record, has the code
// for sequences, and uses it to let the notice leave.
func TestScriptsThatRemoveNoticesKeepSequences(t *testing.T) {
	files, err := filepath.Glob("../*/lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	removes := regexp.MustCompile(`'(ZREM|HDEL|ZREMRANGEBY\w+|ZPOPMIN)', (KEYS\[|base \.\. '(shadow|dead|records))|\b(finalize\(q|replace\(KEYS)`)
	leaves := regexp.MustCompile(`\.(leave|put|join|keep)\(key[,)]|\b(finalize\(q|replace\(KEYS)`)
	n := 0
	for _, f := range append(files, "../../deploy/schedule.lua") {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(raw), filepath.Base(f)
		states := strings.Contains(text, "1 shadow  2 records") || strings.Contains(text, ":shadow:<prefix>") || name == "replay.lua"
		if !states || !removes.MatchString(text) || slices.Contains(settledOnly, name) {
			continue
		}
		n++
		if !strings.Contains(text, "order(KEYS[") || !leaves.MatchString(text) || !strings.Contains(text, ".finish()") {
			t.Errorf("%s removes notices without leaving their sequences", f)
		}
	}
	if n < 9 {
		t.Errorf("only %d scripts remove notices", n)
	}
}

func TestOrderedRoutesAreForgotten(t *testing.T) {
	s, srv := openLayout(t, LayoutOptions{})
	ctx, c := t.Context(), srv.Client()
	check := func(want ...string) {
		t.Helper()
		for _, name := range []string{s.space.Ordered(), s.space.ShardOrdered(0)} {
			got := c.SMembers(ctx, name).Val()
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	if err := s.AddOrdered(ctx, []string{"app1", "app1!", "app2"}); err != nil {
		t.Fatal(err)
	}
	check("app1", "app1!", "app2")
	c.HSet(ctx, s.space.Order(keys.Partition{Prefix: "app2"}), "x", "y")
	if err := s.ForgetOrdered(ctx, []string{"app1"}); err != nil {
		t.Fatal(err)
	}
	check("app1", "app2")
	c.Del(ctx, s.space.Order(keys.Partition{Prefix: "app2"}))
	if err := s.ForgetOrdered(ctx, nil); err != nil {
		t.Fatal(err)
	}
	check()
}

// A route that had ORDER_DEAD=block is forgotten once none of its notices is pending. Its dead letters then hold back nothing.
// Regression test: it stayed ordered as long as it had dead letters.
func TestOrderedRouteWithDeadLettersIsForgotten(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	const first, second, third, other = "app1:shop:created:O1", "app1:shop:paid:O1", "app1:shop:closed:O1", "app1:shop:created:O2"
	if err := errors.Join(s.Layout.Learn(ctx), s.Layout.AddOrdered(ctx, []string{prefix, prefix + Blocks})); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{first, second, third, other} {
		s.put(t, Request{Key: k})
	}
	s.finish(t, first, EndDead)
	s.finish(t, other, EndDead)
	if got, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{second}); err != nil || got.Parked != 1 {
		t.Fatalf("behind a dead letter: %+v, %v", got, err)
	}

	if err := s.Layout.ForgetOrdered(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := c.SMembers(ctx, s.space.ShardOrdered(0)).Val(); !slices.Equal(got, []string{prefix}) {
		t.Errorf("while notices are pending, %q are ordered", got)
	}
	s.finish(t, second, EndDead) // it is not parked any more
	s.finish(t, third, EndDelivered)
	if err := s.Layout.ForgetOrdered(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.space.Ordered(), s.space.ShardOrdered(0)} {
		if got := c.SMembers(ctx, name).Val(); len(got) > 0 {
			t.Errorf("%s is %q", name, got)
		}
	}
	if found := testkit.SequenceKeys(c.Keys(ctx, srv.Namespace()+":{0}:*").Val()); len(found) > 0 {
		t.Errorf("Redis has %q", found)
	}
	if n := c.ZCard(ctx, s.space.Dead(partition)).Val(); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
}

// A member that only a shard's copy has, because its node did not answer when the others were changed, is removed too.
func TestOrderedRouteIsForgottenInEachCopy(t *testing.T) {
	s, srv := openLayout(t, LayoutOptions{})
	ctx, c := t.Context(), srv.Client()
	if err := s.AddOrdered(ctx, []string{"app1"}); err != nil {
		t.Fatal(err)
	}
	last := s.space.ShardOrdered(s.space.Places() - 1)
	c.SAdd(ctx, last, "app1"+Blocks, "app2", "app2"+Blocks)
	if err := s.ForgetOrdered(ctx, []string{"app1"}); err != nil {
		t.Fatal(err)
	}
	if got := c.SMembers(ctx, last).Val(); !slices.Equal(got, []string{"app1"}) {
		t.Errorf("%s is %q", last, got)
	}
}

// The instance that announces new shards may die before it has copied the ordered and the paused routes. A shard
// that any other instance learns has both before a script uses it.
func TestNewShardHasOrderedAndPausedRoutesBeforeItIsUsed(t *testing.T) {
	s, srv := openLayout(t, LayoutOptions{})
	ctx, c := t.Context(), srv.Client()
	if err := errors.Join(s.Learn(ctx), s.AddOrdered(ctx, []string{"app1", "app1!"}), s.Pause(ctx, "app2")); err != nil {
		t.Fatal(err)
	}
	next := s.space.Replace(2, false)
	if done, err := s.replace(ctx, s.space.Now(), next.Now()); err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	now, _, err := Discover(ctx, c, keys.Space{Namespace: srv.Namespace()}, true)
	if err != nil {
		t.Fatal(err)
	}
	w := wire.New(wire.Options{Client: c, Space: now})
	if err := errors.Join(w.Detect(ctx), NewLayout(w, LayoutOptions{Prefixes: []string{"app1"}}).Learn(ctx)); err != nil {
		t.Fatal(err)
	}
	for place := range next.Places() {
		if n := c.SCard(ctx, next.ShardOrdered(place)).Val(); n != 2 {
			t.Errorf("place %d has %d ordered routes, want 2", place, n)
		}
		if got := c.SMembers(ctx, next.ShardPaused(place)).Val(); !slices.Equal(got, []string{"app2"}) {
			t.Errorf("in place %d, %q are paused, want app2", place, got)
		}
	}
}
