package recur

import (
	"cmp"
	"time"
)

const (
	// Ahead is how long before a tick its occurrence is stored, but not before the previous tick. With the policy OverlapSkip it is
	// stored at the tick, because an earlier occurrence may become pending until then.
	Ahead = 5 * time.Second
	// missedAfter is the age from which MissedSkip skips a tick.
	missedAfter = time.Minute
	// mostCounted bounds the missed ticks that one step counts.
	mostCounted = 1000
)

// Step is the next step of a definition.
type Step struct {
	// At is when to make the step; it is not in the future if the step can be made. Zero = there are no more ticks.
	At time.Time
	// Tick is the time that the occurrence is for, and Number its number. Each of the states is the one after an outcome of the step:
	// the occurrence was stored, its number was occupied, or its tick was skipped because an earlier occurrence is pending.
	Tick                         time.Time
	Number                       int
	Stored, Occupied, Overlapped State
	// Forgotten is the state if its tick is skipped because the content was forgotten: the tick counts as missed.
	Forgotten State
	// After is when to make the following step, unless the number was occupied; zero = there is none.
	After time.Time
}

// Plan returns the next step of a definition whose state was read at the time now, by Redis's clock. The definition's Content has
// the expiry of its route if it has none.
func (d *Definition) Plan(s State, now time.Time) (Step, error) {
	t, err := d.ticks()
	if err != nil || d.over(s) {
		return Step{}, err
	}

	tick := t.next(d.floor(t, timeOf(s.Cursor), now))
	if tick.IsZero() {
		return Step{}, nil
	}

	n := s.Number + 1
	x := Step{At: d.storeAt(tick, timeOf(s.Cursor)), Tick: tick, Number: n, Stored: s, Occupied: s, Overlapped: s, Forgotten: s}
	missed := t.count(timeOf(s.Cursor), tick)
	x.Occupied.Number, x.Occupied.Occupied = n, s.Occupied+1
	x.Overlapped.Cursor, x.Overlapped.Overlapped, x.Overlapped.Missed = tick.UnixMilli(), s.Overlapped+1, s.Missed+missed
	x.Forgotten.Cursor, x.Forgotten.Missed = tick.UnixMilli(), s.Missed+missed+1
	x.Stored.Number, x.Stored.Last, x.Stored.Cursor, x.Stored.LastTick = n, n, tick.UnixMilli(), tick.UnixMilli()
	x.Stored.Stored, x.Stored.Missed = s.Stored+1, s.Missed+missed
	if next := t.next(tick); !next.IsZero() { // also after the last of Times, because this tick may be skipped
		x.After = d.storeAt(next, tick)
	}

	return x, nil
}

// over reports whether no occurrence follows in a state.
func (d *Definition) over(s State) bool {
	return d.Times > 0 && s.Stored >= d.Times || s.Number >= MaxNumber
}

// storeAt returns when to store the occurrence of a tick; before is the tick before it.
func (d *Definition) storeAt(tick, before time.Time) time.Time {
	if d.Overlap == OverlapSkip {
		return tick
	}

	if at := tick.Add(-Ahead); at.After(before) {
		return at
	}

	return before
}

// floor returns the time after which the next tick is, because the policy for missed ticks leaves out the others.
func (d *Definition) floor(t ticks, cursor, now time.Time) time.Time {
	floor := cursor
	raise := func(age time.Duration) {
		if at := now.Add(-age); at.After(floor) {
			floor = at
		}
	}
	if d.Missed == MissedSkip {
		raise(missedAfter)
	}

	if d.Content.ExpiresAfter > 0 {
		raise(d.Content.ExpiresAfter)
	}

	switch d.Missed {
	case MissedSkip:
		return floor
	case MissedAll:
		return t.before(floor, now, cmp.Or(d.MissedMost, mostMissed))
	default:
		return t.before(floor, now, 1)
	}
}

// ticks are the ticks of a definition.
type ticks struct {
	rule        *Rule
	from, until time.Time
}

func (d *Definition) ticks() (ticks, error) {
	r, err := rules.parse(d.Spec)
	return ticks{r, d.From, d.Until}, err
}

// next returns the first tick after a time; zero = there is none.
func (t ticks) next(after time.Time) time.Time {
	if after.Before(t.from) {
		after = t.from.Add(-1)
	}

	tick := t.rule.Next(after)
	if !t.until.IsZero() && tick.After(t.until) {
		return time.Time{}
	}

	return tick
}

// count returns how many ticks are between two times, without both, and at most mostCounted.
func (t ticks) count(after, before time.Time) (n int) {
	for n < mostCounted {
		if after = t.next(after); after.IsZero() || !after.Before(before) {
			break
		}
		n++
	}

	return n
}

// before returns a time that only the last n of the ticks up to now follow, or floor if there are no more than n after it.
func (t ticks) before(floor, now time.Time, n int) time.Time {
	for age := time.Minute; ; age *= 2 {
		from := now.Add(-age)
		if age > maxAge || !from.After(floor) {
			from = floor
		}

		last := t.last(from, now, n)
		if len(last) == n {
			return last[0].Add(-1)
		}
		if from.Equal(floor) {
			return floor
		}
	}
}

// maxAge is how far back ticks are searched step by step.
const maxAge = 100 * 366 * 24 * time.Hour

// last returns the last n ticks after a time, up to now.
func (t ticks) last(after, now time.Time, n int) (list []time.Time) {
	for {
		if after = t.next(after); after.IsZero() || after.After(now) {
			return list
		}

		if list = append(list, after); len(list) > n {
			list = list[1:]
		}
	}
}

// Upcoming returns the next n times after now for which there will be occurrences, or is one that is not due yet. Missed ticks do not
// count.
func (r *Recurrence) Upcoming(now time.Time, n int) ([]time.Time, error) {
	left := MaxNumber - r.Number
	if r.Times > 0 {
		left = min(left, r.Times-r.Stored)
	}

	if timeOf(r.Cursor).After(now) && r.Last > 0 {
		left++ // it is stored already
	}

	d := r.Definition
	d.Times = 0
	return d.Upcoming(now, min(n, left))
}

// Redefined returns the state of a stored definition once d replaces it at the time now, by Redis's clock: usually, and if an
// occurrence that has not begun was withdrawn. was is the zero value if the key never had a definition.
func (d *Definition) Redefined(was *Recurrence, now time.Time) (kept, withdrawn State) {
	kept = was.State
	kept.Changes++
	switch {
	case was.Key == "": // new
		kept = State{Number: kept.Number, Changes: kept.Changes, Cursor: now.UnixMilli()}
		kept.Number = max(kept.Number, d.least(kept))
		return kept, kept
	case !d.sameTicks(&was.Definition): // no tick of the new rule has been missed
		kept.Cursor = max(kept.Cursor, now.UnixMilli())
	}

	withdrawn = kept
	withdrawn.Stored, withdrawn.Last, withdrawn.LastTick = kept.Stored-1, 0, 0
	withdrawn.Cursor = min(kept.LastTick-1, now.UnixMilli())
	if !d.sameTicks(&was.Definition) {
		withdrawn.Cursor = now.UnixMilli()
	}

	kept.Number, withdrawn.Number = max(kept.Number, d.least(kept)), max(kept.Number, d.least(withdrawn))
	return kept, withdrawn
}

// least returns the least number that the last occurrence has in a state, because of MinNumber and MinTick.
func (d *Definition) least(s State) int {
	if d.MinTick.UnixMilli() > s.Cursor && d.MinNumber > 0 {
		return d.MinNumber - 1
	}
	return d.MinNumber
}

// sameTicks reports whether two definitions have the same ticks.
func (d *Definition) sameTicks(other *Definition) bool {
	return d.Spec.Cron == other.Spec.Cron && d.Spec.Zone == other.Spec.Zone && d.Spec.Every == other.Spec.Every &&
		d.Spec.Anchor.Equal(other.Spec.Anchor) && d.From.Equal(other.From) && d.Until.Equal(other.Until)
}

// Next returns when to store the next occurrence in a state; zero = never, or the definition is paused.
func (d *Definition) Next(s State, now time.Time) (time.Time, error) {
	if d.Paused {
		return time.Time{}, nil
	}

	x, err := d.Plan(s, now)
	return x.At, err
}

// RunNow returns the step that stores an occurrence now, besides the ticks.
func (s State) RunNow(now time.Time) Step {
	x := Step{At: now, Tick: now.Truncate(time.Millisecond), Number: s.Number + 1, Stored: s, Occupied: s}
	x.Stored.Number++
	x.Occupied.Number++
	x.Occupied.Occupied++
	return x
}
