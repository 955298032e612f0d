package callback

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"notifier/internal/notice"
	"notifier/internal/transport"
	"notifier/internal/wire"
)

// machine has the resources of this machine that calls need. A call that cannot begin because one of them is used up says
// nothing about its receiver.
type machine struct {
	resolver *resolver
	limit    func() int // of file descriptors; replaced by tests
	used     atomic.Int64
	// free closes idle connections of calls.
	free func()
}

// Descriptors of one connection: a dial to a name also needs sockets for the lookup.
const (
	perConn = 1
	perDial = 3
)

// errNoDescriptor has the meaning of EMFILE before the kernel returns it.
var errNoDescriptor = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EMFILE}

// take takes n descriptors for calls, and reports whether there were enough.
func (m *machine) take(n int64) bool {
	if m.used.Add(n) <= m.most() {
		return true
	}

	m.used.Add(-n)
	return false
}

// most returns the number of descriptors for calls. A limit that is too low for the reserve leaves enough for one call.
func (m *machine) most() int64 { return max(int64(m.limit())-wire.ReservedDescriptors, perDial) }

// dialFunc opens connections.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns a dialer that counts the descriptors of its connections, and tells the resolver which names were found.
func (m *machine) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		n := int64(perDial)
		if _, err := netip.ParseAddr(host); err == nil {
			n, host = perConn, ""
		}

		if !m.take(n) {
			if m.free(); !m.take(n) {
				return nil, errNoDescriptor
			}
		}

		began := time.Now()
		c, err := dial(ctx, network, addr)
		if err != nil {
			m.used.Add(-n)
			return nil, err
		}

		m.used.Add(perConn - n)
		m.resolver.found(host, began)
		return m.counted(c), nil
	}
}

// counted wraps a connection so that its end returns its descriptor.
func (m *machine) counted(c net.Conn) net.Conn {
	end := sync.OnceFunc(func() { m.used.Add(-perConn) })
	if tcp, ok := c.(*net.TCPConn); ok {
		return &countedTCP{tcp, end}
	}

	return &countedConn{c, end}
}

type countedConn struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// countedTCP is a countedConn with the other methods of TCP connections.
type countedTCP struct {
	*net.TCPConn
	end func()
}

// Close implements net.Conn.
func (c *countedTCP) Close() error {
	defer c.end()
	return c.TCPConn.Close()
}

// lookupGrace is how long the check of the resolver may last after the deadline of the call.
const lookupGrace = 500 * time.Millisecond

// failedCall is a call to a host that failed with err at a stage. It had to end at end.
type failedCall struct {
	host       string
	err        error
	at         transport.Stage
	began, end time.Time
}

// shortage returns the shortage of this machine because of which a call failed; empty = none.
func (m *machine) shortage(ctx context.Context, f *failedCall) notice.Shortage {
	err := f.err
	var roots x509.SystemRootsError
	var dns *net.DNSError
	switch {
	case err == nil || errors.Is(ctx.Err(), context.Canceled):
		return ""
	case exhausted(err) != "":
		return exhausted(err)
	case errors.Is(err, syscall.EADDRNOTAVAIL) && portsUsedUp(err):
		return notice.ShortPorts
	case errors.As(err, &roots):
		return notice.ShortCertificates
	case errors.As(err, &dns) && !dns.IsNotFound:
		return m.resolver.shortage(ctx, dns.Name, f.began, f.end)
	case f.at == transport.StageDNS && transport.IsTimeout(err):
		return m.resolver.shortage(ctx, f.host, f.began, f.end)
	}

	return ""
}

// exhausted returns the shortage that an error of the kernel names; empty = none.
func exhausted(err error) notice.Shortage {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return notice.ShortDescriptors
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return notice.ShortMemory
	}
	return ""
}

// isShortage reports whether an error of the kernel names a shortage.
func isShortage(err error) bool { return exhausted(err) != "" }

// portsUsedUp reports whether a connection failed with EADDRNOTAVAIL because all ephemeral ports to its address are in
// use. The kernel returns the same error if no local address can reach the remote one, such as an IPv6 address without
// IPv6. A UDP socket that connects, which sends nothing, shows that there is one.
func portsUsedUp(err error) bool {
	var op *net.OpError
	for errors.As(err, &op) && op.Addr == nil && op.Err != nil {
		err = op.Err
	}

	if op == nil || op.Addr == nil {
		return false
	}

	c, err := net.Dial("udp", op.Addr.String())
	if err != nil {
		return exhausted(err) != ""
	}

	_ = c.Close()
	return true
}

// shortageTexts describe shortages in the result of a call. Producers may read them.
var shortageTexts = map[notice.Shortage]string{
	notice.ShortDescriptors:  "the service has no free file descriptor for the call",
	notice.ShortMemory:       "the service has no memory for the call's socket",
	notice.ShortPorts:        "the service has no free port for a connection to the receiver",
	notice.ShortResolver:     "the service's name resolver does not answer",
	notice.ShortCertificates: "the service cannot read its system's certificates",
}

// local returns the result of a call that failed because of a shortage of this machine. It uses an attempt only if the
// receiver may have read the whole request.
func local(s notice.Shortage, at transport.Stage) notice.Result {
	if at > transport.StageSend {
		return notice.RetryResult(notice.ReasonInterrupted, shortageTexts[s]+", after the request was sent")
	}

	res := notice.LocalResult(s, shortageTexts[s])
	res.Unsent = at < transport.StageSend
	return res
}
