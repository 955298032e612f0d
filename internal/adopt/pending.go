package adopt

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// eventSet is what events said of a key since it was last looked at.
type eventSet struct {
	event   bool // anything at all, as opposed to a scan
	removed bool // somebody deleted it, or moved it away
	expired bool
	// compared: no event said anything, but its notice is pending and its timer
	// not as it should be. What is gone then was deleted.
	compared bool
	asked    bool // a call of the API asks, whether events came or not
	scanned  bool // a scan looks for the first time
	value    valueEvent
}

// valueEvent is what events said of a key's value. A SET with an expiry says "set"
// and then "expire"; an "expire" without a "set" before it, or a second one, only
// moves what is there.
type valueEvent byte

const (
	valueUntold valueEvent = iota
	valueSet
	valueSetExpire // a value, and the expiry that was set with it
	valueExpire
)

// and adds what events said later.
func (t eventSet) and(o eventSet) eventSet {
	value := o.value
	switch {
	case !o.event:
		value = t.value
	case t.value == valueSet && o.value == valueExpire:
		value = valueSetExpire
	}
	return eventSet{event: t.event || o.event, removed: t.removed || o.removed, expired: t.expired || o.expired,
		compared: t.compared || o.compared, asked: t.asked || o.asked, scanned: t.scanned && o.scanned, value: value}
}

// readEvent reads an event's name; ok is false for those that mean nothing here.
func readEvent(event string) (t eventSet, ok bool) {
	switch event {
	case "expired":
		return eventSet{expired: true}, true
	case "evicted":
		return eventSet{}, false
	case "del", "rename_from", "move_from":
		return eventSet{event: true, removed: true}, true
	case "set":
		return eventSet{event: true, value: valueSet}, true
	case "expire":
		return eventSet{event: true, value: valueExpire}, true
	}
	return eventSet{event: true}, true
}

// note takes what was said of a key.
func (a *Adopter) note(key string, t eventSet) {
	a.mu.Lock()
	if t.changes() {
		a.payloads.drop(key)
	}
	a.add(key, t)
	a.mu.Unlock()
	a.signal()
}

// add keeps a key to look at, if there is room. The caller holds mu.
func (a *Adopter) add(key string, t eventSet) {
	if earlier, there := a.held[key]; there {
		t = earlier.and(t)
		delete(a.held, key)
	}
	switch known, there := a.pending[key]; {
	case there:
		a.pending[key] = known.and(t)
	case len(a.pending) < maxPending || t.expired && len(a.pending) < maxPendingExpired:
		a.pending[key] = t
	case t.expired:
		a.dropped++
	default:
		a.scan = true
	}
}

// putBack keeps keys that could not be looked at, as far as there is room: events
// go on to come while Redis fails.
func (a *Adopter) putBack(some map[string]eventSet) {
	a.mu.Lock()
	for k, t := range some {
		a.add(k, t)
	}
	a.mu.Unlock()
}

// putAside keeps keys at nodes of a cluster that do not answer until it is time to ask
// again: what lies at the others is looked at meanwhile. Their timers' payloads are read
// as long as the timers are there.
func (a *Adopter) putAside(ctx context.Context, some map[string]eventSet, failed map[string]error) {
	a.mu.Lock()
	for k := range some {
		if _, again := failed[k]; !again {
			a.payloads.drop(k)
		}
	}
	for k := range failed {
		t := some[k]
		later, told := a.pending[k]
		switch {
		case told: // something was said of it meanwhile
			a.pending[k] = t.and(later)
		case len(a.held) < maxPending || t.expired && len(a.held) < maxPendingExpired:
			a.held[k] = t
		case t.expired:
			a.dropped++
		default:
			a.scan = true
		}
	}
	a.mu.Unlock()
	a.keepPayloads(ctx, some, failed)
}

// hold has what was put aside wait for so long.
func (a *Adopter) hold(pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Now().Add(pause)
}

// release has what was put aside looked at again if it is time, and is when there is
// something to do, given the turn of the rest, and whether anything is aside.
func (a *Adopter) release(turn time.Time) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) == 0 {
		return turn, false
	}
	if time.Now().Before(a.until) {
		if a.until.Before(turn) {
			turn = a.until
		}
		return turn, true
	}
	held := a.held
	a.held = map[string]eventSet{}
	for k, t := range held {
		a.add(k, t)
	}
	return time.Now(), true
}

// Drain looks at the keys that events have named so far, and not at those that they name
// meanwhile: where events come faster than one can look, a scan is due all the same. Run
// does so too.
func (a *Adopter) Drain(ctx context.Context) error {
	a.mu.Lock()
	some := a.pending
	a.pending = map[string]eventSet{}
	lost := a.dropped
	a.dropped = 0
	a.mu.Unlock()
	if lost > 0 {
		a.o.Logger.Error("expired timers came faster than they could be looked at; those that were not adopted before are not delivered",
			zap.Int("timers", lost))
	}
	if len(some) == 0 {
		return nil
	}
	failed, err := a.followKeys(ctx, some)
	switch {
	case a.o.Cluster != nil:
		a.putAside(ctx, some, failed)
	case err != nil:
		a.putBack(some)
	}
	return err
}

// signal lets Run see what is new.
func (a *Adopter) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}
