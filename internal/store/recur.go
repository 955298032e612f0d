package store

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/wire"
)

//go:embed lua/define.lua
var defineSource string

//go:embed lua/tick.lua
var tickSource string

var defineScript = wire.NewScript("define", WithParts(defineSource), true).Ends(5).Names("10, 10, 1", "elsewhere").Confirmed()

// tickScript stores occurrences with the code of schedule.lua.
var tickScript = wire.NewScript("tick", WithParts(tickSource[:strings.Index(tickSource, scheduleLine)]+scheduleSource+
	tickSource[strings.Index(tickSource, scheduleLine)+len(scheduleLine):]), true).Ends(4).Names("14, #ARGV, 9", "elsewhere").Confirmed()

// scheduleLine is the line of a script whose place the code of schedule.lua takes.
const scheduleLine = "-- SCRIPT schedule\n"

// ErrNotDefined is returned if there is no definition of a key.
var ErrNotDefined = fmt.Errorf("%w: no recurring notice has this key", ErrNotFound)

// Recurrences reads and writes the definitions of recurring notices, and stores their occurrences. A definition is stored in the
// partition of its occurrences.
type Recurrences struct{ s *Store }

// NewRecurrences returns the Recurrences of a store.
func NewRecurrences(s *Store) *Recurrences { return &Recurrences{s} }

// Get returns the definition of a key with its state. The error is ErrNotDefined if there is none; of a deleted one, the state is
// returned too.
func (r *Recurrences) Get(ctx context.Context, key string) (recur.Recurrence, error) {
	shard := r.s.space.Shard(key)
	if err := r.bring(ctx, key, ""); err != nil {
		return recur.Recurrence{}, err
	}

	prefixes, err := r.s.Layout.lookUnder(ctx, shard, "", key)
	if err != nil {
		return recur.Recurrence{}, err
	}

	all := r.s.c.Pipeline()
	found := make([]*redis.StringCmd, len(prefixes))
	for i, p := range prefixes {
		found[i] = all.HGet(ctx, r.s.space.Recurring(keys.Partition{Prefix: p, Shard: shard}), key)
	}

	if _, err := all.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return recur.Recurrence{}, r.s.w.Fail(defineScript.Op, err)
	}

	for _, cmd := range found {
		text, err := cmd.Result()
		if err != nil {
			continue
		}

		d, err := recur.Decode(key, text)
		if err == nil && d.Key == "" {
			err = fmt.Errorf("%s: %w", key, ErrNotDefined)
		}

		return d, err
	}

	if r.s.Layout.Side().Closed() {
		return recur.Recurrence{}, fmt.Errorf("%s: %w", key, wire.ErrMoved)
	}

	return recur.Recurrence{}, fmt.Errorf("%s: %w", key, ErrNotDefined)
}

// Define is a write of a definition.
type Define struct {
	// Was is the stored definition that the caller has read; its Head is empty if there was none.
	Was recur.Recurrence
	// Definition is the new one; nil deletes it.
	Definition *recur.Definition
	// State and Withdrawn are the states afterwards: unless, and if, an occurrence that has not begun was withdrawn. The times say when to
	// store the next occurrence; zero = never.
	State, Withdrawn    recur.State
	Next, WithdrawnNext time.Time
}

// ErrOtherState is returned if a definition has another state than the caller has read. The caller may read it again.
var ErrOtherState = errors.New("the definition has another state")

// Define writes a definition in the partition of its key, unless it has another state than the one read. It returns the new state. The
// error is ErrNoDataKey if the shard does not have the data key of a newly sealed content.
func (r *Recurrences) Define(ctx context.Context, prefix, key string, d Define) (recur.State, error) {
	p := keys.Partition{Prefix: prefix, Shard: r.s.space.Shard(key)}
	text, occurrence, dataKey := "", "", ""
	if d.Definition != nil {
		text = d.Definition.Encode()
		if c := &d.Definition.Content; c.Sealed != d.Was.Content.Sealed {
			dataKey = dataKeyOf(c)
		}
	}

	if d.Was.Last > 0 {
		occurrence = recur.OccurrenceKey(key, d.Was.Last)
	}

	if err := r.bring(ctx, key, occurrence); err != nil {
		return recur.State{}, err
	}

	call := creation{Partition: p, since: r.s.Sight(), args: []any{r.s.space.ClaimPrefix(p.Shard), r.s.space.Wake(), p.Wake(),
		r.s.Timers.Mode(prefix), r.s.Retains(), "", key, d.Was.Head, text, occurrence,
		d.State.Encode(), millisText(d.Next), d.Withdrawn.Encode(), millisText(d.WithdrawnNext), dataKey}}
	cmd := r.s.Layout.Call(ctx, defineScript, r.s.space.Base(p.Shard), call.prepare(r.s))
	if lacksDataKey(cmd.Err()) {
		return recur.State{}, ErrNoDataKey
	}

	v, late := r.s.w.PartsOf(defineScript.Op, 3, cmd)
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return recur.State{}, late
	}

	switch v[1] {
	case int64(1):
		return d.State, late
	case int64(2):
		was, _ := v[2].(string)
		r.s.Timers.arm(ctx, prefix, []timer{{key: occurrence, was: was}}, wire.Micros(v[0]))
		return d.Withdrawn, late
	}

	return recur.State{}, ErrOtherState
}

// millisText returns a time in Unix ms; empty = zero.
func millisText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// List returns up to n definitions in the order of their keys, those after the key after that are under the prefix under ("" = all).
// prefixes are those that may have definitions. more reports whether others follow.
func (r *Recurrences) List(ctx context.Context, prefixes []string, under, after string, n int) (
	list []recur.Recurrence, more bool, err error) {
	from, to := "("+after, "+"
	if after == "" {
		from = "-"
	}

	if under != "" { // all keys under it begin with it and a colon
		if to = "(" + under + ";"; after < under+":" {
			from = "[" + under + ":"
		}
	}

	found, err := r.namesIn(ctx, prefixes, under, &redis.ZRangeBy{Min: from, Max: to, Count: int64(n) + 1})
	if err != nil {
		return nil, false, err
	}

	if more = len(found) > n; more {
		found = found[:n]
	}

	read, all := make([]*redis.StringCmd, len(found)), r.s.c.Pipeline()
	for i, f := range found {
		read[i] = all.HGet(ctx, r.s.space.Recurring(f.at), f.key)
	}

	if _, err := all.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, r.s.w.Fail(defineScript.Op, err)
	}

	for i, cmd := range read {
		d, err := recur.Decode(found[i].key, cmd.Val())
		if cmd.Err() != nil && r.s.Layout.isOldShard(found[i].at.Shard) { // it was moved since
			d, err = r.Get(ctx, found[i].key)
		}

		if err == nil && d.Key != "" { // else it was deleted since
			list = append(list, d)
		}
	}

	return list, more, nil
}

// named is the key of a definition, and its partition.
type named struct {
	key string
	at  keys.Partition
}

// namesIn returns the keys of definitions in a range, in order. Count bounds those of each partition, and of the result.
func (r *Recurrences) namesIn(ctx context.Context, prefixes []string, under string, by *redis.ZRangeBy) ([]named, error) {
	now := r.s.space.Now()
	var found []named
	for _, shards := range [][2]int{{0, now.First()}, {now.First(), now.Places()}} { // definitions move from the old shards to the others
		var places []keys.Partition
		for shard := shards[0]; shard < shards[1]; shard++ {
			for _, p := range prefixes {
				if keys.Overlap(p, under) {
					places = append(places, keys.Partition{Prefix: p, Shard: shard})
				}
			}
		}

		some, err := r.namesAt(ctx, places, by)
		if err != nil {
			return nil, err
		}

		found = append(found, some...)
	}

	slices.SortStableFunc(found, func(a, b named) int { return strings.Compare(a.key, b.key) })
	found = slices.CompactFunc(found, func(a, b named) bool { return a.key == b.key })
	return found[:min(len(found), int(by.Count))], nil
}

// namesAt returns the keys of definitions in a range of some partitions.
func (r *Recurrences) namesAt(ctx context.Context, places []keys.Partition, by *redis.ZRangeBy) (found []named, err error) {
	if len(places) == 0 {
		return nil, nil
	}

	all, list := r.s.c.Pipeline(), make([]*redis.StringSliceCmd, len(places))
	for i, at := range places {
		list[i] = all.ZRangeByLex(ctx, r.s.space.Definitions(at), by)
	}

	if _, err := all.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, r.s.w.Fail(defineScript.Op, err)
	}

	for i, cmd := range list {
		for _, key := range cmd.Val() {
			found = append(found, named{key, places[i]})
		}
	}

	return found, nil
}

// MaxTicks is the maximum number of steps in one call of Tick.
const MaxTicks = 64

// Due returns up to MaxTicks definitions of a partition whose next step is due at a time, by Redis's clock. One that cannot be read has
// its key only.
func (r *Recurrences) Due(ctx context.Context, p keys.Partition, at time.Time) (list []recur.Recurrence, err error) {
	names, err := r.s.c.ZRangeByScore(ctx, r.s.space.Ticks(p), &redis.ZRangeBy{Min: "-inf", Max: millisText(at), Count: MaxTicks}).Result()
	if err != nil || len(names) == 0 {
		return nil, r.s.w.Wrapped(tickScript.Op, err)
	}

	texts, err := r.s.c.HMGet(ctx, r.s.space.Recurring(p), names...).Result()
	if err != nil {
		return nil, r.s.w.Fail(tickScript.Op, err)
	}

	for i, x := range texts {
		text, _ := x.(string)
		d, err := recur.Decode(names[i], text)
		if err != nil {
			d = recur.Recurrence{Definition: recur.Definition{Key: names[i]}, Head: d.Head}
		}

		d.Key = names[i]
		list = append(list, d)
	}

	return list, nil
}

// mostEarlier is how many of the last occurrences can be the reason to skip a tick.
const mostEarlier = 32

// firstEarlier returns the number of the first of these.
func firstEarlier(x *recur.Recurrence) int { return max(x.Number-mostEarlier, 0) + 1 }

// Tick is a step of a definition. A Step without a Tick changes only when the following one is made.
type Tick struct {
	Of   recur.Recurrence
	Step recur.Step
	// Skip means that the tick is skipped if an earlier occurrence is pending. Keep means that the time of the following step stays.
	Skip, Keep bool
	// Forgotten means that the tick is skipped, because the content was forgotten.
	Forgotten bool
	pending   bool // an earlier occurrence is, as was found before
}

// Ticked is the result of a Tick: the reply to the occurrence if one was scheduled. Stale means that the definition has another
// state, Occupied that the number is that of another notice, and NoDataKey that the shard does not have the data key of the content, so
// that nothing was written. None of these is set if the occurrence was restored before.
type Ticked struct {
	Reply
	Stale, Occupied, NoDataKey bool
}

// request returns the request of the occurrence.
func (t *Tick) request() Request {
	q := Request{Key: recur.OccurrenceKey(t.Of.Key, t.Step.Number), Due: t.Step.Tick, Client: t.Of.Client, Content: t.Of.Content}
	q.Tick = t.Step.Tick
	return q
}

// append appends the arguments of tick.lua.
func (t *Tick) append(args []any, q *Request) []any {
	next := millisText(t.Step.After)
	if t.Keep {
		next = "keep"
	}

	if t.Step.Tick.IsZero() {
		return append(args, t.Of.Key, t.Of.Head, "", "", "", millisText(t.Step.At), "", "", "")
	}

	var when []byte
	skipped := ""
	if t.Skip || t.Forgotten {
		after, last := t.Step.Overlapped, t.Of.Last
		if t.Forgotten {
			after = t.Step.Forgotten
		}

		if t.pending || t.Forgotten {
			last = -1
		}

		skipped = after.Encode()
		when = fmt.Appendf(when, "%d %d %d %d ", t.Step.Tick.UnixMilli(), last, firstEarlier(&t.Of), t.Of.Number)
	}

	var x notice.Expiry
	if q.ExpiresAfter > 0 { // it counts from the tick, also from a past one
		x.At = t.Step.Tick.Add(q.ExpiresAfter)
	}

	when = appendExpiry(appendWhen(append(when, 'r'), q.Due, 0), x)
	return append(args, t.Of.Key, t.Of.Head, t.Step.Stored.Encode(), t.Step.Occupied.Encode(), skipped, next, q.Key, when, q.newTail(nil))
}

// Tick makes steps of definitions of one partition, in one call. It returns one result for each. The replies count as those of
// [Store.Schedule].
func (r *Recurrences) Tick(ctx context.Context, p keys.Partition, list []Tick) ([]Ticked, error) {
	reqs, digests, dataKeys := make([]Request, len(list)), []byte(nil), make([]string, len(list))
	for i := range list {
		if x := &list[i]; x.Skip && len(r.s.Layout.OldShards()) > 0 {
			var err error
			if x.pending, err = r.pendingInOld(ctx, &x.Of); err != nil {
				return nil, err
			}
		}

		reqs[i] = list[i].request()
		digests = keys.AppendDigest(digests, reqs[i].Key)
		dataKeys[i] = cmp.Or(dataKeyOf(&reqs[i].Content), "-")
	}

	args := []any{r.s.space.ClaimPrefix(p.Shard), r.s.space.Wake(), p.Wake(), r.s.Timers.Mode(p.Prefix), "", digests,
		strings.Join(dataKeys, " ")}
	for i := range list {
		args = list[i].append(args, &reqs[i])
	}

	call := creation{Partition: p, since: r.s.Sight(), args: args}
	v, late := r.s.w.List(tickScript.Op, r.s.Layout.Call(ctx, tickScript, r.s.space.Base(p.Shard), call.prepare(r.s)))
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}
	if v = r.s.Foreign(p.Prefix, v); len(v) != len(list)+1 {
		return nil, wire.BadReply(tickScript.Op, "%d answers for %d definitions", len(v)-1, len(list))
	}

	now, out := wire.Micros(v[0]), make([]Ticked, len(list))
	var timers []timer
	for i, x := range v[1:] {
		out[i] = r.ticked(&reqs[i], p.Prefix, x, now)
		if out[i].Created {
			timers = append(timers, timer{key: reqs[i].Key, due: out[i].Due.UnixMilli(), attempt: 1})
		}
	}

	if r.s.o.Cluster {
		r.s.Timers.arm(ctx, p.Prefix, timers, now)
	}

	if late != nil {
		r.s.Unconfirmed(tickScript.Op, len(timers), late)
	}

	return out, late
}

// ticked reads an answer of tick.lua.
func (r *Recurrences) ticked(q *Request, prefix string, answer any, now time.Time) (x Ticked) {
	switch a := answer.(type) {
	case string:
		x.Stale, x.NoDataKey = a == "stale", a == "nokey"
	case int64:
		x.Reply, _ = r.s.scheduled(q, prefix, a, now)
	default:
		x.Occupied = true
	}

	return x
}
