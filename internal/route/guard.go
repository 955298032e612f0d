package route

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"code.dny.dev/ssrf"

	"notifier/internal/notice"
)

// BlockedError means that a target may not be called. It contains the reason, and the setting that would
// allow the target.
type BlockedError struct {
	Why   string
	Allow string // an entry for the route's ALLOW; empty = no entry allows it
	// Literal means that the url itself is forbidden, whatever DNS answers.
	Literal bool
	Route   string
}

func (e *BlockedError) Error() string { return "blocked: " + e.Text() }

// Text returns the error without the prefix "blocked: ".
func (e *BlockedError) Text() string {
	if e.Allow == "" {
		return e.Why
	}
	return fmt.Sprintf("%s; NOTIFIER_ROUTE_%s_ALLOW=%s would allow it", e.Why, EnvName(e.Route), e.Allow)
}

// EnvName returns the name of a route or a client as used in variables.
func EnvName(name string) string { return strings.ReplaceAll(strings.ToUpper(name), "-", "_") }

// public rejects all addresses outside the public internet, by the IANA registries of special-purpose
// addresses.
var public = ssrf.New(ssrf.WithAnyPort(),
	// Azure's metadata and DNS service has a public address.
	ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// CheckTarget returns an error if the route does not allow the url of a notice. host is the host of u as normalized
// by notice.Host. CheckTarget does not use DNS: [Route.CheckAddr] checks the address when the call connects.
func (r *Route) CheckTarget(u *url.URL, host string) error {
	if r.HTTPSOnly && u.Scheme != "https" {
		return &BlockedError{Why: "this route calls only https addresses", Literal: true, Route: r.Name}
	}
	if err := r.checkHost(host); err != nil { // a nil *BlockedError would be a non-nil error
		return err
	}

	return nil
}

func (r *Route) checkHost(host string) *BlockedError {
	if r.Allow.Host(host) {
		return nil
	}

	if ip, err := netip.ParseAddr(host); err == nil {
		blocked := r.CheckAddr(ip)
		if blocked != nil {
			blocked.Literal = true
		}

		return blocked
	}

	// 127.1, 0x7f000001, 2130706433, 0177.0.0.1: some resolvers parse them as addresses.
	if notice.EndsInNumber(host) {
		return &BlockedError{Why: fmt.Sprintf("%.80q is an address in an unusual spelling; write it in dotted form", host),
			Literal: true, Route: r.Name}
	}

	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		if !r.Allow.Addr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			return &BlockedError{Why: host + " is this machine itself", Allow: host, Literal: true, Route: r.Name}
		}
	}

	return nil
}

// CheckAddr reports why an address may not be connected to; nil if it may. The dialer passes the address that
// its socket is about to connect to.
func (r *Route) CheckAddr(ip netip.Addr) *BlockedError {
	ip = ip.WithZone("").Unmap()
	if v4, ok := embedded(ip); ok && r.Allow.Addr(ip) {
		// An allowed NAT64 prefix opens the public IPv4 internet, not the private networks in it.
		ip = v4
	}

	if r.Allow.Addr(ip) {
		return nil
	}

	if err := public.SafeAddr(ip); err != nil || isatap(ip) {
		return &BlockedError{Why: fmt.Sprintf("%s is %s", ip, kindOf(ip)),
			Allow: netip.PrefixFrom(ip, ip.BitLen()).String(), Route: r.Name}
	}

	return nil
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded returns the IPv4 address in a NAT64 address.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(ip) {
		return ip, false
	}

	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// isatap reports whether an IPv6 address tunnels to an IPv4 address of its choice: …:0:5efe:a.b.c.d and
// …:200:5efe:a.b.c.d.
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
	return "reserved, not an address of the public internet"
}
