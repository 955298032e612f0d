package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// blocked is a dead letter that holds back a parked successor.
func blocked(t *testing.T) (s *Store, srv *testkit.Redis, p keys.Partition, head, next string) {
	t.Helper()
	s, srv = open(t)
	p, head, next = partition, "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := s.Layout.AddOrdered(t.Context(), []string{prefix, prefix + Blocks}); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: head})
	s.end(t, Settlement{Claim: s.take(t, head, "t"), Ending: EndDead})
	s.put(t, Request{Key: next})
	if c, err := s.ClaimKeys(t.Context(), p, Lease{"t", lease}, []string{next}); err != nil || c.Parked != 1 {
		t.Fatalf("the dead letter does not hold back its successor: %+v, %v", c, err)
	}
	return s, srv, p, head, next
}

// wakes subscribes to the messages for sweepers.
func wakes(t *testing.T, s *Store, srv *testkit.Redis) <-chan *redis.Message {
	t.Helper()
	sub := srv.Client().Subscribe(t.Context(), s.Space().Wake())
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sub.Channel()
}

// awaitWake waits for a message that a notice of a partition is due at a time, or now if it is zero.
func awaitWake(t *testing.T, from <-chan *redis.Message, p keys.Partition, due time.Time) {
	t.Helper()
	for {
		text := testkit.Next(t, "a wake of "+p.Wake(), from).Payload
		if at, ok := strings.CutSuffix(text, " "+p.Wake()); ok && !strings.HasPrefix(at, "expires") {
			if !due.IsZero() && at != fmt.Sprint(due.UnixMilli()) {
				t.Errorf("woken for %s, want %d", at, due.UnixMilli())
			}
			return
		}
	}
}

func TestExportedDeadLetterReleasesItsSuccessor(t *testing.T) {
	t.Parallel()
	s, srv, p, head, next := blocked(t)
	s.grow(t, 1)
	heard := wakes(t, s, srv)
	if l, _, err := s.Layout.MoveOut(t.Context(), p, s.space.Shard(head), []string{head}); err != nil || l.Len() != 1 {
		t.Fatal(l, err)
	}
	awaitWake(t, heard, p, time.Time{})
	s.take(t, next, "t")
}

// A sweeper that has looked while a notice was in transit does not know the notice if it stays.
func TestNoticeThatStaysInAReshardWakesItsSweepers(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const key = "app1:shop:created:O1"
	due := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	s.put(t, Request{Key: key, Due: due})
	s.put(t, Request{Key: "app1:shop:created:O2", Delay: time.Hour})
	s.grow(t, 1)
	l, _, err := s.Layout.MoveOut(t.Context(), partition, s.space.Shard(key), []string{key})
	if err != nil || l.Len() != 1 {
		t.Fatal(l, err)
	}
	heard := wakes(t, s, srv)
	if err := s.Layout.MoveEnd(t.Context(), l, []string{key}); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, heard, partition, due)
}

// A producer's script with a longer prefix replaces the notice under the shorter, ordered one.
func TestReplaceUnderAnotherPrefixReleasesTheSuccessor(t *testing.T) {
	t.Parallel()
	s, srv, p, head, next := blocked(t)
	const longer = "app1:shop:created"
	c, script := srv.Client(), newProducer(t, s)
	if err := c.SAdd(t.Context(), s.space.Base(0)+"routes", longer).Err(); err != nil {
		t.Fatal(err)
	}
	heard := wakes(t, s, srv)
	names := append(s.space.States(p.Under(longer)), head)
	if due, err := script.Run(t.Context(), c, names, head, "+60000", "replace", "x").Int64(); err != nil || due == 0 {
		t.Fatalf("%d, %v", due, err)
	}
	awaitWake(t, heard, p, time.Time{})
	if due := c.ZScore(t.Context(), s.space.Shadow(p), next).Val(); due > float64(time.Now().UnixMilli()+1) {
		t.Errorf("the successor is due at %f", due)
	}
}
