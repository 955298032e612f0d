package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/coalesce"
	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/node"
	"notifier/internal/wire"
)

// Options of a Store.
type Options struct {
	Client redis.UniversalClient
	Space  keys.Space
	// Cluster: timers are set by a second command.
	Cluster bool
	// Nodes tells which nodes of a cluster are slow; nil = none ever is.
	Nodes *node.Nodes
	// Retention is how long settled notices stay readable, Retain how many a
	// route and shard. Zero Retention keeps none.
	Retention time.Duration
	Retain    int
	// RepeatWindow is for how long after it was settled a notice that Retain has trimmed is
	// recognised when its schedule call is repeated, never longer than Retention; zero = not
	// at all. RepeatBytes bounds the memory that this takes in Redis.
	RepeatWindow time.Duration
	RepeatBytes  int64
	// Adopts tells of a route, by its prefix, whether it adopts plain timers: there
	// a timer may be a producer's, and is not overwritten. Nil = none does.
	Adopts func(prefix string) bool
	// Prefixes are those of this instance's routes: they are made known before
	// anything is written.
	Prefixes []string
	// History is how many endings Redis holds at most for history, all shards
	// together; 0 = this instance has none.
	History int
	// Host, if not nil, is the host that the route of a prefix calls; empty where
	// each notice brings its own, or none is called.
	Host func(prefix string) string
	// Confirm is what Schedule, Amend and the redrives wait for, ConfirmSettle what
	// Settle does. If either waits, connections are made by Conn.
	Confirm, ConfirmSettle wire.Confirm
	Conn                   *wire.Conn
	// OnUnconfirmed, if not nil, hears of n notices whose write was not confirmed,
	// and why.
	OnUnconfirmed func(op string, n int, err error)
	// OnEnded, if not nil, hears how many endings a settle has handed over, in a
	// shard.
	OnEnded func(shard, n int)
	// OnError, if not nil, hears of each failed operation.
	OnError func(op string)
	// Watcher, which may be nil, is told of changes of the layout.
	Watcher layout.Watcher
}

// Store keeps notices. It is safe for concurrent use.
type Store struct {
	*layout.Layout

	o      Options
	w      *wire.Client
	c      redis.UniversalClient // as w has it
	space  keys.Space            // as w has it
	keep   string                // "1" = settled notices are kept
	timers timers                // to be set, in a cluster
	aparts aparts                // in a cluster

	clients clients
}

// New makes a Store. It does not speak to Redis.
func New(o Options) *Store {
	w := wire.New(wire.Options{Client: o.Client, Space: o.Space, Cluster: o.Cluster, Nodes: o.Nodes, Conn: o.Conn,
		Confirm: o.Confirm, ConfirmSettle: o.ConfirmSettle, OnError: o.OnError})
	l := layout.New(w, layout.Options{Prefixes: o.Prefixes, History: o.History, Host: o.Host, Watcher: o.Watcher})
	s := &Store{Layout: l, o: o, w: w, c: w.Redis, space: w.Space, keep: "1"}
	s.timers.nodes = coalesce.NewGroup[string](coalesce.Options{MaxSenders: 1, MinExtra: 1, MaxBatch: timerBatch},
		func(list []timer) { s.setTimers(context.Background(), list) })
	if o.Retention <= 0 {
		s.keep = "0"
	}
	return s
}

// timing says what scripts do about the timers of a route: "1" set them, "2"
// set them and leave alone what producers have set, "0" nothing.
func (s *Store) timing(prefix string) string {
	switch {
	case s.o.Cluster:
		return "0"
	case s.adopts(prefix):
		return "2"
	}
	return "1"
}

func (s *Store) adopts(prefix string) bool { return s.o.Adopts != nil && s.o.Adopts(prefix) }

// unconfirmed tells of n notices.
func (s *Store) unconfirmed(op string, n int, err error) {
	if s.o.OnUnconfirmed != nil && n > 0 {
		s.o.OnUnconfirmed(op, n, err)
	}
}
