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
	"notifier/internal/layout"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Trimmer trims settled notices.
type Trimmer interface {
	Trim(ctx context.Context, shard int, list []store.Trim, n int) (trimmed int, more bool, err error)
}

// PausedReader knows which routes are paused.
type PausedReader interface {
	Pauses(ctx context.Context) (layout.Pauses, error)
	// CopyPaused makes the shards' copies right.
	CopyPaused(ctx context.Context) error
}

// JanitorStore is what a Janitor needs of Redis.
type JanitorStore interface {
	PausedReader
	Trimmer
	Rehomer
}

// JanitorOptions of a Janitor.
type JanitorOptions struct {
	Store    JanitorStore
	Registry Registry
	Routes   *route.Table
	Shards   Shards
	Work     Work
	// Assignment may be nil: this instance trims all partitions.
	Assignment Trims
	Logger     *zap.Logger
}

// Shards is how many shards there are now, old ones included. It may grow at any time.
// [keys.Space] is one.
type Shards interface{ Places() int }

// Work is what a Janitor tells the rest of the process.
type Work interface {
	// SetPaused says which partitions are paused. It is called again and again.
	SetPaused(paused func(p keys.Partition) bool)
	// Moved is called after notices were moved to a partition.
	Moved(p keys.Partition)
}

// Trims reports whether this instance is the one to trim a partition. *[fleet.Assignment]
// is one.
type Trims interface{ Tidies(p keys.Partition) bool }

// Tidies implements Trims.
func (alone) Tidies(keys.Partition) bool { return true }

// Janitor does what is not urgent. Every instance runs one; their steps are
// atomic scripts and do not disturb one another.
type Janitor struct {
	o       JanitorOptions
	mover   *mover
	serving *serving

	paused [][]string // prefixes, by shard, as read last; nil = never

	check    chan struct{}
	unserved atomic.Bool // something was scheduled under a prefix that nobody may serve
}

// NewJanitor makes a Janitor. Run starts it.
func NewJanitor(o JanitorOptions) *Janitor {
	if o.Assignment == nil {
		o.Assignment = alone{}
	}
	return &Janitor{o: o, mover: newMover(o), serving: newServing(o.Registry, o.Routes), check: make(chan struct{}, 1)}
}

// Check lets it ask at once which routes are paused and which prefixes are
// served.
func (j *Janitor) Check() {
	select {
	case j.check <- struct{}{}:
	default:
	}
}

// Unserved reports a notice under a prefix that is none of this instance's
// routes. If no other instance serves it, it is moved soon.
func (j *Janitor) Unserved(prefix string) {
	if !j.serving.byOthers(prefix) && !j.unserved.Swap(true) {
		j.Check()
	}
}

// Orphans is how many notices that are pending or dead lie under prefixes that no
// route covers.
func (j *Janitor) Orphans() int64 { return j.mover.orphans.Load() }

// The Janitor's intervals. Jitter keeps instances apart.
const (
	pausedEvery   = 5 * time.Second
	pausedRetry   = time.Second // after it could not be read: until it was once, nothing is claimed
	tidyEvery     = 30 * time.Second
	unservedEvery = time.Second // at most, for what is scheduled where nobody serves
	batch         = 500         // notices a call
	// adoptedFor is how long the settled notices of a route that adopts are kept
	// however many they are: the expired event of a timer that is settled
	// already is told from one that was never adopted by what is kept.
	adoptedFor = 2 * time.Minute
)

// Run follows the pauses and tidies until ctx ends, and returns nil.
func (j *Janitor) Run(ctx context.Context) error {
	tidied, failing := time.Time{}, false
	defer func() {
		if err := j.serving.leave(ctx); err != nil {
			j.o.Logger.Debug("could not say that this instance serves no more", zap.Error(err))
		}
	}()
	for {
		wait := pausedEvery + rand.N(pausedEvery/4)
		perr := j.followPaused(ctx)
		if perr != nil {
			if !failing && ctx.Err() == nil {
				j.o.Logger.Warn("cannot read which routes are paused; it is repeated, and what was read before holds", zap.Error(perr))
			}
			failing, wait = true, pausedRetry
		} else {
			failing = false
		}
		if perr == nil || errors.Is(perr, errSomePaused) {
			changed, err := j.Announce(ctx)
			unserved := j.unserved.Load()
			if err == nil && (changed || unserved && time.Since(tidied) > unservedEvery || time.Since(tidied) > tidyEvery) {
				j.unserved.Store(false)
				err = j.Tidy(ctx)
				tidied = time.Now()
			} else if unserved {
				wait = unservedEvery
			}
			if err != nil && ctx.Err() == nil {
				j.o.Logger.Warn("tidying failed; it is repeated", zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-j.check:
		case <-time.After(wait):
		}
	}
}

// Announce says which prefixes this instance serves, and learns which those are
// that others do: changed reports whether that is not as it was.
func (j *Janitor) Announce(ctx context.Context) (changed bool, err error) {
	changed, err = j.serving.announce(ctx)
	if err == nil && (changed || j.serving.differs()) {
		// Until the last of another configuration has gone, and once after it,
		// its notices may lie where this one would not have put them.
		j.mover.separated = map[string]bool{}
	}
	return changed, err
}

// errSomePaused: of some shards it is not known which routes are paused.
var errSomePaused = errors.New("the node of some shards does not answer, nor that of notifier:paused")

// followPaused tells which partitions are paused: those of whose shard that has
// never been read, too. What was read before holds where it cannot be read now.
func (j *Janitor) followPaused(ctx context.Context) error {
	p, err := j.o.Store.Pauses(ctx)
	if err != nil {
		return err
	}
	now := slices.Clone(j.paused) // who was told of the last one may use it still
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
		return at.Shard >= len(now) || now[at.Shard] == nil || slices.Contains(now[at.Shard], at.Prefix)
	})
	if p.Stale {
		if err := j.o.Store.CopyPaused(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(now, func(list []string) bool { return list == nil }) {
		return errSomePaused
	}
	return nil
}

// Tidy makes one round: it trims what is settled, and moves what lies under
// prefixes that nobody serves, or that a longer prefix covers.
func (j *Janitor) Tidy(ctx context.Context) error {
	var failed []error // of one shard is no reason to leave out others
	for shard := range j.o.Shards.Places() {
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
		for some := range slices.Chunk(list, store.MaxTrims) {
			if err := trim(ctx, j.o.Store, shard, some); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}
	var unserved []string
	for _, p := range j.o.Store.Prefixes() {
		if j.o.Routes.Prefix(p) != nil {
			if err := j.mover.separate(ctx, p); err != nil {
				failed = append(failed, err)
			}
		} else if !j.serving.byOthers(p) {
			unserved = append(unserved, p)
		}
	}
	return errors.Join(append(failed, j.mover.empty(ctx, unserved))...)
}

// trim forgets what some prefixes of a shard need not keep any more.
func trim(ctx context.Context, trimmer Trimmer, shard int, list []store.Trim) error {
	for {
		_, more, err := trimmer.Trim(ctx, shard, list, batch)
		if err != nil || !more {
			return err
		}
	}
}
