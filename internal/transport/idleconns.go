package transport

import (
	"slices"
	"sync"
	"time"
)

// idleConns keeps idle connections of the direct transport, each until the receiver is expected to close it.
// Above the limits, the least recently used ones are closed.
type idleConns struct {
	perHost, total int
	maxAge         time.Duration // 0: unlimited

	mu     sync.Mutex
	by     map[Origin][]*directConn // most recently used last
	all    ByUse[directConn, *directConn]
	closed bool
	timer  *time.Timer // runs sweep
	wakes  time.Time   // when the timer fires; zero: it is not set
}

func newIdleConns(perHost, total int, maxAge time.Duration) *idleConns {
	return &idleConns{perHost: perHost, total: total, maxAge: maxAge, by: map[Origin][]*directConn{}}
}

// take returns the most recently used connection to o, or nil. The caller checks whether the receiver has
// closed it.
func (p *idleConns) take(o Origin) *directConn {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()

	cs := p.by[o]
	if len(cs) == 0 {
		return nil
	}

	c := cs[len(cs)-1]
	if !now.Before(c.ends) {
		return nil // the sweep is about to close it
	}

	cs[len(cs)-1] = nil
	p.by[o] = cs[:len(cs)-1]
	p.all.Remove(c)
	c.taken = now
	return c
}

// put keeps a connection after a completed exchange. It returns false if there is no room.
func (p *idleConns) put(c *directConn) bool {
	now := time.Now()
	o := c.state.origin
	c.since, c.kept = now, c.state.kept.of(c.keep, now)
	ends := now.Add(c.kept)
	if p.maxAge > 0 {
		if oldest := c.born.Add(p.maxAge); oldest.Before(ends) {
			ends = oldest
		}
	}

	var old *directConn
	p.mu.Lock()

	switch {
	case p.closed || !ends.After(now) || c.peer.gone() || len(p.by[o]) >= p.perHost:
		p.mu.Unlock()
		return false
	case p.all.n >= p.total:
		old = p.all.oldest
		p.drop(old)
	}

	c.ends = ends
	p.by[o] = append(p.by[o], c)
	p.all.Push(c)
	if p.wakes.IsZero() || c.ends.Before(p.wakes) {
		p.wake(now, c.ends)
	}

	p.mu.Unlock()
	if old != nil {
		old.close()
	}

	return true
}

// drop removes a connection at any position. The caller holds mu.
func (p *idleConns) drop(c *directConn) {
	o := c.state.origin
	cs := p.by[o]
	for i := range cs {
		if cs[i] == c {
			copy(cs[i:], cs[i+1:])
			cs[len(cs)-1] = nil
			cs = cs[:len(cs)-1]
			break
		}
	}

	if p.by[o] = cs; len(cs) == 0 {
		delete(p.by, o)
	}

	p.all.Remove(c)
}

// wake sets the timer. The caller holds mu.
func (p *idleConns) wake(now, at time.Time) {
	p.wakes = at
	if p.timer == nil {
		p.timer = time.AfterFunc(at.Sub(now), p.sweep)
		return
	}

	p.timer.Reset(at.Sub(now))
}

// minSweep is the minimal time between two sweeps, so that connections that expire one by one are closed
// together.
const minSweep = 50 * time.Millisecond

// sweep closes the connections whose idle time has ended, and sets the timer for the next one.
func (p *idleConns) sweep() {
	now := time.Now()
	var expired []*directConn
	var next time.Time
	p.mu.Lock()

	for c := p.all.oldest; c != nil; {
		newer := c.newer
		switch {
		case !now.Before(c.ends):
			p.drop(c)
			expired = append(expired, c)
		case next.IsZero() || c.ends.Before(next):
			next = c.ends
		}

		c = newer
	}

	for o, cs := range p.by { // hosts without an idle connection
		if len(cs) == 0 {
			delete(p.by, o)
		}
	}

	if p.wakes = next; !next.IsZero() {
		if least := now.Add(minSweep); next.Before(least) {
			next = least
		}
		p.wake(now, next)
	}

	p.mu.Unlock()
	for _, c := range expired {
		if c.check != nil && c.check.closed() {
			c.foundClosed(now)
		}

		c.close()
	}
}

// closeOldest closes up to n of the least recently used connections.
func (p *idleConns) closeOldest(n int) {
	p.mu.Lock()
	var old []*directConn
	for p.all.oldest != nil && len(old) < n {
		old = append(old, p.all.oldest)
		p.drop(p.all.oldest)
	}

	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// retire closes the connections of an origin to addresses that are gone.
func (p *idleConns) retire(o Origin) {
	p.mu.Lock()
	var gone []*directConn
	for _, c := range slices.Clone(p.by[o]) {
		if c.peer.gone() {
			p.drop(c)
			gone = append(gone, c)
		}
	}

	p.mu.Unlock()
	for _, c := range gone {
		c.close()
	}
}

// close closes all idle connections. Connections that become idle later are closed too.
func (p *idleConns) close() {
	p.mu.Lock()
	var all []*directConn
	for p.all.oldest != nil {
		all = append(all, p.all.oldest)
		p.drop(p.all.oldest)
	}

	p.closed, p.wakes = true, time.Time{}
	if p.timer != nil {
		p.timer.Stop()
	}

	p.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}
