package store

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// ErrSendAlone means that [Store.ScheduleAll] did not write a batch, because its shard takes no writes at present.
// The caller must send the batch again in a call without other batches. The error wraps wire.ErrUnavailable.
var ErrSendAlone = fmt.Errorf("%w: the shard takes no writes, send its batch alone", wire.ErrUnavailable)

// aloneFor is how long a shard is sent separately after its last such answer.
const aloneFor = 5 * time.Second

// aloneShards are the shards of a cluster whose batches are sent alone.
type aloneShards struct {
	some atomic.Bool // usually false

	mu    sync.Mutex
	until map[int]time.Time
}

// note adds a shard after an answer with which it takes no writes at present.
func (a *aloneShards) note(p keys.Partition, err error) {
	if err == nil || errors.Is(err, wire.ErrUnconfirmed) || !wire.NotNow(err) {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = map[int]time.Time{}
	}

	a.until[p.Shard] = time.Now().Add(aloneFor)
	a.some.Store(true)
}

// name returns the node's name, or the shard's own name while its batches are sent alone.
func (a *aloneShards) name(node string, shard int) string {
	if !a.some.Load() {
		return node
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	for s, until := range a.until {
		if !time.Now().Before(until) {
			delete(a.until, s)
		}
	}

	a.some.Store(len(a.until) > 0)
	if _, ok := a.until[shard]; !ok {
		return node
	}

	return node + ", shard " + strconv.Itoa(shard)
}
