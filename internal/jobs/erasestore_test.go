package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "app1"

var partition = keys.Partition{Prefix: prefix}

func open(t *testing.T) EraseStore {
	t.Helper()
	return on(t, testkit.SharedRedis(t))
}

// on returns another instance's view of the data of open's first one.
func on(t *testing.T, srv *testkit.Redis) EraseStore {
	t.Helper()
	s := store.New(store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, RepeatWindow: time.Hour, RepeatBytes: 1 << 20})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return EraseStore{s}
}

// schedule schedules a notice, and reports whether it was created.
func (s EraseStore) schedule(t *testing.T, key string, delay time.Duration) bool {
	t.Helper()
	got, err := s.Schedule(t.Context(), partition, []store.Request{{Key: key, Delay: delay}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Created
}

// deliver schedules a notice and settles it as delivered.
func (s EraseStore) deliver(t *testing.T, key string) {
	t.Helper()
	s.settle(t, key, store.EndDelivered)
}

// settle schedules a notice and settles it.
func (s EraseStore) settle(t *testing.T, key string, as store.Ending) {
	t.Helper()
	s.schedule(t, key, 0)
	c, err := s.ClaimKeys(t.Context(), partition, store.Lease{Token: "t", For: time.Minute}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	got, err := s.Settle(t.Context(), partition, []store.Settlement{{Claim: c.Won[0], Ending: as}})
	if err != nil || got[0].Stale {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestDeleteKeepsPendingNotices(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.deliver(t, "app1:a:b:1")
	s.schedule(t, "app1:a:b:2", time.Hour)

	d, err := s.Delete(t.Context(), partition, []string{"app1:a:b:1", "app1:a:b:2", "app1:a:b:3"})
	if err != nil || d.Deleted != 1 || d.Pending != 1 || !slices.Equal(d.Absent, []string{"app1:a:b:3"}) {
		t.Errorf("%+v, %v; want 1 deleted, 1 pending, 1 absent", d, err)
	}

	got, err := s.FindMany(t.Context(), partition, []string{"app1:a:b:1", "app1:a:b:2"})
	if err != nil || got[0].Notice != nil || got[1].State != notice.Scheduled {
		t.Errorf("%+v, %v; want only the pending notice", got, err)
	}
}

func TestDeleteTombstonesOfOneKey(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, key := range []string{"app1:a:b:0", "app1:a:b:1", "app1:a:b:2"} {
		s.deliver(t, key)
	}
	for more := true; more; {
		var err error
		if _, more, err = s.Trim(t.Context(), 0, []store.Trim{{Prefix: prefix}}, 100); err != nil {
			t.Fatal(err)
		}
	}

	if n, err := s.DeleteTombstones(t.Context(), []string{"app1:a:b:1", "app1:a:b:x"}); n != 1 || err != nil {
		t.Errorf("%d deleted, %v; want 1", n, err)
	}
	if !s.schedule(t, "app1:a:b:1", 0) || s.schedule(t, "app1:a:b:2", 0) {
		t.Error("only the key without a tombstone can have a new notice")
	}
}

// A deleted dead letter that held back its sequence leaves it, and its successor is due.
func TestDeletedDeadLetterLeavesItsSequence(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	const first, second = "app1:a:b:1", "app1:a:c:1"
	if err := s.Layout.AddOrdered(ctx, []string{prefix, prefix + "!"}); err != nil {
		t.Fatal(err)
	}
	s.schedule(t, first, 0)
	s.schedule(t, second, 0)
	claim := func(key string) store.Claimed {
		t.Helper()
		c, err := s.ClaimKeys(ctx, partition, store.Lease{Token: "t", For: time.Minute}, []string{key})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	won := claim(first).Won
	if len(won) != 1 {
		t.Fatalf("%s was not claimed", first)
	}
	if got, err := s.Settle(ctx, partition, []store.Settlement{{Claim: won[0], Ending: store.EndDead}}); err != nil || got[0].Stale {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := claim(second); got.Parked != 1 {
		t.Fatalf("%+v, want it parked", got)
	}
	if d, err := s.Delete(ctx, partition, []string{first}); d.Deleted != 1 || err != nil {
		t.Fatal(d, err)
	}
	if got := claim(second); len(got.Won) != 1 {
		t.Errorf("%+v, want %s", got, second)
	}
}

// Deleting a dead letter that holds back its successors wakes the sweepers for the first of them.
// Regression test: nothing was published, and the successor waited for the next inspection, up to ten seconds.
func TestDeletedDeadLetterReleasesItsSuccessor(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s, ctx := on(t, srv), t.Context()
	if err := s.Layout.AddOrdered(ctx, []string{prefix, prefix + store.Blocks}); err != nil {
		t.Fatal(err)
	}

	const dead, next = "app1:a:b:O", "app1:a:b:O~1"
	s.settle(t, dead, store.EndDead)
	s.schedule(t, next, 0)
	claim := func() store.Claimed {
		t.Helper()
		c, err := s.ClaimKeys(ctx, partition, store.Lease{Token: "t1", For: time.Minute}, []string{next})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := claim(); len(c.Won) > 0 || c.Parked != 1 {
		t.Fatalf("the dead letter does not hold back its successor: %+v", c)
	}

	sub := srv.Client().Subscribe(ctx, s.Space().Wake())
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Delete(ctx, partition, []string{dead}); err != nil || d.Deleted != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if m := testkit.Next(t, "a wake", sub.Channel()); !strings.HasSuffix(m.Payload, " "+partition.Wake()) {
		t.Errorf("%q", m.Payload)
	}
	if c := claim(); len(c.Won) != 1 {
		t.Errorf("the successor is not due: %+v", c)
	}
}
