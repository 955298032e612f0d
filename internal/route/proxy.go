package route

import (
	"errors"
	"net/url"
	"slices"
)

// Proxy is an outbound proxy. It may hold credentials, and prints without them.
type Proxy struct{ url *url.URL }

// The schemes of a proxy. With socks5h the proxy resolves names, and so it does
// with socks5: both are read alike by net/http.
var proxySchemes = []string{"http", "https", "socks5", "socks5h"}

// ParseProxy reads http://, https://, socks5:// and socks5h://, user and
// password within. Its error never quotes what was given.
func ParseProxy(s string) (*Proxy, error) {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains(proxySchemes, u.Scheme) {
		return nil, errors.New("want http://host:port, https://host:port, socks5://host:port or socks5h://host:port")
	}
	return &Proxy{u}, nil
}

// URL is the proxy's address with its credentials; nil of no proxy.
func (p *Proxy) URL() *url.URL {
	if p == nil {
		return nil
	}
	return p.url
}

// String shows where the proxy is.
func (p *Proxy) String() string {
	if p == nil {
		return ""
	}
	return p.url.Scheme + "://" + p.url.Host
}

// GoString is String.
func (p *Proxy) GoString() string { return p.String() }

// MarshalText keeps the credentials out of JSON.
func (p *Proxy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
