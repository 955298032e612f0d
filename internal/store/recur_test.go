package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// recurring is a definition with its store, for tests that make its steps one by one.
type recurring struct {
	*Recurrences
	t   *testing.T
	key string
	now time.Time
}

// hourly stores a definition with a tick each hour. The last one was ago before now.
func hourly(t *testing.T, s *Store, ago time.Duration, overlap recur.Overlap) *recurring {
	t.Helper()
	now, err := s.Wire().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &recurring{NewRecurrences(s), t, "app1:a:b:books", now}
	d := &recur.Definition{Key: r.key, Spec: recur.Spec{Every: time.Hour, Anchor: now.Add(-ago).Truncate(time.Millisecond)}, Overlap: overlap,
		Content: notice.Content{Body: []byte("1")}}
	state, _ := d.Redefined(&recur.Recurrence{}, d.Spec.Anchor.Add(-time.Millisecond))
	if _, err := r.Define(t.Context(), prefix, r.key, Define{Definition: d, State: state, Next: now}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recurring) get() recur.Recurrence {
	r.t.Helper()
	x, err := r.Get(r.t.Context(), r.key)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// plan returns the next step as an instance that reads the definition now plans it.
func (r *recurring) plan() Tick {
	r.t.Helper()
	x := r.get()
	step, err := x.Plan(x.State, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	return Tick{Of: x, Step: step, Skip: x.Overlap == recur.OverlapSkip}
}

func (r *recurring) tick(x Tick) Ticked {
	r.t.Helper()
	got, err := r.Tick(r.t.Context(), r.s.space.Partition(prefix, r.key), []Tick{x})
	if err != nil || len(got) != 1 {
		r.t.Fatal(got, err)
	}
	return got[0]
}

// next returns when the next step is to be made, in Unix ms; 0 = never.
func (r *recurring) next() int64 {
	score, err := r.s.c.ZScore(r.t.Context(), r.s.space.Ticks(r.s.space.Partition(prefix, r.key)), r.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.t.Fatal(err)
	}
	return int64(score)
}

// losing is a hook that loses the reply of the next script.
type losing struct{ lose bool }

func (*losing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if h.lose && err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			h.lose = false
			cmd.SetErr(errors.New("connection reset"))
			return cmd.Err()
		}
		return err
	}
}

// One script stores the occurrence and moves the definition on. So an instance that has lost the reply, or was killed before it, leaves
// nothing half done, and a repeated step stores nothing.
func TestTickWithLostReplyStoresOneOccurrence(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := &losing{}
	s := New(Options{Client: conn.Commander, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000})
	r := hourly(t, s, 0, "")
	step := r.plan()
	conn.AddHook(h)
	h.lose = true
	if got, err := r.Tick(t.Context(), s.space.Partition(prefix, r.key), []Tick{step}); err == nil {
		t.Fatalf("%+v, want the lost reply", got)
	}
	x := r.get()
	if x.State != step.Step.Stored || r.next() != step.Step.After.UnixMilli() {
		t.Errorf("%+v, next at %d; want %+v", x.State, r.next(), step.Step)
	}
	if got := r.tick(step); !got.Stale || got.Created {
		t.Errorf("the step again: %+v", got)
	}
	f, err := s.Find(t.Context(), prefix, r.key+"~1")
	if err != nil || f.State != notice.Scheduled || !f.Tick.Equal(step.Step.Tick) {
		t.Errorf("%+v, %v", f.Notice, err)
	}
	if n := srv.Client().HLen(t.Context(), s.space.Records(keys.Partition{Prefix: prefix})).Val(); n != 1 {
		t.Errorf("%d notices", n)
	}
}

// Of instances with different zone data, the one that moves the cursor decides. The other one goes on from there.
func TestInstanceThatMovesTheCursorDecides(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := hourly(t, s, 0, "")
	mine, other := r.plan(), r.plan()
	shift := 30 * time.Minute // the other instance has another offset for the zone
	other.Step.Tick = other.Step.Tick.Add(shift)
	other.Step.Stored.Cursor, other.Step.Stored.LastTick = other.Step.Tick.UnixMilli(), other.Step.Tick.UnixMilli()
	if got := r.tick(other); !got.Created || !got.Due.Equal(other.Step.Tick) {
		t.Errorf("%+v", got)
	}
	if got := r.tick(mine); !got.Stale {
		t.Errorf("two instances store an occurrence for one step: %+v", got)
	}
	if next := r.plan(); next.Step.Number != 2 || !next.Step.Tick.After(other.Step.Tick) {
		t.Errorf("after the tick %s: %+v", other.Step.Tick, next.Step)
	}
}

// Whether a tick is skipped is decided when it is due, not when others are stored ahead: an earlier occurrence may become pending until
// then.
func TestTickThatMayOverlapWaitsForItsTime(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := hourly(t, s, 0, recur.OverlapSkip)
	if got := r.tick(r.plan()); !got.Created {
		t.Fatalf("%+v", got)
	}
	r.amend(Cancel, 1)
	r.now = r.now.Add(time.Hour)
	early := r.plan()
	if !early.Step.At.Equal(early.Step.Tick) {
		t.Errorf("the occurrence for %s is to be stored at %s", early.Step.Tick, early.Step.At)
	}
	if got := r.tick(early); got.Created || got.Stale || r.get().State != early.Of.State || r.next() != early.Step.Tick.UnixMilli() {
		t.Errorf("before its time: %+v, next at %d", got, r.next())
	}
}

// A tick is skipped while any of the last occurrences is pending, also one that is neither the last one nor for the last tick.
func TestTickOverlaps(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := hourly(t, s, 150*time.Minute, recur.OverlapSkip)
	all := r.now
	r.now = all.Add(-time.Hour)
	if got := r.tick(r.plan()); !got.Created {
		t.Fatalf("%+v", got)
	}
	r.amend(Cancel, 1)
	for range 3 {
		x := r.get()
		if got := r.tick(Tick{Of: x, Step: x.RunNow(r.now), Keep: true}); !got.Created {
			t.Fatalf("%+v", got)
		}
	}
	r.amend(Cancel, 2)
	r.amend(Cancel, 4)
	r.now = all
	late := r.plan()
	if got := r.tick(late); got.Created || r.get().State != late.Step.Overlapped || r.next() != late.Step.After.UnixMilli() {
		t.Errorf("with the third of four pending: %+v, %+v", got, r.get().State)
	}
	r.amend(Cancel, 3)
	late.Of = r.get() // the same step again
	if got := r.tick(late); !got.Created || got.Key != r.key+"~5" {
		t.Errorf("after its end: %+v", got)
	}
}

// amend changes an occurrence.
func (r *recurring) amend(op Amendment, number int) {
	r.t.Helper()
	if _, err := r.s.Amend(r.t.Context(), prefix, recur.OccurrenceKey(r.key, number), op, When{}); err != nil {
		r.t.Fatal(err)
	}
}

// An occupied number is skipped and counted. A definition is not written over another state, nor a step made.
func TestDefinitionOfAnotherStateStays(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := hourly(t, s, 0, "")
	ctx, p := t.Context(), s.space.Partition(prefix, r.key)
	if _, err := s.Schedule(ctx, p, []Request{{Key: r.key + "~1", Delay: time.Hour, Content: body("other")}}); err != nil {
		t.Fatal(err)
	}
	step := r.plan()
	if got := r.tick(step); !got.Occupied || r.get().State != step.Step.Occupied || r.next() > r.now.Add(time.Minute).UnixMilli() {
		t.Errorf("%+v, %+v", got, r.get().State)
	}
	old := step.Of
	if _, err := r.Define(ctx, prefix, r.key, Define{Was: old, State: old.State.Deleted()}); !errors.Is(err, ErrOtherState) {
		t.Errorf("%v", err)
	}
	next := r.plan()
	if got := r.tick(next); !got.Created || got.Key != r.key+"~2" {
		t.Errorf("%+v", got)
	}
	x := r.get()
	kept, withdrawn := x.Redefined(&x, r.now)
	state, err := r.Define(ctx, prefix, r.key, Define{Was: x, Definition: &x.Definition, State: kept, Withdrawn: withdrawn, Next: r.now,
		WithdrawnNext: r.now})
	if err != nil || state != withdrawn || r.get().State != withdrawn {
		t.Errorf("%+v, %v", state, err)
	}
	if f, err := s.Find(ctx, prefix, r.key+"~2"); err != nil || f.State != notice.Cancelled {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := s.Find(ctx, prefix, r.key+"~1"); err != nil || f.State != notice.Scheduled {
		t.Errorf("the other notice: %+v, %v", f, err)
	}
}

// A tick whose occurrence was restored has no other one, and a restore after the tick finds the one that was stored. Another notice
// with this number does not count.
func TestImportedOccurrenceExistsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		before       bool // the notice is restored before the tick's occurrence is stored
		shift        time.Duration
		stored, keys int
	}{{"before", true, 0, 9, 1}, {"after", false, 0, 9, 1}, {"before, for another tick", true, time.Hour, 10, 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, srv := open(t)
			r := hourly(t, s, 0, "")
			x := r.get()
			x.MinNumber, x.MinTick = 9, r.now.Add(time.Hour)
			x.State, _ = x.Redefined(&recur.Recurrence{}, x.Spec.Anchor.Add(-time.Millisecond))
			change := Define{Was: r.get(), Definition: &x.Definition, State: x.State, Next: r.now}
			if _, err := r.Define(t.Context(), prefix, r.key, change); err != nil {
				t.Fatal(err)
			}
			step := r.plan()
			n := &notice.Notice{Key: r.key + "~9", Made: notice.MadeAt(r.now), Due: r.now.Add(time.Hour),
				Content: notice.Content{Body: []byte(`[0,{"a":1,"tick":5}]`), Tick: step.Step.Tick.Add(c.shift)}}
			restore := func() bool {
				got, err := s.Restore(t.Context(), s.space.Partition(prefix, r.key), []Letter{{Notice: n}})
				if err != nil || got[0].Err != nil && !errors.Is(got[0].Err, ErrTaken) {
					t.Fatal(got, err)
				}
				return got[0].Created
			}
			if c.before && !restore() {
				t.Error("the notice was not restored")
			}
			for got := r.tick(step); got.Occupied; got = r.tick(r.plan()) {
			}
			if !c.before && restore() {
				t.Error("the notice was restored beside the one for its tick")
			}
			if got := r.get(); got.Number != c.stored || got.Last != c.stored || got.LastTick != step.Step.Tick.UnixMilli() ||
				got.Stored != 1 || r.next() != step.Step.After.UnixMilli() {
				t.Errorf("%+v, next at %d", got.State, r.next())
			}
			if n := srv.Client().HLen(t.Context(), s.space.Records(s.space.Partition(prefix, r.key))).Val(); int(n) != c.keys {
				t.Errorf("%d notices", n)
			}
		})
	}
}

// Any number of idle definitions costs an inspection one command more.
func TestIdleDefinitionsCostOneCommand(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := on(t, srv.URL(), "notifier")
	r := hourly(t, s, 0, "")
	p := s.space.Partition(prefix, r.key)
	text := srv.Client().HGet(t.Context(), s.space.Recurring(p), r.key).Val()
	fields, ticks := []any{}, []redis.Z{}
	for i := range 10_000 {
		key := fmt.Sprintf("%s-%d", r.key, i)
		fields, ticks = append(fields, key, text), append(ticks, redis.Z{Score: 4e12, Member: key})
	}
	if err := errors.Join(srv.Client().HSet(t.Context(), s.space.Recurring(p), fields...).Err(),
		srv.Client().ZAdd(t.Context(), s.space.Ticks(p), ticks...).Err()); err != nil {
		t.Fatal(err)
	}
	commands := func(ticks bool) (n int) {
		t.Helper()
		if _, err := s.Look(t.Context(), []Look{{Partition: p, Limit: 10, Ticks: ticks}}); err != nil { // the script is known from now on
			t.Fatal(err)
		}
		if err := srv.Client().ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Look(t.Context(), []Look{{Partition: p, Limit: 10, Ticks: ticks}}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(srv.Client().Info(t.Context(), "commandstats").Val()) {
			name, rest, _ := strings.Cut(line, ":calls=")
			if calls := 0; name != "cmdstat_config|resetstat" && rest != "" {
				if _, err := fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &calls); err != nil {
					t.Fatal(err)
				}
				n += calls
			}
		}
		return n
	}
	if without, with := commands(false), commands(true); with != without+1 {
		t.Errorf("%d commands with definitions, %d without", with, without)
	}
}
