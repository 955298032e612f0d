package store

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/wire"
)

// Moves of definitions to other shards, another Redis or another prefix. No claim holds a definition, so it is copied, and then
// deleted in its source. No source stores occurrences meanwhile: the gate refuses that in an old shard, and on the side of a migration
// that refuses calls. So a target that has a definition already, after a mover was killed, has the latest one. The states of deleted
// definitions move too, since they have the numbers.

//go:embed lua/recurin.lua
var recurInSource string

//go:embed lua/recurend.lua
var recurEndSource string

var (
	recurInScript  = wire.NewScript("recurin", WithParts(recurInSource), true).Confirmed()
	recurEndScript = wire.NewScript("recurend", WithParts(recurEndSource), false)
)

// Text returns the stored text, as recur.Decode reads it.
func (d Defined) Text() string { return d.text }

// maxDefined is the maximum number of definitions in one call.
const maxDefined = 32

// Defined is a definition as it is stored, or the state of a deleted one.
type Defined struct {
	Key  string
	text string
	next string // when to store the next occurrence, in Unix ms; empty = never
}

// Stored reads a page of the definitions of a partition. The first cursor is 0, and so is the one returned with the last definitions.
func (r *Recurrences) Stored(ctx context.Context, p keys.Partition, cursor uint64) (list []Defined, next uint64, err error) {
	pairs, next, err := r.s.c.HScan(ctx, r.s.space.Recurring(p), cursor, "", maxDefined).Result()
	if err != nil || len(pairs) == 0 {
		return nil, next, r.s.w.Wrapped(recurInScript.Op, err)
	}

	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, Defined{Key: pairs[i], text: pairs[i+1]})
	}

	return list, next, r.readNext(ctx, p, list)
}

// readNext reads when to store the next occurrences.
func (r *Recurrences) readNext(ctx context.Context, p keys.Partition, list []Defined) error {
	all, scores := r.s.c.Pipeline(), make([]*redis.FloatCmd, len(list))
	for i := range list {
		scores[i] = all.ZScore(ctx, r.s.space.Ticks(p), list[i].Key)
	}

	if _, err := all.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return r.s.w.Fail(recurInScript.Op, err)
	}

	for i, cmd := range scores {
		if cmd.Err() == nil {
			list[i].next = strconv.FormatInt(int64(cmd.Val()), 10)
		}
	}

	return nil
}

// Take stores definitions of another Redis in the shards of their keys. Those stored here are replaced if replace is true. The
// numbers never decrease. It is sent only while the role of this Redis is side.
func (r *Recurrences) Take(ctx context.Context, prefix string, side Side, replace bool, list []Defined) error {
	return r.in(ctx, prefix, replace, list, side.known)
}

// known reports whether a view has this role. Roles in which a Redis accepts all calls are equal.
func (s Side) known(v *LayoutView) bool { return v.Side == s || !v.Side.Sorts() && !s.Sorts() }

// Rehome moves definitions from one prefix to another, each in one step. Those of an old shard stay until they leave it.
func (r *Recurrences) Rehome(ctx context.Context, from keys.Partition, to string, ks []string) error {
	if r.s.Layout.isOldShard(from.Shard) {
		return nil
	}

	list := make([]Defined, len(ks))
	for i, key := range ks {
		list[i].Key = key
	}

	return r.in(ctx, to, false, list, func(*LayoutView) bool { return true })
}

// in stores definitions in the current shards of their keys, under a prefix. Those without a text are moved from other prefixes.
func (r *Recurrences) in(ctx context.Context, prefix string, replace bool, list []Defined, sure func(*LayoutView) bool) error {
	by := map[int][]Defined{}
	for _, d := range list {
		shard := r.s.space.Shard(d.Key)
		by[shard] = append(by[shard], d)
	}

	flag := ""
	if replace {
		flag = "1"
	}

	for shard, all := range by {
		p := keys.Partition{Prefix: prefix, Shard: shard}
		args, ks := []any{r.s.space.Wake(), p.Wake(), flag}, make([]string, len(all))
		for i, d := range all {
			ks[i] = d.Key
			args = append(args, d.Key, d.text, d.next)
		}

		err := r.s.Layout.Call(ctx, recurInScript, r.s.space.Base(shard), func(v *LayoutView) ([]string, []any, error) {
			switch {
			case shard < v.first:
				return nil, nil, ErrReplaced
			case !sure(v):
				return nil, nil, ErrOutdated
			}

			names := r.s.space.States(p)
			for _, other := range v.CoveringAny(ks) {
				if other != prefix {
					names = append(names, r.s.space.States(p.Under(other))...)
				}
			}

			return names, args, nil
		}).Err()
		if err != nil {
			return r.s.w.Fail(recurInScript.Op, err)
		}
	}

	return nil
}

// Drop deletes definitions that another Redis has stored, unless they have changed. It is sent only while the role of this Redis is
// side.
func (r *Recurrences) Drop(ctx context.Context, from keys.Partition, side Side, list []Defined) error {
	return r.drop(ctx, from, list, side.known)
}

// drop deletes definitions, unless they have changed.
func (r *Recurrences) drop(ctx context.Context, from keys.Partition, list []Defined, sure func(*LayoutView) bool) error {
	args := make([]any, 0, 2*len(list))
	for _, d := range list {
		args = append(args, d.Key, d.text)
	}

	cmd := r.s.Layout.Call(ctx, recurEndScript, r.s.space.Base(from.Shard), func(v *LayoutView) ([]string, []any, error) {
		if !sure(v) {
			return nil, nil, ErrOutdated
		}
		return []string{r.s.space.Shadow(from)}, args, nil
	})
	return r.s.w.Wrapped(recurEndScript.Op, cmd.Err())
}

// Leave moves the definitions of an old shard to the shards of their keys.
func (r *Recurrences) Leave(ctx context.Context, place int) error {
	if err := r.s.Layout.known(ctx, place); err != nil { // writers that take it for a current shard are refused from now on
		return err
	}

	for _, prefix := range r.s.Layout.Prefixes() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		for cursor := uint64(0); ; {
			list, next, err := r.Stored(ctx, p, cursor)
			if err == nil {
				err = r.leave(ctx, p, list)
			}

			if err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}

	return nil
}

// leave moves definitions of an old shard to the shards of their keys.
func (r *Recurrences) leave(ctx context.Context, from keys.Partition, list []Defined) error {
	for some := range slices.Chunk(list, maxDefined) { // HSCAN returns a small hash at once
		if err := r.in(ctx, from.Prefix, false, some, func(*LayoutView) bool { return true }); err != nil {
			return err
		}
		if err := r.drop(ctx, from, some, func(v *LayoutView) bool { return from.Shard < v.first }); err != nil {
			return err
		}
	}

	return nil
}

// bring moves the definition of a key, and an occurrence of it if there is one, out of the old shards. An occurrence that is claimed
// stays.
func (r *Recurrences) bring(ctx context.Context, key, occurrence string) error {
	open, now := r.s.Layout.OldShards(), r.s.space.Now()
	if len(open) == 0 {
		return nil
	}

	for _, place := range now.Homes(key) { // the latest first: older ones have no later definition
		if !slices.Contains(open, place) {
			continue
		}

		prefixes, err := r.s.Layout.lookUnder(ctx, place, "", key)
		if err != nil {
			return err
		}

		for _, prefix := range prefixes {
			if err := r.bringFrom(ctx, keys.Partition{Prefix: prefix, Shard: place}, key); err != nil {
				return err
			}
		}
	}

	if occurrence == "" {
		return nil
	}

	f, err := r.s.Find(ctx, "", occurrence)
	if err == nil && r.s.Layout.isOldShard(f.Shard) {
		err = r.s.Layout.bring(ctx, keys.Partition{Prefix: f.Route, Shard: f.Shard}, occurrence)
	}

	if errors.Is(err, ErrNotFound) || errors.Is(err, wire.ErrMoved) {
		return nil
	}

	return err
}

func (r *Recurrences) bringFrom(ctx context.Context, from keys.Partition, key string) error {
	text, err := r.s.c.HGet(ctx, r.s.space.Recurring(from), key).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return r.s.w.Fail(recurInScript.Op, err)
	}

	list := []Defined{{Key: key, text: text}}
	if err := r.readNext(ctx, from, list); err != nil {
		return err
	}

	return r.leave(ctx, from, list)
}

// pendingInOld reports whether an earlier occurrence of a definition is pending in an old shard.
func (r *Recurrences) pendingInOld(ctx context.Context, d *recur.Recurrence) (bool, error) {
	ks := []string{recur.OccurrenceKey(d.Key, d.Last)}
	for number := firstEarlier(d); number <= d.Number; number++ {
		ks = append(ks, recur.OccurrenceKey(d.Key, number))
	}

	places, err := r.s.Where(ctx, ks)
	if err != nil {
		return false, err
	}

	for i, key := range ks {
		if !r.s.Layout.isOldShard(places[i]) { // tick.lua looks there
			continue
		}

		f, err := r.s.Find(ctx, "", key)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, wire.ErrMoved):
		case err != nil:
			return false, err
		case f.State == notice.Scheduled || f.State == notice.Claimed:
			return true, nil
		}
	}

	return false, nil
}
