// Package coalesce gathers calls that happen at the same time into one.
//
// # When a batch leaves
//
// An item that finds no sender at work leaves at once and alone. Only while a
// sender is at work do items gather, and then they leave together as soon as it
// is free. So batching adds no delay when little is to do, and batches grow with
// the load; there is no timer and nothing to tune it by.
//
// Further senders, up to MaxSenders, begin while others are at work, when so
// many items wait that a batch of them is worth a call of its own: MinExtra. A
// small MinExtra makes many small batches, a large one leaves the other end idle
// while a batch is on its way.
//
// # Life
//
// A Batcher has no goroutine while nothing is sent, and needs no end: a sender is
// started by Add and ends when nothing waits any more. Wait returns when all have
// ended. Whoever calls Add sees to it that nothing is added after the Wait that
// is to be the last.
//
// Nothing bounds how many items wait but the callers themselves: Len says how
// many there are.
//
// # Failures
//
// A Batcher knows nothing of them. When a call fails after it was sent, it is
// unknown which items of its batch took effect: the answer may be all that was
// lost. Only the send function can know what may be sent again, so it repeats the
// call or tells each item's caller what came of it before it returns. It must
// return: until then it holds one of the senders.
package coalesce

import "sync"

// Options of a Batcher; all are required.
type Options struct {
	// MaxSenders is how many batches may be on their way at once.
	MaxSenders int
	// MinExtra is how many items must wait for a further sender to begin while
	// another is at work.
	MinExtra int
	// MaxBatch is the most items of one batch.
	MaxBatch int
}

// Batcher sends items in batches. It is safe for concurrent use. Its zero value
// is not usable; see New.
type Batcher[T any] struct {
	o    Options
	send func([]T)

	mu      sync.Mutex
	pending []T
	senders int // at work
	idle    *sync.Cond
}

// New makes a Batcher that calls send with 1 to MaxBatch items. Batches of one
// sender keep the order of Add; with more than one they may overtake each other.
// Send may keep the slice.
func New[T any](o Options, send func([]T)) *Batcher[T] {
	b := &Batcher[T]{o: o, send: send}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Add hands an item over and returns at once.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	b.pending = append(b.pending, item)
	if b.senders == 0 || b.senders < b.o.MaxSenders && len(b.pending) >= b.o.MinExtra {
		b.senders++
		go b.run()
	}
	b.mu.Unlock()
}

func (b *Batcher[T]) run() {
	b.mu.Lock()
	for len(b.pending) > 0 {
		batch := b.pending
		if len(batch) > b.o.MaxBatch {
			batch = batch[:b.o.MaxBatch:b.o.MaxBatch]
			b.pending = b.pending[b.o.MaxBatch:]
		} else {
			b.pending = nil
		}
		b.mu.Unlock()
		b.send(batch)
		b.mu.Lock()
	}
	b.senders--
	if b.senders == 0 {
		b.idle.Broadcast()
	}
	b.mu.Unlock()
}

// Len is how many items wait for a sender.
func (b *Batcher[T]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// Wait returns when nothing waits and no sender is at work.
func (b *Batcher[T]) Wait() {
	b.mu.Lock()
	for b.senders > 0 {
		b.idle.Wait()
	}
	b.mu.Unlock()
}
