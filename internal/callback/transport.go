package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"notifier/internal/route"
)

// Limits of the transports. A destination's open connections are bounded by the
// route's host concurrency; these bound what stays open between calls.
const (
	idlePerHost      = 128
	idleTimeout      = 90 * time.Second // of HTTP/2, and at most of others; see keptIdle
	keepAlive        = 30 * time.Second
	maxResponseHeads = 64 << 10
)

// transportKey is what two routes must have in common to share connections. The
// guard's part matters: a kept connection was checked when it was made, by the
// permissions of the route that made it.
type transportKey struct {
	ca, cert, key, proxy string
	guarded              bool
	allow                string
}

// maxNewHosts is how many hosts a transport calls for the first time before another
// takes its place. net/http keeps what waited for a connection to a host
// (Transport.idleConnWait) until one to that host becomes idle: of a host that
// cannot be reached, for ever. A producer that names hosts at random would fill the
// memory with them, 700 bytes each.
const maxNewHosts = 16384

// transportPool is the transport of routes that have its key in common.
type transportPool struct {
	fresh func() *http.Transport
	most  int

	mu       sync.Mutex
	now      *http.Transport
	newHosts int // hosts called for the first time, some of them again after they were forgotten
}

func newTransportPool(fresh func() *http.Transport) *transportPool {
	return &transportPool{fresh: fresh, most: maxNewHosts, now: fresh()}
}

// transport is the one to make a call with.
func (p *transportPool) transport(first bool) *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		if p.newHosts++; p.newHosts > p.most {
			old := p.now
			p.now, p.newHosts = p.fresh(), 1
			old.CloseIdleConnections() // and those that are in use, when they are not
		}
	}
	return p.now
}

func (p *transportPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.CloseIdleConnections()
}

// newTransport makes a transport after a route's TLS files, proxy and guard.
func (h *Handler) newTransport(r *route.Route, g *guard) (*transportPool, error) {
	proxy := r.Proxy.URL()
	conf, err := tlsConfig(r)
	if err != nil {
		return nil, err
	}
	base := &net.Dialer{Timeout: h.opts.ConnectTimeout, KeepAlive: keepAlive, Resolver: h.opts.Resolver}
	dial := base.DialContext
	// Behind a proxy every connection goes to the proxy, the operator's own.
	if g != nil && proxy == nil {
		dial = g.dialer(base)
	}
	if h.dial != nil {
		dial = h.dial
	}
	dial = keepConns(dial, h.keep)
	return newTransportPool(func() *http.Transport {
		t := &http.Transport{
			DialContext:            dial,
			TLSClientConfig:        conf.Clone(),
			TLSHandshakeTimeout:    h.opts.TLSTimeout,
			ResponseHeaderTimeout:  h.opts.HeaderTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           max(1024, 4*h.opts.Concurrency),
			MaxIdleConnsPerHost:    max(idlePerHost, h.opts.Concurrency),
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxResponseHeads,
			// Decoding is done by us, with a limit; asking for it is not done at all.
			DisableCompression: true,
			// A connection that went silent is found by a ping, not by the timeouts of
			// all the calls on it.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		}
		if proxy != nil {
			t.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
			t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
				if res.StatusCode != http.StatusOK {
					return &proxyError{status: res.StatusCode}
				}
				return nil
			}
		}
		return t
	}), nil
}

// proxyError: the proxy refused to connect to the target.
type proxyError struct{ status int }

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy answered %d %s to CONNECT", e.status, http.StatusText(e.status))
}

// tlsConfig reads a route's TLS files. The certificates of the CA file count in
// addition to the system's.
func tlsConfig(r *route.Route) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1024)}
	if r.CAFile != "" {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA file %s holds no certificate in PEM form", r.CAFile)
		}
		conf.RootCAs = pool
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		return nil, errors.New("client certificate: CERT_FILE and KEY_FILE belong together, and one is missing")
	}
	if r.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w", r.CertFile, r.KeyFile, err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}
