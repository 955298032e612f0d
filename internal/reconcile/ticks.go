package reconcile

import (
	"context"
	"time"

	"notifier/internal/keys"
)

// Ticker stores the next occurrences of recurring notices. It may be nil in [SweeperOptions].
type Ticker interface {
	// Tick makes the steps of a partition that are due now, by Redis's clock. It returns the time until it can make others: 0 = inspect
	// the partition again at once.
	Tick(ctx context.Context, p keys.Partition, now time.Time) time.Duration
}

// Ticks reports that the next occurrence of a recurring notice is to be stored at a time.
func (s *Sweeper) Ticks(at time.Time) {
	s.ticks.known.Store(true)
	s.Wake(at)
}

// tick makes the steps of recurring notices that have been due for the delay. It returns how long to sleep at most; ok is false if there
// are no recurring notices.
func (s *Sweeper) tick(ctx context.Context, now time.Time, delay time.Duration) (sleep time.Duration, ok bool) {
	if s.ticks.at.IsZero() || s.o.Ticker == nil {
		return 0, false
	}

	if at := s.ticks.at.Add(delay); at.After(now) {
		return s.clock.Until(at), true
	}

	return s.o.Ticker.Tick(ctx, s.o.Partition, now), true
}
