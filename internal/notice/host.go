package notice

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Host is a host's name in the one form that keys are derived from, lists are
// compared by and limits are kept for, whatever spelling it was given in: lower
// case, punycode, without the final dot; an IPv6 address without brackets and
// zone in its shortest form. It takes the host alone: no scheme, port or user.
func Host(s string) (string, error) {
	name := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok && strings.Contains(inner, ":") {
			name = inner
		}
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.WithZone("").String(), nil
	}
	if !ascii(name) {
		var err error
		// The same profile as net/http's, so that the name is the one that is called.
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", invalid("host %.80q is no name on the internet", s)
		}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if strings.Contains("."+name+".", "..") || len(name) > 253 || strings.ContainsFunc(name, notHost) {
		return "", invalid("host %.80q is no name or address; want one such as shop.example, without scheme, port and path", s)
	}
	if ip, err := netip.ParseAddr(name); err == nil { // spelt with a final dot, or in wide digits
		return ip.WithZone("").String(), nil
	}
	return name, nil
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// notHost tells of what parts a host from the rest of an address. Names that DNS
// holds and no registry would sell, such as those with an underscore, pass.
func notHost(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("/:@?#[]\\,*%", r) }

// EndsInNumber reports whether a host's last label is a number, decimal or hex:
// no name on the internet is like that, and some resolvers read an address in it.
func EndsInNumber(host string) bool {
	label := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}
