package move

import (
	"errors"
	"slices"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// end claims a due notice and settles it.
func (s Redis) end(t *testing.T, key string, as store.Ending) {
	t.Helper()
	p := s.Space().Partition(prefix, key)
	c, err := s.Store.ClaimKeys(t.Context(), p, store.Lease{Token: "t", For: time.Minute}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatal(c, err)
	}
	if got, err := s.Store.Settle(t.Context(), p, []store.Settlement{{Claim: c.Won[0], Ending: as}}); err != nil || got[0].Stale {
		t.Fatal(got, err)
	}
}

// The instances of the new side store no finalized notices. Once it is open, calls end notices that have just arrived there. These are
// not missing; one that was lost before is.
func TestNoticesEndedByCallsAreNotMissing(t *testing.T) {
	t.Parallel()
	a, b, old, known := two(t, 1)
	fresh := On(store.New(store.Options{Client: b.conn.Commander, Space: known.Space(), Prefixes: []string{prefix}}))
	if err := fresh.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.NewStore(fresh.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "abcdefghijkl",
		About: `{"label":"new","version":"v2"}`, Figures: `{"since":1,"sides":true,"keeps_none":true}`}); err != nil {
		t.Fatal(err)
	}
	const purged, redriven, cancelled, lost, kept = "app1:a:b:1", "app1:a:b:2", "app1:a:b:3", "app1:a:b:4", "app1:a:b:5"
	for _, key := range []string{purged, redriven, cancelled, lost, kept} {
		r := store.Request{Key: key, Delay: time.Hour}
		if key == purged || key == redriven {
			r.Delay = 0
		}
		if _, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, key), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
		if r.Delay == 0 {
			old.end(t, key, store.EndDead)
		}
	}

	calls := func() {
		for key, change := range map[string]store.Amendment{purged: store.Purge, redriven: store.Redrive, cancelled: store.Cancel} {
			if c, err := fresh.Store.Amend(t.Context(), prefix, key, change, store.When{}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
		}
		fresh.end(t, redriven, store.EndDelivered)
	}
	p, opened := fresh.Space().Partition(prefix, lost), false
	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		if name == "deaths" || name == "causes" {
			if !opened {
				calls()
			}
			opened = true
		}
		c := b.srv.Client()
		return errors.Join(do(), c.HDel(t.Context(), fresh.Space().Records(p), lost).Err(),
			c.ZRem(t.Context(), fresh.Space().Shadow(p), lost).Err())
	})
	done, err := m.migrate(t.Context())
	if err != nil || !opened || !slices.Equal(done.Missing, []string{lost}) || done.MissingN != 1 || done.Checked != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	if f, err := fresh.Store.Find(t.Context(), prefix, kept); err != nil || f.State != notice.Scheduled {
		t.Error(f, err)
	}
}
