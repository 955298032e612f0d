package intake

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanShare limits scans without a reason to 1/50 of the time. Known occasions on which events are
// lost start a scan at once; these scans are for all others.
const scanShare = 50

// Scan requests a scan of all keys, because events may have been missed.
func (a *Adopter) Scan() {
	a.mu.Lock()
	a.scan = true
	a.mu.Unlock()
	a.signal()
}

// scanDue reports whether a scan was requested or is due. Instances scan at different times.
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

// masters returns the function that visits each master; nil outside a cluster.
func (a *Adopter) masters() func(context.Context, func(context.Context, redis.Cmdable) error) error {
	if a.o.Cluster == nil {
		return nil
	}
	return a.o.Cluster.Masters
}

// Look scans all keys, and checks keys of new events during that time. Second checks are left to
// Run, so that no page waits for the events of another.
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
