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

// keptIdle is how long a connection stays open without a call if the receiver announces no time. It
// is below the limits of usual servers, which close a connection after 5 s (Node) or more.
const keptIdle = 4 * time.Second

// keptConn wraps a connection of http.Transport so that it can be checked before it is used again. An HTTP/1
// connection carries one exchange at a time, between begin and becomeIdle. HTTP/2 connections are not checked.
type keptConn struct {
	net.Conn
	check   *closedCheck // nil: not supported
	written atomic.Int64

	mu    sync.Mutex
	uses  int // number of exchanges that used it
	idle  bool
	since time.Time // when it became idle
	keep  time.Duration
	timer *time.Timer // closes it after it was idle for keep
	known bool        // http2 is set
	http2 bool
}

// keepConns returns a dialer whose connections are keptConns.
func keepConns(dial dialer, keep time.Duration) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}

		// The setting IdleConnTimeout of http.Transport cannot replace this. With that setting, a receiver that closes
		// the connection after each answer failed one attempt in ten.
		k := &keptConn{Conn: c, keep: keep}
		if sc, ok := c.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil { // fails if the connection is closed; the first write reports that
				k.check = newClosedCheck(raw)
			}
		}

		return k, nil
	}
}

// keptOf returns the keptConn below the TLS layer of c, or nil.
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
	mark   int64 // bytes written before the exchange
}

// begin starts an exchange on the connection, before the request is written. A reused HTTP/1 connection is closed if
// the receiver has closed it or if it was idle for too long. http.Transport then takes another connection.
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
	if k.http2 { // the receiver itself reports, with GOAWAY, which requests it ignored
		return u
	}

	late := k.idle && time.Since(k.since) >= k.keep
	k.idle = false
	if k.timer != nil {
		k.timer.Stop()
	}

	if reused && (late || k.check != nil && k.check.closed()) {
		_ = k.Conn.Close() // no exchange waits for data from it
	}

	return u
}

// becomeIdle ends an exchange after its whole answer was read. It does nothing if the next exchange has
// already begun.
func (u *connUse) becomeIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.uses != u.number || u.http2 {
		return
	}

	u.idle, u.since = true, time.Now()
	u.arm(u.keep)
}

// readKeepAlive applies the receiver's Keep-Alive header to the idle time of the connection.
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

// keptFor returns the maximum idle time of a connection that its receiver closes after says. The
// result is up to a second shorter, so that the last request arrives in time.
func keptFor(says time.Duration) time.Duration {
	return min(says-min(says/2, time.Second), idleTimeout)
}

// arm sets the timer that closes an idle connection. The caller holds mu.
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
		_ = k.Conn.Close() // net/http's reader notices and forgets the connection
	}
}

// keepAliveTimeout returns the timeout of a header such as "Keep-Alive: timeout=5, max=100".
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
