package move

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// A migration takes along the paused receivers, their limits and the lists of what is held, so that a resume on the new
// side finds its notices. A pause that was made during the migration comes with it.
func TestMigrateKeepsPausedReceivers(t *testing.T) {
	t.Parallel()
	const held = 20
	a, b, old, fresh := two(t, 3)
	ctx := t.Context()
	set := func(field, value string) {
		t.Helper()
		if done, err := old.Layout.SetReceiver(ctx, store.ReceiverChange{Field: field, Value: value}); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	set("pause down.example", `"until":0}`)
	set("limit slow.example", `"rate":5}`)
	for i := range held {
		key := fmt.Sprintf("app1:a:b:%d", i)
		p := old.Space().Partition(prefix, key)
		if _, err := old.Store.Schedule(ctx, p, []store.Request{{Key: key}}); err != nil {
			t.Fatal(err)
		}
		c, err := old.Store.ClaimKeys(ctx, p, store.Lease{Token: "t", For: time.Minute}, []string{key})
		if err != nil || len(c.Won) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		pause := store.Settlement{Claim: c.Won[0], Ending: store.EndPostponed, After: time.Hour, Held: notice.HeldPaused, Pause: "down.example"}
		if _, err := old.Store.Settle(ctx, p, []store.Settlement{pause}); err != nil {
			t.Fatal(err)
		}
	}

	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		if name == "pauses" {
			set("pause second.example", `"until":0}`)
		}
		return do()
	})
	if _, err := m.migrate(ctx); err != nil {
		t.Fatal(err)
	}

	want := a.srv.Client().HGetAll(ctx, old.Space().Receivers()).Val()
	if got := b.srv.Client().HGetAll(ctx, fresh.Space().Receivers()).Val(); len(got) != 6 || !maps.Equal(got, want) {
		t.Errorf("the new side has %v, want %v", got, want)
	}
	lists, copies := int64(0), 0
	for shard := range fresh.Space().Places() {
		p := fresh.Space().Partition(prefix, "app1:a:b:0")
		p.Shard = shard
		lists += b.srv.Client().ZCard(ctx, fresh.Space().Held(p)).Val()
		if maps.Equal(b.srv.Client().HGetAll(ctx, fresh.Space().ShardReceivers(shard)).Val(), want) {
			copies++
		}
	}
	if lists != held || copies != 3 {
		t.Errorf("%d notices are listed as held, want %d; %d shards have a copy, want 3", lists, held, copies)
	}
}

// A migration moves the causes of messages for teams, and copies outages, also if they began during the migration.
// Regression test: both were copied once, at the begin. A cause of later deaths got no message, and a later outage no message of its end.
func TestMigrateKeepsMessagesForTeams(t *testing.T) {
	t.Parallel()
	const known, later, unreadable = "orders gone", "orders status_5xx", "orders timeout"
	a, b, old, fresh := two(t, 3)
	ctx := t.Context()
	here, there := &receivers.HealthStore{Wire: old.Wire()}, &receivers.HealthStore{Wire: fresh.Wire()}
	set := func(s *receivers.HealthStore, name, was, text string) {
		t.Helper()
		if done, err := s.SetCause(ctx, prefix, name, was, text); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	was := `{"since":1000,"noted":1100,"last":1200,"key":"a"}`
	set(here, known, "", was)
	set(here, unreadable, "", "{")
	down := receivers.Outage{Since: time.UnixMilli(7000).UTC(), Sent: true, Failures: 3, LastFailure: time.UnixMilli(8000).UTC(),
		Status: 500, Reason: "status_5xx"}

	m, changed := newMigrator(migration(t, a, b)), false
	m.hook = hook(func(name string, do func() error) error {
		if name == "pauses" && !changed {
			changed = true
			set(here, known, was, `{"since":1000,"noted":1100,"last":1300,"told":2000,"sent":1,"key":"a"}`)
			set(here, later, "", `{"since":3000,"noted":3100,"last":3200,"key":"b"}`)
			other := `{"since":1500,"noted":1600,"last":1700,"key":"c"}`
			if err := b.srv.Client().HSet(ctx, fresh.Space().HealthCauses(prefix), known, other).Err(); err != nil {
				t.Fatal(err)
			}
			if done, err := here.SetOutage(ctx, prefix, "shop.example:443", nil, &down); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		return do()
	})
	if _, err := m.migrate(ctx); err != nil {
		t.Fatal(err)
	}

	want := map[string]string{known: `{"since":1000,"noted":1100,"last":1700,"told":1699,"sent":1,"key":"a"}`,
		later: `{"since":3000,"noted":3100,"last":3200,"key":"b"}`}
	if got, _, err := there.Causes(ctx, prefix); err != nil || !maps.Equal(got, want) {
		t.Errorf("the new side has %v, %v, want %v", got, err, want)
	}
	if got, _, err := here.Causes(ctx, prefix); err != nil || len(got) != 1 || got[unreadable] != "{" {
		t.Errorf("the old side has %v, %v, want the one that cannot be read", got, err)
	}
	list, _, err := there.Outages(ctx, prefix)
	if err != nil || list["shop.example:443"] != down {
		t.Errorf("the new side has the outages %+v, %v, want %+v", list, err, down)
	}
}
