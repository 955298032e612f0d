package callback

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// destination is where a call goes: the address as it was given, its host in the
// one form that everything goes by which tells hosts apart, and what of it stands
// in a request.
type destination struct {
	url  *url.URL
	call *url.URL // the same with the host in one form, by which connections are kept
	at   route.Origin
	host string // in the form of notice.Host
	port string // host:port, by which limits are kept
	// token is the Authorization of this call, if the route has access tokens for it.
	token string

	origin     origin
	hostHeader string
	uri        string // path and query as they are sent
}

// origin is what calls have in common that may share a connection of one transport.
type origin struct {
	addr   string // host:port to connect to
	secure bool   // TLS
}

// serverName is the name that a certificate has to be for.
func (o origin) serverName() string {
	host, _, _ := net.SplitHostPort(o.addr) // it was joined
	return host
}

func destinationOf(u *url.URL) (destination, error) {
	host, err := notice.Host(u.Hostname())
	if err != nil {
		return destination{}, err
	}
	at := route.OriginOf(u, host)
	to := destination{url: u, call: u, at: at, host: host, port: net.JoinHostPort(host, at.Port), uri: u.RequestURI()}
	if strings.ContainsFunc(to.uri, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return destination{}, fmt.Errorf("the address of host %s holds a control character", host)
	}
	to.hostHeader = hostHeader(u.Host)
	to.origin = origin{addr: at.Addr(), secure: at.Scheme == "https"}
	host = at.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() != "" {
		host += ":" + at.Port
	}
	if host != u.Host {
		c := *u
		c.Host, to.call = host, &c
	}
	return to, nil
}

// hostHeader is the Host header of a request to a host as it was given: what
// net/http makes of it.
func hostHeader(given string) string {
	h, err := httpguts.PunycodeHostPort(given)
	if err != nil || !httpguts.ValidHostHeader(h) {
		return "" // no host passes notice.Host for which this holds
	}
	if open, end := strings.IndexByte(h, '['), strings.LastIndexByte(h, ']'); open == 0 && end > 0 { // a zone is for the sender alone
		if zone := strings.LastIndexByte(h[:end], '%'); zone > 0 {
			return h[:zone] + h[end:]
		}
	}
	return h
}
