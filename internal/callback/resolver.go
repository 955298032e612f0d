package callback

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"notifier/internal/notice"
)

// resolver looks up host names and observes the exchanges with name servers. The error of a failed lookup has only text, which
// does not show whether the name or this machine's access to its name servers is at fault.
type resolver struct {
	net.Resolver
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu sync.Mutex
	// Times of the last events. known are names that a name server has found, the latest first, of different domains.
	answered, unreachable, short time.Time
	shortBy                      notice.Shortage
	known                        []string
}

// maxKnown is the maximum number of known names. A check looks up all of them, so that two broken domains do not look like a
// broken resolver.
const maxKnown = 4

// newResolver returns a resolver with the settings of r; nil = the system's.
func newResolver(r *net.Resolver) *resolver {
	// Without PreferGo, a build with cgo would use the C library, which cannot be observed. Only macOS needs it.
	out := &resolver{dial: (&net.Dialer{}).DialContext}
	out.PreferGo = runtime.GOOS != "darwin"
	if r != nil {
		out.PreferGo, out.StrictErrors = r.PreferGo, r.StrictErrors
		if r.Dial != nil {
			out.dial = r.Dial
		}
	}

	out.Dial = out.connect
	return out
}

// connect connects to a name server.
func (r *resolver) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := r.dial(ctx, network, addr)
	if err != nil {
		r.observe(err)
		return nil, err
	}

	observed := serverConn{c, r}
	if packets, ok := c.(net.PacketConn); ok { // net.Resolver distinguishes UDP by this
		return packetConn{observed, packets}, nil
	}

	return observed, nil
}

// serverConn is a connection to a name server.
type serverConn struct {
	net.Conn
	r *resolver
}

// Read implements net.Conn.
func (c serverConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.r.observe(err)
	return n, err
}

// Write implements net.Conn.
func (c serverConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.r.observe(err)
	}

	return n, err
}

// packetConn is a serverConn over UDP.
type packetConn struct {
	serverConn
	packets net.PacketConn
}

// ReadFrom implements net.PacketConn.
func (c packetConn) ReadFrom(b []byte) (int, net.Addr, error) { return c.packets.ReadFrom(b) }

// WriteTo implements net.PacketConn.
func (c packetConn) WriteTo(b []byte, to net.Addr) (int, error) { return c.packets.WriteTo(b, to) }

// observe records the result of a step of an exchange with a name server; nil = it answered.
func (r *resolver) observe(err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := exhausted(err); {
	case err == nil:
		r.answered = now
	case s != "":
		r.short, r.shortBy = now, s
	case unreachable(err):
		r.unreachable = now
	}
}

// unreachable reports whether an error means that a name server cannot be reached from this machine.
func unreachable(err error) bool {
	return slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN,
		syscall.EADDRNOTAVAIL}, func(e error) bool { return errors.Is(err, e) })
}

// found records that a lookup which began at that time found a name. A name from the hosts file, without an answer of a name
// server, is ignored.
func (r *resolver) found(name string, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" || r.answered.Before(began) || len(r.known) > 0 && r.known[0] == name {
		return
	}

	r.known = slices.DeleteFunc(r.known, func(k string) bool { return domain(k) == domain(name) })
	r.known = slices.Insert(r.known, 0, name)
	r.known = r.known[:min(len(r.known), maxKnown)]
}

// domain returns the last two labels of a name, or the name if it has fewer. Names with the same domain usually have the same
// name servers.
func domain(name string) string {
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}

// shortage returns the shortage because of which the lookup of a name failed that began at that time; empty = none, then the
// name is at fault. end is the deadline of the call.
func (r *resolver) shortage(ctx context.Context, name string, began, end time.Time) notice.Shortage {
	r.mu.Lock()
	short, by := r.short, r.shortBy
	refused := !r.unreachable.Before(began) && r.answered.Before(began)
	known := slices.Clone(r.known)
	r.mu.Unlock()
	switch {
	case !short.Before(began):
		return by
	case len(known) == 0 && refused, len(known) > 0 && !r.works(ctx, name, known, end):
		return notice.ShortResolver
	}

	return ""
}

// Bounds of a check of the resolver.
const minCheck, maxCheck = lookupGrace, 2 * time.Second

// works reports whether the resolver finds one of the known names. Names of the failed name's domain prove nothing. Without
// others, any answer of a name server counts.
func (r *resolver) works(ctx context.Context, failed string, known []string, end time.Time) bool {
	wait := maxCheck
	if !end.IsZero() {
		wait = min(max(time.Until(end), minCheck), maxCheck)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()

	known = slices.DeleteFunc(known, func(k string) bool { return domain(k) == domain(failed) })
	began := time.Now()
	if len(known) == 0 {
		_, _ = r.LookupNS(ctx, ".") // not in a hosts file
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.answered.Before(began)
	}

	answers := make(chan bool, len(known))
	for _, k := range known {
		go func() {
			_, err := r.LookupNetIP(ctx, "ip", k)
			var dns *net.DNSError
			answers <- err == nil || errors.As(err, &dns) && dns.IsNotFound
		}()
	}

	for range known {
		if <-answers {
			return true
		}
	}

	return false
}
