package problems

import (
	"context"
	"time"

	"notifier/internal/auth"
)

// AwaitTime is how long a caller waits for the first figures after a start.
const AwaitTime = 5 * time.Second

// again is the interval of reading parts that could not be read.
const again = 250 * time.Millisecond

// Missing returns the parts that were never read. With one of them, no problem does not mean that all is well.
func Missing(s *Sampler, b *Board, reader auth.Caller) (parts []string) {
	for _, part := range []struct {
		name   string
		unread bool
	}{
		{"counts", b.CountsAt.IsZero()},
		{"minutes", b.MinutesAt.IsZero()},
		{"instances", b.InstancesAt.IsZero()},
		{"receivers", s.Healthy() && b.HealthAt.IsZero()},
		{"checks", reader.Prefix == "" && s.Examiner.Awaited()},
	} {
		if part.unread {
			parts = append(parts, part.name)
		}
	}

	return parts
}

// Await returns current figures once all parts were read, or, after a time, with the parts that are missing. It makes the
// checks of doctor begin if the reader sees them.
func Await(ctx context.Context, s *Sampler, reader auth.Caller, within time.Duration) (b *Board, missing []string) {
	if reader.Prefix == "" {
		s.Examiner.Ask()
	}

	end := time.NewTimer(within)
	defer end.Stop()
	retry := time.NewTicker(again)
	defer retry.Stop()
	for {
		b = s.Current(ctx)
		if missing = Missing(s, b, reader); len(missing) == 0 {
			return b, nil
		}

		var examined <-chan struct{} // nil once it has reported: other parts are read again at intervals
		if s.Examiner.Awaited() {
			examined = s.Examiner.Examined()
		}

		select {
		case <-ctx.Done():
			return b, missing
		case <-end.C:
			return b, missing
		case <-examined:
		case <-retry.C:
		}
	}
}
