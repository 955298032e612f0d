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
	if a.o.Masters != nil || !a.o.Events() {
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
			if err := a.compareKeys(ctx, ks); err != nil {
				return err
			}
			if err := a.Drain(ctx); err != nil {
				return err
			}
			cursor = next
		}
		return nil
	})
}

// compareDue does the same, when it is time, with what is due soon.
func (a *Adopter) compareDue(ctx context.Context) error {
	if a.o.Masters != nil || a.evicts || !a.o.Events() || time.Now().Before(a.compare) {
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
		return a.compareKeys(ctx, ks)
	})
	a.compare = time.Now().Add(wait)
	return err
}

// nextTurn is when Run has something to do.
func (a *Adopter) nextTurn(next time.Time) time.Time {
	if a.o.Masters == nil && !a.evicts && a.o.Events() && a.compare.Before(next) {
		return a.compare
	}
	return next
}

// compareKeys looks at keys whose timers are not as they should be, after a while in
// which the events that tell why may come: a timer that was shortened and has
// just expired is gone, too, and its notice is due.
func (a *Adopter) compareKeys(ctx context.Context, ks []string) error {
	if len(ks) == 0 {
		return nil
	}
	if err := a.awaitEvents(ctx); err != nil {
		return err
	}
	some := make(map[string]eventSet, len(ks))
	for _, k := range ks {
		some[k] = eventSet{compared: true}
	}
	_, err := a.followKeys(ctx, some)
	return err
}

// awaitEvents follows events for a while.
func (a *Adopter) awaitEvents(ctx context.Context) error {
	defer a.signal() // what was asked for meanwhile is Run's to do
	defer func(from time.Time) { a.waited += time.Since(from) }(time.Now())
	enough := time.After(a.o.Confirm)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return a.Drain(ctx)
		case <-a.wake:
			if err := a.Drain(ctx); err != nil {
				return err
			}
		}
	}
}

var _ Store = (*store.Store)(nil)
