package callback

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"notifier/internal/route"
	"notifier/internal/transport"
)

// Limits of the transports. The route's host concurrency bounds the open connections of a destination. These
// limits bound the idle connections.
const (
	idlePerHost = 128
	keepAlive   = 30 * time.Second
	// proxiedAge is the maximum age of a connection through a proxy. The proxy resolves the name, so a change of the
	// address is not visible here.
	proxiedAge = 5 * time.Minute
)

// transportKey holds the settings that routes must have in common to share connections. allow is one of them, because
// addresses are checked only when a connection is opened.
type transportKey struct {
	ca, cert, key, proxy string
	guarded              bool
	allow                string
	http1, olderTLS      bool
}

// newTransport creates the connection pool for a route's TLS files, proxy and guard.
func (h *Handler) newTransport(r *route.Route, g *guard) (*transport.Pool, error) {
	proxyURL := r.Proxy.URL()
	conf, err := tlsConfig(r)
	if err != nil {
		return nil, err
	}

	base := &net.Dialer{Timeout: h.opts.ConnectTimeout, KeepAlive: keepAlive, Resolver: &h.own.resolver.Resolver}
	dial := base.DialContext
	maxAge := time.Duration(0)
	switch {
	case proxyURL != nil: // all connections go to the proxy, which the operator has configured
		maxAge = h.proxiedAge
	case g != nil:
		dial = g.dialer(base)
	}

	if h.dial != nil {
		dial = h.dial
	}

	proxy, err := transport.NewProxy(proxyURL, conf)
	if err != nil {
		return nil, err
	}

	conf.NextProtos = []string{"h2", "http/1.1"}
	switch {
	case r.TLSCompatible:
		acceptOlderTLS(conf, r)
	case r.HTTP1:
		conf.NextProtos = conf.NextProtos[1:]
	}

	return transport.New(transport.Options{Dial: h.own.dialer(dial), IsLocal: isShortage, TLS: conf, TLSTimeout: h.opts.TLSTimeout,
		Proxy: proxy, Idle: h.keep, PerHost: max(idlePerHost, h.opts.Concurrency), Total: max(1024, 4*h.opts.Concurrency), MaxAge: maxAge,
		Resolver: &h.own.resolver.Resolver, Recheck: h.recheck}), nil
}

// tlsConfig reads a route's TLS files. The certificates of the CA file are trusted in addition to the
// system's.
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
			return nil, fmt.Errorf("CA file %s contains no certificate in PEM form", r.CAFile)
		}

		conf.RootCAs = pool
	}

	if (r.CertFile == "") != (r.KeyFile == "") {
		return nil, errors.New("client certificate: set both CERT_FILE and KEY_FILE, one is missing")
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
