package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"notifier/internal/notice"
)

// hostList is a list of hosts, and of domains that stand for all names below them. The zero value is empty.
type hostList struct {
	names []string // normalized by notice.Host
	below []string // ".example.com" for *.example.com
}

// add adds a host, or *.domain for the names below the domain, without the domain itself.
func (h *hostList) add(entry string) bool {
	name, below := strings.CutPrefix(entry, "*.")
	name, err := notice.Host(name)
	if err != nil || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return false
	}

	_, notIP := netip.ParseAddr(name)
	switch {
	case notIP != nil && notice.EndsInNumber(name), notIP == nil && below:
		return false
	case below:
		h.below = append(h.below, "."+name)
	default:
		h.names = append(h.names, name)
	}

	return true
}

// Match reports whether the list contains a host that is normalized by notice.Host.
func (h *hostList) Match(host string) bool {
	return slices.Contains(h.names, host) ||
		slices.ContainsFunc(h.below, func(s string) bool { return strings.HasSuffix(host, s) })
}

// list returns the entries as text, sorted.
func (h *hostList) list() []string {
	out := slices.Clone(h.names)
	for _, s := range h.below {
		out = append(out, "*"+s)
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// Allow lists the private hosts and networks that a notice's url may reach.
type Allow struct {
	hosts    hostList
	networks []netip.Prefix
}

// errAllow lists the forms of an entry.
var errAllow = errors.New("is none of: a network such as 10.0.0.0/8, an address, a host, *.domain")

// ParseAllow parses networks, addresses, hosts and *.domain, separated by commas.
func ParseAllow(s string) (Allow, error) {
	var a Allow
	for part := range strings.SplitSeq(s, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if p, err := netip.ParsePrefix(part); err == nil {
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}

			a.networks = append(a.networks, p.Masked())
			continue
		}

		if ip, err := netip.ParseAddr(strings.Trim(part, "[]")); err == nil {
			ip = ip.WithZone("").Unmap()
			a.networks = append(a.networks, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}

		if !a.hosts.add(part) {
			return Allow{}, fmt.Errorf("%.80q %w", part, errAllow)
		}
	}

	return a, nil
}

// Host reports whether the operator listed this host, normalized by notice.Host. Then each of its addresses
// may be called.
func (a *Allow) Host(host string) bool { return a.hosts.Match(host) }

// Addr reports whether one of the networks contains an address.
func (a *Allow) Addr(ip netip.Addr) bool {
	return slices.ContainsFunc(a.networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// String returns one form for all spellings of the same list.
func (a Allow) String() string {
	all := a.hosts.list()
	for _, p := range a.networks {
		all = append(all, p.String())
	}

	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}
