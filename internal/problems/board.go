package problems

import (
	"cmp"
	"slices"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Work adds up the work under a prefix: of the running minute of all instances, and of the last n full
// minutes.
func (b *Board) Work(prefix string, n int, now time.Time) fleet.Work {
	sum := fleet.Work{}
	for _, i := range b.Instances {
		if i.Figures.Since > b.Reported[i.ID]-turnTime.Milliseconds() { // else its minute is in Minutes
			sum.Add(i.Figures.Routes[prefix].Work)
		}
	}

	for m := now.Unix()/60 - int64(n); m < now.Unix()/60; m++ {
		sum.Add(b.Minutes[m][prefix])
	}

	return sum
}

// Hour returns the work under prefixes in each of the last minutes, the running minute last.
func (b *Board) Hour(prefixes []string, now time.Time) []fleet.Work {
	out := make([]fleet.Work, Spans)
	for i := range out {
		m := now.Unix()/60 - int64(Spans-1-i)
		for _, prefix := range prefixes {
			out[i].Add(b.Minutes[m][prefix])
			if i == Spans-1 {
				out[i].Add(b.Work(prefix, 0, now))
			}
		}
	}

	return out
}

// Rate returns the attempts per second under a prefix in the last one to two minutes.
func (b *Board) Rate(prefix string, now time.Time) float64 {
	since := now.Truncate(time.Minute).Add(-time.Minute)
	return float64(b.Work(prefix, 1, now).Attempts()) / now.Sub(since).Seconds()
}

// Waiting counts the due notices of a route that wait because instances postponed them, the route is
// paused, or another notice of their sequence comes first.
func (b *Board) Waiting(c store.Counts) (n int64) {
	for _, i := range b.Instances {
		for _, w := range i.Figures.Routes[c.Prefix].Waiting {
			n += int64(w)
		}
	}
	return n + c.Waiting()
}

// InFlight counts the attempts under a prefix that run at all instances.
func (b *Board) InFlight(prefix string) int {
	n := 0
	for _, i := range b.Instances {
		n += i.Figures.Routes[prefix].InFlight
	}

	return n
}

// Full returns why Redis is full, and the instances that report it; empty = none does.
func (b *Board) Full() (why string, by []string) {
	own := ""
	for _, c := range b.Ready.Degraded {
		if c.Full {
			own = c.Reason
		}
	}

	for _, i := range b.Instances {
		text := i.Figures.Full
		if i.Self {
			text = own // newer than the heartbeat
		}

		if text != "" && i.State != fleet.Unresponsive {
			why, by = text, append(by, i.Label)
		}
	}

	return cmp.Or(own, why), by
}

// Alive counts the instances that take new work.
func (b *Board) Alive() int {
	n := 0
	for _, i := range b.Instances {
		if i.State == fleet.Alive {
			n++
		}
	}

	return n
}

// Fails reports whether a receiver of a route is failing.
func (b *Board) Fails(prefix string) bool {
	for i := range b.Health {
		if b.Health[i].Prefix == prefix {
			return b.Health[i].Failing(b.At) > 0
		}
	}
	return false
}

// Total estimates the number of notices that a search inspects.
func (b *Board) Total(q store.Query) int64 {
	n := int64(0)
	for _, c := range b.Counts {
		if !slices.Contains(q.Routes, c.Prefix) {
			continue
		}
		switch q.State {
		case notice.Scheduled, notice.Claimed:
			n += c.Pending
		case notice.Dead:
			n += c.Dead
		case notice.Delivered, notice.Cancelled:
			n += c.Settled
		default:
			n += c.Pending + c.Dead + c.Settled
		}
	}

	return n
}
