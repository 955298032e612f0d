package pace

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// groupEvery is the shortest time between two warnings of Loops.
const groupEvery = time.Minute

// Loops limits the messages of several Loops that fail of one cause: at most one warning a minute for all of them, and
// one message when the last of them has recovered. A Loop that had failed before a warning causes no other one, unless it
// has a WarnEvery. The zero Loops is ready for use.
type Loops struct {
	mu     sync.Mutex
	rows   map[*Loop]row
	last   time.Time // of the last warning
	level  zapcore.Level
	warned bool // since all had recovered
}

// row is about several failures of a Loop without a success between them.
type row struct {
	at     time.Time // of the last failure
	warned bool
}

// fail notes a failure of l and reports whether to log it at level. An error is logged also within a minute after a
// warning.
func (g *Loops) fail(l *Loop, now time.Time, level zapcore.Level) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prune(now)
	r := g.rows[l]
	r.at = now
	due := (l.WarnEvery > 0 || !r.warned) && (now.Sub(g.last) >= groupEvery || level > g.level && level > zap.WarnLevel)
	if g.rows == nil {
		g.rows = map[*Loop]row{}
	}

	g.rows[l] = r
	if due {
		g.last, g.level, g.warned = now, level, true
		for l, r := range g.rows {
			r.warned = true
			g.rows[l] = r
		}
	}

	return due
}

// succeed notes a success of l, and reports whether it is the last Loop to recover after a warning.
func (g *Loops) succeed(l *Loop) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prune(time.Now())
	delete(g.rows, l)
	if len(g.rows) > 0 || !g.warned {
		return false
	}

	g.warned = false
	return true
}

// prune removes Loops that have not been used since: their operation may have nothing to do.
func (g *Loops) prune(now time.Time) {
	for l, r := range g.rows {
		if now.Sub(r.at) > groupEvery {
			delete(g.rows, l)
		}
	}
}
