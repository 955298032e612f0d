package intake

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

var partition = keys.Partition{Prefix: "app1"}

// open returns the Redis of adoption on its own database. change, if not nil, changes the options.
func open(t *testing.T, change func(o *store.Options)) (Redis, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	o := store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{"app1"},
		Retention: time.Hour, Retain: 1000}
	if change != nil {
		change(&o)
	}
	s := store.New(o)
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return Redis{s}, srv
}

// step peeks at a key and takes one step.
func (s Redis) step(t *testing.T, key string, op Operation) (bool, error) {
	t.Helper()
	_, seen, _, err := s.Peek(t.Context(), partition, []string{key}, 1<<10)
	if err != nil || len(seen) != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	done, err := s.Adopt(t.Context(), partition, []Adoption{{Seen: seen[0], Op: op, Content: notice.Content{Body: seen[0].Value,
		Adopted: true}}})
	return err == nil && done[0], err
}

// Stranded finds a notice that was written to an old shard after the shard was found empty.
func TestStrandedFindsNoticesInOldShards(t *testing.T) {
	t.Parallel()
	s, srv := open(t, nil)
	ks := []string{"app1:a:b:0", "app1:a:b:1", "app1:a:b:2"}
	check := func(when string, want ...bool) {
		t.Helper()
		got, err := s.Stranded(t.Context(), ks)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
	}
	check("no shard was ever replaced", false, false, false)
	for _, n := range []int{3, 2} {
		if err := s.Layout.Announce(t.Context(), s.Space().Replace(n, false)); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := s.Layout.Drained(t.Context(), nil); left != 0 || err != nil || len(s.Layout.OldShards()) != 0 {
		t.Fatal(left, err, s.Layout.OldShards())
	}
	for i, k := range ks[:2] {
		place := s.Space().Homes(k)[i]
		p := keys.Partition{Prefix: "app1", Shard: place}
		if err := srv.Client().HSet(t.Context(), s.Space().Records(p), k, `{"due":1,"made":2}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Schedule(t.Context(), s.Space().Partition("app1", ks[2]), []store.Request{{Key: ks[2], Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	check("two were written there", true, true, false)
}

// During a migration, a plain timer that a producer has set since its key's notice left is a new
// notice, and is adopted. A schedule call for such a key is refused.
func TestTimerSetAfterItsNoticeMovedIsAdopted(t *testing.T) {
	t.Parallel()
	s, srv := open(t, nil)
	const key = "app1:a:b:1"
	if _, err := s.Layout.SetSide(t.Context(), s.Layout.Side(), store.Side{State: store.SideLeaving, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	c := srv.Client()
	if err := errors.Join(c.HSet(t.Context(), s.Space().Elsewhere(0), key, "1").Err(), c.Set(t.Context(), key, "payload",
		time.Hour).Err()); err != nil {
		t.Fatal(err)
	}

	replies, err := s.Schedule(t.Context(), partition, []store.Request{{Key: key, Delay: time.Hour}})
	if err != nil || !errors.Is(replies[0].Err, wire.ErrMoved) {
		t.Errorf("a schedule call: %+v, %v", replies, err)
	}
	if done, err := s.step(t, key, OpAdopt); err != nil || !done {
		t.Errorf("adopt: %v, %v", done, err)
	}
}

func TestAdoptAppendsFinalizedNoticesToTheOutbox(t *testing.T) {
	t.Parallel()
	s, srv := open(t, func(o *store.Options) { o.History = 1000 })
	const replaced, cancelled = "app1:a:b:1", "app1:a:b:2"
	do := func(key string, op Operation) {
		t.Helper()
		if done, err := s.step(t, key, op); err != nil || !done {
			t.Fatalf("%s %s: %v, %v", op, key, done, err)
		}
	}
	set := func(key, text string, ttl time.Duration) {
		t.Helper()
		if err := srv.Client().Set(t.Context(), key, text, ttl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(replaced, "first", time.Hour)
	do(replaced, OpAdopt)
	set(replaced, "second", time.Hour)
	do(replaced, OpAdopt)
	set(cancelled, "third", time.Hour)
	do(cancelled, OpAdopt)
	if err := srv.Client().Del(t.Context(), cancelled).Err(); err != nil {
		t.Fatal(err)
	}
	do(cancelled, OpCancel)
	set(cancelled, "fourth", time.Hour)
	do(cancelled, OpAdopt) // in place of a cancelled notice

	var got []string
	for _, text := range srv.Client().LRange(t.Context(), s.Space().Ended(0), 0, -1).Val() {
		e, err := store.ReadEntry(text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d %s %s", e.Outcome, e.Number, e.Key, e.Body))
	}
	if want := []string{"replaced 1 " + replaced + " first", "cancelled 1 " + cancelled + " third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAdoptRefusesAClockYearsBehind(t *testing.T) {
	t.Parallel()
	s, srv := open(t, nil)
	const other = "local redis = setmetatable({call = function(c, ...) if c == 'TIME' then return {'5', '0'} end " +
		"return redis.call(c, ...) end}, {__index = redis})\n"
	args := []any{s.Space().ClaimPrefix(0), s.Space().Wake(), partition.Wake(), "1", "", "", "app1:a:b:1", "r+1000", "}", "", "", "", ""}
	err := wire.Wrap("adopt", srv.Client().Eval(t.Context(), other+adoptScript.Source(), s.Space().States(partition), args...).Err())
	var clock wire.ClockError
	if !errors.As(err, &clock) || !clock.Says.Equal(time.Unix(5, 0)) {
		t.Errorf("%v", err)
	}
}

func TestAdoptIgnoresTombstones(t *testing.T) {
	t.Parallel()
	s, srv := open(t, func(o *store.Options) { o.Retain, o.RepeatWindow, o.RepeatBytes = 1, time.Hour, 1<<20 })
	for _, key := range []string{"app1:a:b:1", "app1:a:b:2"} {
		_, err := s.Schedule(t.Context(), partition, []store.Request{{Key: key, Delay: time.Hour}})
		_, amended := s.Amend(t.Context(), "app1", key, store.Cancel, store.When{})
		if err := errors.Join(err, amended); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Trim(t.Context(), 0, []store.Trim{{Prefix: "app1"}}, 10); err != nil {
		t.Fatal(err)
	}
	if n := srv.Client().ZCard(t.Context(), s.Space().Tombstones(0)).Val(); n != 1 {
		t.Fatalf("%d buckets of tombstones", n)
	}

	const trimmed = "app1:a:b:1"
	if err := srv.Client().Set(t.Context(), trimmed, "x", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if done, err := s.step(t, trimmed, OpAdopt); err != nil || !done {
		t.Errorf("%v, %v", done, err)
	}
}

// FuzzReplies checks that a call returns for any reply of Redis.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 3, 0, 5, 200, 7, 100, 3, 0, 1, 0, 0, 100, 16, 100, 8, 100, 0, 100, 0})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		c, a := testkit.Answers(t, b)
		s := Redis{store.New(store.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{"app1"}})}
		a.Learning = []string{"app1"}
		if err := s.Layout.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		a.Learning = nil
		const key = "app1:a:b:1"
		for _, call := range []func() error{
			func() error { _, _, _, err := s.Peek(ctx, partition, []string{key}, 100); return err },
			func() error {
				_, err := s.Adopt(ctx, partition, []Adoption{{Seen: Seen{Key: key, Length: NoKey}, Op: OpAdopt}})
				return err
			},
			func() error { _, _, err := s.Strays(ctx, partition, "0"); return err },
			func() error { _, _, err := s.StraysDue(ctx, partition, time.Second); return err },
			func() error { _, _, err := s.Unknown(ctx, partition, []string{key}, time.Second); return err },
		} {
			a.Rest = b
			_ = call() // an error is fine
		}
	})
}

// An adopted timer joins its sequence at its expiry, gets a new position when its owner moves it, and
// leaves when its owner deletes it.
func TestAdoptedTimersAreInTheirSequence(t *testing.T) {
	s, srv := open(t, nil)
	ctx, c := t.Context(), srv.Client()
	const first, second = "app1:a:b:1", "app1:a:c:1"
	if err := s.Layout.AddOrdered(ctx, []string{"app1"}); err != nil {
		t.Fatal(err)
	}
	set := func(key string, in time.Duration, op Operation) {
		t.Helper()
		if err := c.Set(ctx, key, "payload", in).Err(); err != nil {
			t.Fatal(err)
		}
		if done, err := s.step(t, key, op); !done || err != nil {
			t.Fatal(key, done, err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		is, err := testkit.ReadSequences(ctx, c, s.Space().Base(partition.Shard), partition.Prefix)
		for _, m := range is.Members {
			got = append(got, m[strings.LastIndexByte(m, ' ')+1:])
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("the sequence is %q, want %q; %v", got, want, err)
		}
	}
	set(first, time.Hour, OpAdopt)
	set(second, 2*time.Hour, OpAdopt)
	check(first, second)
	set(first, 3*time.Hour, OpMove)
	check(second, first)
	if err := c.Del(ctx, second).Err(); err != nil {
		t.Fatal(err)
	}
	if done, err := s.step(t, second, OpCancel); !done || err != nil {
		t.Fatal(done, err)
	}
	check(first)
}
