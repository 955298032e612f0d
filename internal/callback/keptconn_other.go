//go:build !unix

package callback

import "syscall"

// closedCheck is not implemented on this platform. net/http's reader notices a closed connection a moment
// later.
type closedCheck struct{}

func newClosedCheck(syscall.RawConn) *closedCheck { return &closedCheck{} }

func (*closedCheck) closed() bool { return false }
