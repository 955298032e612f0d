package redirect

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// Options of a Driver.
type Options struct {
	Store  Redis
	Routes *route.Table
	Logger *zap.Logger
}

const (
	holdFor   = 5 * time.Second
	lookEvery = 30 * time.Second
	// lookAgain is the time to the next look while another instance drives a redirect, which may stop.
	lookAgain = time.Second
	// betweenPasses is the time before notices that were in flight are visited again. It doubles up to mostBetween.
	betweenPasses = 100 * time.Millisecond
	mostBetween   = 2 * time.Second
	leastWait     = 200 * time.Millisecond
	mostWait      = 5 * time.Second
	// maxLeft bounds the keys that a driver remembers for its next visit. With more, it reads all notices again.
	maxLeft = 10_000
)

// Driver drives redirects. Every instance runs one.
type Driver struct {
	o     Options
	token string
	wake  chan struct{}
	// The fields below are used only by Run.
	busy    bool              // a redirect was running at the last look
	failing map[string]*drive // redirects whose last pass has failed somewhere, by id
	// between is called before each step; tests change notices there. It may be nil.
	between func()
}

// NewDriver makes a Driver. Run starts it.
func NewDriver(o Options) *Driver {
	return &Driver{o: o, token: rand.Text(), wake: make(chan struct{}, 1), failing: map[string]*drive{}}
}

// Wake says that there may be a redirect to drive. It does not block.
func (d *Driver) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run drives redirects until ctx ends, and returns nil. Another instance, or the next start, continues them.
func (d *Driver) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		for d.take(ctx) {
		}

		wait := lookEvery
		if d.busy {
			wait = lookAgain
		}

		look := time.NewTimer(wait + mathrand.N(wait/4))
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-look.C:
		}

		look.Stop()
	}
	return nil
}

// take drives the running redirects, the oldest first, unless another instance has the lease. One that fails is left to
// the next look, and the next one goes on. take reports whether there may be another one now.
func (d *Driver) take(ctx context.Context) bool {
	list, err := d.o.Store.List(ctx)
	d.busy = false
	if err != nil {
		if ctx.Err() == nil {
			d.o.Logger.Debug("cannot read the redirects, retrying", zap.Error(err))
		}
		return false
	}

	for i := len(list) - 1; i >= 0 && ctx.Err() == nil; i-- {
		if list[i].State != Running {
			delete(d.failing, list[i].ID)
			continue
		}

		d.busy = true
		if ok, err := d.o.Store.hold(ctx, d.token); !ok || err != nil {
			return false
		}

		x := d.failing[list[i].ID]
		if x == nil || x.r.stored != list[i].stored { // the other one's progress is outdated
			x = d.newDrive(list[i])
		}

		x.later = map[string]bool{}
		for _, r := range list[:i] {
			x.later[r.ID] = true
		}

		d.failing[x.r.ID] = x
		switch x.run(ctx) {
		case ended:
			delete(d.failing, x.r.ID)
			return true
		case lost:
			delete(d.failing, x.r.ID)
			return false
		}
	}

	return false
}

// drive is the driving of one redirect.
type drive struct {
	*Driver
	r     Redirect
	again pace.Loop
	// later has the ids of the redirects that were made after this one. It leaves the notices that they have changed.
	later map[string]bool
	// left holds the notices to visit again, failed the partitions. Both are complete if whole is true: this driver has read
	// all other notices since the last change of the layout.
	left   map[keys.Partition][]string
	failed []keys.Partition
	why    error // of the first of failed
	whole  bool
}

func (d *Driver) newDrive(r Redirect) *drive {
	log := d.o.Logger.With(zap.String("redirect", r.ID))
	log.Info("redirecting", zap.Int("pass", r.Pass))
	return &drive{Driver: d, r: r, again: pace.Loop{Min: leastWait, Max: mostWait, Logger: log, Failure: "redirect failed, retrying",
		Recovered: "redirect works again"}}
}

// errLost means that the redirect was stopped, or that another instance drives it.
var errLost = errors.New("the redirect was stopped, or is driven by another instance")

// The results of run.
const (
	ended   = iota // it is over, or was stopped
	failing        // a partition could not be visited, or all
	lost           // another instance has the lease, or this one ends
)

// run drives the redirect until it is over or fails.
func (d *drive) run(ctx context.Context) int {
	for pause := betweenPasses; ; {
		over, err := d.pass(ctx)
		switch {
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = d.o.Store.leave(last, d.token) // otherwise the lease expires
			return lost
		case errors.Is(err, errLost):
			d.again.Logger.Info("the redirect was stopped, or is driven by another instance")
			d.stopped(ctx)
			if d.o.Store.leave(ctx, d.token) != nil {
				return lost
			}

			return ended
		case errors.Is(err, wire.ErrMoved):
			if err = d.end(ctx, Failed, "notices are being moved to another Redis: start it again there"); err == nil {
				return ended
			}
		case err == nil && over:
			if err = d.end(ctx, Done, ""); err == nil || errors.Is(err, errLost) {
				return ended
			}
		}

		if err != nil {
			d.left, d.failed, d.whole = nil, nil, false
		} else {
			err = d.why
		}

		if err != nil {
			d.again.Fail(err)
			return failing
		}

		d.again.Succeed()
		pace.Wait(ctx, pause)
		pause = min(2*pause, mostBetween)
	}
}

// stopped withdraws the rule of a redirect that is not running any more: visitAll may have stored it after the stop.
func (d *drive) stopped(ctx context.Context) {
	if r, err := d.o.Store.Read(ctx, d.r.ID); err == nil && r.State != Running {
		_ = d.o.Store.withdraw(ctx, d.r.ID) // otherwise it expires
	}
}

// end records that the redirect is over.
func (d *drive) end(ctx context.Context, state, reason string) error {
	now, err := d.o.Store.Wire().Now(ctx)
	if err != nil {
		return err
	}
	if err := d.o.Store.Count(ctx, &d.r); err != nil {
		return err
	}

	d.r.State, d.r.Reason, d.r.Changed = state, reason, now
	if err := d.save(ctx); err != nil {
		d.r.State = Running
		return err
	}

	_ = d.o.Store.withdraw(ctx, d.r.ID) // otherwise it expires
	log := d.o.Logger.With(zap.String("redirect", d.r.ID), zap.Int64("redirected", d.r.Redirected))
	if state == Failed {
		log.Error("a redirect has failed", zap.String("reason", reason))
	} else {
		log.Info("redirected", zap.Int64("refused", d.r.Refused), zap.Int("passes", d.r.Pass))
	}

	return nil
}

// save stores the progress and renews the lease. The error is errLost if the driver has to stop.
func (d *drive) save(ctx context.Context) error {
	ok, err := d.o.Store.save(ctx, d.token, &d.r)
	if err != nil {
		// The reply may have been lost after the write.
		if r, readErr := d.o.Store.Read(ctx, d.r.ID); readErr == nil && r.State == d.r.State && r.Pass == d.r.Pass {
			d.r.stored = r.stored
		}
		return err
	}

	if !ok {
		return errLost
	}

	return nil
}

// pass visits the notices that may have to be changed. over reports that none is left.
func (d *drive) pass(ctx context.Context) (over bool, err error) {
	before := d.o.Store.Sight()
	if d.whole && d.r.InFlight <= maxLeft && before.Settled() && d.r.Shard == 0 && d.r.In == "" {
		err = d.visitLeft(ctx)
	} else {
		err = d.visitAll(ctx)
	}

	if err != nil {
		return false, err
	}

	stable := before.Settled() && d.o.Store.Sight() == before
	if !stable {
		d.left, d.whole = nil, false
	}

	// A pass that another driver began may count refused notices twice.
	return stable && d.r.InFlight == 0 && len(d.failed) == 0 && (d.whole || d.r.Refused == 0), nil
}

// visitLeft visits the notices and partitions that the last visit left.
func (d *drive) visitLeft(ctx context.Context) error {
	todo, failed := d.left, d.failed
	d.left, d.failed, d.why, d.r.InFlight = nil, nil, nil, 0
	d.r.Pass++
	for p, ks := range todo {
		if err := d.try(ctx, p, func() error { return d.visit(ctx, p, ks) }); err != nil {
			return err
		}
	}

	for _, p := range failed {
		if err := d.try(ctx, p, func() error { return d.visitPartition(ctx, p) }); err != nil {
			return err
		}
	}

	return d.passed(ctx)
}

// try visits a partition. If that fails, it is left to the next pass, unless the redirect cannot continue: the state is read
// after each failure, because nothing else shows that the redirect was stopped.
func (d *drive) try(ctx context.Context, p keys.Partition, visit func() error) error {
	seen, inFlight, refused := d.r.Seen, d.r.InFlight, d.r.Refused
	err := visit()
	if err == nil || ctx.Err() != nil || errors.Is(err, errLost) || errors.Is(err, wire.ErrMoved) {
		return err
	}

	r, readErr := d.o.Store.Read(ctx, d.r.ID)
	if readErr != nil {
		return err
	}

	ok, holdErr := d.o.Store.hold(ctx, d.token)
	switch {
	case r.State != Running || holdErr == nil && !ok:
		return errLost
	case holdErr != nil:
		return err
	}

	delete(d.left, p)
	d.r.Seen, d.r.InFlight, d.r.Refused = seen, inFlight, refused
	if d.failed = append(d.failed, p); d.why == nil {
		d.why = err
	}

	return nil
}

// visitAll visits all pending notices, from the partition on in which the last driver stopped.
func (d *drive) visitAll(ctx context.Context) error {
	_ = d.o.Store.spread(ctx, &d.r) // also in shards that are new; a failure is one of a partition
	all := Partitions(d.o.Store, &d.r.Rule)
	start := keys.Partition{Shard: d.r.Shard, Prefix: d.r.In}
	d.left, d.failed, d.why = nil, nil, nil
	if start == (keys.Partition{}) {
		total := int64(0)
		for _, p := range all {
			n, _ := d.o.Store.pendingCount(ctx, p) // without an answer the total is too small
			total += n
		}

		d.r.Pass++
		d.r.Seen, d.r.Total, d.r.InFlight, d.r.Refused = 0, total, 0, 0
		d.whole = true
	} else {
		d.whole = false
	}

	for _, p := range all {
		if before(p, start) {
			continue
		}

		d.r.Shard, d.r.In = p.Shard, p.Prefix
		if err := d.try(ctx, p, func() error { return d.visitPartition(ctx, p) }); err != nil {
			return err
		}
	}

	d.r.Shard, d.r.In = 0, ""
	return d.passed(ctx)
}

// passed stores the progress after a pass, and why partitions are left.
func (d *drive) passed(ctx context.Context) error {
	if d.r.Reason = ""; d.why != nil {
		d.r.Reason = d.why.Error()
	}

	return d.save(ctx)
}

// before reports whether a partition comes before another one in a pass.
func before(a, b keys.Partition) bool {
	return a.Shard < b.Shard || a.Shard == b.Shard && a.Prefix < b.Prefix
}

// visitPartition visits the pending notices of a partition in steps, and stores the progress after each.
func (d *drive) visitPartition(ctx context.Context, p keys.Partition) error {
	for cursor := uint64(0); ; {
		if d.between != nil {
			d.between()
		}

		ks, next, err := d.o.Store.pending(ctx, p, cursor)
		if err != nil {
			return err
		}
		if err := d.visit(ctx, p, ks); err != nil {
			return err
		}

		d.r.Seen += int64(len(ks))
		if err := d.save(ctx); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// visit changes those of the notices that match.
func (d *drive) visit(ctx context.Context, p keys.Partition, ks []string) error {
	v := visitor{d.o.Store, d.o.Routes, &d.r, d.later}
	got, err := v.visit(ctx, p, ks, v.change)
	d.r.Refused += got.refused
	d.r.InFlight += int64(len(got.left))
	if len(got.left) > 0 && d.r.InFlight <= maxLeft {
		if d.left == nil {
			d.left = map[keys.Partition][]string{}
		}
		d.left[p] = append(d.left[p], got.left...)
	}

	return err
}
