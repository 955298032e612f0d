package store

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/deadcauses.lua
var deadCausesSource string

var deadCausesScript = wire.NewScript("deadcauses", WithParts(deadCausesSource), false).Anywhere()

// causesPerCall is the maximum number of dead letters that a call of deadcauses.lua reads, which takes about 2 ms in Redis.
const causesPerCall = 2000

// DeadGroup is the dead letters of a prefix with the same cause.
type DeadGroup struct {
	Prefix string
	notice.Cause
	Count       int64
	First, Last time.Time // of their deaths
}

// DeadCount is a count of dead letters.
type DeadCount struct {
	Groups  []DeadGroup // the largest first
	Missing []wire.Lost // unreachable nodes, whose dead letters are not counted
	At      time.Time   // the beginning of the count
	// Complete is true if no dead letter can be missing: no node was unreachable, and none was moving or on the other side of a
	// migration.
	Complete bool
}

// Sum returns the number of all dead letters, and the time of the first death; zero without one.
func (c *DeadCount) Sum() (count int64, first time.Time) {
	for _, g := range c.Groups {
		count += g.Count
		if first.IsZero() || g.First.Before(first) {
			first = g.First
		}
	}

	return count, first
}

// deadGroup names a group.
type deadGroup struct {
	prefix string
	cause  notice.Cause
}

// tally is the number of dead letters of a group, and the Unix ms of the first and the last death.
type tally struct{ count, first, last int64 }

// DeadCauses counts the dead letters of prefixes that died since a time (zero = all) by prefix and cause. It reads no record.
func (s *Store) DeadCauses(ctx context.Context, prefixes []string, since time.Time) (out DeadCount, err error) {
	out.At = time.Now().UTC()
	before := s.Sight()
	by, r := map[deadGroup]tally{}, s.w.NewRound()
	for shard := range s.space.Places() {
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
			return s.tallyShard(ctx, shard, prefixes, Query{Since: since}, by)
		}); err != nil {
			return out, err
		}
	}

	if out.Missing, err = r.Missing(ctx); err != nil {
		return out, err
	}

	out.Complete = len(out.Missing) == 0 && s.Whole() == nil && before.Settled() && s.Sight() == before
	for g, t := range by {
		out.Groups = append(out.Groups, DeadGroup{Prefix: g.prefix, Cause: g.cause, Count: t.count, First: time.UnixMilli(t.first).UTC(),
			Last: time.UnixMilli(t.last).UTC()})
	}

	slices.SortFunc(out.Groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Status, b.Status))
	})
	return out, nil
}

// tallyShard adds the dead letters of one shard to the groups.
func (s *Store) tallyShard(ctx context.Context, shard int, prefixes []string, q Query, by map[deadGroup]tally) error {
	ks := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		ks[i] = s.space.Dead(keys.Partition{Prefix: prefix, Shard: shard})
	}

	lo, hi := q.scores(shard)
	for from, rank := any(int64(1)), any(""); from != int64(0) && len(ks) > 0; {
		v, err := s.w.Run(ctx, deadCausesScript, ks, []any{lo, hi, from, rank, causesPerCall})
		if err != nil {
			return err
		}
		if len(v)%5 != 2 {
			return wire.BadReply("deadcauses", "%d answers", len(v))
		}

		for i := 2; i < len(v); i += 5 {
			var n [5]int64
			for j := range n {
				n[j], _ = v[i+j].(int64)
			}

			if n[0] < 1 || int(n[0]) > len(prefixes) {
				return wire.BadReply("deadcauses", "zset %d of %d", n[0], len(prefixes))
			}

			g := deadGroup{prefixes[n[0]-1], notice.CauseOf(int(n[1]))}
			sum, ok := by[g]
			if !ok {
				sum.first = n[3]
			}

			by[g] = tally{sum.count + n[2], min(sum.first, n[3]), max(sum.last, n[4])}
		}

		from, rank = v[0], v[1]
	}

	return nil
}
