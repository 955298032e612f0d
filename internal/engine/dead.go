package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"notifier/internal/store"
)

// deadCounts limits the counting of dead letters: a count is repeated after deadCountEvery at the earliest, and takes at most one part of
// deadCountShare of the time of Redis.
const (
	deadCountEvery = 2 * time.Second
	deadCountShare = 20
	deadCountsKept = 8
)

// deadCounts are the latest counts of dead letters by the begin of their window. Its methods may be called at the same time.
type deadCounts struct {
	counting chan struct{} // one count at a time

	mu   sync.Mutex
	kept map[time.Time]deadCount
}

type deadCount struct {
	store.DeadCount
	took time.Duration
}

func newDeadCounts() *deadCounts { return &deadCounts{counting: make(chan struct{}, 1)} }

func (c *deadCounts) get(since time.Time) (store.DeadCount, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, ok := c.kept[since]
	return got.DeadCount, ok && time.Since(got.At) < max(deadCountEvery, deadCountShare*got.took)
}

func (c *deadCounts) put(since time.Time, got deadCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= deadCountsKept || c.kept == nil {
		c.kept = map[time.Time]deadCount{}
	}

	c.kept[since] = got
}

// forget makes the next call count again, since this instance has changed dead letters.
func (c *deadCounts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = nil
}

// DeadCauses counts the dead letters of all routes, and of prefixes without a route, by cause; since (zero = no bound) is a time of death
// and is rounded down to a whole minute. The count may be older than the call: see DeadCount.At.
func (e *Engine) DeadCauses(ctx context.Context, since time.Time) (store.DeadCount, error) {
	if err := e.known(ctx); err != nil {
		return store.DeadCount{}, err
	}

	if since = since.Truncate(time.Minute).UTC(); since.Unix() <= 0 {
		since = time.Time{}
	}

	if got, ok := e.dead.get(since); ok {
		return got, nil
	}

	select {
	case e.dead.counting <- struct{}{}:
		defer func() { <-e.dead.counting }()
	case <-ctx.Done():
		return store.DeadCount{}, ctx.Err()
	}

	if got, ok := e.dead.get(since); ok {
		return got, nil // another call has just counted
	}

	began := time.Now()
	got, err := e.store.DeadCauses(ctx, e.prefixes(), since)
	if err != nil {
		return store.DeadCount{}, err
	}

	took := time.Since(began)
	if len(got.Missing) > 0 {
		took = 0 // most of it was a wait for these nodes
	}

	e.dead.put(since, deadCount{got, took})
	return got, nil
}

// prefixes returns the prefixes of all routes, and those with notices that no route covers.
func (e *Engine) prefixes() []string {
	out := slices.Clone(e.store.Layout.Prefixes())
	for _, r := range e.o.Routes.All() {
		if !slices.Contains(out, r.Prefix) {
			out = append(out, r.Prefix)
		}
	}

	slices.Sort(out)
	return out
}
