package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"notifier/internal/route"
)

// Limits of the transports. The route's host concurrency bounds the open connections of a destination. These
// limits bound the idle connections.
const (
	idlePerHost      = 128
	idleTimeout      = 90 * time.Second // of HTTP/2; for other connections the maximum, see keptIdle
	keepAlive        = 30 * time.Second
	maxResponseHeads = 64 << 10
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

// transportPool holds the connections of all routes with the same transportKey.
type transportPool struct {
	dial       dialer
	conf       *tls.Config // offers HTTP/2 and HTTP/1.1
	tlsTimeout time.Duration
	keep       time.Duration
	proxy      *proxy // nil: none

	idle    *idleConns
	streams *streamConns
	origins *originTable
}

// Limits of one attempt, for receivers that refuse requests or close connections. Without them one attempt sent 7,160
// requests to a receiver that answers each connection with GOAWAY.
const (
	maxRequests    = 2
	maxConnections = 3
)

// exchange is one call in progress.
type exchange struct {
	call  *call
	tr    *tracker
	f     *facts
	end   time.Time // zero: no deadline
	drain bool      // the result needs no body
	seen  *Exchange // receives the request and the answer's head; may be nil
	pass  *pass     // limits a request that is sent again; nil: no limits
}

// do sends the request of x and reads the answer. It repeats a request that the receiver has certainly not processed, on
// another connection. But it never repeats a request that the receiver may be processing.
func (p *transportPool) do(ctx context.Context, x *exchange) error {
	for {
		before := x.tr.requests
		again, err := p.try(ctx, x)
		if !again || !x.mayRepeat(ctx, x.tr.requests > before) {
			return err
		}

		x.tr.restart()
	}
}

// mayRepeat reports whether the attempt may use another connection. sent means that the last one has carried a request,
// or a part of it.
func (x *exchange) mayRepeat(outer context.Context, sent bool) bool {
	ctx, cancel := x.withDeadline(outer)
	defer cancel()

	switch {
	case ctx.Err() != nil, x.tr.requests >= maxRequests, x.tr.connections >= maxConnections:
		return false
	}

	return !sent || x.pass == nil || x.pass.again(ctx) == nil
}

func (x *exchange) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, x.end)
}

// try makes the call on one connection, a kept one if possible. again reports that the receiver has not processed the
// request.
func (p *transportPool) try(outer context.Context, x *exchange) (again bool, err error) {
	o := p.proxy.share(x.call.to.origin)
	if p.proxy.forwards(x.call.to.origin) {
		x.call.proxy, x.f.forwarded = p.proxy, true
	}

	if c := p.idle.take(o); c != nil {
		p.origins.used(c.state, c.taken)
		return p.exchange(outer, c, x, true)
	}

	ctx, cancel := x.withDeadline(outer)
	defer cancel()

	one, many, err := p.open(ctx, x, o)
	switch {
	case err != nil:
		return false, err
	case many != nil:
		return p.overStream(ctx, many, x)
	}

	return p.exchange(outer, one, x, false)
}

// open returns an HTTP/2 connection with a reserved stream, or a new HTTP/1.1 connection.
func (p *transportPool) open(ctx context.Context, x *exchange, o origin) (*directConn, *streamConn, error) {
	if !o.secure {
		return p.connect(ctx, x, o)
	}
	if c := p.takeStream(o); c != nil {
		return nil, c, nil
	}

	done, wait := p.streams.dial(o)
	defer done()

	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}

		if c := p.takeStream(o); c != nil {
			return nil, c, nil
		}
	}

	return p.connect(ctx, x, o)
}

func (p *transportPool) takeStream(o origin) *streamConn {
	now := time.Now()
	c := p.streams.take(o, now)
	if c != nil {
		p.origins.used(c.state, now)
	}

	return c
}

// connect opens a connection to an origin, with TLS if the origin needs it.
func (p *transportPool) connect(ctx context.Context, x *exchange, o origin) (*directConn, *streamConn, error) {
	x.tr.connections++
	tcp, conn, err := p.dialProxy(ctx, x, o)
	if err != nil {
		return nil, nil, x.connectError(ctx, err)
	}

	s := p.origins.connected(o, time.Now())
	var at *peer
	if p.proxy == nil {
		at = s.at(tcp)
	}

	if !o.secure {
		return newDirectConn(tcp, conn, s, at, p.keep), nil, nil
	}

	x.tr.advance(stageTLS)
	secure := tls.Client(conn, p.tlsFor(o, s))
	if err := handshake(ctx, secure, p.tlsTimeout); err != nil {
		_ = tcp.Close()
		return nil, nil, x.connectError(ctx, err)
	}

	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		p.streams.forget(o)
		return newDirectConn(tcp, secure, s, at, p.keep), nil, nil
	}

	c, err := newStreamConn(secure, s, at)
	if err != nil {
		_ = tcp.Close()
		return nil, nil, x.connectError(ctx, err)
	}

	_ = c.cc.Reserve() // fails if the receiver has closed the connection already; the request reports that
	p.streams.put(c)
	return nil, c, nil
}

func handshake(ctx context.Context, c *tls.Conn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	err := c.HandshakeContext(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}

	return err
}

// connectError returns the error of a failed connection. A dialer reports the end of ctx as a network failure.
func (x *exchange) connectError(ctx context.Context, err error) error {
	if ctx.Err() == nil || exhausted(err) != "" {
		return err
	}

	x.f.expired = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return ctx.Err()
}

// tlsFor returns the TLS settings of a connection to an origin.
func (p *transportPool) tlsFor(o origin, s *originState) *tls.Config {
	conf := p.conf.Clone()
	conf.ServerName = o.serverName()
	if s.http1.Load() {
		conf.NextProtos = []string{"http/1.1"}
	}

	return conf
}

// retire closes the idle connections of an origin to addresses that are gone. Running exchanges end normally.
func (p *transportPool) retire(s *originState) {
	p.idle.retire(s.origin)
	p.streams.retire(s.origin)
}

func (p *transportPool) close() {
	p.origins.close()
	p.streams.close()
	p.idle.close()
}

// readBody reads the answer's body. If the result needs only the status, a receiver that holds the body back
// is cut off after bodyDrain, so that it does not hold the slot.
func (x *exchange) readBody(resp *http.Response, cancel context.CancelFunc) {
	defer func() { _ = resp.Body.Close() }()

	if resp.StatusCode == http.StatusSwitchingProtocols { // a stream, not an answer
		return
	}

	if x.drain && resp.ContentLength != 0 {
		stop := time.AfterFunc(bodyDrain, cancel)
		defer stop.Stop()
	}

	readBody(x.f, resp.Body, resp.ContentLength)
}

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// newTransport creates the connection pool for a route's TLS files, proxy and guard.
func (h *Handler) newTransport(r *route.Route, g *guard) (*transportPool, error) {
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
		maxAge = proxiedAge
	case g != nil:
		dial = g.dialer(base)
	}

	if h.dial != nil {
		dial = h.dial
	}

	dial = h.own.dialer(dial)
	perHost, total := max(idlePerHost, h.opts.Concurrency), max(1024, 4*h.opts.Concurrency)
	pool := &transportPool{dial: dial, conf: conf, tlsTimeout: h.opts.TLSTimeout, keep: h.keep}
	if pool.proxy, err = newProxy(proxyURL, conf); err != nil {
		return nil, err
	}

	conf.NextProtos = []string{"h2", "http/1.1"}
	switch {
	case r.TLSCompatible:
		acceptOlderTLS(conf, r)
	case r.HTTP1:
		conf.NextProtos = conf.NextProtos[1:]
	}

	pool.idle, pool.streams = newIdleConns(perHost, total, maxAge), newStreamConns(total, maxAge)
	pool.origins = newOriginTable(&h.own.resolver.Resolver, h.recheck, pool.retire)
	return pool, nil
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
