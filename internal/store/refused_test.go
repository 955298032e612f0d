package store

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// One batch holds an entry that is refused and others that have nothing to do
// with it: each must end as it would alone.
func TestARefusedEntryHarmsNoOther(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx := t.Context()
	if err := srv.Client().Set(ctx, "wrong", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var list []Settlement
	for i, target := range []string{"right", "wrong", "right"} {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		list = append(list, Settlement{Claim: s.take(t, k, "mine"), Ending: EndDelivered,
			Push: &notice.Push{Key: target, Entry: []string{fmt.Sprint(i)}}})
	}
	done, err := s.Settle(ctx, partition, list)
	if err != nil || done[0].Refused != "" || done[1].Refused == "" || done[2].Refused != "" {
		t.Fatal(done, err)
	}
	if got := srv.Client().LRange(ctx, "right", 0, -1).Val(); fmt.Sprint(got) != "[0 2]" {
		t.Errorf("%v", got)
	}
	// Made again, as after an answer that was lost: nothing is doubled.
	if done, err = s.Settle(ctx, partition, list); err != nil || !done[0].Stale || !done[2].Stale {
		t.Fatal(done, err)
	}
	if n := srv.Client().LLen(ctx, "right").Val(); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if state := s.state(t, "app1:a:b:1"); state != notice.Claimed {
		t.Errorf("%q: want it still claimed", state)
	}
}

// withoutTimers is a Store whose user may touch the namespace's keys alone, and a client
// that may do anything.
func withoutTimers(t *testing.T) (*Store, *redis.Client) {
	t.Helper()
	srv := testkit.StartRedis(t)
	c := srv.Client()
	if err := c.ACLSetUser(t.Context(), "svc", "on", ">password", "~"+srv.Namespace()+":*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	return on(t, "redis://svc:password@"+srv.Addr()+"/0", srv.Namespace()), c
}

// A user who may not touch the timers of a prefix loses them and nothing else: no
// script stops between two of its writes, and the sweep finds each notice at its time.
func TestRefusedTimerLeavesNoPartialWrite(t *testing.T) {
	t.Parallel()
	s, c := withoutTimers(t)
	ctx := t.Context()
	const key = "app1:a:b:1"
	where := func(step string, want notice.State) {
		t.Helper()
		if got := s.state(t, key); got != want {
			t.Fatalf("%s: the notice is %q, want %q", step, got, want)
		}
		places := 0
		for _, z := range []string{s.space.Shadow(partition), s.space.Dead(partition), s.space.Settled(partition)} {
			places += int(c.ZCount(ctx, z, "-inf", "+inf").Val())
		}
		if n := c.HLen(ctx, s.space.Records(partition)).Val(); places != 1 || n != 1 {
			t.Fatalf("%s: %d records in %d sets", step, n, places)
		}
		if want != notice.Scheduled {
			return
		}
		if score := c.ZScore(ctx, s.space.Shadow(partition), key).Val(); score == math.Trunc(score) {
			t.Errorf("%s: the score %f waits for a timer", step, score)
		}
	}
	amend := func(op Amendment, when When, want notice.State) {
		t.Helper()
		if ch, err := s.Amend(ctx, prefix, key, op, when); err != nil || !ch.Done {
			t.Fatalf("%s: %+v, %v", op, ch, err)
		}
		where(string(op), want)
	}

	s.put(t, Request{Key: key, Delay: time.Hour})
	where("schedule", notice.Scheduled)
	s.put(t, Request{Key: key, Delay: time.Minute, OnDuplicate: Replace})
	where("replace", notice.Scheduled)
	amend(Reschedule, When{Delay: time.Hour}, notice.Scheduled)
	for _, end := range []Ending{EndRetry, EndDeferred, EndPostponed} {
		amend(Fire, When{}, notice.Scheduled)
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: end, After: time.Hour})
		where(fmt.Sprint("settle ", end), notice.Scheduled)
	}
	amend(Fire, When{}, notice.Scheduled)
	s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDead})
	where("dead", notice.Dead)
	amend(Redrive, When{Delay: time.Hour}, notice.Scheduled)
	amend(Fire, When{}, notice.Scheduled)
	push := Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered, Push: &notice.Push{Key: "todo", Entry: []string{"x"}}}
	if _, err := s.Settle(ctx, partition, []Settlement{push}); !errors.Is(err, wire.ErrRights) {
		t.Errorf("a push to a foreign list: %v", err)
	}
	where("refused push", notice.Claimed)
	amend(Cancel, When{}, notice.Cancelled)

	f, err := s.Find(ctx, prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	other := *f.Notice
	other.Key, other.Due = "app1:a:b:2", time.Now().Add(time.Hour)
	if r, err := s.Restore(ctx, partition, []Letter{{Notice: &other}}); err != nil || r[0].Err != nil {
		t.Fatalf("restore: %+v, %v", r, err)
	}
	if got := s.state(t, other.Key); got != notice.Scheduled {
		t.Errorf("restored: %q", got)
	}
}
