package adopt

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanShare bounds what looks without a reason cost: a fiftieth of the time. Events
// are lost on occasions that are known and looked after at once; this is for those
// that are not.
const scanShare = 50

// Scan asks for a look at all keys: events may have been missed.
func (a *Adopter) Scan() {
	a.mu.Lock()
	a.scan = true
	a.mu.Unlock()
	a.signal()
}

// scanDue reports whether a scan was asked for or has its turn. The turns of
// instances are kept apart.
func (a *Adopter) scanDue(next *time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.scan && time.Now().Before(*next) {
		return false
	}
	a.scan = false
	every := a.o.Every
	if !a.o.Events.Adopting() {
		every = min(every, everyBlind)
	}
	*next = time.Now().Add(every + rand.N(every/4+1))
	return true
}

// masters calls a function for each master of a cluster; nil outside a cluster.
func (a *Adopter) masters() func(context.Context, func(context.Context, *redis.Client) error) error {
	if a.o.Cluster == nil {
		return nil
	}
	return a.o.Cluster.Masters
}

// Look looks at all keys, and meanwhile at what events name. What is to be looked at a
// second time is left to Run, so that no page waits for another's events.
func (a *Adopter) Look(ctx context.Context) error {
	for _, p := range a.prefixes {
		err := a.o.Store.Timers(ctx, a.masters(), p+":*", scanBatch, func(ctx context.Context, ks []string) error {
			some := make(map[string]eventSet, len(ks))
			for _, k := range ks {
				some[k] = eventSet{scanned: true}
			}
			failed, err := a.followKeys(ctx, some)
			if err != nil && a.o.Cluster == nil {
				return err
			}
			if a.o.Cluster != nil {
				a.putAside(ctx, some, failed)
			}
			if err := a.Drain(ctx); err != nil && a.o.Cluster == nil {
				return err
			}
			if err := a.lookAgain(ctx); err != nil {
				return err
			}
			return a.compareDue(ctx)
		})
		if err != nil {
			return err
		}
	}
	return a.compareAll(ctx)
}
