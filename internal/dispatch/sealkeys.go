package dispatch

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/vault"
)

const (
	// avoidFor is how long this instance claims nothing of a route after it could not open a notice. Other instances claim the
	// notices after the grace.
	avoidFor = 5 * time.Second
	// missingFor is how long a service key counts as missing after a notice needed it. A route tries again after avoidFor.
	missingFor = 4 * avoidFor
)

// serviceKeys decides whether a route leaves its notices to instances with other service keys. It has its own lock, under
// which no other lock is taken.
type serviceKeys struct {
	logger *zap.Logger
	route  string
	queue  waker // woken when the route tries again

	mu     sync.Mutex
	avoids time.Time            // until then nothing is claimed
	lacked map[string]time.Time // when a service key was missing, by its name
}

// avoid claims nothing for a while, so that instances with the missing key claim the notices.
func (k *serviceKeys) avoid(err error) {
	k.mu.Lock()
	now := time.Now()
	k.lacks(err, now)
	first := now.After(k.avoids)
	if first {
		k.avoids = now.Add(avoidFor)
		time.AfterFunc(avoidFor, k.queue.wake)
	}

	k.mu.Unlock()
	if first {
		k.logger.Warn("cannot open sealed notices, leaving the route to other instances", zap.String("route", k.route), zap.Error(err))
	}
}

// missing reports whether nothing is claimed now.
func (k *serviceKeys) missing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.avoids.IsZero() && time.Now().Before(k.avoids)
}

// lacks records that a notice needed a service key that this instance does not have. The caller holds mu.
func (k *serviceKeys) lacks(err error, now time.Time) {
	var key *vault.MissingKeyError
	if !errors.As(err, &key) {
		return
	}

	if k.lacked == nil {
		k.lacked = map[string]time.Time{}
	}

	k.lacked[key.Name] = now
}

// names returns the names of the keys that were missing in the last missingFor.
func (k *serviceKeys) names() (list []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.lacked {
		if time.Since(at) > missingFor {
			delete(k.lacked, name)
			continue
		}

		list = append(list, name)
	}

	return list
}

// MissingKeys returns the names of the service keys that due notices needed in the last missingFor and that this instance does not
// have, by the prefix of their route.
func (d *Dispatcher) MissingKeys() map[string][]string {
	var all map[string][]string
	for prefix, q := range d.queues {
		list := q.keys.names()
		if len(list) == 0 {
			continue
		}

		if all == nil {
			all = map[string][]string{}
		}

		all[prefix] = list
	}

	return all
}
