package auth

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Origin is the client of a request.
type Origin struct {
	// Address is the client's IP address, or that of the last proxy known.
	Address string
	// Secure: the client uses TLS.
	Secure bool
}

// Proxies are the networks of trusted proxies. The zero value trusts none.
type Proxies []netip.Prefix

// Handler makes the origin of each request available to OriginOf.
func (p Proxies) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), originKey{}, p.origin(r))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

type originKey struct{}

// OriginOf is the origin of a request. Without Handler, no proxy is trusted.
func OriginOf(r *http.Request) Origin {
	if o, ok := r.Context().Value(originKey{}).(Origin); ok {
		return o
	}
	return Proxies(nil).origin(r)
}

func (p Proxies) origin(r *http.Request) Origin {
	out := Origin{Address: r.RemoteAddr, Secure: r.TLS != nil}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return out
	}

	address := peer.Addr().Unmap()
	out.Address = address.String()
	if !p.trust(address) {
		return out
	}

	proxies := 0 // beyond the peer
	hops := entries(r.Header.Values("X-Forwarded-For"))

	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parse(hops[i])
		if !ok {
			break
		}

		out.Address = hop.String()
		if !p.trust(hop) {
			break
		}

		proxies++
	}

	if schemes := entries(r.Header.Values("X-Forwarded-Proto")); len(schemes) > 0 {
		// The outermost trusted proxy has seen the client's scheme. Proxies that replace
		// the header leave one entry.
		out.Secure = strings.EqualFold(schemes[max(len(schemes)-1-proxies, 0)], "https")
	}

	return out
}

func (p Proxies) trust(a netip.Addr) bool {
	for _, network := range p {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// entries are the comma-separated entries of all lines of a header.
func entries(lines []string) []string {
	var out []string
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(entry))
		}
	}

	return out
}

// parse reads an entry of X-Forwarded-For: an address, perhaps with a port.
func parse(entry string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(entry, "[]"))
	if err != nil {
		withPort, perr := netip.ParseAddrPort(entry)
		a, err = withPort.Addr(), perr
	}

	return a.Unmap().WithZone(""), err == nil
}

// IsLoopback reports whether a Host header names this machine: localhost or a loopback
// address, with or without a port.
func IsLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}

	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}

	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// LocalOnly reports whether only this machine can reach a listener's address.
func LocalOnly(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || t.IP.IsLoopback()
}
