package store

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/counts.lua
var countsSource string

var countsScript = wire.NewScript("counts", WithParts(countsSource), false).Anywhere()

//go:embed lua/countpending.lua
var countPendingSource string

var countPendingScript = wire.NewScript("countpending", countPendingSource, false).Anywhere()

// CountPending counts the pending notices of each place, without the places of unreachable nodes, and checks the data as
// [Layout.Check] does. Outside a cluster it makes one call for each MaxLooks partitions. It returns [ErrReplaced] if Redis
// has other data than the known ones.
func (s *Store) CountPending(ctx context.Context) (map[int]int64, error) {
	if len(s.Layout.Prefixes()) == 0 {
		return nil, s.Layout.Check(ctx)
	}

	by, all, r := map[int]int64{}, []keys.Partition(nil), s.w.NewRound()
	for place := range s.space.Places() {
		for _, prefix := range s.Layout.Prefixes() {
			all = append(all, keys.Partition{Prefix: prefix, Shard: place})
		}

		if last := place == s.space.Places()-1; !last && !s.w.Cluster {
			continue
		}

		for some := range slices.Chunk(all, MaxLooks) {
			if _, err := r.Do(ctx, place, func(ctx context.Context) error { return s.addPending(ctx, by, some) }); err != nil {
				return nil, err
			}
		}

		all = nil
	}

	return by, nil
}

func (s *Store) addPending(ctx context.Context, by map[int]int64, list []keys.Partition) error {
	before, place := s.Layout.view.Load(), list[0].Shard
	ks := []string{s.space.Layout(place)}
	for _, p := range list {
		ks = append(ks, s.space.Shadow(p))
	}

	v, err := s.w.Parts(ctx, countPendingScript, len(ks)+1, ks, nil)
	if err != nil {
		return err
	}

	state, _ := v[0].(string)
	id, _ := v[1].(string)
	if err := s.Layout.compare(ctx, place, before, state, id); err != nil {
		return err
	}
	if id == "" || !s.Layout.identity.isPart(place, id) {
		return ErrReplaced
	}

	for i, p := range list {
		n, _ := v[i+2].(int64)
		by[p.Shard] += max(n, 0)
	}

	return nil
}

// lookForDue is the maximum number of entries of a shadow that are read to find the next due time. The
// entries before it are leases of running attempts.
const lookForDue = 1000

// Counts returns the counts of each prefix over all shards. In a cluster it leaves out unreachable
// nodes, which missing names.
func (s *Store) Counts(ctx context.Context, prefixes []string) (list []Counts, missing []wire.Lost, err error) {
	out, r := make([]Counts, len(prefixes)), s.w.NewRound()
	for i, prefix := range prefixes {
		out[i].Prefix, out[i].RepeatWindow, out[i].Ordered = prefix, s.o.Retention, s.Layout.knownOrdered(prefix)
		for shard := range s.space.Places() {
			if _, err := r.Do(ctx, shard, func(ctx context.Context) error { return s.count(ctx, &out[i], shard) }); err != nil {
				return nil, nil, err
			}
		}
	}

	if missing, err = r.Missing(ctx); err != nil {
		return nil, missing, err
	}

	paused, err := s.Layout.pausedBut(ctx, r.Silent())
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
	p := keys.Partition{Prefix: c.Prefix, Shard: shard}
	k := s.space.States(p)
	ks := []string{k[0], k[2], k[3], s.space.Trimmed(shard)}
	if c.Ordered {
		ks = append(ks, s.space.Waiting(p))
	}

	args := []any{lookForDue, c.Prefix}
	for _, within := range DueWithin {
		args = append(args, within.Milliseconds())
	}

	v, err := s.w.Run(ctx, countsScript, ks, args)
	if err != nil {
		return err
	}
	if len(v) != 8+len(DueWithin) {
		return wire.BadReply("counts", "%d answers", len(v))
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

	parked, _ := v[6].(int64)
	c.Parked += parked
	ms, _ := v[7].(int64)
	c.LongestWait = max(c.LongestWait, time.Duration(ms)*time.Millisecond)
	for i := range DueWithin {
		n, _ := v[8+i].(int64)
		c.Due[i] += n
	}

	return nil
}

// DueWithin are the times from now of Counts.Due, the longest last.
var DueWithin = [...]time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}

// Counts are the numbers of notices under a prefix.
type Counts struct {
	Prefix  string
	Pending int64 // in the shadow: scheduled and claimed
	Overdue int64 // due and not claimed
	Dead    int64
	Settled int64
	Due     [len(DueWithin)]int64 // not claimed, and due within each of DueWithin
	NextDue time.Time             // the earliest due time of an unclaimed notice; zero = none is known
	Paused  bool
	// RepeatWindow is how long after its end a notice is still recognized if its schedule call is
	// repeated.
	RepeatWindow time.Duration
	// Ordered reports whether the route is known to be ordered. Parked counts its notices that wait for
	// another one of their sequence, and LongestWait is how long the first of them has waited.
	Ordered     bool
	Parked      int64
	LongestWait time.Duration
}

// Waiting counts the due notices that Redis knows to wait: those of a paused route, and parked ones. While a
// route is paused, a parked notice becomes overdue at the end of its park, and is counted once.
func (c *Counts) Waiting() int64 {
	if c.Paused {
		return max(c.Overdue, c.Parked)
	}
	return c.Parked
}
