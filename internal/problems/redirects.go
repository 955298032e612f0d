package problems

import (
	"context"
	"time"

	"notifier/internal/jobs"
)

// redirectBudget is the number of redirects and of their shards that are read a second.
const redirectBudget = 10

// redirects reads the redirects, which takes one command, and one for each shard of each that is not over.
func (s *Sampler) redirects(ctx context.Context, b *Board, now time.Time, changed bool) {
	open := 0
	for i := range b.Redirects {
		if b.Redirects[i].State == jobs.Running || b.Redirects[i].State == jobs.Stopped {
			open++
		}
	}

	every := pace(len(b.Redirects)+open*s.engine.Shards(), redirectBudget, countLeast, countMost)
	if !changed && b.RedirectsErr == nil && !b.RedirectsAt.IsZero() && now.Sub(b.RedirectsAt) < every-sampleEvery/2 {
		return
	}

	list, err := s.engine.Redirects(ctx)
	if b.RedirectsErr = err; err == nil {
		b.Redirects, b.RedirectsAt = list, now
	}
}
