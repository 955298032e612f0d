package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// spread puts notices into a cluster of three shards, dead ones all, and is how many
// each shard has.
func spread(t *testing.T, s *Store, n int) (per [3]int) {
	t.Helper()
	ctx := t.Context()
	for i := range n {
		key := fmt.Sprintf("app1:a:b:%d", i)
		p := s.space.Partition("app1", key)
		n := &notice.Notice{Key: key, Route: "app1", Due: time.Now(), Made: notice.MadeAt(time.Now()), Content: notice.Content{Body: []byte("x")}}
		if r, err := s.Restore(ctx, p, []Letter{{n, time.Now()}}); err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
		per[p.Shard]++
	}
	return per
}

// Calls that read all shards return the results of the reachable ones and name the missing nodes. A
// bulk redrive skips those.
func TestAnswersWithoutShardsThatAreAway(t *testing.T) {
	t.Parallel()
	c, lose, regain := lacking(t)
	ctx, s := t.Context(), inCluster(c, 3, "app1")
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	per := spread(t, s, 60)
	own, err := c.MasterForKey(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	addr := own.Options().Addr
	counts := func() (Counts, []wire.Lost) {
		t.Helper()
		list, missing, err := s.Counts(ctx, []string{"app1"})
		if err != nil {
			t.Fatal(err)
		}
		return list[0], missing
	}
	// all reads all pages. It returns the notices by shard, and the shards that were missing from a
	// page.
	listed := func() (got [3]int, missing []int) {
		t.Helper()
		seen := map[string]bool{}
		q := Query{Routes: []string{"app1"}, State: notice.Dead, Limit: 7}
		for {
			page, err := s.List(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Items {
				if seen[f.Key] {
					t.Errorf("%s is listed twice", f.Key)
				}
				seen[f.Key] = true
				got[s.space.Shard(f.Key)]++
			}
			for _, l := range page.Missing {
				missing = append(missing, l.Shards...)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				return got, missing
			}
		}
	}
	if got, missing := counts(); got.Dead != 60 || missing != nil {
		t.Errorf("%+v, %+v: all is there", got, missing)
	}
	if got, missing := listed(); got != per || missing != nil {
		t.Errorf("%v, %v: all is there, %v", got, missing, per)
	}

	lose(s.space.Base(1))
	without := per
	without[1] = 0
	got, missing := counts()
	if got.Dead != int64(60-per[1]) || len(missing) != 1 || missing[0].Node != addr || fmt.Sprint(missing[0].Shards) != "[1]" {
		t.Errorf("%+v, %+v: want %d, without shard 1 of %s", got, missing, 60-per[1], addr)
	}
	if got, missing := listed(); got != without || !slices.Contains(missing, 1) || slices.Contains(missing, 0) {
		t.Errorf("%v without %v, want %v without shard 1", got, missing, without)
	}
	if _, missing, err := s.Forecast(ctx, "app1", time.Now(), time.Minute, 3); err != nil || len(missing) != 1 {
		t.Errorf("forecast: %+v, %v", missing, err)
	}
	done, q := 0, Query{Routes: []string{"app1"}}
	missing = nil
	for {
		r, err := s.AmendAll(ctx, Bulk{Query: q, Op: Redrive})
		if err != nil {
			t.Fatal(err)
		}
		done += r.Changed
		missing = wire.Together(missing, r.Missing)
		if q.Cursor = r.Cursor; q.Cursor == "" {
			break
		}
	}
	if done != 60-per[1] || len(missing) != 1 || missing[0].Node != addr {
		t.Errorf("%d redriven without %+v, want %d", done, missing, 60-per[1])
	}
	list := []Amended{}
	for i := range 60 {
		list = append(list, Amended{Prefix: "app1", Key: fmt.Sprintf("app1:a:b:%d", i)})
	}
	if n, missing, err := s.AmendMany(ctx, Cancel, list); n != 60-per[1] || len(missing) != 1 || err != nil {
		t.Errorf("%d cancelled without %+v, %v; want %d", n, missing, err, 60-per[1])
	}

	regain(s.space.Base(1))
	if got, missing := counts(); got.Dead != int64(per[1]) || missing != nil {
		t.Errorf("%+v, %+v: shard 1 is back with its dead letters", got, missing)
	}
}

// If a node fails during the listing of its shard, the rest is skipped and named. If no node
// answers, the listing is an error, not an empty page.
func TestACursorIntoAShardThatIsAway(t *testing.T) {
	t.Parallel()
	c, lose, regain := lacking(t)
	ctx, s := t.Context(), inCluster(c, 3, "app1")
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	per := spread(t, s, 60)
	q := Query{Routes: []string{"app1"}, State: notice.Dead, Limit: per[0] + 3} // three of shard 1
	first, err := s.List(ctx, q)
	if err != nil || len(first.Items) != q.Limit || first.Cursor == "" {
		t.Fatal(len(first.Items), err)
	}
	lose(s.space.Base(1))
	q.Cursor, q.Limit = first.Cursor, 100
	rest, err := s.List(ctx, q)
	if err != nil || len(rest.Items) != per[2] || rest.Cursor != "" || len(rest.Missing) != 1 || fmt.Sprint(rest.Missing[0].Shards) != "[1]" {
		t.Errorf("%d of shard 2's %d, %q, %+v, %v", len(rest.Items), per[2], rest.Cursor, rest.Missing, err)
	}
	lose(s.space.Base(0), s.space.Base(2))
	if page, err := s.List(ctx, q); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%+v, %v: nothing answers", page, err)
	}
	if _, _, err := s.Counts(ctx, []string{"app1"}); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v: nothing answers", err)
	}
	if _, _, err := s.AmendMany(ctx, Redrive, []Amended{{Prefix: "app1", Key: first.Items[0].Key}}); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v: nothing answers", err)
	}
	regain(s.space.Base(1))
	if again, err := s.List(ctx, q); err != nil || len(again.Items) != per[1]-3 || len(again.Missing) != 1 {
		t.Errorf("%d of shard 1's %d, without %+v, %v", len(again.Items), per[1]-3, again.Missing, err)
	}
}

// Cursors can be sealed while the node of the service's key is unreachable, because the key was
// read before.
func TestTheKeyIsKnownWhileItsNodeIsAway(t *testing.T) {
	t.Parallel()
	c, lose, regain := lacking(t)
	ctx, s := t.Context(), inCluster(c, 3, "app1")
	lose(s.space.Key())
	if _, err := s.Layout.Key(ctx); !errors.Is(err, wire.ErrUnavailable) || wire.NodeOf(err) == "" {
		t.Errorf("%v: it was never read; want an error that names the node", err)
	}
	regain(s.space.Key())
	key, err := s.Layout.Key(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lose(s.space.Key())
	if again, err := s.Layout.Key(ctx); err != nil || !bytes.Equal(again, key) {
		t.Errorf("%x, %v; want %x", again, err, key)
	}
	regain(s.space.Key())
	if err := c.Del(ctx, s.space.Key()).Err(); err != nil {
		t.Fatal(err)
	}
	if other, err := s.Layout.Key(ctx); err != nil || bytes.Equal(other, key) {
		t.Errorf("%x, %v: it was replaced", other, err)
	}
}

// Outside a cluster a missing reply is an error.
func TestOneRedisIsNeverMissing(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	boom := fmt.Errorf("x: %w", wire.ErrUnavailable)
	r := s.w.NewRound()
	if _, err := r.Do(t.Context(), 0, func(context.Context) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if missing, err := r.Missing(t.Context()); missing != nil || err != nil {
		t.Errorf("%v, %v", missing, err)
	}
}

// Tags that are neither numbers nor those of a first start, as after a reshard, are found
// without the node of notifier:meta too.
func TestTagsOfAnyKindAreFoundWithoutMeta(t *testing.T) {
	t.Parallel()
	c, lose, _ := lacking(t)
	ctx := t.Context()
	space := keys.Space{Namespace: "notifier", Shards: 3, Tags: []string{"left", "mid-dle", "right"}}
	s := New(Options{Client: c, Space: space, Cluster: true, Prefixes: []string{"app1"}, Retention: time.Hour, Retain: 100})
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	lose(space.Meta(), space.Base(0))
	for _, want := range []int{0, 3} {
		if found, _, err := Discover(ctx, &wire.Conn{Commander: c}, keys.Space{Namespace: "notifier", Shards: want}, true); err != nil ||
			!slices.Equal(found.Tags, space.Tags) {
			t.Errorf("%+v, %v; want the tags %v", found, err, space.Tags)
		}
	}
	if found, _, err := Discover(ctx, c, keys.Space{Namespace: "another"}, true); err != nil || found.Shards != 1 {
		t.Errorf("%+v, %v: nothing is kept there", found, err)
	}
}
