package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// definitions are what defineSome has stored, by key. A deleted one has no Key.
type definitions map[string]recur.Recurrence

// defineSome stores definitions: with a next tick, paused, and deleted.
func defineSome(t *testing.T, s Redis) definitions {
	t.Helper()
	all := definitions{}
	for i := range 12 {
		key := fmt.Sprintf("%s:b:c:books-%d", prefix, i)
		d := &recur.Definition{Key: key, Spec: recur.Spec{Every: time.Hour}, Content: notice.Content{Body: []byte("\n{")}}
		state := recur.State{Number: 10 + i, Changes: 3, Cursor: 1_700_000_000_000, Stored: 4}
		next := time.UnixMilli(4_000_000_000_000 + int64(i)).UTC()
		if i%3 > 0 {
			d.Paused, next = true, time.Time{}
		}
		all.put(t, s, store.Define{Definition: d, State: state, Next: next}, key)
		if i%3 == 2 {
			state = state.Deleted()
			all.put(t, s, store.Define{Was: all[key], State: state}, key)
		}
	}
	return all
}

// put writes a definition, and remembers it.
func (all definitions) put(t *testing.T, s Redis, d store.Define, key string) {
	t.Helper()
	r := store.NewRecurrences(s.Store)
	if _, err := r.Define(t.Context(), prefix, key, d); err != nil {
		t.Fatal(err)
	}
	x := recur.Recurrence{State: d.State, Head: d.State.Encode()}
	if d.Definition != nil {
		x.Definition = *d.Definition
	}
	all[key] = x
}

// check fails unless a Redis has each definition once, in its current shard, with its state and the time of its next step.
func (all definitions) check(t *testing.T, when string, s Redis) {
	t.Helper()
	r := store.NewRecurrences(s.Store)
	var want []string
	for key, x := range all {
		got, err := r.Get(t.Context(), key)
		wrong := err != nil || !got.Same(&x.Definition)
		if x.Key == "" {
			wrong = !errors.Is(err, store.ErrNotDefined)
		}
		if wrong || got.State != x.State {
			t.Errorf("%s: %s is %+v, %v; want %+v", when, key, got, err, x)
		}
		if x.Key != "" {
			want = append(want, key)
		}
		p := keys.Partition{Prefix: prefix, Shard: s.Space().Shard(key)}
		score, err := s.Wire().Redis.ZScore(t.Context(), s.Space().Ticks(p), key).Result()
		if due := x.Key != "" && !x.Paused; due != (err == nil) || due && score != 4_000_000_000_000+float64(x.Number-10) {
			t.Errorf("%s: the next step of %s is at %v, %v", when, key, score, err)
		}
	}
	list, more, err := r.List(t.Context(), []string{prefix}, "", "", 100)
	var got []string
	for _, x := range list {
		got = append(got, x.Key)
	}
	if slices.Sort(want); err != nil || more || !slices.Equal(got, want) {
		t.Errorf("%s: %v, %v; want %v", when, got, err, want)
	}
}

// left returns how many definitions some places of a Redis have.
func (definitions) left(t *testing.T, s Redis, places int) (n int64) {
	t.Helper()
	for place := range places {
		p := keys.Partition{Prefix: prefix, Shard: place}
		n += s.Wire().Redis.HLen(t.Context(), s.Space().Recurring(p)).Val() + s.Wire().Redis.ZCard(t.Context(), s.Space().Ticks(p)).Val() +
			s.Wire().Redis.ZCard(t.Context(), s.Space().Definitions(p)).Val()
	}
	return n
}

func (all definitions) checkGone(t *testing.T, when string, s Redis) {
	t.Helper()
	if n := all.left(t, s, s.Space().Places()); n > 0 {
		t.Errorf("killed at %s: the old side has %d entries of definitions", when, n)
	}
}

// checkSides fails unless all definitions are on one side at least, and at most one side stores occurrences of them.
func (all definitions) checkSides(t *testing.T, when string, sides ...Redis) {
	t.Helper()
	for key, x := range all {
		found, ticks := 0, 0
		for _, s := range sides {
			got, err := store.NewRecurrences(s.Store).Get(t.Context(), key)
			if got.Number == x.Number {
				found++
			}
			p := s.Space().Partition(prefix, key)
			other := got
			other.Key, other.Head = key, "another state"
			_, err2 := store.NewRecurrences(s.Store).Tick(t.Context(), p, []store.Tick{{Of: other}})
			if err == nil && err2 == nil {
				ticks++
			} else if err2 != nil && !errors.Is(err2, wire.ErrMoved) {
				t.Errorf("killed at %s: %s: %v", when, key, err2)
			}
		}
		if found == 0 || ticks > 1 {
			t.Errorf("killed at %s: %s is on %d sides, %d store its occurrences", when, key, found, ticks)
		}
	}
}

// killer is a hook that fails each script from the n-th on, before it is sent or after.
type killer struct {
	left  int
	after bool
}

func (*killer) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		if k.left--; k.left > 0 {
			return next(ctx, cmd)
		}
		if k.after && k.left == 0 {
			_ = next(ctx, cmd)
		}
		cmd.SetErr(errKilled)
		return errKilled
	}
}

// A mover that is killed before or after any step leaves each definition readable, with its state, and in one shard at most where its
// occurrences are stored. The next mover finishes.
func TestReshardCarriesDefinitions(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n, whole := 1, false; !whole; n++ {
			srv, _, more := open(t)
			s := more()
			all := defineSome(t, s)
			if err := s.Layout.Announce(t.Context(), s.Space().Replace(3, false)); err != nil {
				t.Fatal(err)
			}
			when := fmt.Sprintf("killed at %d, %t", n, after)
			conn, err := wire.Open(wire.Address{URL: srv.URL()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			dying := dyingOn(t, conn, s)
			conn.AddHook(&killer{n, after})
			err = dying.MoveDefinitions(t.Context(), 0)
			if whole = err == nil; !whole && !errors.Is(err, errKilled) {
				t.Fatal(when, err)
			}
			if !whole {
				key := prefix + ":b:c:books-0" // a call on it moves it
				if x, err := store.NewRecurrences(s.Store).Get(t.Context(), key); err != nil || x.State != all[key].State {
					t.Fatalf("%s: %+v, %v", when, x, err)
				}
			}
			end := more()
			if got, err := (&Mover{From: end, To: end}).Pass(t.Context()); err != nil || len(end.Layout.OldShards()) > 0 {
				t.Fatalf("%s: %+v, %v, %v", when, got, err, end.Layout.OldShards())
			}
			all.check(t, when, end)
			if n := all.left(t, end, 1); n > 0 {
				t.Errorf("%s: the old shard has %d entries", when, n)
			}
			if whole && n < 4 {
				t.Errorf("only %d steps", n)
			}
		}
	}
}

// dyingOn returns another Redis on the data of s whose scripts pass through conn.
func dyingOn(t *testing.T, conn *wire.Conn, s Redis) Redis {
	t.Helper()
	space, _, err := store.Discover(t.Context(), conn, keys.Space{Namespace: s.Space().Namespace}, false)
	if err != nil {
		t.Fatal(err)
	}
	dying := On(store.New(store.Options{Client: conn.Commander, Space: space}))
	if err := dying.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dying
}

// An occurrence that has not begun is withdrawn with its definition, though it is in an old shard. One that is claimed there makes a tick
// overlap.
func TestOccurrencesInOldShardsCount(t *testing.T) {
	t.Parallel()
	_, _, more := open(t)
	s := more()
	ctx, keyed := t.Context(), [2]string{prefix + ":b:c:books", prefix + ":b:c:poll"}
	r := store.NewRecurrences(s.Store)
	now, err := s.Wire().Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	get := func(key string) recur.Recurrence {
		t.Helper()
		x, err := r.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	tick := func(key string, now time.Time) store.Ticked {
		t.Helper()
		x := get(key)
		step, err := x.Plan(x.State, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Tick(ctx, s.Space().Partition(prefix, key), []store.Tick{{Of: x, Step: step, Skip: true}})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	for _, key := range keyed {
		d := &recur.Definition{Key: key, Spec: recur.Spec{Every: time.Hour}, Overlap: recur.OverlapSkip}
		state, _ := d.Redefined(&recur.Recurrence{}, now.Add(-3*time.Hour))
		if _, err := r.Define(ctx, prefix, key, store.Define{Definition: d, State: state, Next: now}); err != nil {
			t.Fatal(err)
		}
		if got := tick(key, now.Add(-time.Hour)); !got.Created {
			t.Fatalf("%s: %+v", key, got)
		}
	}
	first := recur.OccurrenceKey(keyed[0], 1)
	c, err := s.Store.ClaimKeys(ctx, s.Space().Partition(prefix, first), store.Lease{Token: "t", For: time.Minute}, []string{first})
	if err != nil || len(c.Won) != 1 {
		t.Fatal(c, err)
	}
	if err := s.Layout.Announce(ctx, s.Space().Replace(3, false)); err != nil {
		t.Fatal(err)
	}
	if got := tick(keyed[0], now); got.Created || get(keyed[0]).Overlapped != 1 {
		t.Errorf("the tick overlaps: %+v, %+v", got, get(keyed[0]).State)
	}
	for i, want := range []notice.State{notice.Claimed, notice.Cancelled} {
		x := get(keyed[i])
		if _, err := r.Define(ctx, prefix, x.Key, store.Define{Was: x, State: x.State.Deleted(), Withdrawn: x.State.Deleted()}); err != nil {
			t.Fatal(err)
		}
		if f, err := s.Store.Find(ctx, prefix, recur.OccurrenceKey(x.Key, 1)); err != nil || f.State != want {
			t.Errorf("an occurrence of the deleted definition %s is %+v, %v; want %s", x.Key, f, err, want)
		}
	}
}

// A migration keeps the higher number, and takes the definition of the old side. It is refused if the new side has definitions.
func TestMigrateKeepsTheHigherNumber(t *testing.T) {
	t.Parallel()
	a, b, old, fresh := two(t, 3)
	key := prefix + ":b:c:books"
	there, here := definitions{}, definitions{}
	d := &recur.Definition{Key: key, Spec: recur.Spec{Every: time.Hour}}
	there.put(t, fresh, store.Define{Definition: d, State: recur.State{Number: 50, Changes: 9}}, key)
	here.put(t, old, store.Define{Definition: d, State: recur.State{Number: 7, Changes: 1, Cursor: 5},
		Next: time.UnixMilli(4_000_000_000_000)}, key)
	_, err := Migrate(t.Context(), migration(t, a, b))
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "notifier recur delete") {
		t.Errorf("%v", err)
	}
	there.put(t, fresh, store.Define{Was: there[key], State: there[key].State.Deleted()}, key)
	if _, err := Migrate(t.Context(), migration(t, a, b)); err != nil {
		t.Fatal(err)
	}
	got, err := store.NewRecurrences(fresh.Store).Get(t.Context(), key)
	if want := (recur.State{Number: 50, Changes: 1, Cursor: 5}); err != nil || got.State != want || !got.Same(d) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
