package testkit

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Talk is the behaviour of a receiver on one connection. It must end when stop or the connection is closed.
type Talk func(c net.Conn, in *bufio.Reader, stop <-chan struct{})

// ListenTCP serves every connection with f and returns the address. With conf, connections use TLS. It ends before the test
// does, after all connections.
func ListenTCP(t testing.TB, addr string, conf *tls.Config, f Talk) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
		stop  = make(chan struct{})
	)

	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}

		mu.Unlock()
		wg.Wait()
	})

	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { ServeConn(c, conf, f, stop) })
		}
	})

	return l.Addr().String()
}

// ServeConn serves one connection with f, over TLS if conf is not nil.
func ServeConn(c net.Conn, conf *tls.Config, f Talk, stop <-chan struct{}) {
	defer func() { _ = c.Close() }()
	if conf != nil {
		tc := tls.Server(c, conf)
		if tc.Handshake() != nil {
			return
		}

		f(tc, bufio.NewReader(tc), stop)
		_ = tc.Close()
		return
	}

	f(c, bufio.NewReader(c), stop)
}

// ReadRequest reads one request with its body.
func ReadRequest(in *bufio.Reader) error {
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}

	_, err = io.Copy(io.Discard, req.Body)
	return err
}

// CloseAndWait closes c and returns when the client's kernel has received that: the system may deliver
// it later than Close returns.
func CloseAndWait(t testing.TB, c net.Conn) {
	under := c
	if secure, ok := c.(*tls.Conn); ok {
		under = secure.NetConn()
	}

	if err := under.(*net.TCPConn).SetLinger(10); err != nil {
		t.Error(err)
	}

	_ = c.Close()
}
