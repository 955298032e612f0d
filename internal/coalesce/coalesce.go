// Package coalesce gathers calls that happen at the same time into one.
//
// An item that finds no sender at work goes out at once and alone. Only while
// one is at work do items gather, and then they leave together. So batching adds
// no delay when idle, and grows with the load. The second and further senders
// begin when enough items wait to be worth a call beside the one under way.
package coalesce

import "sync"

// Batcher sends items in batches. Its zero value is not usable; see New.
type Batcher[T any] struct {
	send    func([]T)
	max     int
	senders int
	company int

	mu      sync.Mutex
	pending []T
	busy    int
	idle    *sync.Cond
}

// New makes a Batcher that calls send with 1 to max items, from at most
// senders goroutines at a time; the second and further ones begin when company
// items wait. Batches of one sender keep the order of Add. Send may keep the
// slice.
func New[T any](senders, company, max int, send func([]T)) *Batcher[T] {
	b := &Batcher[T]{send: send, max: max, senders: senders, company: company}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Add hands an item over and returns at once.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	b.pending = append(b.pending, item)
	if b.busy == 0 || b.busy < b.senders && len(b.pending) >= b.company {
		b.busy++
		go b.run()
	}
	b.mu.Unlock()
}

func (b *Batcher[T]) run() {
	b.mu.Lock()
	for len(b.pending) > 0 {
		batch := b.pending
		if len(batch) > b.max {
			batch = batch[:b.max:b.max]
			b.pending = b.pending[b.max:]
		} else {
			b.pending = nil
		}
		b.mu.Unlock()
		b.send(batch)
		b.mu.Lock()
	}
	b.busy--
	if b.busy == 0 {
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

// Wait returns when nothing waits and no sender runs.
func (b *Batcher[T]) Wait() {
	b.mu.Lock()
	for b.busy > 0 {
		b.idle.Wait()
	}
	b.mu.Unlock()
}
