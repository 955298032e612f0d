package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// ChangerOptions configures a Changer.
type ChangerOptions struct {
	Store  Store
	Routes *route.Table
	Logger *zap.Logger
}

const (
	lookForJobs = 30 * time.Second
	// lookAgain is the time to the next look while another instance drives a job, which may stop.
	lookAgain = time.Second
	// betweenPasses is the time before notices that were in flight are visited again. It doubles up to mostBetween.
	betweenPasses = 100 * time.Millisecond
	mostBetween   = 2 * time.Second
	// maxLeft bounds the keys that a driver remembers for its next visit. With more, it reads all notices again.
	maxLeft = 10_000
)

// Changer drives the jobs that change notices in Redis. Every instance runs one.
type Changer struct {
	driver
	o    ChangerOptions
	busy bool // a job was running at the last look
	// between is called before each step; tests change notices there. It may be nil.
	between func()
}

// NewChanger makes a Changer. Run starts it.
func NewChanger(o ChangerOptions) *Changer { return &Changer{driver: newDriver(), o: o} }

// Run drives jobs until ctx ends, and returns nil. Another instance, or the next start, continues them.
func (d *Changer) Run(ctx context.Context) error {
	d.watch(ctx, func() time.Duration {
		if d.busy {
			return lookAgain
		}
		return lookForJobs
	}, d.take)
	return nil
}

// take takes the oldest running job without a driver. Redirects go on one after the other.
func (d *Changer) take(ctx context.Context, token string, full []string) *task {
	list, err := d.o.Store.List(ctx)
	d.busy = false
	if err != nil && ctx.Err() == nil {
		d.o.Logger.Debug("cannot read the jobs, retrying", zap.Error(err))
	}

	older := false // a redirect does not wait for one that fails
	for _, r := range slices.Backward(list) {
		if r.State != Running {
			continue
		}

		d.busy = true
		if waits := r.Redirects() && older; waits || slices.Contains(full, r.Client) {
			continue
		}

		older = older || r.Redirects() && r.Reason == ""

		if ok, err := d.o.Store.save(ctx, token, &r); err != nil {
			return nil
		} else if ok {
			log := d.o.Logger.With(zap.String("job", r.ID))
			log.Info("driving a job", zap.String("kind", r.kind()), zap.Int("pass", r.Pass))
			return &task{&changeDrive{Changer: d, r: r, as: token, log: log}, r.Client, log}
		}
	}

	return nil
}

// changeDrive is the driving of one job.
type changeDrive struct {
	*Changer
	r     Job
	as    string // the token of its lease
	log   *zap.Logger
	pause time.Duration // before the next pass
	known map[string]bool
	waits bool // an older redirect is running
	// left holds the notices to visit again, failed the partitions. Both are complete if whole is true: this driver has read
	// all other notices since the last change of the layout.
	left   map[keys.Partition][]string
	failed []keys.Partition
	why    error // of the first of failed
	whole  bool
}

func (d *changeDrive) step(ctx context.Context) (time.Duration, bool, error) {
	over, err := d.pass(ctx)
	switch {
	case errors.Is(err, wire.ErrMoved):
		err = failure{"notices are being moved to another Redis: start it again there"}
	case err != nil:
		d.left, d.failed, d.whole = nil, nil, false
	default:
		err = d.why
	}

	if d.pause = min(max(2*d.pause, betweenPasses), mostBetween); d.waits {
		d.pause = leaseFor
	}

	return d.pause, over, err
}

func (d *changeDrive) leave(ctx context.Context) error {
	// A visit may have stored the rule after the redirect was stopped.
	if r, err := d.o.Store.Read(ctx, d.r.ID); err == nil && r.State != Running {
		_ = d.o.Store.withdraw(ctx, d.r.ID) // otherwise it expires
	}

	return d.o.Store.leave(ctx, d.as, d.r.ID)
}

// end records that the job is over.
func (d *changeDrive) end(ctx context.Context, state, reason string) error {
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

	d.log.Info("a job is over", zap.String("state", state), zap.Int64("changed", d.r.Redirected), zap.Int64("claimed", d.r.Claimed),
		zap.Int64("refused", d.r.Refused), zap.Int("passes", d.r.Pass))
	return nil
}

func (d *changeDrive) keep(ctx context.Context) (bool, error) {
	ok, err := d.o.Store.save(ctx, d.as, &d.r)
	if err != nil {
		// The reply may have been lost after the write.
		if r, readErr := d.o.Store.Read(ctx, d.r.ID); readErr == nil && r.State == d.r.State && r.Pass == d.r.Pass {
			d.r.stored = r.stored
		}
	}

	return ok, err
}

// save is keep with the error errLost if the driver has to stop.
func (d *changeDrive) save(ctx context.Context) error {
	ok, err := d.keep(ctx)
	if err == nil && !ok {
		return errLost
	}

	return err
}

// pass visits the notices that may have to be changed. over reports that none is left.
func (d *changeDrive) pass(ctx context.Context) (over bool, err error) {
	before := d.o.Store.Sight()
	older, err := d.older(ctx)
	if err != nil {
		return false, err
	}

	if d.whole && d.r.InFlight <= maxLeft && before.Settled() && d.r.Shard == 0 && d.r.In == "" {
		err = d.visitLeft(ctx)
	} else {
		err = d.visitAll(ctx)
	}

	if err != nil {
		return false, err
	}

	stable := before.Settled() && d.o.Store.Sight() == before && !older
	if !stable {
		d.left, d.whole = nil, false
	}

	// A pass that another driver began may count refused notices twice.
	return stable && d.r.InFlight == 0 && len(d.failed) == 0 && (d.whole || d.r.Refused+d.r.Claimed == 0), nil
}

// older reports whether an older redirect is running. It may give notices the address that this redirect changes, so this one
// ends later.
func (d *changeDrive) older(ctx context.Context) (bool, error) {
	if d.waits = false; !d.r.Redirects() {
		return false, nil
	}

	list, err := d.o.Store.List(ctx)
	d.waits = slices.ContainsFunc(list, func(x Job) bool { return x.Redirects() && x.State == Running && x.Made.Before(d.r.Made) })
	return d.waits, err
}

// visitLeft visits the notices and partitions that the last visit left.
func (d *changeDrive) visitLeft(ctx context.Context) error {
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

// try visits a partition. If that fails, it is left to the next pass, unless the job cannot continue: the progress is
// stored after each failure, because nothing else shows that the job was stopped.
func (d *changeDrive) try(ctx context.Context, p keys.Partition, visit func() error) error {
	seen, inFlight, claimed, refused := d.r.Seen, d.r.InFlight, d.r.Claimed, d.r.Refused
	err := visit()
	if err == nil || ctx.Err() != nil || errors.Is(err, errLost) || errors.Is(err, wire.ErrMoved) {
		return err
	}

	delete(d.left, p)
	d.r.Seen, d.r.InFlight, d.r.Claimed, d.r.Refused = seen, inFlight, claimed, refused
	if lost := d.save(ctx); lost != nil {
		return lost
	}

	if d.failed = append(d.failed, p); d.why == nil {
		d.why = err
	}

	return nil
}

// visitAll visits all pending notices, from the partition on in which the last driver stopped.
func (d *changeDrive) visitAll(ctx context.Context) error {
	_ = d.o.Store.spread(ctx, &d.r) // also in shards that are new; a failure is one of a partition
	all := Partitions(d.o.Store, &d.r)
	start := keys.Partition{Shard: d.r.Shard, Prefix: d.r.In}
	d.left, d.failed, d.why = nil, nil, nil
	if start == (keys.Partition{}) {
		total := int64(0)
		for _, p := range all {
			n, _ := d.o.Store.noticeCount(ctx, p, &d.r) // without an answer the total is too small
			total += n
		}

		d.r.Pass++
		d.r.Seen, d.r.Total, d.r.InFlight, d.r.Claimed, d.r.Refused = 0, total, 0, 0, 0
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
func (d *changeDrive) passed(ctx context.Context) error {
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
func (d *changeDrive) visitPartition(ctx context.Context, p keys.Partition) error {
	for cursor := uint64(0); ; {
		if d.between != nil {
			d.between()
		}

		ks, next, err := d.o.Store.scan(ctx, p, &d.r, cursor)
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
func (d *changeDrive) visit(ctx context.Context, p keys.Partition, ks []string) error {
	if d.known == nil {
		d.known = map[string]bool{}
	}

	v := visitor{d.o.Store, d.o.Routes, &d.r, d.known}
	change := v.change
	if !d.r.Redirects() {
		change = d.amend
	}

	got, err := v.visit(ctx, p, ks, change)
	d.r.Claimed += got.claimed
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
