package sentinel

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

// Options of a Watch.
type Options struct {
	// Master is the name by which the sentinels know it, Addrs are theirs.
	Master string
	Addrs  []string
	// Username and Password are for the sentinels.
	Username, Password string
	// TLS, if not nil, is spoken with the sentinels and with the master.
	TLS *tls.Config
	// DialTimeout bounds a connect; zero = 2 s.
	DialTimeout time.Duration
	// OnSwitch, if not nil, hears of each master that takes another one's place. OnRest and
	// OnResume hear, in words, that nothing is sent to the master for now, and that it is
	// used again because none took its place. They must neither block nor call the Watch.
	OnSwitch         func(from, to string)
	OnRest, OnResume func(text string)
}

// Watch knows the master. It is safe for concurrent use.
type Watch struct {
	o Options

	begin sync.Once
	life  context.Context
	end   context.CancelFunc
	all   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	told    map[string]*said // by sentinel
	now     master
	known   chan struct{} // closed when there is one
	conns   map[*conn]struct{}
	trouble error         // why no sentinel has answered yet
	by      string        // the sentinel whose failover nothing is sent for; empty = there is none
	most    time.Duration // restMost
}

// master is what a sentinel says: where it is, and since which failover.
type master struct {
	addr  string
	epoch int64
}

// said is what one sentinel said last.
type said struct {
	master
	at      time.Time // zero = it has not answered yet
	lost    bool      // it does not answer any more
	failing master    // whom it fails over, as it knows it; no address = nobody
	since   time.Time // when it was first heard of that
}

// fresh is how long an answer counts.
const fresh = 5 * time.Second

// New makes a Watch. It asks nobody before the first Dial.
func New(o Options) *Watch {
	o.DialTimeout = cmp.Or(o.DialTimeout, 2*time.Second)
	w := &Watch{o: o, told: map[string]*said{}, known: make(chan struct{}), conns: map[*conn]struct{}{}, most: restMost}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Close ends all that the Watch does and waits for it. Connections stay open.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.all.Wait()
}

// unknown is what Dial returns while no sentinel names the master. It does not unwrap:
// an answer of a sentinel is none of Redis.
type unknown struct {
	master string
	cause  error
}

func (e *unknown) Error() string {
	text := fmt.Sprintf("no sentinel names the master %q: %v", e.master, e.cause)
	if redis.IsAuthError(e.cause) {
		text += "; the sentinels' own log-in is NOTIFIER_SENTINEL_USERNAME and NOTIFIER_SENTINEL_PASSWORD"
	}
	return text
}

// errClosed is what Dial returns after Close.
var errClosed = errors.New("sentinel: closed")

// Dial connects to the master, once it is known.
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
		return nil, &unknown{w.o.Master, cmp.Or(w.trouble, ctx.Err())}
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

// conn is a connection to the master.
type conn struct {
	net.Conn
	w *Watch
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}

// Master is where the master is; empty until a sentinel has said so.
func (w *Watch) Master() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.addr
}

// add follows sentinels that are not followed yet.
func (w *Watch) add(addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		if w.told[a] != nil || w.closed {
			continue
		}
		w.told[a] = &said{}
		w.all.Go(func() { w.follow(a) })
	}
}

// hear takes what a sentinel says: the master, and whom it fails over.
func (w *Watch) hear(from string, m, failing master) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.told[from]
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
		w.weigh()
		return
	}
	w.by = ""
	w.letGo()
	if w.o.OnSwitch != nil {
		w.o.OnSwitch(before.addr, w.now.addr)
	}
	w.weigh()
}

// replaced reports whether sentinels have been set up anew: lately, more than half of
// those that ever answered name another master, or this one with an earlier epoch, and
// none names the present one.
func (w *Watch) replaced(addr string) bool {
	all, name := 0, 0
	for _, s := range w.told {
		if s.at.IsZero() {
			continue
		}
		all++
		switch late := time.Since(s.at) >= fresh; {
		case late:
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

// failed notes why a sentinel does not answer. The failover of one that has ended has
// ended too. One that is silent, as it hangs or is slow or cut off, may go on with it.
func (w *Watch) failed(from string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = fmt.Errorf("%s: %w", from, err)
	s := w.told[from]
	s.lost = true
	var silent net.Error
	if !errors.As(err, &silent) || !silent.Timeout() {
		s.failing = master{}
	}
	w.weigh()
}

// Sentinels are the addresses of those that are followed, sorted.
func (w *Watch) Sentinels() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, 0, len(w.told))
	for a := range w.told {
		list = append(list, a)
	}
	slices.Sort(list)
	return list
}
