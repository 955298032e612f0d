package callback

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// keptIdle is how long a connection may be idle of which the receiver has not
// said otherwise. Servers close theirs after five seconds and more (Node after 5,
// nginx after 75), and what is sent on one that was closed that moment is lost.
const keptIdle = 4 * time.Second

// keptConn is a connection of net/http's transport. It knows what net/http does not:
// whether the receiver has closed it meanwhile, how long the receiver will keep it
// open, and how many bytes of a request the kernel took. Transport.IdleConnTimeout in
// its place loses one attempt in ten at a receiver that closes after each answer.
//
// One connection of HTTP/1 carries one exchange at a time: begin and becomeIdle
// stand around each. A connection of HTTP/2 is left to net/http: there the receiver says
// by GOAWAY what it has not looked at.
type keptConn struct {
	net.Conn
	check   *closedCheck // nil: cannot be looked at
	written atomic.Int64

	mu    sync.Mutex
	uses  int // exchanges begun on it
	idle  bool
	since time.Time // when it became idle
	keep  time.Duration
	timer *time.Timer // closes it when it was idle for keep
	known bool        // http2 is set
	http2 bool
}

// keepConns wraps what dial makes.
func keepConns(dial dialer, keep time.Duration) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		k := &keptConn{Conn: c, keep: keep}
		if sc, ok := c.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil { // of a closed one: the first write finds it
				k.check = newClosedCheck(raw)
			}
		}
		return k, nil
	}
}

// keptOf finds what lies below the TLS of a connection.
func keptOf(c net.Conn) *keptConn {
	for {
		switch x := c.(type) {
		case *keptConn:
			return x
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return nil
		}
	}
}

func (k *keptConn) Write(b []byte) (int, error) {
	n, err := k.Conn.Write(b)
	k.written.Add(int64(n))
	return n, err
}

func (k *keptConn) Close() error {
	k.mu.Lock()
	k.idle = false
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	return k.Conn.Close()
}

// connUse is one exchange on a connection.
type connUse struct {
	*keptConn
	number int
	mark   int64 // bytes written before it
}

// begin is called when an exchange gets the connection and has written nothing
// yet. One that the receiver has closed, or that was idle for too long, is closed:
// then nothing of the request can be written, and the exchange gets another.
func (k *keptConn) begin(c net.Conn, reused bool) *connUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		k.known = true
		if t, ok := c.(*tls.Conn); ok {
			k.http2 = t.ConnectionState().NegotiatedProtocol == "h2"
		}
	}
	k.uses++
	u := &connUse{keptConn: k, number: k.uses, mark: k.written.Load()}
	if k.http2 {
		return u
	}
	late := k.idle && time.Since(k.since) >= k.keep
	k.idle = false
	if k.timer != nil {
		k.timer.Stop()
	}
	if reused && (late || k.check != nil && k.check.closed()) {
		_ = k.Conn.Close() // it holds nothing that is waited for
	}
	return u
}

// becomeIdle is called when the exchange has got its whole answer and the connection is
// idle, unless the next exchange has begun on it already.
func (u *connUse) becomeIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses != u.number || u.http2 {
		return
	}
	u.idle, u.since = true, time.Now()
	u.arm(u.keep)
}

// readKeepAlive takes what the receiver says of how long it keeps the connection open.
func (u *connUse) readKeepAlive(h http.Header) {
	says, ok := keepAliveTimeout(h)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep = keptFor(says)
	if u.idle && u.uses == u.number {
		u.arm(u.keep - time.Since(u.since))
	}
}

// keptFor is how long a connection may be idle that the receiver closes after says.
// It counts from its own last write: a request that is sent at the last moment still
// has to reach it.
func keptFor(says time.Duration) time.Duration {
	return min(says-min(says/2, time.Second), idleTimeout)
}

// arm sets the time at which an idle connection is closed. The caller holds mu.
func (k *keptConn) arm(after time.Duration) {
	if k.timer == nil {
		k.timer = time.AfterFunc(after, k.expire)
		return
	}
	k.timer.Reset(after)
}

func (k *keptConn) expire() {
	k.mu.Lock()
	expired := k.idle && time.Since(k.since) >= k.keep
	if expired {
		k.idle = false
	}
	k.mu.Unlock()
	if expired {
		_ = k.Conn.Close() // net/http's reader hears of it and forgets the connection
	}
}

// keepAliveTimeout reads "Keep-Alive: timeout=5, max=100".
func keepAliveTimeout(h http.Header) (time.Duration, bool) {
	for _, line := range h["Keep-Alive"] {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "timeout") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 32); err == nil {
				return time.Duration(n) * time.Second, true
			}
		}
	}
	return 0, false
}
