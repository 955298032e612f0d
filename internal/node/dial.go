package node

import (
	"context"
	"net"
	"time"
)

// Dialer makes a connection, as [net.Dialer.DialContext] does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Lazy makes a Dialer that does not fail: where no connection can be made, whoever uses
// what it returns first has the error of the dial.
//
// A pool of go-redis counts failed dials. When they are as many as it may hold
// connections it makes no more, and asks once a second whether the server is there
// again, so that calls fail for up to a second after it is.
func Lazy(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return unmade{&unmadeError{err}}, nil
		}
		return c, nil
	}
}

// unmadeError wraps what a dial came to: of the error of a greeting that failed, go-redis
// keeps what it wraps.
type unmadeError struct{ err error }

func (e *unmadeError) Error() string { return e.err.Error() }
func (e *unmadeError) Unwrap() error { return e.err }

// unmade stands for a connection that could not be made.
type unmade struct{ err error }

func (c unmade) Read([]byte) (int, error)         { return 0, c.err }
func (c unmade) Write([]byte) (int, error)        { return 0, c.err }
func (c unmade) Close() error                     { return nil }
func (c unmade) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c unmade) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c unmade) SetDeadline(time.Time) error      { return nil }
func (c unmade) SetReadDeadline(time.Time) error  { return nil }
func (c unmade) SetWriteDeadline(time.Time) error { return nil }
