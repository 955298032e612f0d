package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"notifier/internal/notice"
)

// Hosts is a list of hosts, some with all the names below them. The zero value
// holds none.
type Hosts struct {
	all   bool
	names []string // in the form of notice.Host
	below []string // ".example.com" of *.example.com
}

// ParseHosts reads hosts, *.domain (the names below a domain, not the domain
// itself) and *, comma-separated.
func ParseHosts(s string) (Hosts, error) {
	var h Hosts
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "*" {
			h.all = true
			continue
		}
		if !h.add(part) {
			return Hosts{}, fmt.Errorf("%.80q is none of: a host such as shop.example, *.domain, an address, * for all", part)
		}
	}
	return h, nil
}

func (h *Hosts) add(entry string) bool {
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

// Match reports whether a host, in the form of notice.Host, is among them.
func (h *Hosts) Match(host string) bool {
	return h.all || slices.Contains(h.names, host) ||
		slices.ContainsFunc(h.below, func(s string) bool { return strings.HasSuffix(host, s) })
}

// Empty reports whether the list holds nothing.
func (h *Hosts) Empty() bool { return !h.all && len(h.names)+len(h.below) == 0 }

// list spells the entries, sorted.
func (h *Hosts) list() []string {
	out := slices.Clone(h.names)
	for _, s := range h.below {
		out = append(out, "*"+s)
	}
	if h.all {
		out = append(out, "*")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// String spells the list in one form for all spellings that mean the same.
func (h Hosts) String() string { return strings.Join(h.list(), ",") }

// Allow is what a notice's own url may reach although it is private.
type Allow struct {
	hosts    Hosts
	networks []netip.Prefix
}

// errAllow says what an entry may be.
var errAllow = errors.New("is none of: a network such as 10.0.0.0/8, an address, a host, *.domain")

// ParseAllow reads networks, addresses, hosts and *.domain, comma-separated.
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

// Host reports whether the operator named this host, given in the form of
// notice.Host: then whatever address it has may be called.
func (a *Allow) Host(host string) bool { return a.hosts.Match(host) }

// Addr reports whether an address lies in one of the networks.
func (a *Allow) Addr(ip netip.Addr) bool {
	return slices.ContainsFunc(a.networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Empty reports whether nothing is allowed.
func (a *Allow) Empty() bool { return len(a.networks) == 0 && a.hosts.Empty() }

// String spells what is allowed in one form for all spellings that mean the same.
func (a Allow) String() string {
	all := a.hosts.list()
	for _, p := range a.networks {
		all = append(all, p.String())
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}
