package jobs

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/pace"
)

const (
	// leaseFor is how long a driver has a job without renewing its lease.
	leaseFor = 5 * time.Second
	// A failed step is repeated after leastWait. The time doubles up to mostWait.
	leastWait = 200 * time.Millisecond
	mostWait  = 5 * time.Second
	// atOnce is the maximum number of jobs of one client that one driver drives.
	atOnce = 4
)

// job is a job that this instance has the lease of.
type job interface {
	// step makes the next part of the job, and returns the time to wait before the next one. over reports that none is
	// left. The error is errLost if the driver must stop, and a failure if the job cannot continue.
	step(ctx context.Context) (wait time.Duration, over bool, err error)
	// keep stores the progress and renews the lease. ok is false if the job was stopped, or another driver has it.
	keep(ctx context.Context) (ok bool, err error)
	// end records that the job is done, or has failed for a reason. The error is errLost as that of step.
	end(ctx context.Context, state, reason string) error
	// leave gives up the lease.
	leave(ctx context.Context) error
}

// errLost means that a job was stopped, or that another instance drives it.
var errLost = errors.New("the job was stopped, or is driven by another instance")

// failure is the reason why a job cannot continue.
type failure struct{ reason string }

func (f failure) Error() string { return f.reason }

// task is a job that a driver has taken.
type task struct {
	job
	client string
	log    *zap.Logger
}

// driver drives jobs, each with its own lease.
type driver struct {
	wake chan struct{}

	mu      sync.Mutex
	driving map[string]int // jobs, by client
}

func newDriver() driver { return driver{wake: make(chan struct{}, 1), driving: map[string]int{}} }

// Wake says that there may be a job to drive. It does not block.
func (d *driver) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// watch drives the jobs that take returns, until ctx ends. take returns nil if no job is without a driver. It skips those
// of the clients in full, so that they do not delay the jobs of others. The token is unique: a drive that has lost its
// lease cannot renew that of its successor. watch looks for jobs at once, after Wake, and when the time has passed that
// again returns, or up to a quarter more.
func (d *driver) watch(ctx context.Context, again func() time.Duration,
	take func(ctx context.Context, token string, full []string) *task) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		for t := take(ctx, crand.Text(), d.full()); t != nil; t = take(ctx, crand.Text(), d.full()) {
			d.count(t.client, 1)
			wg.Go(func() {
				defer func() { d.count(t.client, -1); d.Wake() }()
				t.run(ctx)
			})
		}

		wait := again()
		look := time.NewTimer(wait + rand.N(wait/4))
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-look.C:
		}

		look.Stop()
	}
}

// full returns the clients that have atOnce jobs here.
func (d *driver) full() (clients []string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for client, n := range d.driving {
		if n >= atOnce {
			clients = append(clients, client)
		}
	}

	return clients
}

// count counts the jobs of a client that this instance drives.
func (d *driver) count(client string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if d.driving[client] += n; d.driving[client] == 0 {
		delete(d.driving, client)
	}
}

// run drives a job until it is over, was stopped, or ctx ends. Then another instance, or the next start, continues it.
func (t *task) run(ctx context.Context) {
	again := pace.Loop{Min: leastWait, Max: mostWait, Logger: t.log, Failure: "job failed, retrying", Recovered: "job works again"}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = t.leave(last) // otherwise the lease expires
	}()

	for ctx.Err() == nil {
		wait, over, err := t.step(ctx)
		var cannot failure
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &cannot):
			if err = t.end(ctx, Failed, cannot.reason); err == nil {
				t.log.Error("a job has failed", zap.String("reason", cannot.reason))
				return
			}
		case err == nil && over:
			if err = t.end(ctx, Done, ""); err == nil {
				return
			}
		}

		switch {
		case errors.Is(err, errLost):
		case err != nil:
			again.Wait(ctx, err)
			err = keep(ctx, t)
		default:
			again.Succeed()
			err = rest(ctx, t, wait)
		}

		if errors.Is(err, errLost) {
			t.log.Info("the job was stopped, or is driven by another instance")
			return
		}
	}
}

// keep renews the lease of a job. The error is errLost or nil: if the progress cannot be stored, the job goes on.
func keep(ctx context.Context, j job) error {
	if ok, err := j.keep(ctx); err == nil && !ok {
		return errLost
	}
	return nil
}

// rest waits, and keeps the lease of a job. The error is errLost if that is lost.
func rest(ctx context.Context, j job, wait time.Duration) error {
	for {
		if err := keep(ctx, j); err != nil {
			return err
		}

		step := min(max(wait, 0), leaseFor/4)
		pace.Wait(ctx, step)
		if wait -= step; wait <= 0 || ctx.Err() != nil {
			return nil
		}
	}
}
