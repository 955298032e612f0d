package coalesce

import (
	"maps"
	"slices"
	"sync"
)

// Group has one Batcher with the same options for each destination, so that items for one
// destination do not wait for another. It is safe for concurrent use. Use NewGroup to create one.
type Group[K comparable, T any] struct {
	o    Options
	send func([]T)

	mu sync.Mutex
	by map[K]*Batcher[T]
}

// NewGroup returns a Group whose Batchers call send.
func NewGroup[K comparable, T any](o Options, send func([]T)) *Group[K, T] {
	return &Group[K, T]{o: o, send: send, by: map[K]*Batcher[T]{}}
}

// For returns the Batcher of a destination. It creates the Batcher at the first call and keeps it.
func (g *Group[K, T]) For(destination K) *Batcher[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.by[destination]
	if b == nil {
		b = New(g.o, g.send)
		g.by[destination] = b
	}

	return b
}

// Wait returns when no Batcher has waiting items or running senders.
func (g *Group[K, T]) Wait() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.by))
	g.mu.Unlock()
	for _, b := range all {
		b.Wait()
	}
}
