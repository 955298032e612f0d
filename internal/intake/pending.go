package intake

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"
)

// eventSet is the events of a key since its last check.
type eventSet struct {
	event   bool // any event, as opposed to a scan
	removed bool // deleted or renamed
	expired bool
	// compared is set without an event if the notice is pending but its timer is not as expected. A
	// missing timer was deleted then.
	compared bool
	asked    bool // a call of the API needs the check, with or without events
	scanned  bool // first check by a scan
	value    valueEvent
	// firstExpire is the expiry that the first of two checks has read, in Unix ms.
	firstExpire int64
}

// valueEvent is what the events say about a key's value. A SET with an expiry sends "set" and then
// "expire". An "expire" without a "set" before it, or a second one, only changes the expiry.
type valueEvent byte

const (
	valueUntold valueEvent = iota
	valueSet
	valueSetExpire // a value with its expiry
	valueExpire
)

// and adds later events.
func (t eventSet) and(o eventSet) eventSet {
	value := o.value
	switch {
	case !o.event:
		value = t.value
	case t.value == valueSet && o.value == valueExpire:
		value = valueSetExpire
	}

	return eventSet{event: t.event || o.event, removed: t.removed || o.removed, expired: t.expired || o.expired,
		compared: t.compared || o.compared, asked: t.asked || o.asked, scanned: t.scanned && o.scanned, value: value,
		firstExpire: cmp.Or(o.firstExpire, t.firstExpire)}
}

// readEvent parses the name of an event; ok is false for irrelevant ones.
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

// note adds the events of a key.
func (a *Adopter) note(key string, t eventSet) {
	a.mu.Lock()
	if t.changes() {
		a.payloads.drop(key)
	}

	a.add(key, t)
	a.mu.Unlock()
	a.signal()
}

// add stores a key to check, if there is room. The caller holds mu.
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

// putBack stores keys whose check failed, as far as there is room: events continue while Redis
// fails.
func (a *Adopter) putBack(some map[string]eventSet) {
	a.mu.Lock()
	for k, t := range some {
		a.add(k, t)
	}

	a.mu.Unlock()
}

// putAside stores keys on cluster nodes that do not answer until it is time to try again. Keys on
// other nodes are checked in the meantime. The payloads of the timers are read while they exist.
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
		case told: // an event came in the meantime
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

// hold delays the keys that were put aside.
func (a *Adopter) hold(pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Now().Add(pause)
}

// release queues the keys that were put aside, if it is time. It returns when there is something to
// do, given the turn of the rest, and whether any key is put aside.
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

// Drain checks the keys that events have named so far, but not later ones: a stream of fast events
// must not delay a scan. Run does the same.
func (a *Adopter) Drain(ctx context.Context) error {
	a.mu.Lock()
	some := a.pending
	a.pending = map[string]eventSet{}
	lost := a.dropped
	a.dropped = 0
	a.mu.Unlock()
	if lost > 0 {
		a.o.Logger.Error("expired timers arrived faster than they were checked, those without a notice are not delivered",
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

// signal wakes Run.
func (a *Adopter) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}
