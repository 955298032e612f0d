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
	q := Query{Since: since}
	for _, prefix := range prefixes {
		for shard := range s.space.Places() {
			if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
				return s.eachCause(ctx, keys.Partition{Prefix: prefix, Shard: shard}, q, func(g DeadGroup) {
					sum := by[group{prefix, g.Cause}]
					if sum == nil {
						sum = &DeadGroup{Prefix: prefix, Cause: g.Cause, First: g.First}
						by[group{prefix, g.Cause}] = sum
					}

					sum.Count += g.Count
					sum.First, sum.Last = earlier(sum.First, g.First), later(sum.Last, g.Last)
				})
			}); err != nil {
				return out, err
			}
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

// eachCause calls add with the groups of one partition, which may be split.
func (s *Store) eachCause(ctx context.Context, p keys.Partition, q Query, add func(DeadGroup)) error {
	lo, hi := q.scores(p.Shard)
	for rank := any(""); rank != int64(-1); {
		v, err := s.w.Run(ctx, deadCausesScript, []string{s.space.Dead(p)}, []any{lo, hi, rank, causesPerCall})
		if err != nil {
			return err
		}
		if len(v)%4 != 1 {
			return wire.BadReply("deadcauses", "%d answers", len(v))
		}

		for i := 1; i < len(v); i += 4 {
			code, _ := v[i].(int64)
			g := DeadGroup{Cause: notice.CauseOf(int(code))}
			g.Count, _ = v[i+1].(int64)
			first, _ := v[i+2].(int64)
			last, _ := v[i+3].(int64)
			g.First, g.Last = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
			add(g)
		}

		rank = v[0]
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
