package wire

import (
	"context"
	"net"
	"time"
)

// Dialer makes a connection, as [net.Dialer.DialContext] does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Lazy returns a Dialer that never fails: if dial fails, the returned connection fails at its first use. The reason is
// the connection pool of go-redis: after several failed dials it dials only once a second, so calls would still fail
// for up to a second after the server has returned.
func Lazy(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return unmade{&unmadeError{err}}, nil
		}

		return c, nil
	}
}

// unmadeError wraps the error of a dial. If the first command on a connection fails, go-redis removes one
// layer of its error.
type unmadeError struct{ err error }

func (e *unmadeError) Error() string { return e.err.Error() }
func (e *unmadeError) Unwrap() error { return e.err }

// unmade represents a connection that could not be made.
type unmade struct{ err error }

func (c unmade) Read([]byte) (int, error)         { return 0, c.err }
func (c unmade) Write([]byte) (int, error)        { return 0, c.err }
func (c unmade) Close() error                     { return nil }
func (c unmade) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c unmade) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c unmade) SetDeadline(time.Time) error      { return nil }
func (c unmade) SetReadDeadline(time.Time) error  { return nil }
func (c unmade) SetWriteDeadline(time.Time) error { return nil }
