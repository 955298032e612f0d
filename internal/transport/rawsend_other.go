//go:build !unix

package transport

import (
	"net"
	"syscall"
)

// rawSend is not implemented on this platform: requests are written with Write.
type rawSend struct{}

func newRawSend(syscall.RawConn) *rawSend { return nil }

func (*rawSend) do(net.Conn, *[]byte, bool) (bool, error) { return false, nil }
