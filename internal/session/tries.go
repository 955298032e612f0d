package session

import (
	"net/netip"
	"sync"
	"time"
)

// How often an address may try to sign in: a burst, and then one attempt each
// time. An attempt that succeeds does not count. Each instance counts by itself.
const (
	burst        = 10
	tryEvery     = 6 * time.Second
	maxAddresses = 8192
)

// tries counts attempts by address.
type tries struct {
	now func() time.Time

	mu sync.Mutex
	// free is when all of an address's attempts are there again; those of whom that
	// is past are like those of whom nothing is known.
	free map[string]time.Time
}

func newTries(now func() time.Time) *tries { return &tries{now: now, free: map[string]time.Time{}} }

// group is what shares its attempts: an IPv4 address, or the network of an IPv6
// address, of which one customer has all.
func group(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}

// take uses an attempt up, or says how long it takes until there is one.
func (t *tries) take(address string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, now := group(address), t.now()
	free := t.free[g]
	if free.Before(now) {
		free = now
	}
	free = free.Add(tryEvery)
	if wait = free.Sub(now) - burst*tryEvery; wait > 0 {
		return wait
	}
	if _, known := t.free[g]; !known && len(t.free) >= maxAddresses {
		t.makeRoom(now)
	}
	t.free[g] = free
	return 0
}

// giveBack undoes a take.
func (t *tries) giveBack(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := group(address)
	if free, ok := t.free[g]; ok {
		t.free[g] = free.Add(-tryEvery)
	}
}

// makeRoom forgets who may try as often as anybody, and if those are few, some
// others too.
func (t *tries) makeRoom(now time.Time) {
	for g, free := range t.free {
		if !free.After(now) {
			delete(t.free, g)
		}
	}
	for g := range t.free {
		if len(t.free) < maxAddresses*7/8 {
			return
		}
		delete(t.free, g)
	}
}
