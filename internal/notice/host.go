package notice

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
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

// ErrHost is wrapped by the errors of HostPort.
var ErrHost = errors.New("not a host")

// HostPort returns the normalized form of a host with or without a port: a name as [Host] returns it, or name:port. An
// IPv6 address with a port is in brackets.
func HostPort(s string) (string, error) {
	name, port := s, ""
	if strings.Contains(s, "/") {
		return "", fmt.Errorf("%w: want a name such as shop.example, without https:// and a path", ErrHost)
	}

	if i := strings.LastIndexByte(s, ':'); i >= 0 && (strings.IndexByte(s, ':') == i || strings.HasSuffix(s[:i], "]")) {
		name, port = s[:i], s[i+1:]
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return "", fmt.Errorf("%w: the port %.20q is not a number from 1 to 65535", ErrHost, port)
		}
	}

	host, err := Host(name)
	if err != nil || host == "" {
		return "", fmt.Errorf("%w: want a name such as shop.example, or with a port such as shop.example:8443", ErrHost)
	}
	if port == "" {
		return host, nil
	}

	return net.JoinHostPort(host, port), nil
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
