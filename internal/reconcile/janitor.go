package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Trimmer trims settled notices.
type Trimmer interface {
	Trim(ctx context.Context, shard int, list []store.Trim, n int) (trimmed int, more bool, err error)
}

// Retirement removes dead letters that are too old or too many: see package store.
type Retirement interface {
	Handed(ctx context.Context) (store.Handed, error)
	Retire(ctx context.Context, at keys.Partition, limit store.DeadLimit, h store.Handed) (retired int, more bool, err error)
}

// PausedReader reads which routes are paused.
type PausedReader interface {
	Pauses(ctx context.Context) (store.Pauses, error)
	// CopyPaused repairs the copies in the shards.
	CopyPaused(ctx context.Context) error
}

// Orders stores which routes are ordered.
type Orders interface {
	AddOrdered(ctx context.Context, members []string) error
	ForgetOrdered(ctx context.Context, wanted []string) error
}

// JanitorStore is the part of the store that a Janitor uses. [Redis] is one.
type JanitorStore interface {
	Trimmer
	Rehomer
}

// JanitorLayout is the part of the layout that a Janitor uses. *[store.Layout] is one.
type JanitorLayout interface {
	Orders
	PausedReader
	// Prefixes returns all registered prefixes.
	Prefixes() []string
	// ScanKeys reads a page of the keys of a partition.
	ScanKeys(ctx context.Context, p keys.Partition, cursor uint64, n int64) ([]string, uint64, error)
}

// JanitorOptions configure a [Janitor].
type JanitorOptions struct {
	Store    JanitorStore
	Layout   JanitorLayout
	Registry Registry
	Routes   *route.Table
	Shards   Shards
	Work     Work
	// Receivers may be nil. Partitions of routes with HTTP targets count as paused until it was read for their shard.
	Receivers Receivers
	// Retirement removes dead letters; nil = none. Removed is called with the number of those removed of a route.
	Retirement Retirement
	Removed    func(route string, n int)
	// Assignment decides which partitions this instance trims. If nil, it trims all.
	Assignment Trims
	Logger     *zap.Logger
}

// Shards returns the number of shards, old ones included. It may grow at any time. [keys.Space] is
// one.
type Shards interface{ Places() int }

// Work receives the Janitor's findings.
type Work interface {
	// SetPaused receives a function that reports whether a partition is paused. It is called every
	// few seconds.
	SetPaused(paused func(p keys.Partition) bool)
	// Moved is called after notices were moved to a partition.
	Moved(p keys.Partition)
}

// Trims decides whether this instance trims a partition. *[fleet.Assignment] is one.
type Trims interface{ Tidies(p keys.Partition) bool }

// Tidies implements Trims.
func (alone) Tidies(keys.Partition) bool { return true }

// Receivers knows the paused receivers. *[receivers.Holds] is one.
type Receivers interface {
	// Follow reads them if they have changed.
	Follow(ctx context.Context) error
	// IsRead reports whether they were read for the notices of a shard.
	IsRead(shard int) bool
}

// Janitor deletes settled notices after their retention, reads which routes are paused, and moves notices to the
// routes that match their keys. Every instance runs one. Each step is one atomic script, so they do not conflict.
type Janitor struct {
	o       JanitorOptions
	mover   *mover
	serving *serving

	paused [][]string // prefixes by shard, as read last; nil = never read
	// receiversAt is when the paused receivers are read again.
	receiversAt time.Time

	check     chan struct{}
	unserved  atomic.Bool     // a notice was scheduled under a prefix that may have no instance
	unhandled map[string]bool // recorded prefixes that were logged
	// misplaced is true if a prefix may have notices of a longer one that separate has found none of before.
	misplaced atomic.Bool
}

// NewJanitor returns a Janitor. Run starts it.
func NewJanitor(o JanitorOptions) *Janitor {
	if o.Assignment == nil {
		o.Assignment = alone{}
	}

	return &Janitor{o: o, mover: newMover(o), serving: newServing(o.Registry, o.Routes), check: make(chan struct{}, 1)}
}

// Check makes the Janitor read the pauses, the paused receivers and the served prefixes at once.
func (j *Janitor) Check() {
	select {
	case j.check <- struct{}{}:
	default:
	}
}

// Unserved reports that a notice was scheduled under a prefix that this instance does not serve. If
// no other instance serves it, the notice is moved soon.
func (j *Janitor) Unserved(prefix string) {
	if !j.serving.byOthers(prefix) && !j.unserved.Swap(true) {
		j.Check()
	}
}

// Misplaced reports that notices may be stored under a shorter prefix than that of their route. They are moved soon.
func (j *Janitor) Misplaced() {
	if !j.misplaced.Swap(true) {
		j.unserved.Store(true)
		j.Check()
	}
}

// Orphans returns how many pending or dead notices are stored under prefixes without a route.
func (j *Janitor) Orphans() int64 { return j.mover.orphans.Load() }

// The Janitor's intervals. Jitter spreads instances.
const (
	pausedEvery = 5 * time.Second
	pausedRetry = time.Second // after a failed read; until the first success nothing is claimed
	tidyEvery   = 30 * time.Second
	// receiversEvery is the interval at which the paused receivers are read without a Check.
	receiversEvery = 30 * time.Second
	unservedEvery  = time.Second // shortest interval of rounds for notices without an instance
	batch          = 500         // notices per call
	// adoptedFor is the minimum time for which settled notices are kept on routes that adopt plain timers, keys with a
	// TTL that a producer has set itself (package intake). The expired event of such a timer may arrive late. If its
	// notice were already deleted, the event would look like that of a new timer.
	adoptedFor = 2 * time.Minute
)

// Run follows the pauses and tidies until ctx ends, and returns nil.
func (j *Janitor) Run(ctx context.Context) error {
	defer func() {
		if err := j.serving.leave(ctx); err != nil {
			j.o.Logger.Debug("cannot record that this instance serves its prefixes no more, the others wait 15s", zap.Error(err))
		}
	}()

	tidied, failing := time.Time{}, false
	for {
		wait := pausedEvery + rand.N(pausedEvery/4)
		err := j.followPaused(ctx)
		if err != nil {
			if !failing && ctx.Err() == nil {
				j.o.Logger.Warn("cannot read which routes are paused, keeping the last state, retrying", zap.Error(err))
			}

			wait = pausedRetry
		}

		failing = err != nil
		if err == nil || errors.Is(err, errSomePaused) {
			wait = min(wait, j.round(ctx, &tidied))
		}

		select {
		case <-ctx.Done():
			return nil
		case <-j.check:
			j.receiversAt = time.Time{}
		case <-time.After(wait):
		}
	}
}

// round publishes the served prefixes, and tidies if it is time or something has changed. It returns
// the longest wait until the next round.
func (j *Janitor) round(ctx context.Context, tidied *time.Time) time.Duration {
	wait := 2 * pausedEvery
	changed, err := j.Announce(ctx)
	since, unserved := time.Since(*tidied), j.unserved.Load()
	switch {
	case err == nil && (changed || unserved && since > unservedEvery || since > tidyEvery):
		j.unserved.Store(false)
		err = j.Tidy(ctx)
		*tidied = time.Now()
	case unserved:
		wait = unservedEvery
	}

	if err != nil && ctx.Err() == nil {
		j.o.Logger.Warn("tidying failed, retrying", zap.Error(err))
	}

	return wait
}

// Announce publishes the prefixes that this instance serves, and reads those of the others. It
// reports whether the others' have changed.
func (j *Janitor) Announce(ctx context.Context) (changed bool, err error) {
	changed, err = j.serving.announce(ctx)
	if err == nil && (changed || j.serving.differs() && j.mover.hasLongerOfOthers()) {
		// While instances of another configuration are alive, and once afterwards, notices may be
		// stored under shorter prefixes than their routes'.
		j.mover.separated = map[string]bool{}
	}

	return changed, err
}

// errSomePaused is returned if the pauses of some shards have never been read.
var errSomePaused = errors.New("the node of some shards does not answer, nor that of notifier:paused")

// followPaused publishes which partitions are paused. A shard whose pauses have never been read
// counts as paused. If a read fails, the last result holds.
func (j *Janitor) followPaused(ctx context.Context) error {
	failed := j.followReceivers(ctx)
	p, err := j.o.Layout.Pauses(ctx)
	if err != nil {
		return err
	}

	now := slices.Clone(j.paused) // the last function may still be in use
	for len(now) < len(p.Shards) {
		now = append(now, nil)
	}

	for shard, list := range p.Shards {
		if list != nil {
			now[shard] = list
		}
	}

	j.paused = now
	j.o.Work.SetPaused(func(at keys.Partition) bool {
		return at.Shard >= len(now) || now[at.Shard] == nil || j.unread(at) || slices.Contains(now[at.Shard], at.Prefix) ||
			j.isRecorded(at.Prefix)
	})
	if failed != nil {
		return failed
	}

	if p.Stale {
		if err := j.o.Layout.CopyPaused(ctx); err != nil {
			return err
		}
	}

	if slices.ContainsFunc(now, func(list []string) bool { return list == nil }) {
		return errSomePaused
	}

	return nil
}

// followReceivers reads the paused receivers, if it is time, after a Check, or for a new shard. A heartbeat that
// returns a new version of them causes a Check.
func (j *Janitor) followReceivers(ctx context.Context) error {
	if j.o.Receivers == nil {
		return nil
	}

	known := true
	for shard := range j.o.Shards.Places() {
		known = known && j.o.Receivers.IsRead(shard)
	}

	if known && time.Now().Before(j.receiversAt) {
		return nil
	}
	if err := j.o.Receivers.Follow(ctx); err != nil {
		return err
	}

	j.receiversAt = time.Now().Add(receiversEvery + rand.N(receiversEvery/4))
	return nil
}

// unread reports whether nothing may be claimed from a partition because the paused receivers were never read for it.
func (j *Janitor) unread(at keys.Partition) bool {
	r := j.o.Routes.Prefix(at.Prefix)
	if j.o.Receivers == nil || r == nil || r.Target.Kind != route.KindFixed && r.Target.Kind != route.KindNotice {
		return false
	}

	return !j.o.Receivers.IsRead(at.Shard)
}

// Tidy makes one round: it trims settled notices, and moves notices that are stored under a prefix
// without an instance or under a shorter prefix than their route's.
func (j *Janitor) Tidy(ctx context.Context) error {
	if j.misplaced.Swap(false) {
		j.mover.separated = map[string]bool{}
	}

	j.logUnhandled()
	failed := []error{j.order(ctx)} // an error of one shard does not stop the others
	for shard := range j.o.Shards.Places() {
		failed = append(failed, j.trimShard(ctx, shard))
	}

	failed = append(failed, j.retire(ctx))

	var unserved []string
	for _, p := range j.o.Layout.Prefixes() {
		switch {
		case j.isRecorded(p): // its notices wait for a worker
		case j.o.Routes.Prefix(p) != nil:
			failed = append(failed, j.mover.separate(ctx, p))
		case !j.serving.byOthers(p):
			unserved = append(unserved, p)
		}
	}

	return errors.Join(append(failed, j.mover.drain(ctx, unserved))...)
}

// isRecorded reports whether only workers may handle the notices under a prefix, and this instance is none of them.
func (j *Janitor) isRecorded(prefix string) bool {
	r := j.o.Routes.Prefix(prefix)
	return r != nil && r.Recorded
}

// Unhandled returns the recorded prefixes that no instance has a handler for.
func (j *Janitor) Unhandled() (prefixes []string) {
	for _, p := range j.o.Routes.Recorded() {
		if !j.serving.handled(p) {
			prefixes = append(prefixes, p)
		}
	}

	slices.Sort(prefixes)
	return prefixes
}

// logUnhandled logs each recorded prefix once when no instance has a handler for it.
func (j *Janitor) logUnhandled() {
	now := map[string]bool{}
	for _, p := range j.Unhandled() {
		if now[p] = true; !j.unhandled[p] {
			j.o.Logger.Warn("no worker handles a recorded prefix, its notices wait", zap.String("prefix", p))
		}
	}

	j.unhandled = now
}

// order stores which routes are ordered, and removes routes that no alive instance has ordered.
func (j *Janitor) order(ctx context.Context) error {
	var mine []string
	for _, r := range j.o.Routes.All() {
		mine = append(mine, OrderedMembers(r)...)
	}

	wanted := j.serving.ordered()
	for _, p := range j.Unhandled() { // the next worker finds the order that the last one had
		wanted = append(wanted, p, p+store.Blocks)
	}

	return errors.Join(j.o.Layout.AddOrdered(ctx, mine), j.o.Layout.ForgetOrdered(ctx, wanted))
}

// trimShard trims this instance's routes in a shard.
func (j *Janitor) trimShard(ctx context.Context, shard int) error {
	var list []store.Trim
	for _, r := range j.o.Routes.All() {
		if !j.o.Assignment.Tidies(keys.Partition{Prefix: r.Prefix, Shard: shard}) {
			continue
		}

		t := store.Trim{Prefix: r.Prefix}
		if r.Adopt {
			t.Young = adoptedFor
		}

		list = append(list, t)
	}

	for _, p := range j.Unhandled() {
		list = append(list, store.Trim{Prefix: p})
	}

	for some := range slices.Chunk(list, store.MaxTrims) {
		if err := trim(ctx, j.o.Store, shard, some); err != nil {
			return err
		}
	}

	return nil
}

// retire removes the dead letters of this instance's partitions that are beyond the limits of their routes.
func (j *Janitor) retire(ctx context.Context) error {
	limited := slices.DeleteFunc(slices.Clone(j.o.Routes.All()), func(r *route.Route) bool { return r.DeadRetention == 0 && r.DeadKeep == 0 })
	if len(limited) == 0 || j.o.Retirement == nil {
		return nil
	}

	handed, err := j.o.Retirement.Handed(ctx)
	if err != nil {
		return err
	}

	var failed []error
	for _, r := range limited {
		for shard := range j.o.Shards.Places() {
			if at := (keys.Partition{Prefix: r.Prefix, Shard: shard}); j.o.Assignment.Tidies(at) {
				failed = append(failed, j.retireIn(ctx, r, at, handed))
			}
		}
	}

	return errors.Join(failed...)
}

// retireIn is retire for one partition.
func (j *Janitor) retireIn(ctx context.Context, r *route.Route, at keys.Partition, handed store.Handed) error {
	for {
		n, more, err := j.o.Retirement.Retire(ctx, at, store.DeadLimit{Retention: r.DeadRetention, Keep: r.DeadKeep}, handed)
		if n > 0 {
			j.o.Logger.Info("removed dead letters beyond the route's limit", zap.String("route", r.Name), zap.Int("notices", n))
			j.o.Removed(r.Name, n)
		}

		if err != nil || !more {
			return err
		}
	}
}

// trim removes the expired settled notices of some prefixes of a shard.
func trim(ctx context.Context, trimmer Trimmer, shard int, list []store.Trim) error {
	for {
		_, more, err := trimmer.Trim(ctx, shard, list, batch)
		if err != nil || !more {
			return err
		}
	}
}
