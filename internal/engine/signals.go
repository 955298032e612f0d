package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/listener"
	"notifier/internal/route"
)

// signals passes the reports of listener and janitor to the parts that need them.
type signals struct{ *Engine }

// Expired implements [listener.Hints]. It ignores notices that were handed over.
func (s signals) Expired(r *route.Route, key string) bool {
	return s.away.has(key) || s.dispatch.Expired(r, key)
}

// Keyspace implements [listener.Hints].
func (s signals) Keyspace(r *route.Route, key, event string) { s.adopter.Event(r, key, event) }

// Wake implements [listener.Wakes].
func (s signals) Wake(p keys.Partition, due time.Time) {
	list, mine := s.sweepers.all()[p.Prefix]
	switch {
	case p.Shard < len(list):
		list[p.Shard].Wake(due)
	case !mine:
		s.janitor.Unserved(p.Prefix)
	}
}

// Expires implements [listener.Wakes].
func (s signals) Expires(p keys.Partition, at time.Time) {
	if list := s.sweepers.all()[p.Prefix]; p.Shard < len(list) {
		list[p.Shard].Expires(at)
	}
}

// Ticks implements [listener.Wakes].
func (s signals) Ticks(p keys.Partition, at time.Time) {
	if list := s.sweepers.all()[p.Prefix]; p.Shard < len(list) {
		list[p.Shard].Ticks(at)
	}
}

// Paused implements [listener.Wakes].
func (s signals) Paused() { s.janitor.Check() }

// Places implements [listener.Wakes].
func (s signals) Places() { s.checkShards() }

// Subscribed implements [listener.State]. A sweep finds the notices whose events came before the
// subscription.
func (s signals) Subscribed() {
	s.checkData()
	s.adopter.Scan()
	s.sweepers.Now()
	if s.o.Subscriptions != nil {
		s.o.Subscriptions.Subscribed()
	}

	s.once.Do(func() { close(s.ready) })
}

// Events implements [listener.State].
func (s signals) Events(ok bool) {
	if s.events.Swap(ok) == ok {
		return
	}

	g := s.o.Grace
	if !ok {
		g = 0 // without events no grace is needed
	}

	s.dispatch.SetGrace(g)
	s.fleet.SetEvents(ok)
	s.adopter.Scan()
	s.sweepers.Now()
}

// Adopting implements [listener.State].
func (s signals) Adopting(ok bool) {
	s.keyspace.Store(ok)
	s.adopter.Scan()
}

// SetPaused implements [reconcile.Work].
func (s signals) SetPaused(paused func(p keys.Partition) bool) { s.dispatch.SetPaused(paused) }

// Moved implements [reconcile.Work].
func (s signals) Moved(p keys.Partition) { s.Wake(p, time.Time{}) }

// events reports to sweepers whether expired events arrive.
type events struct{ *Engine }

// Subscribed implements [reconcile.Events].
func (e events) Subscribed() bool { return e.listener.Alive() > 0 }

// Flowing implements [reconcile.Events]. Events cause hints only in the current shard of a key, so
// an old shard is swept as if there were no events.
func (e events) Flowing(shard int) bool { return e.events.Load() && e.store.Layout.HasEvents(shard) }

// Adopting implements [intake.Events].
func (e events) Adopting() bool { return e.events.Load() && e.keyspace.Load() }

// Touched implements [reconcile.Events].
func (e events) Touched(ctx context.Context, keys []string) { e.listener.Touched(ctx, keys) }

// cluster returns the masters; nil outside a cluster.
func (e *Engine) cluster() listener.Cluster {
	if e.o.Conn.Masters == nil {
		return nil
	}
	return masters{e}
}

// masters implements [listener.Cluster].
type masters struct{ e *Engine }

func (m masters) Masters(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error {
	return m.e.o.Conn.Masters(ctx, f)
}

func (m masters) Master(ctx context.Context, key string) string {
	return m.e.store.Wire().Master(ctx, key)
}
