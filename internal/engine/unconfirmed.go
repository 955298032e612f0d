package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/metrics"
)

// unconfirmedEvery is how often the log tells of writes that were not confirmed.
const unconfirmedEvery = time.Minute

// unconfirmed counts and tells of writes that were not confirmed: the first at
// once, those that follow within a minute together with the next.
type unconfirmed struct {
	metrics *metrics.Metrics
	logger  *zap.Logger

	mu   sync.Mutex
	told time.Time
	n    int // since then
}

// hear takes n notices of an operation, and why they were not confirmed.
func (u *unconfirmed) hear(op string, n int, err error) {
	u.metrics.Unconfirmed(op, n)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n += n
	if time.Since(u.told) < unconfirmedEvery {
		return
	}
	u.logger.Warn("writes are not confirmed: they are in Redis and not as durable as NOTIFIER_DURABILITY asks for", zap.String("op", op),
		zap.Int("notices", u.n), zap.Error(err))
	u.told, u.n = time.Now(), 0
}
