//go:build !unix

package callback

import (
	"net"
	"syscall"
)

// rawSend is nothing here: requests are written in the usual way.
type rawSend struct{}

func newRawSend(syscall.RawConn) *rawSend { return nil }

func (*rawSend) do(net.Conn, *[]byte, bool) (bool, error) { return false, nil }
