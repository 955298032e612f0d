package pace

import (
	"maps"
	"slices"
	"sync"
)

// Batchers has one Batcher with the same options for each destination, so that items for one
// destination do not wait for another. It is safe for concurrent use. Use NewBatchers to create one.
type Batchers[K comparable, T any] struct {
	o    BatcherOptions
	send func([]T)

	mu sync.Mutex
	by map[K]*Batcher[T]
}

// NewBatchers returns Batchers that Batchers call send.
func NewBatchers[K comparable, T any](o BatcherOptions, send func([]T)) *Batchers[K, T] {
	return &Batchers[K, T]{o: o, send: send, by: map[K]*Batcher[T]{}}
}

// For returns the Batcher of a destination. It creates the Batcher at the first call and keeps it.
func (g *Batchers[K, T]) For(destination K) *Batcher[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.by[destination]
	if b == nil {
		b = NewBatcher(g.o, g.send)
		g.by[destination] = b
	}

	return b
}

// Wait returns when no Batcher has waiting items or running senders.
func (g *Batchers[K, T]) Wait() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.by))
	g.mu.Unlock()
	for _, b := range all {
		b.Wait()
	}
}
