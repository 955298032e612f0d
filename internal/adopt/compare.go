package adopt

import (
	"context"
	"time"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// How notices are compared with their timers shortly before they are due: those
// due within soon, each second while some are, else when the next is near, at
// the latest after idle.
const (
	soon      = 1500 * time.Millisecond
	soonEvery = time.Second
	idle      = 5 * time.Second
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

// compareAll looks for notices whose timers are gone though nobody heard of it.
// In a cluster they lie on other nodes, which may have lost what the notice's
// kept, and where Redis evicts, it may have done so: there nothing follows. Nor
// where no events come: a timer that was shortened and has expired between two
// looks is gone as well.
func (a *Adopter) compareAll(ctx context.Context) error {
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

// compareDue does the same, when it is time, with what is due soon.
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

// nextTurn is when Run has something to do, given the next look at all keys.
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

// secondLook is a key whose timer is not as it should be, and when to look at it again.
type secondLook struct {
	key string
	at  time.Time
}

// compareLater has keys looked at again after a while in which the events may come that
// tell why they are as they are: a timer that was shortened and has just expired is gone,
// too, and its notice is due.
func (a *Adopter) compareLater(ks ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Now().Add(a.o.Confirm)
	for _, k := range ks {
		a.second = append(a.second, secondLook{k, at})
	}
}

// lookAgain takes second looks whose time has come, a page of them at most. The events that
// came meanwhile are to have been followed.
func (a *Adopter) lookAgain(ctx context.Context) error {
	a.mu.Lock()
	n, now := 0, time.Now()
	for n < min(len(a.second), scanBatch) && !a.second[n].at.After(now) {
		n++
	}
	looks := a.second[:n:n]
	a.second = a.second[n:]
	a.mu.Unlock()
	if n == 0 {
		return nil
	}
	some := make(map[string]eventSet, n)
	for _, l := range looks {
		some[l.key] = eventSet{compared: true}
	}
	_, err := a.followKeys(ctx, some)
	if err != nil {
		a.mu.Lock()
		a.second = append(looks, a.second...)
		a.mu.Unlock()
	}
	return err
}

var _ Store = (*store.Store)(nil)
