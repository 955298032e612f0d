package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// writes is the [store.Observer] of the engine's store.
type writes struct{ *Engine }

func (x writes) Unconfirmed(op string, n int, err error) { x.unconfirmed.record(op, n, err) }

func (x writes) ForeignKeys(prefix string, n int) { x.foreign.record(prefix, n) }

func (x writes) Finalized(shard, n int) {
	if x.shipper != nil {
		x.shipper.Wake(shard, n)
	}
}

// unconfirmedEvery is how often unconfirmed writes are logged.
const unconfirmedEvery = time.Minute

// unconfirmed counts and logs unconfirmed writes: the first at once, the following ones once a
// minute.
type unconfirmed struct {
	metrics Metrics
	logger  *zap.Logger

	mu     sync.Mutex
	logged time.Time
	n      int // since the last message
}

// record counts n unconfirmed notices of an operation.
func (u *unconfirmed) record(op string, n int, err error) {
	u.metrics.Unconfirmed(op, n)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n += n
	if time.Since(u.logged) < unconfirmedEvery {
		return
	}

	u.logger.Warn("writes are not confirmed: they are in Redis, but less durable than NOTIFIER_DURABILITY requires", zap.String("op", op),
		zap.Int("notices", u.n), zap.Error(err))
	u.logged, u.n = time.Now(), 0
}
