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

// keptIdle is the longest idle time of a connection if the receiver has not announced one. Servers close
// theirs after five seconds or more (Node after 5, nginx after 75), and a request sent at that moment is
// lost.
const keptIdle = 4 * time.Second

// keptConn is a connection of net/http's transport that is checked before reuse. It knows three
// facts that net/http does not: whether the receiver has closed the connection, how long the
// receiver keeps it open, and how many bytes of a request the kernel accepted. Without keptConn,
// and with Transport.IdleConnTimeout instead, one attempt in ten failed at a receiver that closes
// the connection after each answer.
//
// A connection of HTTP/1 carries one exchange at a time, from begin to becomeIdle. A connection of
// HTTP/2 is left to net/http: its receiver reports by GOAWAY which requests it has not processed.
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

// begin starts an exchange on the connection, before anything is written. It closes the connection if the
// receiver has closed it or if it was idle for too long. Then nothing of the request can be written, and
// net/http takes another connection.
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

// keptFor returns the longest idle time for a connection that the receiver closes after the announced time.
// The receiver counts from its own last write, and a request sent at the last moment still has to arrive, so
// the result is shorter by up to a second.
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
