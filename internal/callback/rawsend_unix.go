//go:build unix

package callback

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// rawSend writes a request to a socket and waits until it can be read, in one turn
// of the poller: an answer that comes at once is not missed, and a buffer to read it
// into is needed only when it is there. It is made once for each connection.
type rawSend struct {
	raw   syscall.RawConn
	step  func(fd uintptr) bool
	one   [1]byte
	look  bool // whether the other end has closed it meanwhile
	begun bool
	b     *[]byte
	n     int // bytes written
	err   error
}

func newRawSend(raw syscall.RawConn) *rawSend {
	r := &rawSend{raw: raw}
	r.step = r.turn
	return r
}

// do writes b, gives it back and waits. It reports whether all of b was written; with
// that, an error is one of waiting.
func (r *rawSend) do(c net.Conn, b *[]byte, reused bool) (whole bool, err error) {
	r.look, r.begun, r.b, r.n, r.err = reused, false, b, 0, nil
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
	_, err = c.Write((*b)[r.n:]) // the socket takes no more for now
	return err == nil, err
}

// turn is called at the beginning, and again when there is something to read.
func (r *rawSend) turn(fd uintptr) (done bool) {
	if r.begun {
		return true
	}
	r.begun = true
	if r.look {
		// Whatever an idle connection has to say, it can carry no request any more: the
		// other end has closed or reset it, or sent what nobody sends who goes on.
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
