package notice

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Host returns the normalized form of a host name: lower case, punycode, without a final dot. An IPv6 address gets its
// shortest form, without brackets and zone. s must be only the host, without scheme, port and user.
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
		// The same profile as net/http's, so that the normalized name is the one that is called.
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", invalid("host %.80q is not a public host name", s)
		}
	}

	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if strings.Contains("."+name+".", "..") || len(name) > 253 || strings.ContainsFunc(name, notHost) {
		return "", invalid("host %.80q is neither a name nor an address; want one such as shop.example, without scheme, port and path", s)
	}
	if ip, err := netip.ParseAddr(name); err == nil { // written with a final dot, or in wide digits
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

// notHost reports whether a character cannot be part of a host. Names that DNS can hold but no registry
// sells, such as those with an underscore, are allowed.
func notHost(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("/:@?#[]\\,*%", r) }

// EndsInNumber reports whether a host's last label is a decimal or hexadecimal number. No public name ends
// like that, and some resolvers parse such a name as an address.
func EndsInNumber(host string) bool {
	label := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}
