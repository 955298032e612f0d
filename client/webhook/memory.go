package webhook

import (
	"context"
	"sync"
	"time"
)

// Memory is a [Store] for one process. A restart forgets all callbacks: those whose answer the sender did not get are processed again.
type Memory struct {
	keep time.Duration
	now  func() time.Time // nil = time.Now

	mu   sync.Mutex
	seen map[string]bool // whether it is done
	done []memoryEntry   // the oldest first
}

type memoryEntry struct {
	key string
	at  time.Time
}

// NewMemory returns an empty Memory that keeps processed callbacks for that time, which should be longer than the sender retries and
// redrives. Each takes about 200 bytes.
func NewMemory(keep time.Duration) *Memory { return &Memory{keep: keep, seen: map[string]bool{}} }

// Begin implements [Store].
func (m *Memory) Begin(ctx context.Context, key string) (context.Context, State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.trim()
	switch done, known := m.seen[key]; {
	case done:
		return ctx, StateDone, nil
	case known:
		return ctx, StateRunning, nil
	}

	m.seen[key] = false
	return ctx, StateNew, nil
}

// Done implements [Store].
func (m *Memory) Done(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.seen[key] = true
	m.done = append(m.done, memoryEntry{key, m.time()})
	return nil
}

// Forget implements [Store].
func (m *Memory) Forget(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	delete(m.seen, key)
	return nil
}

// trim removes callbacks that have been kept long enough.
func (m *Memory) trim() {
	for now := m.time(); len(m.done) > 0 && now.Sub(m.done[0].at) > m.keep; m.done = m.done[1:] {
		delete(m.seen, m.done[0].key)
	}
}

func (m *Memory) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}
