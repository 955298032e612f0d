package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// dieMany makes n dead letters.
func (s *Store) dieMany(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		s.dieOf(t, fmt.Sprintf("app1:a:b:%d", i), notice.Cause{Reason: notice.ReasonGone})
	}
}

// retireAll calls Retire with what the outboxes say.
func retireAll(t *testing.T, s *Store, limit DeadLimit) int {
	t.Helper()
	r := NewRetirement(s)
	h, err := r.Handed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := r.Retire(t.Context(), partition, limit, h)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOldestDeadLettersAreRetired(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	s.dieMany(t, 5)
	if n := retireAll(t, s, DeadLimit{Retention: time.Hour, Keep: 5}); n != 0 {
		t.Errorf("%d are retired within the limits", n)
	}
	if n := retireAll(t, s, DeadLimit{Keep: 3}); n != 2 {
		t.Errorf("%d are retired above the number, want 2", n)
	}
	for i, want := range []notice.State{notice.Cancelled, notice.Cancelled, notice.Dead} {
		if f, err := s.Find(t.Context(), prefix, fmt.Sprintf("app1:a:b:%d", i)); err != nil || f.State != want {
			t.Errorf("%d is %s, %v, want %s", i, f.State, err, want)
		}
	}
	// a repeated schedule call is recognised
	if r := s.put(t, Request{Key: "app1:a:b:0"}); r.Created {
		t.Error("a repeated call has scheduled a retired dead letter again")
	}
}

// A reshard from one shard to four leaves no part of the limit to the old shard.
func TestReshardRetiresNoDeadLettersWithinNumber(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	s.dieMany(t, 8)
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(4, false)); err != nil {
		t.Fatal(err)
	}
	if n := retireAll(t, s, DeadLimit{Keep: 8}); n != 0 {
		t.Errorf("%d of 8 dead letters are retired, 8 may stay", n)
	}
}

func TestDeadLettersBeyondAgeAreRetired(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	s.dieMany(t, 3)
	dead := s.space.Dead(partition)
	old := float64(time.Now().Add(-2 * time.Hour).UnixMilli())
	if err := srv.Client().ZAdd(t.Context(), dead, redis.Z{Score: old, Member: "app1:a:b:2"}).Err(); err != nil {
		t.Fatal(err)
	}
	if n := retireAll(t, s, DeadLimit{Retention: time.Hour}); n != 1 || srv.Client().ZCard(t.Context(), dead).Val() != 2 {
		t.Errorf("%d are retired, want the old one", n)
	}
}

// A letter whose entry is in an outbox stays, also one that died at the same time, and all stay once entries were dropped.
func TestRetirementWaitsForHistory(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 100)
	s.dieMany(t, 4)
	ctx, ended := context.Background(), s.space.Ended(0)
	if n := retireAll(t, s, DeadLimit{Keep: 1}); n != 0 {
		t.Errorf("%d are retired before the history has them", n)
	}
	if err := srv.Client().LTrim(ctx, ended, 2, -1).Err(); err != nil { // the first two are handed over
		t.Fatal(err)
	}
	if n := retireAll(t, s, DeadLimit{Keep: 1}); n > 2 {
		t.Errorf("%d are retired, want the two that the history has at most", n)
	}
	if err := srv.Client().Del(ctx, ended).Err(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().HSet(ctx, s.space.History(0), "lost", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if n := retireAll(t, s, DeadLimit{Keep: 1}); n != 0 {
		t.Errorf("%d are retired although entries were dropped", n)
	}
	if err := srv.Client().HDel(ctx, s.space.History(0), "lost").Err(); err != nil {
		t.Fatal(err)
	}
	retireAll(t, s, DeadLimit{Keep: 1})
	if left := srv.Client().ZCard(ctx, s.space.Dead(partition)).Val(); left != 1 {
		t.Errorf("%d dead letters are left, want 1", left)
	}
	if n := srv.Client().LLen(ctx, ended).Val(); n != 0 {
		t.Errorf("the outbox has %d entries, want no second one", n)
	}
}

func TestRemovalIsAnnounced(t *testing.T) {
	now := time.Now()
	for _, v := range []struct {
		keeps, age time.Duration
		want       bool
	}{{48 * time.Hour, 23 * time.Hour, false}, {48 * time.Hour, 25 * time.Hour, true}, {47 * time.Hour, 46 * time.Hour, false},
		{0, 9999 * time.Hour, false}} {
		if at := (DeadLimit{Retention: v.keeps}).Ages(now.Add(-v.age), now); at.IsZero() == v.want {
			t.Errorf("%s of %s: %s", v.age, v.keeps, at)
		}
	}
	l := DeadLimit{Keep: 10}
	if l.Fills(7) || !l.Fills(8) || (DeadLimit{}).Fills(1000) {
		t.Error("the number is announced from 80 %")
	}
}
