package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"

	"notifier/internal/route"
)

// BlockedError says that a target may not be called, why, and what would allow
// it.
type BlockedError struct {
	Why   string
	Allow string // an entry for the route's ALLOW; empty = none would do
	// Spelt: the url itself says so, and no answer of DNS will change it.
	Spelt bool
	Route string
}

func (e *BlockedError) Error() string {
	s := "blocked: " + e.Why
	if e.Allow != "" {
		s += fmt.Sprintf("; NOTIFIER_ROUTE_%s_ALLOW=%s would allow it", envName(e.Route), e.Allow)
	}
	return s
}

// envName is a route's name as it stands in variables.
func envName(route string) string { return strings.ReplaceAll(strings.ToUpper(route), "-", "_") }

// errAllow is what errors about an ALLOW entry wrap.
var errAllow = errors.New("not an address to allow")

// guard decides which addresses a notice's own url may reach. It is asked twice:
// before the call about what the url spells out, and by the dialer about the
// address that the socket is about to connect to.
type guard struct {
	route     string
	prefixes  []netip.Prefix
	hosts     []string // exact, lower case
	suffixes  []string // ".example.com" of *.example.com
	httpsOnly bool
	// public refuses everything outside the public internet, after the IANA
	// registries of special-purpose addresses.
	public *ssrf.Guardian
}

func newGuard(r *route.Route) (*guard, error) {
	g := &guard{route: r.Name, httpsOnly: r.HTTPSOnly, public: ssrf.New(ssrf.WithAnyPort(),
		// Azure's metadata and DNS service has a public address.
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))}
	for _, a := range r.Allow {
		a = strings.ToLower(strings.TrimSpace(a))
		if p, err := netip.ParsePrefix(a); err == nil {
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}
			g.prefixes = append(g.prefixes, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(strings.Trim(a, "[]")); err == nil {
			ip = ip.WithZone("").Unmap()
			g.prefixes = append(g.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		name, wild := strings.CutPrefix(a, "*.")
		name = strings.TrimSuffix(name, ".")
		if name == "" || strings.ContainsAny(name, "/:*@ \t") || endsInNumber(name) {
			return nil, fmt.Errorf("%w: %.80q; want a CIDR (10.0.0.0/8), an address, a host or *.domain", errAllow, a)
		}
		if wild {
			g.suffixes = append(g.suffixes, "."+name)
		} else {
			g.hosts = append(g.hosts, name)
		}
	}
	return g, nil
}

// key tells guards that permit the same apart from others: connections may be
// shared between those.
func (g *guard) key() string {
	var all []string
	for _, p := range g.prefixes {
		all = append(all, p.String())
	}
	all = append(append(all, g.hosts...), g.suffixes...)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// allowsHost tells whether the operator named this host: then whatever address
// it has may be called.
func (g *guard) allowsHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return slices.Contains(g.hosts, host) ||
		slices.ContainsFunc(g.suffixes, func(s string) bool { return strings.HasSuffix(host, s) })
}

// checkURL refuses what can be seen to be wrong without DNS.
func (g *guard) checkURL(u *url.URL) error {
	if g.httpsOnly && u.Scheme != "https" {
		return &BlockedError{Why: "this route calls https addresses only", Spelt: true, Route: g.route}
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if g.allowsHost(host) {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if err := g.checkAddr(ip); err != nil {
			err.Spelt = true
			return err
		}
		return nil
	}
	// 127.1, 0x7f000001, 2130706433, 0177.0.0.1: some resolvers read them as addresses.
	if endsInNumber(host) {
		return &BlockedError{Why: fmt.Sprintf("%.80q is an address in an unusual spelling; write it in dotted form", host),
			Spelt: true, Route: g.route}
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		if !g.allowsAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			return &BlockedError{Why: host + " is this machine itself", Allow: host, Spelt: true, Route: g.route}
		}
	}
	return nil
}

// endsInNumber tells whether a host's last label is a number, decimal or hex:
// no name on the internet is like that.
func endsInNumber(host string) bool {
	label := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func (g *guard) allowsAddr(ip netip.Addr) bool {
	return slices.ContainsFunc(g.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkAddr is the rule itself.
func (g *guard) checkAddr(ip netip.Addr) *BlockedError {
	ip = ip.WithZone("").Unmap()
	if v4, ok := embedded(ip); ok && g.allowsAddr(ip) {
		// A NAT64 prefix that is allowed opens the IPv4 internet, not the private
		// part of it.
		ip = v4
	}
	if g.allowsAddr(ip) {
		return nil
	}
	if err := g.public.SafeAddr(ip); err != nil || isatap(ip) {
		return &BlockedError{Why: fmt.Sprintf("%s is %s", ip, kindOf(ip)),
			Allow: netip.PrefixFrom(ip, ip.BitLen()).String(), Route: g.route}
	}
	return nil
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded is the IPv4 address within a NAT64 address.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(ip) {
		return ip, false
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// isatap tells of an IPv6 address that tunnels to an IPv4 address of its
// choice: …:0:5efe:a.b.c.d and …:200:5efe:a.b.c.d.
func isatap(ip netip.Addr) bool {
	if !ip.Is6() {
		return false
	}
	b := ip.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

var kinds = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "a cloud's metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud's metadata service"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a cloud's metadata service"},
	{netip.MustParsePrefix("0.0.0.0/8"), "this host or network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/128"), "this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("fc00::/7"), "private (unique local)"},
	{netip.MustParsePrefix("fec0::/10"), "private (site-local)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's shared address (CGNAT)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("64:ff9b::/32"), "an IPv4 address behind NAT64"},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address behind 6to4"},
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address behind Teredo"},
	{netip.MustParsePrefix("::/96"), "an IPv4-compatible address"},
}

func kindOf(ip netip.Addr) string {
	for _, k := range kinds {
		if k.prefix.Contains(ip) {
			return k.what + ", which a notice's url may not reach"
		}
	}
	return "reserved, no address of the public internet"
}

// control is called by the dialer with the address that it is about to connect
// to: there is no lookup left that could answer otherwise.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &BlockedError{Why: "network " + network, Route: g.route}
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{Why: fmt.Sprintf("%.80q is no address", address), Route: g.route}
	}
	if blocked := g.checkAddr(at.Addr()); blocked != nil {
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
		if host, _, err := net.SplitHostPort(addr); err == nil && g.allowsHost(host) {
			return base.DialContext(ctx, network, addr)
		}
		return guarded.DialContext(ctx, network, addr)
	}
}
