package callback

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"notifier/internal/testkit"
)

// twin is a receiver with the same port on two addresses. It counts its connections and requests on each.
type twin struct {
	port            string
	conns, requests [2]atomic.Int64
}

var twinAddrs = [2]string{"127.0.0.1", "127.0.0.2"}

func newTwin(t *testing.T, conf *tls.Config) *twin {
	t.Helper()
	w := &twin{}
	for i := range twinAddrs {
		on := func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
			w.conns[i].Add(1)
			if secure, ok := c.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol == "h2" {
				frames(func(_ net.Conn, f *http2.Framer, s uint32) { w.requests[i].Add(1); respond(f, s, "200") })(c, in, stop)
				return
			}
			for testkit.ReadRequest(in) == nil {
				w.requests[i].Add(1)
				_, _ = io.WriteString(c, okEmpty)
			}
		}
		_, w.port, _ = net.SplitHostPort(testkit.ListenTCP(t, twinAddrs[i]+":"+cmp.Or(w.port, "0"), conf, on))
	}
	return w
}

// A receiver's old machine got 35 of 35 calls after its name had another address.
func TestConnectionsFollowTheName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"shop.example", "other.example"} })
	for name, conf := range map[string]*tls.Config{"HTTP/1.1": nil,
		"HTTP/1.1, TLS": {Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
		"HTTP/2":        {Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}} {
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, conf)
			var moved, unknown atomic.Bool
			var lookups atomic.Int64
			h := newHandler(t, Options{Resolver: dnsServer(t, func(name string, _ int) []netip.Addr {
				switch {
				case name == "other.example":
					return []netip.Addr{netip.MustParseAddr(twinAddrs[0])}
				case unknown.Load():
					lookups.Add(1)
					return nil
				case moved.Load():
					lookups.Add(1)
					return []netip.Addr{netip.MustParseAddr(twinAddrs[1])}
				}
				return []netip.Addr{netip.MustParseAddr(twinAddrs[0])}
			})})
			h.recheck = time.Millisecond
			scheme := map[bool]string{true: "http://", false: "https://"}[conf == nil]
			call := func(host string) {
				r := fixedRoute(scheme + host + ":" + w.port)
				r.CAFile = ca.file
				expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
			}
			call("shop.example")
			call("other.example")
			unknown.Store(true)
			for lookups.Load() < 12 { // failed lookups change nothing; each is two queries
				call("shop.example")
			}
			if got := w.conns[0].Load(); got != 2 {
				t.Fatalf("%d connections after failed lookups", got)
			}
			unknown.Store(false)
			lookups.Store(0)
			moved.Store(true)
			for w.requests[1].Load() == 0 && !t.Failed() {
				call("shop.example")
			}
			if got := lookups.Load(); got < 3 {
				t.Errorf("retired after %d queries", got)
			}
			call("other.example")
			if a, b := w.conns[0].Load(), w.conns[1].Load(); a != 2 || b != 1 {
				t.Errorf("%d connections to the old address, %d to the new one", a, b)
			}
		})
	}
}

// tunnels is a proxy for CONNECT and SOCKS 5 that counts its tunnels.
func tunnels(t *testing.T) (string, *atomic.Int64) {
	var n atomic.Int64
	return listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		target, err := tunnelTarget(c, in)
		if err != nil {
			return
		}
		n.Add(1)
		far, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(far, in); _ = far.Close() })
		_, _ = io.Copy(c, far)
		_ = c.Close()
		wg.Wait()
	}), &n
}

// tunnelTarget reads the request of a client with the password "hunter2", and accepts it.
func tunnelTarget(c net.Conn, in *bufio.Reader) (string, error) {
	if first, err := in.Peek(1); err != nil || first[0] != 5 {
		req, err := http.ReadRequest(in)
		if err != nil || req.Header.Get("Proxy-Authorization") != "Basic dXNlcjpodW50ZXIy" {
			return "", errors.Join(err, errors.New("wrong password"))
		}
		_, err = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		return req.Host, err
	}
	hello := make([]byte, 4) // version 5, two methods
	if _, err := io.ReadFull(in, hello); err != nil {
		return "", err
	}
	_, _ = c.Write([]byte{5, 2})
	login := make([]byte, 2+len("user")+1+len("hunter2"))
	if _, err := io.ReadFull(in, login); err != nil || !strings.HasSuffix(string(login), "hunter2") {
		return "", errors.Join(err, errors.New("wrong password"))
	}
	_, _ = c.Write([]byte{1, 0})
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil || head[3] != 1 {
		return "", errors.Join(err, errors.New("want an IPv4 address"))
	}
	addr := make([]byte, 6)
	if _, err := io.ReadFull(in, addr); err != nil {
		return "", err
	}
	_, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	a := netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr[:4])), uint16(addr[4])<<8|uint16(addr[5]))
	return a.String(), err
}

// Through a proxy a change of the address is not visible, so connections have a greatest age.
func TestProxiedConnectionsHaveAGreatestAge(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, nil)
	for name, c := range map[string]struct {
		scheme string
		conf   *tls.Config
	}{
		"CONNECT, HTTP/1.1": {"http", &tls.Config{Certificates: []tls.Certificate{cert}}},
		"CONNECT, HTTP/2":   {"http", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}},
		"SOCKS":             {"socks5", nil},
		"SOCKS, HTTP/2":     {"socks5h", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, c.conf)
			proxy, tunnels := tunnels(t)
			r := fixedRoute(map[bool]string{true: "http://", false: "https://"}[c.conf == nil] + twinAddrs[0] + ":" + w.port)
			r.Proxy, r.CAFile = proxyAt(t, c.scheme+"://user:hunter2@"+proxy), ca.file
			h := newHandler(t, Options{})
			if h.proxiedAge != 5*time.Minute {
				t.Errorf("the greatest age is %s", h.proxiedAge)
			}
			call := func() { expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "") }
			call()
			call()
			if got := tunnels.Load(); got != 1 {
				t.Fatalf("%d tunnels", got)
			}
			h = newHandler(t, Options{})
			h.proxiedAge = 1
			call()
			call()
			call()
			if got := tunnels.Load(); got != 4 {
				t.Errorf("%d tunnels", got)
			}
		})
	}
}
