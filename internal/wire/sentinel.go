package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// WatchOptions of a Watch.
type WatchOptions struct {
	// Master is the name of the master at the sentinels, Addrs are the addresses of the sentinels.
	Master string
	Addrs  []string
	// Username and Password authenticate at the sentinels.
	Username, Password string
	// TLS, if not nil, is used for connections to the sentinels and to the master.
	TLS *tls.Config
	// DialTimeout bounds a connect; zero = 2 s.
	DialTimeout time.Duration
	// OnSwitch, OnRest and OnResume may be nil. They must not block or call the Watch. text
	// describes the event for a log.

	// OnSwitch is called when another master is used.
	OnSwitch func(from, to string)
	// OnRest is called when a failover has begun, so that nothing is sent to the master for now.
	OnRest func(text string)
	// OnResume is called when a rest ends without another master.
	OnResume func(text string)
}

// Watch knows the current master. It is safe for concurrent use.
type Watch struct {
	o WatchOptions

	begin sync.Once
	life  context.Context
	end   context.CancelFunc
	all   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	sentinels map[string]*state // by address of the sentinel
	now       master
	known     chan struct{} // closed when a master is known
	conns     map[*conn]struct{}
	trouble   error         // why no sentinel has answered yet
	by        string        // the sentinel whose failover causes the rest; empty = no rest
	most      time.Duration // restMost, except in tests
}

// master is a master as a sentinel names it: its address, and the epoch of the failover that made it one.
type master struct {
	addr  string
	epoch int64
}

// state is the last answer of one sentinel.
type state struct {
	master
	at      time.Time // zero = it has not answered yet
	lost    bool      // the last question was not answered
	failing master    // the master that it is failing over; no address = none
	since   time.Time // when that failover was first seen
}

// fresh is how long an answer counts.
const fresh = 5 * time.Second

// NewWatch returns a Watch. It asks no sentinel before the first Dial.
func NewWatch(o WatchOptions) *Watch {
	o.DialTimeout = cmp.Or(o.DialTimeout, 2*time.Second)
	w := &Watch{o: o, sentinels: map[string]*state{}, known: make(chan struct{}), conns: map[*conn]struct{}{}, most: restMost}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Close stops the Watch and waits for its goroutines. Connections stay open.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.all.Wait()
}

// noMasterError is returned by Dial while no sentinel names the master. It does not unwrap its cause, which would
// look like an answer of Redis.
type noMasterError struct {
	master string
	cause  error
}

func (e *noMasterError) Error() string {
	text := fmt.Sprintf("no sentinel names the master %q: %v", e.master, e.cause)
	if redis.IsAuthError(e.cause) {
		text += "; set the sentinels' own credentials in NOTIFIER_SENTINEL_USERNAME and NOTIFIER_SENTINEL_PASSWORD"
	}

	return text
}

// errClosed is returned by Dial after Close.
var errClosed = errors.New("sentinel: closed")

// Dial connects to the master. It waits until the master is known.
func (w *Watch) Dial(ctx context.Context) (net.Conn, error) {
	w.begin.Do(func() { w.add(w.o.Addrs...) })
	ctx, cancel := context.WithTimeout(ctx, w.o.DialTimeout)
	defer cancel()

	select {
	case <-w.known:
	case <-w.life.Done():
		return nil, errClosed
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return nil, &noMasterError{w.o.Master, cmp.Or(w.trouble, ctx.Err())}
	}

	w.mu.Lock()
	addr, err := w.now.addr, w.rests()
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}

	c, err := w.dial(ctx, addr)
	if err != nil {
		return nil, err
	}

	mine := &conn{Conn: c, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.now.addr != addr {
		_ = c.Close() // nothing was sent on it
		return nil, fmt.Errorf("sentinel: %s is no longer the master", addr)
	}

	if err := w.rests(); err != nil {
		_ = c.Close()
		return nil, err
	}

	w.conns[mine] = struct{}{}
	return mine, nil
}

func (w *Watch) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: w.o.DialTimeout, KeepAlive: 30 * time.Second}
	if w.o.TLS != nil {
		return (&tls.Dialer{NetDialer: d, Config: w.o.TLS}).DialContext(ctx, "tcp", addr)
	}

	return d.DialContext(ctx, "tcp", addr)
}

// conn is a connection to the master that the Watch can close.
type conn struct {
	net.Conn
	w *Watch
}

func (c *conn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}

// Master returns the address of the master; empty until a sentinel has named it.
func (w *Watch) Master() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.addr
}

// add starts to follow new sentinels.
func (w *Watch) add(addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		if w.sentinels[a] != nil || w.closed {
			continue
		}

		w.sentinels[a] = &state{}
		w.all.Go(func() { w.follow(a) })
	}
}

// observe records the answer of a sentinel: the master, and the master that it is failing over.
func (w *Watch) observe(from string, m, failing master) {
	w.mu.Lock()
	defer w.mu.Unlock()

	s := w.sentinels[from]
	if s.failing != failing {
		s.failing, s.since = failing, time.Now()
	}

	s.master, s.at, s.lost = m, time.Now(), false
	before := w.now

	switch {
	case before.addr == "":
		w.now = m
		close(w.known)
	case m.epoch > before.epoch, m != before && w.replaced(m.addr):
		w.now = m
	}

	if before.addr == "" || w.now.addr == before.addr {
		w.updateRest()
		return
	}

	w.by = ""
	w.closeConns()
	if w.o.OnSwitch != nil {
		w.o.OnSwitch(before.addr, w.now.addr)
	}

	w.updateRest()
}

// replaced reports whether to accept the master at addr although its epoch is not higher than that of the present
// master. Each failover increases the epoch, but the epochs of reinstalled sentinels start at 0 again. So replaced
// returns true if more than half of all sentinels that ever answered have named addr recently, and none of them has
// recently named the present master.
func (w *Watch) replaced(addr string) bool {
	all, name := 0, 0
	for _, s := range w.sentinels {
		if s.at.IsZero() {
			continue
		}

		all++
		switch late := time.Since(s.at) >= fresh; {
		case late:
		// No sentinel may name the present master with its present epoch, nor its address, unless that is addr.
		case s.master == w.now:
			return false
		case s.addr == addr:
			name++
		case s.addr == w.now.addr:
			return false
		}
	}

	return 2*name > all
}

// failed records why a sentinel does not answer. If the sentinel has ended, its failover has ended too. If it
// is only silent (slow, hanging or cut off), its failover may go on.
func (w *Watch) failed(from string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.trouble = fmt.Errorf("%s: %w", from, err)
	s := w.sentinels[from]
	s.lost = true
	var silent net.Error
	if !errors.As(err, &silent) || !silent.Timeout() {
		s.failing = master{}
	}

	w.updateRest()
}

// Sentinels returns the addresses of the known sentinels, sorted.
func (w *Watch) Sentinels() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	list := make([]string, 0, len(w.sentinels))
	for a := range w.sentinels {
		list = append(list, a)
	}

	slices.Sort(list)
	return list
}
