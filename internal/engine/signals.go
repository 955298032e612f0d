package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/listener"
	"notifier/internal/route"
)

// signals takes what the listener and the janitor report, and hands it to the parts that it
// concerns.
type signals struct{ *Engine }

// Expired implements [listener.Hints]. A notice that was handed away counts as taken.
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

// Paused implements [listener.Wakes].
func (s signals) Paused() { s.janitor.Check() }

// Places implements [listener.Wakes].
func (s signals) Places() { s.lookForPlaces() }

// Subscribed implements [listener.State]: the events before the subscription were missed.
func (s signals) Subscribed() {
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
		g = 0 // no event comes that it is for
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

// events tells sweepers what is known of expired events.
type events struct{ *Engine }

// Subscribed implements [reconcile.Events].
func (e events) Subscribed() bool { return e.listener.Alive() > 0 }

// Flowing implements [reconcile.Events]. Events make hints for the shard that a key belongs
// to now, so an old shard is swept as if none came.
func (e events) Flowing(shard int) bool { return e.events.Load() && !e.store.IsFormer(shard) }

// Adopting implements [adopt.Events].
func (e events) Adopting() bool { return e.events.Load() && e.keyspace.Load() }

// Touched implements [reconcile.Events].
func (e events) Touched(ctx context.Context, keys []string) { e.listener.Touched(ctx, keys) }

// cluster are the masters, or nil outside a cluster.
func (e *Engine) cluster() listener.Cluster {
	if e.o.Conn.Masters == nil {
		return nil
	}
	return masters{e}
}

// masters implements [listener.Cluster].
type masters struct{ e *Engine }

func (m masters) Masters(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error {
	return m.e.o.Conn.Masters(ctx, f)
}

func (m masters) Master(ctx context.Context, key string) string {
	return m.e.store.Wire().Master(ctx, key)
}
