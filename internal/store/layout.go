package store

import (
	"sync/atomic"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Watcher receives changes of the layout. Its methods must not call the Layout.
type Watcher interface {
	// LayoutChanged receives ErrLayout when Redis holds data that were written with other settings,
	// and nil when it no longer does.
	LayoutChanged(err error)
	// Grow is called when the Layout finds that a reshard has added shards, before it uses them.
	// places is the new number of shards, including old ones. The caller calls grown when the
	// change is complete.
	Grow(places int) (grown func())
	// SideChanged receives the role of this Redis in a migration.
	SideChanged(Side)
	// RecordedChanged receives the prefixes that are recorded for workers and that this instance does not handle.
	RecordedChanged(prefixes []string)
	// DataReplaced is called when Redis has other data than before.
	DataReplaced(Replaced)
}

// unwatched is a Watcher that does nothing.
type unwatched struct{}

func (unwatched) LayoutChanged(error)      {}
func (unwatched) Grow(int) func()          { return func() {} }
func (unwatched) SideChanged(Side)         {}
func (unwatched) RecordedChanged([]string) {}
func (unwatched) DataReplaced(Replaced)    {}

// LayoutOptions configures a Layout.
type LayoutOptions struct {
	// Prefixes are those of this instance's routes. They are registered before the first write.
	Prefixes []string
	// Handles are the prefixes that handlers in this program serve. They are recorded before the first write.
	Handles []string
	// History is the maximum number of finalized notices in the outboxes of all shards; 0 = this
	// instance has no history.
	History int
	// Host, unless nil, returns the host that the route of a prefix calls. It is empty if each
	// notice has its own host or none is called.
	Host func(prefix string) string
	// Watcher may be nil.
	Watcher Watcher
}

// Layout is an instance's knowledge of the data in one Redis. It is safe for concurrent use.
type Layout struct {
	o     LayoutOptions
	w     *wire.Client
	c     wire.Commander // the client of w
	space keys.Space     // the key names of w

	view     atomic.Pointer[LayoutView] // nil until the layout is known
	learning chan struct{}              // semaphore: one learn at a time
	learnt   atomic.Int64               // number of reads of the layout
	wrong    atomic.Bool                // Redis has another layout
	since    atomic.Int64               // Unix s of the last reshard
	places   former                     // state of old shards
	side     atomic.Pointer[Side]       // last known side; nil = none
	came     atomic.Value               // source of the last migration: see cameFrom

	key      atomic.Pointer[[]byte] // the service's key, as last read
	identity identity

	ordered atomic.Pointer[[]string] // members of notifier:ordered, as last read or added
}

// NewLayout returns the Layout of w's Redis. It sends nothing to Redis.
func NewLayout(w *wire.Client, o LayoutOptions) *Layout {
	if o.Watcher == nil {
		o.Watcher = unwatched{}
	}

	s := &Layout{o: o, w: w, c: w.Redis, space: w.Space, learning: make(chan struct{}, 1)}
	s.places.reset(s.space.First())
	return s
}

// Wire returns the client of Redis.
func (s *Layout) Wire() *wire.Client { return s.w }

// Space returns the names of the Redis keys.
func (s *Layout) Space() keys.Space { return s.space }

// Enter makes space, as found by Discover, the Space of w. Call it before other methods that use
// Redis. It may be called again until Learn has succeeded.
func (s *Layout) Enter(space keys.Space) {
	if s.space.Same(space) {
		return
	}

	s.view.Store(nil) // it may be of another Redis
	s.places.reset(space.First())
	s.space.Set(space)
}
