package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/counts.lua
var countsSource string

var countsScript = wire.NewScript("counts", countsSource, false).Anywhere()

// lookForDue is the maximum number of entries of a shadow that are read to find the next due time. The
// entries before it are leases of running attempts.
const lookForDue = 1000

// Counts returns the counts of each prefix over all shards. In a cluster it leaves out unreachable
// nodes, which missing names.
func (s *Store) Counts(ctx context.Context, prefixes []string) (list []Counts, missing []wire.Lost, err error) {
	out, r := make([]Counts, len(prefixes)), s.w.NewRound()
	for i, prefix := range prefixes {
		out[i].Prefix, out[i].RepeatWindow = prefix, s.o.Retention
		for shard := range s.space.Places() {
			if _, err := r.Do(ctx, shard, func(ctx context.Context) error { return s.count(ctx, &out[i], shard) }); err != nil {
				return nil, nil, err
			}
		}
	}
	if missing, err = r.Missing(ctx); err != nil {
		return nil, missing, err
	}
	paused, err := s.PausedBut(ctx, r.Silent())
	if err != nil {
		return nil, missing, err
	}
	for i := range out {
		out[i].Paused = slices.Contains(paused, out[i].Prefix)
	}
	return out, missing, nil
}

// count adds one shard's numbers to c.
func (s *Store) count(ctx context.Context, c *Counts, shard int) error {
	k := s.space.States(keys.Partition{Prefix: c.Prefix, Shard: shard})
	v, err := s.w.Run(ctx, countsScript, []string{k[0], k[2], k[3], s.space.Trimmed(shard)}, []any{lookForDue, c.Prefix})
	if err != nil {
		return err
	}
	if len(v) != 6 {
		return fmt.Errorf("counts: %d answers", len(v))
	}
	for i, into := range []*int64{&c.Pending, &c.Overdue, &c.Dead, &c.Settled} {
		n, _ := v[i].(int64)
		*into += n
	}
	text, _ := v[4].(string)
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if at := time.UnixMilli(ms).UTC(); c.NextDue.IsZero() || at.Before(c.NextDue) {
			c.NextDue = at
		}
	}
	if ms, _ := v[5].(int64); ms >= 0 {
		c.RepeatWindow = min(c.RepeatWindow, time.Duration(ms)*time.Millisecond)
	}
	return nil
}

// Counts are the numbers of notices under a prefix.
type Counts struct {
	Prefix  string
	Pending int64 // in the shadow: scheduled and claimed
	Overdue int64 // due and not claimed
	Dead    int64
	Settled int64
	NextDue time.Time // the earliest due time of an unclaimed notice; zero = none is known
	Paused  bool
	// RepeatWindow is how long after its end a notice is still recognized if its schedule call is
	// repeated.
	RepeatWindow time.Duration
}
