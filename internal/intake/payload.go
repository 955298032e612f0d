package intake

import (
	"context"
	"slices"
	"sync"
	"time"

	"notifier/internal/keys"
)

// maxPayloads bounds the bytes of payloads in memory. Above it, timers are adopted only if they
// still exist. payloadExtra is the size of an entry without its key and payload.
const (
	maxPayloads  = 32 << 20
	payloadExtra = 128
	readLimit    = 250 * time.Millisecond
)

// payload is the payload of a timer whose notice cannot be written yet.
type payload struct {
	value []byte
	read  bool // false until value is known
}

// payloads keeps the payloads of timers in memory while the cluster node of their notices does not answer. The timers
// are on other nodes, and may expire before that node answers. Callers must hold Adopter.mu.
type payloads struct {
	by    map[string]*payload
	bytes int
}

func (p *payloads) drop(key string) {
	if x := p.by[key]; x != nil {
		p.bytes -= len(key) + len(x.value) + payloadExtra
		delete(p.by, key)
	}
}

// expect adds an entry without a value, which an event of the key removes. It returns nil if there
// is an entry already or no room.
func (p *payloads) expect(key string) *payload {
	size := len(key) + payloadExtra
	if p.by[key] != nil || p.bytes+size > maxPayloads {
		return nil
	}

	if p.by == nil {
		p.by = map[string]*payload{}
	}

	x := &payload{}
	p.by[key], p.bytes = x, p.bytes+size
	return x
}

// put stores the value of an entry, unless an event has removed the entry: the value may be
// outdated then.
func (p *payloads) put(key string, x *payload, value []byte) {
	if p.by[key] != x {
		return
	}

	if p.bytes+len(value) > maxPayloads {
		p.drop(key)
		return
	}

	x.value, x.read, p.bytes = value, true, p.bytes+len(value)
}

// changes reports whether an event says that the key may have another value.
func (t eventSet) changes() bool { return t.event && !t.expired && t.value != valueExpire }

// keepPayloads reads the payloads of timers that were put aside, if their own nodes answer.
func (a *Adopter) keepPayloads(ctx context.Context, some map[string]eventSet, failed map[string]error) {
	if a.o.Cluster == nil || len(failed) == 0 {
		return
	}

	by, expected := map[string][]string{}, map[string]*payload{}
	a.mu.Lock()
	for k := range failed {
		if !keys.Valid(k) {
			continue
		}

		if _, aside := a.held[k]; !aside {
			if _, named := a.pending[k]; !named {
				a.payloads.drop(k)
				continue
			}
		}

		if t := some[k]; !t.event && t.expired {
			continue // the timer has expired or was deleted
		}

		if x := a.payloads.expect(k); x != nil {
			expected[k] = x
		}
	}

	a.mu.Unlock()
	for k := range expected {
		node := a.o.Cluster.Master(ctx, k)
		by[node] = append(by[node], k)
	}

	var all sync.WaitGroup
	for _, ks := range by {
		all.Go(func() { a.readPayloads(ctx, ks, expected) })
	}

	all.Wait()
}

// readPayloads reads the payloads of one node, until an error.
func (a *Adopter) readPayloads(ctx context.Context, ks []string, expected map[string]*payload) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var err error
	for part := range slices.Chunk(ks, batch) {
		var seen []Seen
		if err == nil { // otherwise the rest is not tried
			seen, err = a.o.Store.PeekTimers(ctx, part, a.o.MaxBody)
		}

		a.mu.Lock()
		values := map[string][]byte{}
		for i := range seen {
			// A key without an expiry is not a timer, and a number belongs to the service.
			if s := &seen[i]; s.Value != nil && s.Expire >= 0 && !isAttempt(s) {
				values[s.Key] = s.Value
			}
		}

		for _, k := range part {
			if value, ok := values[k]; ok {
				a.payloads.put(k, expected[k], value)
			} else if a.payloads.by[k] == expected[k] {
				a.payloads.drop(k)
			}
		}

		a.mu.Unlock()
	}
}

// payloadOf returns the stored payload of an expired timer.
func (a *Adopter) payloadOf(key string) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.payloads.by[key]; x != nil && x.read {
		return x.value, true
	}

	return nil, false
}
