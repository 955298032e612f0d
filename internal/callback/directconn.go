package callback

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// directConn is a connection of the direct transport. One exchange at a time uses
// it, in the goroutine that makes the call.
type directConn struct {
	net.Conn               // TCP, or TLS over it
	under    net.Conn      // the TCP
	secure   *tls.Conn     // nil without
	check    *closedCheck  // of the TCP; nil: cannot be looked at
	raw      *rawSend      // of TCP without TLS; nil: cannot be used
	end      func()        // ends what waits for it
	keep     time.Duration // how long it may be idle

	// What idleConns knows of it.
	origin origin
	ends   time.Time // when it has been idle for keep
	neighbours[directConn]
}

func (c *directConn) near() *neighbours[directConn] { return &c.neighbours }

// newDirectConn takes a connection that was dialled.
func newDirectConn(c net.Conn, o origin, keep time.Duration) *directConn {
	d := &directConn{Conn: c, under: c, origin: o, keep: keep}
	d.end = func() { _ = d.SetDeadline(past) }
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil { // of a closed one: the first write finds it
			d.check, d.raw = newClosedCheck(raw), newRawSend(raw)
		}
	}
	return d
}

// past is a deadline that ends at once what waits.
var past = time.Unix(1, 0)

func (c *directConn) close() { _ = c.Conn.Close() }

// errClosed: the receiver has closed a kept connection, and nothing was written.
var errClosed = errors.New("the connection was closed while it was idle")

// write sends the bytes of a request in b. Where it can, it also waits for the
// answer to begin: then nothing but the connection is held meanwhile, b least of all.
// It reports whether all of b was taken by the kernel.
func (c *directConn) write(b *[]byte, reused bool) (whole bool, err error) {
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

// readKeepAlive takes what the receiver says of how long it keeps the connection open.
func (c *directConn) readKeepAlive(h http.Header) {
	if says, ok := keepAliveTimeout(h); ok {
		c.keep = keptFor(says)
	}
}
