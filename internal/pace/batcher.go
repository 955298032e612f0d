package pace

import (
	"sync"
	"sync/atomic"
	"time"
)

// BatcherOptions configure a Batcher. All but Interval are required.
type BatcherOptions struct {
	// MaxSenders is the maximum number of batches in transit.
	MaxSenders int
	// MinExtra is the number of waiting items that starts another sender while one is running.
	MinExtra int
	// MaxBatch is the largest number of items in a batch.
	MaxBatch int
	// Interval is the shortest time between two batches of fewer than MinExtra items. 0 means none.
	// SetInterval changes it.
	Interval time.Duration
}

// Batcher sends items in batches. It is safe for concurrent use. Use New to create one.
type Batcher[T any] struct {
	o    BatcherOptions
	send func([]T)

	waiting atomic.Int64 // len(pending), for readers without mu

	mu      sync.Mutex
	pending []T
	senders int         // running
	last    time.Time   // when the last batch was sent; only with an Interval
	timer   *time.Timer // starts a sender when the Interval is over
	armed   bool        // the timer is running
	idle    *sync.Cond
}

// NewBatcher returns a Batcher that calls send with 1 to MaxBatch items. send may keep the slice.
func NewBatcher[T any](o BatcherOptions, send func([]T)) *Batcher[T] {
	b := &Batcher[T]{o: o, send: send}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Add adds an item and returns at once.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	b.pending = append(b.pending, item)
	b.waiting.Store(int64(len(b.pending)))
	if b.senders == 0 && !b.waits() || b.senders > 0 && b.senders < b.o.MaxSenders && len(b.pending) >= b.o.MinExtra {
		b.senders++
		go b.run()
	}

	b.mu.Unlock()
}

// waits reports whether the pending items are to gather until the Interval is over. It arms the
// timer for that moment. The caller holds mu.
func (b *Batcher[T]) waits() bool {
	if b.o.Interval == 0 || len(b.pending) >= b.o.MinExtra {
		return false
	}
	if b.armed {
		return true
	}

	left := b.o.Interval - time.Since(b.last)
	if left <= 0 {
		return false
	}

	b.armed = true
	if b.timer == nil {
		b.timer = time.AfterFunc(left, b.over)
	} else {
		b.timer.Reset(left)
	}

	return true
}

// over starts a sender at the end of the Interval, unless the items have been sent.
func (b *Batcher[T]) over() {
	b.mu.Lock()
	b.armed = false
	begin := b.senders == 0 && len(b.pending) > 0
	if begin {
		b.senders++
	}

	b.mu.Unlock()
	if begin {
		b.run()
	}
}

// run sends batches until no item is pending, or the rest waits for the Interval.
func (b *Batcher[T]) run() {
	b.mu.Lock()
	for first := true; len(b.pending) > 0 && (first || !b.waits()); first = false {
		batch := b.pending
		if len(batch) > b.o.MaxBatch {
			batch = batch[:b.o.MaxBatch:b.o.MaxBatch]
			b.pending = b.pending[b.o.MaxBatch:]
		} else {
			b.pending = nil
		}

		b.waiting.Store(int64(len(b.pending)))
		if b.o.Interval > 0 {
			b.last = time.Now()
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

// SetInterval changes the Interval for later items. With 0 the pending items are sent now.
func (b *Batcher[T]) SetInterval(d time.Duration) {
	b.mu.Lock()
	b.o.Interval = d
	if d == 0 && b.senders == 0 && len(b.pending) > 0 {
		b.senders++
		go b.run()
	}

	b.mu.Unlock()
}

// Len returns the number of items that wait for a sender. It takes no lock.
func (b *Batcher[T]) Len() int { return int(b.waiting.Load()) }

// Wait returns when no item waits and no sender is running.
func (b *Batcher[T]) Wait() {
	b.mu.Lock()
	for b.senders > 0 || len(b.pending) > 0 {
		b.idle.Wait()
	}

	b.mu.Unlock()
}
