//go:build unix

package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// closedCheck detects whether the other end of an idle connection has closed it. It is created once per
// connection, so that a check allocates nothing.
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

// closed reports whether an idle connection can no longer be used, because the receiver has closed it or has sent
// data without a request. Servers send such data only before they close. closed reads none of it.
func (l *closedCheck) closed() bool {
	l.gone = false
	return l.raw.Control(l.ask) != nil || l.gone
}
