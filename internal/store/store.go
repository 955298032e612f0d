package store

import (
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Options configures a Store.
type Options struct {
	Client wire.Commander
	Space  keys.Space
	// Cluster reports whether Redis is a cluster. Then timers are set by a second command.
	Cluster bool
	// Nodes has the slow nodes of a cluster; nil = no node is slow.
	Nodes *wire.Nodes
	// Retention is how long settled notices are stored, and Retain their maximum number in a route and
	// shard. Without a Retention none is stored.
	Retention time.Duration
	Retain    int
	// RepeatWindow is how long after the end of a notice a repeated schedule call is recognized,
	// even if Retain has removed the notice. It is at most Retention. Zero = not at all.
	RepeatWindow time.Duration
	// RepeatBytes is the maximum memory in Redis for recognizing repeated calls.
	RepeatBytes int64
	// Adopts reports whether the route of a prefix adopts plain timers. Then a timer may be a producer's
	// and is not overwritten. Nil = no route adopts.
	Adopts func(prefix string) bool
	// Prefixes are those of this instance's routes. They are registered in Redis before the first write.
	Prefixes []string
	// Handles are those of Prefixes that handlers in this program serve: see recorded.go.
	Handles []string
	// History is the maximum number of entries in all outboxes; 0 = this instance has no history.
	History int
	// Host, if not nil, returns the host that the route of a prefix calls. It is empty if each notice
	// has its own host, or no host is called.
	Host func(prefix string) string
	// Confirm is the confirmation that Schedule, Restore and amendments wait for, ConfirmSettle that of
	// Settle. If either waits, Conn is required.
	Confirm, ConfirmSettle wire.Confirm
	Conn                   *wire.Conn
	// Observer may be nil.
	Observer Observer
	// Watcher, if not nil, is notified of changes of the layout.
	Watcher Watcher
}

// Observer is notified of the results of calls. Its methods must not block.
type Observer interface {
	wire.Observer
	// Unconfirmed is called after a write of n notices whose confirmation failed with err.
	Unconfirmed(op string, n int, err error)
	// Finalized is called after a settle that has added n entries to the outbox of a shard.
	Finalized(shard, n int)
	// ForeignKeys is called when the timers of n notices under a prefix could not be set, because other programs have
	// keys of their names. These notices are claimed by sweeps.
	ForeignKeys(prefix string, n int)
}

// Store reads and writes notices in Redis. It is safe for concurrent use.
type Store struct {
	// Layout has what the store knows of the data in Redis as a whole.
	Layout  *Layout
	Timers  *Timers
	Clients *Clients

	o           Options
	w           *wire.Client
	c           wire.Commander // of w
	space       keys.Space     // of w
	aloneShards aloneShards    // in a cluster
}

// New returns a Store. It sends nothing to Redis.
func New(o Options) *Store {
	w := wire.New(wire.Options{Client: o.Client, Space: o.Space, Cluster: o.Cluster, Nodes: o.Nodes, Conn: o.Conn,
		Confirm: o.Confirm, ConfirmSettle: o.ConfirmSettle, Observer: o.Observer})
	l := NewLayout(w, LayoutOptions{Prefixes: o.Prefixes, Handles: o.Handles, History: o.History, Host: o.Host, Watcher: o.Watcher})
	return &Store{Layout: l, Timers: newTimers(w, &o), Clients: newClients(l), o: o, w: w, c: w.Redis, space: w.Space}
}

// Wire returns the client of Redis.
func (s *Store) Wire() *wire.Client { return s.w }

// Space returns the names of the Redis keys.
func (s *Store) Space() keys.Space { return s.space }

// foreign reports n keys under a prefix that are not the service's.
func (o *Options) foreign(prefix string, n int) {
	if o.Observer != nil {
		o.Observer.ForeignKeys(prefix, n)
	}
}

// Foreign removes from a script's reply the last element {"foreign", n}, if there is one, and reports it: see
// lua/lib/timer.lua.
func (s *Store) Foreign(prefix string, reply []any) []any {
	if len(reply) < 2 {
		return reply
	}

	last, _ := reply[len(reply)-1].([]any)
	if len(last) != 2 || last[0] != "foreign" {
		return reply
	}

	n, _ := last[1].(int64)
	s.o.foreign(prefix, int(n))
	return reply[:len(reply)-1]
}

// Retains returns the scripts' argument for settled notices: "1" stores them, "0" deletes them.
func (s *Store) Retains() string {
	if s.o.Retention <= 0 {
		return "0"
	}
	return "1"
}

// Unconfirmed reports n notices whose write was not confirmed, and why.
func (s *Store) Unconfirmed(op string, n int, err error) {
	if s.o.Observer != nil && n > 0 {
		s.o.Observer.Unconfirmed(op, n, err)
	}
}
