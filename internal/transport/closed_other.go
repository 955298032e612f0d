//go:build !unix

package transport

import "syscall"

// closedCheck is not implemented on this platform.
type closedCheck struct{}

func newClosedCheck(syscall.RawConn) *closedCheck { return &closedCheck{} }

func (*closedCheck) closed() bool { return false }
