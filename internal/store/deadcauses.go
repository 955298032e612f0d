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
	At      time.Time   // when it was made; zero in an answer of the store
}

// DeadCauses counts the dead letters of prefixes that died since a time (zero = all) by prefix and cause. It reads no record.
func (s *Store) DeadCauses(ctx context.Context, prefixes []string, since time.Time) (out DeadCount, err error) {
	type group struct {
		prefix string
		cause  notice.Cause
	}

	by, r := map[group]*DeadGroup{}, s.w.NewRound()
	for shard := range s.space.Places() {
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
			return s.eachCause(ctx, shard, prefixes, Query{Since: since}, func(g DeadGroup) {
				sum := by[group{g.Prefix, g.Cause}]
				if sum == nil {
					sum = &DeadGroup{Prefix: g.Prefix, Cause: g.Cause, First: g.First}
					by[group{g.Prefix, g.Cause}] = sum
				}

				sum.Count += g.Count
				sum.First, sum.Last = earlier(sum.First, g.First), later(sum.Last, g.Last)
			})
		}); err != nil {
			return out, err
		}
	}

	if out.Missing, err = r.Missing(ctx); err != nil {
		return out, err
	}

	for _, g := range by {
		out.Groups = append(out.Groups, *g)
	}

	slices.SortFunc(out.Groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Status, b.Status))
	})
	return out, nil
}

// eachCause calls add with the groups of one shard, which may be split.
func (s *Store) eachCause(ctx context.Context, shard int, prefixes []string, q Query, add func(DeadGroup)) error {
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

			add(DeadGroup{Prefix: prefixes[n[0]-1], Cause: notice.CauseOf(int(n[1])), Count: n[2], First: time.UnixMilli(n[3]).UTC(),
				Last: time.UnixMilli(n[4]).UTC()})
		}

		from, rank = v[0], v[1]
	}

	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
