package testkit

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// linkBuffer is the receive buffer of a slow link and the size of its reads. With a larger one the kernel may take a reply of megabytes
// in one write, if it remembers fast connections to the same address.
const linkBuffer = 16 << 10

// SlowLink forwards connections to an address, and returns its own. All connections together receive at most rate bytes a second.
func SlowLink(t testing.TB, to string, rate int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, linkBuffer)
		}), err)
	}}
	var all sync.WaitGroup
	var link sync.Mutex
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			r, err := small.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}

			all.Go(func() { _, _ = io.Copy(r, c); _ = r.Close() })
			all.Go(func() { slowly(c, r, &link, rate) })
		}
	})
	return l.Addr().String()
}

// slowly copies from r to c, and closes both at the end.
func slowly(c, r net.Conn, link *sync.Mutex, rate int) {
	defer func() { _, _ = c.Close(), r.Close() }()
	b := make([]byte, linkBuffer)
	for {
		n, err := r.Read(b)
		if err != nil {
			return
		}

		link.Lock()
		time.Sleep(time.Duration(n) * time.Second / time.Duration(rate)) // sleep: the speed of the link
		link.Unlock()
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}
