package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/wire"
)

// fullLasts is how long Redis counts as full after the last write that it refused for lack of memory. Near maxmemory it
// accepts some writes and refuses others.
const fullLasts = 10 * time.Second

// Subscriptions is notified when a subscription has begun, and when Redis has become full or is no longer. Its methods must
// not block.
type Subscriptions interface {
	Subscribed()
	MemoryChanged()
}

// full is whether Redis refuses writes because it has reached maxmemory.
type full struct {
	engine *Engine
	now    func() time.Time

	mu          sync.Mutex
	began, last time.Time // refused writes; zero = Redis is not full
	node        string    // of a cluster; empty = not known
}

// refused records a write that was refused for lack of memory, by a node of a cluster if that is known.
func (f *full) refused(node string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = f.now()
	if node != "" {
		f.node = node
	}

	if !f.began.IsZero() {
		return
	}

	f.began = f.last
	fields := []zap.Field{zap.Error(err), zap.String("remedy", wire.RemedyFull)}
	if node != "" {
		fields = append(fields, zap.String("redis", node))
	}

	f.engine.o.Logger.Error("Redis is full: new notices are refused, stored ones are delivered", fields...)
	f.changed(true)
	wake(f.engine.failed)
}

// check ends the state once it has lasted long enough, and reports whether it holds.
func (f *full) check() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		return false
	}

	if f.now().Sub(f.last) < fullLasts {
		return true
	}

	f.engine.o.Logger.Warn("Redis is no longer full, it has refused no write for 10s", lasting("after", f.last.Sub(f.began)))
	f.began, f.node = time.Time{}, ""
	f.changed(false)
	return false
}

// changed publishes a change of the state. The caller holds mu.
func (f *full) changed(isFull bool) {
	f.engine.o.Metrics.RedisFull(isFull)
	if s := f.engine.o.Subscriptions; s != nil {
		s.MemoryChanged()
	}
}

// condition returns the state as a condition of Ready and of the heartbeat; without a reason it does not hold.
func (f *full) condition() fleet.Condition {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		return fleet.Condition{}
	}

	name := "Redis"
	if f.node != "" {
		name = "redis node " + f.node
	}

	return fleet.Condition{Full: true, Urgent: true, Reason: name + " is full (maxmemory): new notices are refused since " +
		f.began.UTC().Format(time.TimeOnly) + " UTC; " + wire.RemedyFull}
}
