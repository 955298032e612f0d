package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/transport"
	"notifier/internal/wire"
)

// connectError is the error of a failed connect to an address.
func connectError(to string, why syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to)),
		Err: os.NewSyscallError("connect", why)}
}

// isLocal checks a deferral for a shortage of this machine.
func isLocal(t testing.TB, res notice.Result, s notice.Shortage) {
	t.Helper()
	expect(t, res, notice.OutcomeDeferred, notice.ReasonLocal)
	if res.Shortage != s || res.After != notice.LocalDelay || !res.Unsent || res.Response == "" {
		t.Errorf("%+v, want the shortage %q", res, s)
	}
}

// A call that this machine could not begin uses no attempt, and neither the receiver's breaker nor its figures count it.
func TestShortageOfMachineIsDeferred(t *testing.T) {
	t.Parallel()
	unreachable := connectError("[fe80::1]:80", syscall.EADDRNOTAVAIL) // no local address reaches it
	for name, c := range map[string]struct {
		err  error
		want notice.Shortage // empty = an attempt
	}{
		"descriptors":           {connectError("127.0.0.1:1", syscall.EMFILE), notice.ShortDescriptors},
		"of the system":         {connectError("127.0.0.1:1", syscall.ENFILE), notice.ShortDescriptors},
		"buffers":               {connectError("127.0.0.1:1", syscall.ENOBUFS), notice.ShortMemory},
		"memory":                {fmt.Errorf("wrapped: %w", connectError("127.0.0.1:1", syscall.ENOMEM)), notice.ShortMemory},
		"ports":                 {connectError("127.0.0.1:1", syscall.EADDRNOTAVAIL), notice.ShortPorts},
		"certificates":          {&tls.CertificateVerificationError{Err: x509.SystemRootsError{}}, notice.ShortCertificates},
		"no address to connect": {unreachable, ""},
		"no route":              {connectError("127.0.0.1:1", syscall.ENETUNREACH), ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			h := newHandler(t, Options{Now: func() time.Time { now = now.Add(2 * slowFailure); return now }})
			h.dial = func(context.Context, string, string) (net.Conn, error) { return nil, c.err }
			r := fixedRoute("http://127.0.0.1:1")
			for range breakerFailures {
				if res := h.Handle(background(t), r, testNotice("x")); c.want == "" {
					expect(t, res, retry, notice.ReasonConnect)
				} else {
					isLocal(t, res, c.want)
				}
			}
			s, _ := h.state(r)
			host := s.limits.hosts.find("127.0.0.1:1", func() *host { return s.limits.newHost("x") })
			if open := host.breaker.State().String() != "closed"; open != (c.want == "") || (host.tally.calls[0] > 0) != open {
				t.Errorf("breaker %s, calls %v", host.breaker.State(), host.tally.calls)
			}
		})
	}
	// The receiver may have read the request: an attempt, as after the death of the instance.
	res := resultOf(nil, &facts{err: connectError("127.0.0.1:1", syscall.ENOMEM), stage: transport.StageHeaders, short: notice.ShortMemory})
	expect(t, res, retry, notice.ReasonInterrupted)
}

// An IPv6 address is the notice's own fault where there is no IPv6.
func TestIPv6AddressWithoutIPv6UsesAttempt(t *testing.T) {
	t.Parallel()
	if c, err := net.Dial("udp", "[2001:db8::1]:443"); err == nil {
		_ = c.Close()
		t.Log("this machine has IPv6: TestShortageOfMachineIsDeferred tries the same with another address")
		return
	}
	res := newHandler(t, Options{}).Handle(background(t), fixedRoute("http://[2001:db8::1]:443"), testNotice("x"))
	expect(t, res, retry, notice.ReasonConnect)
}

// Callbacks leave descriptors for Redis and the API. Idle connections are closed before a call is deferred.
func TestCallsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	slow := server(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	})
	begun := make(chan struct{}, 8)
	quick := server(t, func(http.ResponseWriter, *http.Request) {})
	h := newHandler(t, Options{})
	h.own.limit = func() int { return wire.ReservedDescriptors + perDial }
	dial := new(net.Dialer).DialContext
	h.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		begun <- struct{}{}
		return c, err
	}
	for range perDial + 1 { // the idle connections of other hosts make room
		other := server(t, func(http.ResponseWriter, *http.Request) {})
		expect(t, h.Handle(background(t), fixedRoute(other.URL), testNotice("x")), delivered, "")
		<-begun
	}
	results := make(chan notice.Result)
	for range perDial {
		go func() { results <- h.Handle(background(t), fixedRoute(slow.URL), testNotice("x")) }()
	}
	for range perDial {
		<-begun
	}
	isLocal(t, h.Handle(background(t), fixedRoute(quick.URL), testNotice("x")), notice.ShortDescriptors)
	close(answer)
	for range perDial {
		expect(t, <-results, delivered, "")
	}
	expect(t, h.Handle(background(t), fixedRoute(quick.URL), testNotice("x")), delivered, "")
	h.Close()
	if n := h.own.used.Load(); n > perDial {
		t.Errorf("%d descriptors in use", n)
	}
}

// TestFailedLookups distinguishes names that do not resolve from a resolver that does not work.
func TestFailedLookups(t *testing.T) {
	t.Parallel()
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	// broken is the state of the resolver: nil, an error of its Dial, or servfail.
	var down atomic.Pointer[error]
	var allFail atomic.Bool
	good := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	names := dnsServer(t, func(name string, _ int) []netip.Addr {
		switch {
		case allFail.Load(), strings.HasSuffix(name, "dead.example"):
			return servfail
		case strings.HasPrefix(name, "none."):
			return nil
		}
		return good
	})
	inner := names.Dial
	names.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := down.Load(); err != nil {
			return nil, *err
		}
		return inner(ctx, network, addr)
	}
	refuse := func(why syscall.Errno) {
		err := error(&net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", why)})
		down.Store(&err)
	}
	h := newHandler(t, Options{Resolver: names})
	h.keep = 0 // each call looks up its name
	call := func(name string) notice.Result {
		n := testNotice("x")
		n.URL = "http://" + name + port
		return h.Handle(background(t), noticeRoute("127.0.0.0/8"), n)
	}

	expect(t, call("www.dead.example"), retry, notice.ReasonDNS) // no name is known
	refuse(syscall.ECONNREFUSED)
	isLocal(t, call("www.shop.example"), notice.ShortResolver)
	refuse(syscall.ENETUNREACH)
	isLocal(t, call("none.shop.example"), notice.ShortResolver)
	refuse(syscall.EMFILE)
	isLocal(t, call("www.shop.example"), notice.ShortDescriptors)
	down.Store(nil)
	expect(t, call("none.shop.example"), retry, notice.ReasonDNS)
	for i := range 100 {
		expect(t, call(fmt.Sprintf("www.shop%d.example", i)), delivered, "")
		if i%10 == 0 { // one dead zone among names that resolve
			expect(t, call("www.dead.example"), retry, notice.ReasonDNS)
		}
	}
	allFail.Store(true)
	isLocal(t, call("www.dead.example"), notice.ShortResolver)
	isLocal(t, call("www.shop3.example"), notice.ShortResolver)
	refuse(syscall.ECONNREFUSED)
	isLocal(t, call("www.shop3.example"), notice.ShortResolver)
	refuse(syscall.ENOBUFS)
	isLocal(t, call("www.shop3.example"), notice.ShortMemory)
	down.Store(nil)
	allFail.Store(false)
	expect(t, call("www.shop3.example"), delivered, "")
}

// briefConn ends a lookup without an answer before the test ends.
type briefConn struct{ *net.UDPConn }

// SetDeadline implements net.Conn.
func (c briefConn) SetDeadline(time.Time) error {
	return c.UDPConn.SetDeadline(time.Now().Add(300 * time.Millisecond))
}

// A service with one receiver knows no name of another domain. An answer of the name server shows that it works.
func TestOneKnownDomain(t *testing.T) {
	t.Parallel()
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	var fail, silent atomic.Bool
	names := dnsServer(t, func(string, int) []netip.Addr {
		if fail.Load() {
			return servfail
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	hole, err := net.ListenPacket("udp", "127.0.0.1:0") // answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	inner := names.Dial
	names.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if silent.Load() {
			c, err := new(net.Dialer).DialContext(ctx, "udp", hole.LocalAddr().String())
			if err != nil {
				return nil, err
			}
			return briefConn{c.(*net.UDPConn)}, nil
		}
		return inner(ctx, network, addr)
	}
	h := newHandler(t, Options{Resolver: names, ConnectTimeout: 2 * time.Second})
	h.keep = 0
	r := fixedRoute(strings.Replace(s.URL, "127.0.0.1", "www.shop.example", 1))
	silent.Store(true)
	expect(t, h.Handle(background(t), r, testNotice("x")), retry, notice.ReasonDNS) // nothing ever resolved
	silent.Store(false)
	expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
	fail.Store(true)
	expect(t, h.Handle(background(t), r, testNotice("x")), retry, notice.ReasonDNS)
	silent.Store(true)
	isLocal(t, h.Handle(background(t), r, testNotice("x")), notice.ShortResolver)
}
