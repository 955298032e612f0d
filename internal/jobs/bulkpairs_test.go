package jobs

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// A cancel takes held notices off the list, and the successors of a cancelled notice go on.
func TestCancelReleasesSequencesAndHeldNotices(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	ctx := t.Context()
	if err := w.s.Wire().Redis.SAdd(ctx, w.s.Space().Base(0)+"ordered", prefix).Err(); err != nil {
		t.Fatal(err)
	}
	p, ks := keys.Partition{Prefix: prefix}, []string{"app1:a:b:S", "app1:a:b:S~1"}
	for i, k := range ks {
		url := []string{address(0), "https://new.example/"}[i]
		if _, err := w.s.Schedule(ctx, p, []store.Request{{Key: k, Content: notice.Content{URL: url}}}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(token string) store.Claimed {
		t.Helper()
		got, err := w.s.ClaimKeys(ctx, p, store.Lease{Token: token, For: time.Minute}, ks)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := claim("t0")
	if len(first.Won) != 1 || first.Parked != 1 {
		t.Fatalf("%+v", first)
	}
	w.hold(first.Won[0], pausedOld)
	r := w.startBulk(KindCancel, Rule{Prefix: "app1", Host: "old.example"}, Filter{Rate: 50})
	if drive(ctx, w.driver()); w.read(r.ID).State != Done || w.read(r.ID).Redirected != 1 {
		t.Fatalf("%+v", w.read(r.ID))
	}
	if got := w.held(); len(got) > 0 {
		t.Errorf("held are %q", got)
	}
	if got := claim("t1"); len(got.Won) != 1 || got.Won[0].Key != ks[1] {
		t.Errorf("the successor is not claimed: %+v", got)
	}
}

// A migration ends a bulk change, and changes nothing.
func TestMigrationEndsBulkChange(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	w.put(1, address(1))
	r := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{})
	if _, err := w.s.Layout.SetSide(t.Context(), w.s.Layout.Side(), store.Side{State: store.SideLeaving, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	if drive(t.Context(), w.driver()); w.read(r.ID).State != Failed || w.read(r.ID).Redirected != 0 || w.find(1).State != notice.Scheduled {
		t.Errorf("%+v", w.read(r.ID))
	}
}
