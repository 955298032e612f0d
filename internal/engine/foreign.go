package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// foreignKeysEvery is how often foreign keys are logged for a route.
const foreignKeysEvery = time.Minute

// foreignKeys counts and logs notices without a timer, because other programs have keys of their names. For each route it logs the
// first at once, and the number of the following ones once a minute.
type foreignKeys struct {
	engine *Engine

	mu     sync.Mutex
	logged map[string]time.Time // by prefix of a route
	since  map[string]int       // number since the last message
}

// record counts n foreign keys under a prefix.
func (f *foreignKeys) record(prefix string, n int) {
	name := f.engine.o.Routes.NameOf(prefix)
	f.engine.o.Metrics.ForeignKeys(name, n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since[prefix] += n
	if time.Since(f.logged[prefix]) < foreignKeysEvery {
		return
	}

	f.engine.o.Logger.Warn("other programs have keys with the names of notices, which are claimed by sweeps",
		zap.String("route", name), zap.Int("notices", f.since[prefix]))
	f.logged[prefix], f.since[prefix] = time.Now(), 0
}
