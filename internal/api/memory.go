package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
)

// DefaultMemory is the default of Options.Memory.
const DefaultMemory = 128 << 20

// memory limits the total size of the request bodies that the API holds in memory, from their first byte until their
// calls are answered. Half of the total is reserved in equal parts for the clients, and the other half is shared. One
// client may hold at most a quarter of the total.
type memory struct {
	perClient int64 // the most that one client may hold
	reserved  int64 // held for each client
	common    int64 // for all clients, beyond their reserved parts
	observer  Observer

	mu     sync.Mutex
	held   map[string]int64 // by client; their sum is observed
	beyond int64            // of common
}

func newMemory(total int64, clients int, observer Observer) *memory {
	if total <= 0 {
		total = DefaultMemory
	}
	return &memory{perClient: total / 4, reserved: total / 2 / int64(max(clients, 1)), common: total / 2, observer: observer,
		held: map[string]int64{}}
}

// take reserves n more bytes for a client and reports whether it succeeded. giveBack returns them.
func (m *memory) take(client string, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.held[client]
	// A client uses its reserved part first.
	more := max(0, before+n-m.reserved) - max(0, before-m.reserved)
	if before+n > m.perClient || m.beyond+more > m.common {
		return false
	}

	m.held[client] = before + n
	m.beyond += more
	m.observer.BytesInFlight(n)
	return true
}

func (m *memory) giveBack(client string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.held[client]
	m.beyond -= max(0, before-m.reserved) - max(0, before-n-m.reserved)
	if m.held[client] = before - n; before == n {
		delete(m.held, client)
	}

	m.observer.BytesInFlight(-n)
}

// noMemory is the answer to a body for which there is no memory.
func noMemory() *Problem {
	return problem(http.StatusTooManyRequests, "too many bytes of requests are in flight (NOTIFIER_API_MEMORY); nothing was done. "+
		"Repeat the call, with smaller batches or fewer at one time").with("Retry-After", "1").with("Connection", "close")
}

// body is a request's body that reserves memory while it is read.
type body struct {
	io.ReadCloser
	memory *memory
	client string
	limit  int64 // its reader refuses more
	held   int64 // taken so far
	read   int64
}

// memoryStep is how much a body of unknown length takes at one time.
const memoryStep = 64 << 10

// open returns a request's body. It reserves the memory at once if the length is known, otherwise while
// the body is read.
func (m *memory) open(r *http.Request, client string, limit int64) (*body, error) {
	b := &body{ReadCloser: r.Body, memory: m, client: client, limit: limit}
	if r.ContentLength > 0 && r.ContentLength <= limit {
		if err := b.grow(r.ContentLength); err != nil {
			return nil, err
		}
	}

	r.Body = b
	return b, nil
}

func (b *body) grow(n int64) error {
	if !b.memory.take(b.client, n) {
		return noMemory()
	}

	b.held += n
	return nil
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := min(b.read, b.limit) - b.held; more > 0 {
		if refused := b.grow(min(max(more, memoryStep), b.limit-b.held)); refused != nil {
			return 0, refused
		}
	}

	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, problem(http.StatusRequestTimeout, "the request's body did not arrive within %.0f s", readTimeout.Seconds())
	}

	return n, err
}

// release gives the memory back.
func (b *body) release() { b.memory.giveBack(b.client, b.held) }
