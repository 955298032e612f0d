package dispatch

import (
	"errors"
	"time"

	"notifier/internal/vault"
)

// missingFor is how long a service key counts as missing after a notice needed it. A route tries again after avoidFor.
const missingFor = 4 * avoidFor

// lacks records that a notice needed a service key that this instance does not have. The caller holds mu.
func (q *routeQueue) lacks(err error, now time.Time) {
	var key *vault.MissingKeyError
	if !errors.As(err, &key) {
		return
	}

	if q.lacked == nil {
		q.lacked = map[string]time.Time{}
	}

	q.lacked[key.Name] = now
}

// MissingKeys returns the names of the service keys that due notices needed in the last missingFor and that this instance does not
// have, by the prefix of their route.
func (d *Dispatcher) MissingKeys() map[string][]string {
	var all map[string][]string
	for prefix, q := range d.queues {
		q.mu.Lock()
		for name, at := range q.lacked {
			if time.Since(at) > missingFor {
				delete(q.lacked, name)
				continue
			}

			if all == nil {
				all = map[string][]string{}
			}

			all[prefix] = append(all[prefix], name)
		}

		q.mu.Unlock()
	}

	return all
}
