package coalesce

import (
	"maps"
	"slices"
	"sync"
)

// Group is Batchers of the same options, one for each destination: what goes to one
// waits for none of the others. It is safe for concurrent use. Its zero value is not
// usable; see NewGroup.
type Group[K comparable, T any] struct {
	o    Options
	send func([]T)

	mu sync.Mutex
	by map[K]*Batcher[T]
}

// NewGroup makes a Group whose Batchers call send.
func NewGroup[K comparable, T any](o Options, send func([]T)) *Group[K, T] {
	return &Group[K, T]{o: o, send: send, by: map[K]*Batcher[T]{}}
}

// For is the Batcher for a destination, which it keeps for good.
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

// Wait waits for all of them, as Batcher.Wait does.
func (g *Group[K, T]) Wait() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.by))
	g.mu.Unlock()
	for _, b := range all {
		b.Wait()
	}
}
