//go:build unix

package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// rawSend writes a request to one socket and then waits for the first byte of the answer. It holds no buffer during
// the wait. An answer that arrives while the request is being written is noticed too.
type rawSend struct {
	raw         syscall.RawConn
	step        func(fd uintptr) bool
	one         [1]byte
	checkClosed bool // check first whether the other end has closed the connection
	begun       bool
	b           *[]byte
	n           int // bytes written
	err         error
}

func newRawSend(raw syscall.RawConn) *rawSend {
	r := &rawSend{raw: raw}
	r.step = r.turn
	return r
}

// do writes b, returns b to the pool and waits until the socket is readable. It reports whether all of b was
// written; then an error is one of the wait.
func (r *rawSend) do(c net.Conn, b *[]byte, reused bool) (whole bool, err error) {
	r.checkClosed, r.begun, r.b, r.n, r.err = reused, false, b, 0, nil
	err = r.raw.Read(r.step)
	if r.b == nil {
		return true, err
	}

	defer putBuffer(b)

	r.b = nil

	switch {
	case r.err != nil:
		var no syscall.Errno
		if errors.As(r.err, &no) {
			r.err = &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", no)}
		}

		return false, r.err
	case err != nil:
		return false, err
	}

	_, err = c.Write((*b)[r.n:]) // the socket buffer is full
	return err == nil, err
}

// turn is called by the poller at the start, and again when the socket is readable.
func (r *rawSend) turn(fd uintptr) (done bool) {
	if r.begun {
		return true
	}

	r.begun = true
	if r.checkClosed {
		// Any data or error on an idle connection means that it can carry no request: the other end has
		// closed or reset it, or sent data that was not requested, which servers do only before they close.
		if _, err := syscall.Read(int(fd), r.one[:]); !errors.Is(err, syscall.EAGAIN) {
			r.err = errClosed
			return true
		}
	}

	for r.n < len(*r.b) {
		n, err := syscall.Write(int(fd), (*r.b)[r.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true
		case err != nil:
			r.err = err
			return true
		}

		r.n += n
	}

	putBuffer(r.b)
	r.b = nil
	return false
}
