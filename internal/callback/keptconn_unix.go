//go:build unix

package callback

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// closedCheck looks at a connection. It is made once for each: a closedCheck allocates nothing.
type closedCheck struct {
	raw  syscall.RawConn
	fds  [1]unix.PollFd
	gone bool
	ask  func(fd uintptr)
}

func newClosedCheck(raw syscall.RawConn) *closedCheck {
	l := &closedCheck{raw: raw}
	l.ask = func(fd uintptr) {
		l.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		n, err := unix.Poll(l.fds[:], 0)
		l.gone = err == nil && n > 0
	}
	return l
}

// closed reports whether an idle connection can carry no request any more: its
// other end has closed or reset it, or has said something unasked, which nobody
// does who goes on (a 408, a TLS alert). It takes nothing.
func (l *closedCheck) closed() bool {
	l.gone = false
	return l.raw.Control(l.ask) != nil || l.gone
}
