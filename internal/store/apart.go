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

// ErrApart is the answer to a batch that went with others: its shard cannot be written
// now, as while its slot is half moved, though its node answers. Nothing was written.
// The call is to be made again with this batch alone, which may take its time, so that
// nobody else waits for it. It is an ErrUnavailable.
var ErrApart = fmt.Errorf("%w: to be sent apart from other shards", wire.ErrUnavailable)

// apartFor is how long a shard is kept apart after its last such answer.
const apartFor = 5 * time.Second

// aparts are the shards that are kept apart from the others of their nodes.
type aparts struct {
	some atomic.Bool // most of the time there are none

	mu    sync.Mutex
	until map[int]time.Time
}

// note keeps a shard apart if its answer says so.
func (a *aparts) note(p keys.Partition, err error) {
	if err == nil || errors.Is(err, wire.ErrUnconfirmed) || !wire.NotNow(err) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = map[int]time.Time{}
	}
	a.until[p.Shard] = time.Now().Add(apartFor)
	a.some.Store(true)
}

// name is what the shard is known by among those of its node.
func (a *aparts) name(node string, shard int) string {
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
