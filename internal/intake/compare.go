package intake

import (
	"context"
	"time"

	"notifier/internal/keys"
)

// Times of the search for pending notices whose timers were deleted. Within the limits below, the next search runs
// about a second before the next notice is due.
const (
	soon      = 1500 * time.Millisecond // a search checks the notices that are due within this time
	soonEvery = time.Second             // the minimum time between two searches
	idle      = 5 * time.Second         // the maximum time between two searches
)

// eachPartition calls f with the partitions of the routes that adopt.
func (a *Adopter) eachPartition(f func(p place) error) error {
	for _, r := range a.o.Routes.All() {
		if !r.Adopt {
			continue
		}
		for shard := range a.o.Space.Places() {
			if err := f(place{r, keys.Partition{Prefix: r.Prefix, Shard: shard}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareAll cancels pending notices whose timers were deleted without an event. It does nothing in a cluster, if
// maxmemory-policy allows eviction, or if no events arrive: then a missing timer may have another cause.
func (a *Adopter) compareAll(ctx context.Context) error {
	// In a cluster, the node of a timer can lose it while another node keeps the notice. Without events, a client
	// may have shortened the timer, which then expired between two scans.
	if a.o.Cluster != nil || !a.o.Events.Adopting() {
		return nil
	}

	var err error
	if a.evicts, err = a.o.Store.Evicts(ctx); err != nil || a.evicts {
		return err
	}

	return a.eachPartition(func(p place) error {
		for cursor := ""; cursor != "0"; {
			if cursor == "" {
				cursor = "0"
			}

			call, cancel := context.WithTimeout(ctx, callLimit)
			ks, next, err := a.o.Store.Strays(call, p.at, cursor)
			cancel()
			if err != nil {
				return err
			}

			a.compareLater(ks...)
			if err := a.Drain(ctx); err != nil {
				return err
			}
			if err := a.lookAgain(ctx); err != nil {
				return err
			}

			cursor = next
		}
		return nil
	})
}

// compareDue does the same, when it is time, for notices that are due soon.
func (a *Adopter) compareDue(ctx context.Context) error {
	if a.o.Cluster != nil || a.evicts || !a.o.Events.Adopting() || time.Now().Before(a.compare) {
		return nil
	}

	wait := idle
	err := a.eachPartition(func(p place) error {
		call, cancel := context.WithTimeout(ctx, callLimit)
		ks, next, err := a.o.Store.StraysDue(call, p.at, soon)
		cancel()
		if err != nil {
			return err
		}

		if next > 0 {
			wait = min(wait, max(next-soon+soonEvery/2, soonEvery))
		}

		a.compareLater(ks...)
		return nil
	})
	a.compare = time.Now().Add(wait)
	return err
}

// nextTurn returns when Run has something to do, given the time of the next scan.
func (a *Adopter) nextTurn(turn time.Time) time.Time {
	if a.o.Cluster == nil && !a.evicts && a.o.Events.Adopting() && a.compare.Before(turn) {
		turn = a.compare
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.second) > 0 && a.second[0].at.Before(turn) {
		turn = a.second[0].at
	}

	return turn
}

// secondLook is a key whose timer is not as expected, and the time of its second check.
type secondLook struct {
	key string
	at  time.Time
}

// firstLook is the events of a key's first check, and the time of its last second check.
type firstLook struct {
	events eventSet
	at     time.Time
}

// compareLater schedules a second check of keys. Until then, events may arrive that explain their
// state: a timer that was shortened and has just expired is missing too, and its notice is due.
func (a *Adopter) compareLater(ks ...string) {
	for _, k := range ks {
		a.lookLater(k, eventSet{})
	}
}

// lookLater schedules a second check of a key, which uses the events of the first one too. It
// replaces a second check that is scheduled earlier.
func (a *Adopter) lookLater(key string, t eventSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if earlier, there := a.first[key]; there {
		t = earlier.events.and(t)
	}

	at := time.Now().Add(a.o.Confirm)
	a.first[key] = firstLook{t, at}
	a.second = append(a.second, secondLook{key, at})
}

// lookAgain makes the second checks that are due, at most one page. Events that arrived since must
// be processed first.
func (a *Adopter) lookAgain(ctx context.Context) error {
	looks, some := a.takeSecondLooks()
	if len(looks) == 0 {
		return nil
	}

	_, err := a.followKeys(ctx, some)

	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.second = append(looks, a.second...)
		return err
	}

	for _, l := range looks {
		if a.first[l.key].at.Equal(l.at) {
			delete(a.first, l.key)
		}
	}

	return nil
}

// takeSecondLooks returns the second checks that are due, at most one page, and the
// events of each key.
func (a *Adopter) takeSecondLooks() (looks []secondLook, some map[string]eventSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, now := 0, time.Now()
	for n < min(len(a.second), scanBatch) && !a.second[n].at.After(now) {
		n++
	}

	looks, a.second = a.second[:n:n], a.second[n:]
	some = make(map[string]eventSet, n)
	for _, l := range looks {
		if first := a.first[l.key]; first.at.Equal(l.at) {
			some[l.key] = first.events.and(eventSet{compared: true})
		}
	}

	return looks, some
}
