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

// guard applies a route's rules on addresses (package route) when a socket is about to connect, after DNS. It
// is used for targets that a notice brings as its url.
type guard struct{ route *route.Route }

// key returns equal strings for guards that permit the same addresses. Only those may share connections.
func (g *guard) key() string { return g.route.Allow.String() }

// control checks the address that the dialer is about to connect to. No lookup follows that could return
// another address.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &route.BlockedError{Why: "network " + network, Route: g.route.Name}
	}

	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &route.BlockedError{Why: fmt.Sprintf("%.80q is not an address", address), Route: g.route.Name}
	}
	if blocked := g.route.CheckAddr(at.Addr()); blocked != nil {
		return blocked
	}

	return nil
}

// dialer makes the connections of one transport. A host that the operator allowed by name is dialled without
// a check.
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
