package route

import (
	"errors"
	"net/url"
	"slices"
)

// Proxy is an outbound proxy. It may contain credentials, and prints without them.
type Proxy struct{ url *url.URL }

// proxySchemes are the schemes of a proxy. With socks5h and with socks5 the proxy resolves names.
var proxySchemes = []string{"http", "https", "socks5", "socks5h"}

// ParseProxy parses http://, https://, socks5:// and socks5h:// addresses with optional credentials. Its
// error never quotes the address.
func ParseProxy(s string) (*Proxy, error) {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains(proxySchemes, u.Scheme) {
		return nil, errors.New("want http://host:port, https://host:port, socks5://host:port or socks5h://host:port")
	}

	return &Proxy{u}, nil
}

// URL returns the proxy's address with its credentials; nil without a proxy.
func (p *Proxy) URL() *url.URL {
	if p == nil {
		return nil
	}
	return p.url
}

// String returns the address without credentials.
func (p *Proxy) String() string {
	if p == nil {
		return ""
	}
	return p.url.Scheme + "://" + p.url.Host
}

func (p *Proxy) GoString() string { return p.String() }

// MarshalText keeps the credentials out of JSON.
func (p *Proxy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
