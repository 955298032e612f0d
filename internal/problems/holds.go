package problems

import (
	"context"
	"time"

	"notifier/internal/jobs"
	"notifier/internal/receivers"
)

// mostCounted is the maximum number of pauses whose held notices are counted. It is divided equally among the clients that have
// made pauses.
const mostCounted = 1000

// heldBoard is the part of a board about paused and limited receivers, and redirects.
type heldBoard struct {
	Holds    *receivers.HoldTable // nil if it was never read
	HoldsErr error                // why Holds is outdated
	Held     map[string]int64     // held notices by pause; a new pause is missing until the next count
	HeldAt   time.Time

	Redirects    []jobs.Job // latest first
	RedirectsAt  time.Time
	RedirectsErr error // why Redirects is outdated
}

// holds reads the paused and limited receivers, which takes one command, and one for each shard of a cluster. It
// counts the held notices within the budget of counts, and after a change of this instance.
func (s *Sampler) holds(ctx context.Context, b *Board, now time.Time, changed bool) {
	table, err := s.engine.Holds(ctx)
	if b.HoldsErr = err; err != nil {
		return
	}

	b.Holds = table
	by, most := map[string][]string{}, 0 // pauses by client
	for _, p := range table.Pauses() {
		if p.Active(now) {
			by[p.Client] = append(by[p.Client], p.String())
			most = max(1, mostCounted/len(by))
		}
	}

	var pauses []string
	for _, own := range by {
		pauses = append(pauses, own[:min(len(own), most)]...)
	}

	every := pace(len(pauses)*s.prefixes*s.engine.Shards(), countBudget, countLeast, countMost)
	if !changed && !b.HeldAt.IsZero() && now.Sub(b.HeldAt) < every-sampleEvery/2 {
		return
	}

	counts, err := s.engine.HeldCounts(ctx, pauses)
	if b.HoldsErr = err; err != nil {
		return
	}

	held := map[string]int64{}
	for i, pause := range pauses {
		held[pause] = 0
		for _, n := range counts[i] {
			held[pause] += n
		}
	}

	b.Held, b.HeldAt = held, now
}

// Paused returns the pauses at present whose prefix is wanted.
func (b *Board) Paused(wanted func(prefix string) bool) (list []*receivers.Pause) {
	if b.Holds == nil {
		return nil
	}

	for _, p := range b.Holds.Pauses() {
		if p.Active(b.At) && wanted(p.Prefix) {
			list = append(list, p)
		}
	}

	return list
}

// Stopped reports whether a receiver of a route gets no attempt until it is resumed. Then the times of its next attempts are only those
// at which the pause is looked at again.
func (b *Board) Stopped(prefix, host string) bool {
	if b.Holds == nil {
		return false
	}

	p := b.Holds.Held(prefix+":x", host, "", b.At)
	return p != nil && p.Until.IsZero()
}

// HeldBy returns how many notices pauses hold, and whether all were counted.
func (b *Board) HeldBy(list []*receivers.Pause) (sum int64, counted bool) {
	for _, p := range list {
		n, known := b.Held[p.String()]
		if !known {
			return 0, false
		}

		sum += n
	}

	return sum, true
}
