package layout

import (
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Watcher is told of changes of the layout. Its methods may not call the Layout.
type Watcher interface {
	// LayoutChanged takes ErrLayout when Redis turns out to hold data that were written with
	// other settings, and nil when it does no more.
	LayoutChanged(err error)
	// Grow is called when other shards will take the place of the current ones, before the
	// first notice of a new one can come. Places is how many there are then, old ones
	// included; grown is called when it is so.
	Grow(places int) (grown func())
	// SideChanged takes how this Redis stands to one that notices move to or from.
	SideChanged(Side)
}

// unwatched is a Watcher that does nothing.
type unwatched struct{}

func (unwatched) LayoutChanged(error) {}
func (unwatched) Grow(int) func()     { return func() {} }
func (unwatched) SideChanged(Side)    {}

// Options of a Layout.
type Options struct {
	// Prefixes are those of this instance's routes: they are made known before
	// anything is written.
	Prefixes []string
	// History is how many endings Redis holds at most for history, all shards
	// together; 0 = this instance has none.
	History int
	// Host, if not nil, is the host that the route of a prefix calls; empty where
	// each notice brings its own, or none is called.
	Host func(prefix string) string
	// Watcher may be nil.
	Watcher Watcher
}

// Layout is what an instance knows of the data in one Redis. It is safe for concurrent use.
type Layout struct {
	o     Options
	w     *wire.Client
	c     redis.UniversalClient // as w has it
	space keys.Space            // as w has it

	view     atomic.Pointer[View] // nil until the layout is known
	learning chan struct{}        // one at a time
	learnt   atomic.Int64         // how often it was learnt
	wrong    atomic.Bool          // the layout is another one
	since    atomic.Int64         // Unix s of the last reshard
	places   former               // what is known of former shards
	side     atomic.Pointer[Side] // the last that was heard of; nil = none
	came     atomic.Value         // what notifier:meta says of that: see CameFrom

	key      atomic.Pointer[[]byte] // the service's own, as it was read last
	identity atomic.Pointer[string] // as it was read last
}

// New makes the Layout of the Redis that w leads to, and has it guard w's scripts. It does
// not speak to Redis.
func New(w *wire.Client, o Options) *Layout {
	if o.Watcher == nil {
		o.Watcher = unwatched{}
	}
	s := &Layout{o: o, w: w, c: w.Redis, space: w.Space, learning: make(chan struct{}, 1)}
	s.places.reset(s.space.First())
	w.GuardBy(s)
	return s
}

// Wire is the way to Redis.
func (s *Layout) Wire() *wire.Client { return s.w }

// Space names the Redis keys.
func (s *Layout) Space() keys.Space { return s.space }

// Enter makes space, which Discover has found, the Space of w. It is called before other
// methods that speak to Redis, and may be called again until Learn has succeeded.
func (s *Layout) Enter(space keys.Space) {
	if s.space.Same(space) {
		return
	}
	s.view.Store(nil) // of another Redis
	s.places.reset(space.First())
	s.space.Set(space)
}

// View is what is known now; nil until the layout is.
func (s *Layout) View() *View { return s.view.Load() }

// Learnt counts how often the layout was learnt: another Redis may answer since.
func (s *Layout) Learnt() int64 { return s.learnt.Load() }
