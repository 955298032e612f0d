package transport

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultRecheck is the time between two lookups of the name of an origin that gets calls.
	DefaultRecheck = time.Minute
	// minMissed is the number of consecutive answers without an address after which its connections are retired. Some
	// name servers return a part of the addresses, so an address may come back. Then the number grows up to maxMissed.
	minMissed, maxMissed = 3, 60
	// maxRechecks limits the concurrent lookups. A call that finds no room leaves the lookup to a later one.
	maxRechecks = 8
	// maxOrigins bounds the table. A producer chooses the hosts.
	maxOrigins = 16384
)

// originTable holds the state of the origins that were connected to.
type originTable struct {
	resolver *net.Resolver
	every    time.Duration // DefaultRecheck, except in tests
	retire   func(*originState)

	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{}

	mu     sync.Mutex
	by     map[Origin]*originState
	swept  time.Time
	closed bool
	wg     sync.WaitGroup
}

// newOriginTable creates a table. retire is called when connections of an origin must take no more calls.
func newOriginTable(r *net.Resolver, every time.Duration, retire func(*originState)) *originTable {
	if r == nil {
		r = net.DefaultResolver
	}

	t := &originTable{every: every, retire: retire, by: map[Origin]*originState{}, slots: make(chan struct{}, maxRechecks), swept: time.Now(),
		// StrictErrors makes a lookup fail if one of its queries fails. Otherwise its answer could lack valid addresses.
		resolver: &net.Resolver{PreferGo: r.PreferGo, StrictErrors: true, Dial: r.Dial}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// originState is the knowledge about one origin. Its connections point to it, so they may outlive its entry in the table.
type originState struct {
	origin Origin
	next   atomic.Int64 // time of the next lookup, in Unix nanoseconds
	http1  atomic.Bool  // the origin has refused HTTP/2

	kept keptTime

	mu    sync.Mutex
	peers map[netip.Addr]*peer
	// gap is the largest number of consecutive answers without an address that came back.
	gap int
}

// peer is one address of an origin.
type peer struct {
	missed  int         // consecutive answers without the address; guarded by originState.mu
	retired atomic.Bool // connections take no more calls
}

// find returns the state of an origin; nil if it is unknown.
func (t *originTable) find(o Origin) *originState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[o]
}

// connected returns the state of an origin to which a connection was opened.
func (t *originTable) connected(o Origin, now time.Time) *originState {
	t.mu.Lock()
	defer t.mu.Unlock()

	if s := t.by[o]; s != nil {
		return s
	}

	t.sweep(now)
	s := &originState{origin: o}
	s.next.Store(now.Add(t.spread()).UnixNano())
	t.by[o] = s
	return s
}

// sweep forgets origins without calls. The caller holds mu.
func (t *originTable) sweep(now time.Time) {
	if len(t.by) >= maxOrigins {
		clear(t.by) // the next connections fill it again
	}

	if now.Sub(t.swept) < t.every {
		return
	}

	t.swept = now
	unused := now.Add(-2*t.every - MaxIdle).UnixNano() // its connections are closed by now
	for o, s := range t.by {
		if s.next.Load() < unused {
			delete(t.by, o)
		}
	}
}

// spread returns the delay of a lookup. It varies, so that the lookups of many origins do not come together.
func (t *originTable) spread() time.Duration { return t.every - t.every/8 + rand.N(t.every/4+1) }

// at returns the peer of a connection to an address; nil if its name has no address that could change.
func (s *originState) at(c net.Conn) *peer {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if _, err := netip.ParseAddr(s.origin.serverName()); err == nil || !ok {
		return nil
	}

	addr := bare(tcp.AddrPort().Addr())
	s.mu.Lock()
	defer s.mu.Unlock()

	s.found(addr)
	p := s.peers[addr]
	if p == nil {
		p = &peer{}
		if s.peers == nil {
			s.peers = map[netip.Addr]*peer{}
		}

		s.peers[addr] = p
	}

	return p
}

// found resets the count of an address that an answer has. Connections that were retired stay so. The caller holds mu.
func (s *originState) found(addr netip.Addr) {
	p := s.peers[addr]
	if p == nil {
		return
	}

	s.gap, p.missed = max(s.gap, p.missed), 0
	if p.retired.Load() {
		delete(s.peers, addr)
	}
}

func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// gone reports whether connections to the address must take no more calls.
func (p *peer) gone() bool { return p != nil && p.retired.Load() }

// used starts a lookup of the origin's name if it is due. It is called for each call on a kept connection.
func (t *originTable) used(s *originState, now time.Time) {
	due := s.next.Load()
	if now.UnixNano() < due || !s.next.CompareAndSwap(due, now.Add(t.spread()).UnixNano()) {
		return
	}

	s.mu.Lock()
	named := len(s.peers) > 0
	s.mu.Unlock()
	if !named {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	if t.closed {
		return
	}

	select {
	case t.slots <- struct{}{}:
		t.wg.Go(func() { t.recheck(s) })
	default:
		s.next.Store(now.Add(t.every / 60).UnixNano())
	}
}

// recheck looks up the name of an origin. After an error nothing changes.
func (t *originTable) recheck(s *originState) {
	defer func() { <-t.slots }()

	addrs, err := t.resolver.LookupNetIP(t.ctx, "ip", s.origin.serverName())
	if err == nil && len(addrs) > 0 && s.answered(addrs) {
		t.retire(s)
	}
}

// answered counts the addresses that an answer lacks, and reports whether one of them is retired.
func (s *originState) answered(addrs []netip.Addr) (retired bool) {
	current := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		current[bare(a)] = true
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	enough := min(max(minMissed, 2*s.gap+1), maxMissed)
	for addr, p := range s.peers {
		if current[addr] {
			s.found(addr)
			continue
		}

		p.missed++
		retired = p.missed >= enough && p.retired.CompareAndSwap(false, true) || retired
		if p.missed > maxMissed {
			delete(s.peers, addr)
		}
	}

	return retired
}

func (t *originTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.wg.Wait()
}
