package harness

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
)

// Values are the figures of a cell, by name. The cases define the names.
type Values map[string]float64

// addCounts adds the jobs of other measurements, and those that were early, missing or doubled.
func (v Values) addCounts(others ...Values) {
	for _, w := range others {
		for _, name := range []string{"jobs", "early", "missing", "doubled"} {
			v[name] += w[name]
		}
	}
}

// The producers of the cases.
const (
	singleCallers = 64
	batchCallers  = 8
)

// schedule gives all jobs to the peer: many a call where it has such a call.
func schedule(ctx context.Context, p peer.Peer, info peer.Info, jobs func(n int) peer.Job, from, to int) error {
	return spread(ctx, callersOf(info.Batch), from, to, max(info.Batch, 1), func(ctx context.Context, a, b int) error {
		return scheduleOnce(ctx, p, a, b, jobs)
	})
}

func callersOf(batch int) int {
	if batch > 0 {
		return batchCallers
	}
	return singleCallers
}

// scheduleOnce makes one call of a producer, with the jobs from number a to below b.
func scheduleOnce(ctx context.Context, p peer.Peer, a, b int, job func(int) peer.Job) error {
	jobs := make([]peer.Job, 0, b-a)
	for n := a; n < b; n++ {
		jobs = append(jobs, job(n))
	}

	return p.Schedule(ctx, jobs...)
}

// spread calls fn for [from,to) in steps from several goroutines. After an error it cancels the other calls, but not after
// io.EOF, which ends one goroutine.
func spread(ctx context.Context, callers, from, to, step int, fn func(ctx context.Context, a, b int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := atomic.Int64{}
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				a := int(next.Add(int64(step))) - step
				if a >= to {
					return
				}

				if err := fn(ctx, a, min(a+step, to)); err != nil {
					if err != io.EOF {
						cancel(err)
					}
					return
				}
			}
		})
	}

	wg.Wait()
	return context.Cause(ctx)
}

// fillBlock is how many neighbours of the far jobs share a due second, so that
// calls that take one delay for many jobs can be used.
const fillBlock = 128

// farJob is a job that is due in a day.
func farJob(start time.Time) func(n int) peer.Job {
	base := start.Add(24 * time.Hour).Truncate(time.Second)
	return func(n int) peer.Job {
		block := rand.New(rand.NewPCG(uint64(n/fillBlock), 7))
		due := base.Add(time.Duration(block.IntN(3600)) * time.Second).Add(time.Duration(n%fillBlock) * time.Millisecond)
		return peer.Job{ID: peer.ID(n), Due: due, Body: peer.Body(n)}
	}
}

// fillFrom is the first number of a far job: no recorder knows it.
const fillFrom = 1_000_000_000

// fillAt gives the peer n jobs that are due in a day, numbered from from, and returns their rate.
func fillAt(ctx context.Context, p peer.Peer, info peer.Info, from, n int) (float64, error) {
	start := time.Now()
	if err := schedule(ctx, p, info, farJob(start), from, from+n); err != nil {
		return 0, fmt.Errorf("fill: %w", err)
	}

	return float64(n) / time.Since(start).Seconds(), nil
}

// produce schedules for the given time and returns how many, and the rate. batch 0 = one job
// a call.
func produce(ctx context.Context, p peer.Peer, d time.Duration, batch int) (n int64, rate float64, err error) {
	start := time.Now()
	end, job := start.Add(d), farJob(start)
	var done atomic.Int64
	err = spread(ctx, callersOf(batch), 0, math.MaxInt, max(batch, 1), func(ctx context.Context, a, b int) error {
		if !time.Now().Before(end) {
			return io.EOF
		}
		if err := scheduleOnce(ctx, p, a, b, job); err != nil {
			return err
		}

		done.Add(int64(b - a))
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("schedule: %w", err)
	}

	return done.Load(), float64(done.Load()) / time.Since(start).Seconds(), nil
}

// leadFor is the time that n jobs need to be scheduled before the first is
// due, with room, at a rate seen a moment ago.
func leadFor(size Size, info peer.Info, n int, rate float64) time.Duration {
	return max(size.Lead, info.Lead) + time.Duration(2*float64(n)/rate*float64(time.Second))
}

// randomDue spreads n whole-ms due times over a window, in random order.
func randomDue(start time.Time, window time.Duration, n int) []time.Time {
	start = start.Truncate(time.Millisecond)
	due := make([]time.Time, n)
	for i := range due {
		due[i] = start.Add(time.Duration(rand.Int64N(window.Milliseconds())) * time.Millisecond)
	}

	return due
}
