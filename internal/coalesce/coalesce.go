package coalesce

import (
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Batcher; all but Interval are required.
type Options struct {
	// MaxSenders is how many batches may be on their way at once.
	MaxSenders int
	// MinExtra is how many items must wait for a further sender to begin while
	// another is at work.
	MinExtra int
	// MaxBatch is the most items of one batch.
	MaxBatch int
	// Interval is the least time between two batches of fewer than MinExtra items.
	// 0 = none. SetInterval changes it.
	Interval time.Duration
}

// Batcher sends items in batches. It is safe for concurrent use. Its zero value
// is not usable; see New.
type Batcher[T any] struct {
	o    Options
	send func([]T)

	waiting atomic.Int64 // how many are pending, for those who do not hold mu

	mu      sync.Mutex
	pending []T
	senders int         // at work
	last    time.Time   // when a batch left; kept only with an Interval
	timer   *time.Timer // begins a sender when the Interval is over
	armed   bool        // the timer runs
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
	b.waiting.Store(int64(len(b.pending)))
	if b.senders == 0 && !b.waits() || b.senders > 0 && b.senders < b.o.MaxSenders && len(b.pending) >= b.o.MinExtra {
		b.senders++
		go b.run()
	}
	b.mu.Unlock()
}

// waits reports whether what is pending is to gather until the Interval is over,
// and has the timer end that. The caller holds mu.
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

// over begins a sender when the Interval is over, unless what waited has left.
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

// SetInterval changes the Interval for what is added from now on. With 0, what waits
// leaves now.
func (b *Batcher[T]) SetInterval(d time.Duration) {
	b.mu.Lock()
	b.o.Interval = d
	if d == 0 && b.senders == 0 && len(b.pending) > 0 {
		b.senders++
		go b.run()
	}
	b.mu.Unlock()
}

// Len is how many items wait for a sender. It takes no lock.
func (b *Batcher[T]) Len() int { return int(b.waiting.Load()) }

// Wait returns when nothing waits and no sender is at work.
func (b *Batcher[T]) Wait() {
	b.mu.Lock()
	for b.senders > 0 || len(b.pending) > 0 {
		b.idle.Wait()
	}
	b.mu.Unlock()
}
