package move

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"notifier/internal/notice"
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
