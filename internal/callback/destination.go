package callback

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
)

// destination is the parsed target of a call: the address as given, its normalized host, and the parts of it
// that the request contains.
type destination struct {
	url  *url.URL
	call *url.URL // url with its host normalized; connections are kept by it
	at   route.Origin
	host string // normalized by notice.Host
	port string // host:port, the key of the limits
	// token is the Authorization header of this call, if the route uses access tokens for this destination.
	token string

	origin     transport.Origin
	hostHeader string
	uri        string // path and query as sent
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
	to.origin = transport.Origin{Addr: at.Addr(), Secure: at.Scheme == "https"}
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

// addQuery adds parameters to the query that is sent.
func (d *destination) addQuery(query string) {
	u := *d.call
	u.RawQuery = joinQuery(u.RawQuery, query)
	d.call, d.uri = &u, u.RequestURI()
}

// hostHeader returns the Host header that net/http would send for a host as given.
func hostHeader(given string) string {
	h, err := httpguts.PunycodeHostPort(given)
	if err != nil || !httpguts.ValidHostHeader(h) {
		return "" // unreachable: notice.Host refuses such hosts
	}

	if open, end := strings.IndexByte(h, '['), strings.LastIndexByte(h, ']'); open == 0 && end > 0 { // a zone is for the sender alone
		if zone := strings.LastIndexByte(h[:end], '%'); zone > 0 {
			return h[:zone] + h[end:]
		}
	}

	return h
}
