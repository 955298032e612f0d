package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// held schedules a notice, and lists it as held by a pause for an hour.
func (s Redis) held(t *testing.T, under, key string) store.Found {
	t.Helper()
	if _, err := s.Schedule(t.Context(), keys.Partition{Prefix: under}, []store.Request{request(key, "1", 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), keys.Partition{Prefix: under}, []store.Settlement{{Claim: s.claim(t, under, key),
		Ending: store.EndPostponed, After: time.Hour, Held: notice.HeldPaused, KeepRecord: true, Pause: "host/a.example/"}}); err != nil {
		t.Fatal(err)
	}
	f, err := s.Find(t.Context(), under, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A rehomed notice has another route, which may call another receiver. So a held one is released: it is claimed again within 10 ms
// for each pending notice, with its due time and its position.
func TestRehomeReleasesHeldNotices(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	c, ctx := srv.Client(), t.Context()
	s, from := newRedis(t, c, srv.Namespace(), "app1", "app1:a"), keys.Partition{Prefix: "app1"}
	to := from.Under("app1:a")
	if err := s.Layout.AddOrdered(ctx, []string{"app1", "app1:a"}); err != nil {
		t.Fatal(err)
	}
	const n = 20
	was, ks := map[string]store.Found{}, []string{}
	for i := range n {
		ks = append(ks, fmt.Sprintf("app1:a:b:%d", i))
		was[ks[i]] = s.held(t, "app1", ks[i])
	}
	before := s.members(t, c, from)
	if moved := s.rehomeAll(t, from, "app1:a", ks); moved != n {
		t.Fatalf("%d moved", moved)
	}
	now, err := s.Wire().Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []keys.Partition{from, to} {
		if left := c.Exists(ctx, s.Space().Held(p), s.Space().Holds(p)).Val(); left != 0 {
			t.Errorf("%s has a list of held notices", p.Prefix)
		}
	}
	for _, k := range ks {
		f, err := s.Find(ctx, "app1:a", k)
		if err != nil || f.State != notice.Scheduled || !f.Due.Equal(was[k].Due) || f.NextAttemptAt().After(now.Add(n*10*time.Millisecond)) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if after := s.members(t, c, to); !slices.Equal(after, before) {
		t.Errorf("the sequences were %q, are %q", before, after)
	}
}

// A rehomed notice that replaces a held one under the new prefix takes it off the list.
func TestRehomeRemovesReplacedNoticeFromHeldList(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s, from := newRedis(t, srv.Client(), srv.Namespace(), "app1"), keys.Partition{Prefix: "app1"}
	to := from.Under("app1:a")
	const key = "app1:a:b:1"
	s.copied(t, srv.Client(), "app1", key, "1")
	x := store.Settlement{Claim: s.fired(t, "app1", key), Ending: store.EndDelivered}
	x.Claim.Add(notice.Attempt{Number: 1, Status: 200})
	if _, err := s.Settle(t.Context(), from, []store.Settlement{x}); err != nil {
		t.Fatal(err)
	}
	s.held(t, "app1:a", key)
	if moved, _, err := s.Rehome(t.Context(), from, "app1:a", []string{key}); err != nil || moved != 1 {
		t.Fatal(moved, err)
	}
	if f, err := s.Find(t.Context(), "app1:a", key); err != nil || f.State != notice.Delivered {
		t.Errorf("%+v, %v", f, err)
	}
	if left := srv.Client().Exists(t.Context(), s.Space().Held(to), s.Space().Holds(to)).Val(); left != 0 {
		t.Error("the replaced notice is listed as held")
	}
}
