package transport

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// directConn is a connection of the direct transport. One exchange at a time uses it, in the goroutine that
// makes the call.
type directConn struct {
	net.Conn               // TCP, or TLS over it
	under    net.Conn      // the TCP connection
	check    *closedCheck  // of the TCP connection; nil: not supported
	raw      *rawSend      // for TCP without TLS; nil: not supported
	end      func()        // interrupts pending reads and writes
	keep     time.Duration // longest idle time

	// Fields of idleConns.
	state *originState
	peer  *peer // nil: its address cannot change
	born  time.Time
	ends  time.Time // when it was idle for kept
	since time.Time // when it became idle
	kept  time.Duration
	taken time.Time
	Links[directConn]
}

func (c *directConn) ByUseLinks() *Links[directConn] { return &c.Links }

// newDirectConn wraps a new TCP connection and the connection over it that carries the requests.
func newDirectConn(tcp, c net.Conn, s *originState, at *peer, keep time.Duration) *directConn {
	d := &directConn{Conn: c, under: tcp, state: s, peer: at, keep: keep, born: time.Now()}
	d.end = func() { _ = d.SetDeadline(past) }
	if sc, ok := tcp.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil { // fails if the connection is closed; the first write reports that
			d.check = newClosedCheck(raw)
			if c == tcp {
				d.raw = newRawSend(raw)
			}
		}
	}

	return d
}

// past is a deadline that interrupts pending reads and writes at once.
var past = time.Unix(1, 0)

// foundClosed lowers the idle time of the origin's connections, because the receiver has closed this one before it was
// taken.
func (c *directConn) foundClosed(now time.Time) { c.state.kept.closed(now.Sub(c.since), c.kept, now) }

func (c *directConn) close() { _ = c.Conn.Close() }

// errClosed means that the receiver closed a kept connection before any byte of the request was written.
var errClosed = errors.New("the connection was closed while it was idle")

// write sends the request in b, and then returns b to the buffer pool. whole reports whether the kernel accepted all
// bytes of the request.
func (c *directConn) write(b *[]byte, reused bool) (whole bool, err error) {
	// raw also waits for the first byte of the answer, so that no buffer is held during the wait.
	if c.raw != nil {
		return c.raw.do(c.Conn, b, reused)
	}

	defer putBuffer(b)

	if reused && c.check != nil && c.check.closed() {
		return false, errClosed
	}

	_, err = c.Write(*b)
	return err == nil, err
}

// readKeepAlive applies the receiver's Keep-Alive header to the idle time of the connection.
func (c *directConn) readKeepAlive(h http.Header) {
	if says, ok := keepAliveTimeout(h); ok {
		c.keep = keptFor(says)
	}
}
