package callback

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// guard applies the rules of a route (package route) to which addresses a notice's
// own url may reach, where the socket is about to connect: after DNS.
type guard struct{ route *route.Route }

// key tells guards that permit the same apart from others: connections may be
// shared between those.
func (g *guard) key() string { return g.route.Allow.String() }

// control is called by the dialer with the address that it is about to connect
// to: there is no lookup left that could answer otherwise.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &route.BlockedError{Why: "network " + network, Route: g.route.Name}
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &route.BlockedError{Why: fmt.Sprintf("%.80q is no address", address), Route: g.route.Name}
	}
	if blocked := g.route.CheckAddr(at.Addr()); blocked != nil {
		return blocked
	}
	return nil
}

// dialer makes the connections of one transport. A host that the operator
// allowed by name is dialled unguarded.
func (g *guard) dialer(base *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	guarded := *base
	guarded.ControlContext = g.control
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if h, _, err := net.SplitHostPort(addr); err == nil {
			if host, err := notice.Host(h); err == nil && g.route.Allow.Host(host) {
				return base.DialContext(ctx, network, addr)
			}
		}
		return guarded.DialContext(ctx, network, addr)
	}
}
