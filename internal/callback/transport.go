package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
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
)

// transportKey holds the settings that routes must have in common to share connections. allow is one of them, because
// addresses are checked only when a connection is opened.
type transportKey struct {
	ca, cert, key, proxy string
	guarded              bool
	allow                string
}

// maxNewHosts is the number of new hosts after which a transport of net/http is replaced. The transport leaks about
// 700 bytes for each unreachable host: it keeps requests that wait for a connection (Transport.idleConnWait).
const maxNewHosts = 16384

// transportPool holds the transports of all routes with the same transportKey.
type transportPool struct {
	fresh  func() *http.Transport
	most   int
	direct *direct // nil behind a proxy
	only   transportKind

	mu       sync.Mutex
	now      *http.Transport
	newHosts int                 // first calls to a host, including hosts that were forgotten since
	http1    map[origin]struct{} // origins with TLS whose last answer through net/http was HTTP/1
}

func newTransportPool(fresh func() *http.Transport) *transportPool {
	return &transportPool{fresh: fresh, most: maxNewHosts, now: fresh(), http1: map[origin]struct{}{}}
}

// transportKind selects the transport of a call. Only tests use other values than anyTransport.
type transportKind int

const (
	anyTransport transportKind = iota
	onlyDirect
	onlyNetHTTP
)

// isDirect reports whether the direct transport makes the call: it has no TLS, or the receiver was offered
// HTTP/2 and chose HTTP/1.1.
func (p *transportPool) isDirect(o origin) bool {
	switch {
	case p.direct == nil || p.only == onlyNetHTTP:
		return false
	case !o.secure || p.only == onlyDirect:
		return true
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	_, ok := p.http1[o]
	return ok
}

// learn records the HTTP version in which an origin with TLS has answered net/http.
func (p *transportPool) learn(o origin, major int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if major != 1 {
		delete(p.http1, o)
		return
	}

	if len(p.http1) >= p.most {
		clear(p.http1) // the next calls fill it again
	}

	p.http1[o] = struct{}{}
}

func (p *transportPool) forget(o origin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.http1, o)
}

// transport returns the net/http transport for a call. first means that the host was not called before.
func (p *transportPool) transport(first bool) *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()

	if first {
		if p.newHosts++; p.newHosts > p.most {
			old := p.now
			p.now, p.newHosts = p.fresh(), 1
			old.CloseIdleConnections() // running calls close their connections when they end
		}
	}

	return p.now
}

func (p *transportPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.CloseIdleConnections()
	if p.direct != nil {
		p.direct.idle.close()
	}
}

// viaNetHTTP makes a call with net/http's transport.
func (p *transportPool) viaNetHTTP(outer context.Context, x *exchange) error {
	ctx, cancel := outer, context.CancelFunc(nil)
	if x.end.IsZero() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithDeadline(ctx, x.end)
	}

	defer cancel()

	req := x.call.request(httptrace.WithClientTrace(ctx, x.tr.trace(x.seen != nil)))
	resp, err := p.roundTrip(req, x.tr)
	if err == nil {
		x.tr.set(stageBody)
		x.f.status, x.f.header = resp.StatusCode, resp.Header
		if x.seen != nil {
			x.seen.answer(resp)
		}

		if o := x.call.to.origin; o.secure && p.direct != nil {
			p.learn(o, resp.ProtoMajor)
		}

		x.readBody(resp, cancel)
	}

	x.f.expired = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return err
}

// roundTrip sends the request. It repeats the request if a kept connection turned out to be closed before all
// was written, as direct.do does.
func (p *transportPool) roundTrip(req *http.Request, tr *tracker) (*http.Response, error) {
	t := p.transport(tr.first)
	for {
		resp, err := t.RoundTrip(req)
		if err == nil {
			if u := tr.on.Load(); u != nil {
				u.readKeepAlive(resp.Header)
			}
			return resp, nil
		}

		if !tr.unsent(err) || req.Context().Err() != nil {
			return nil, err
		}

		again := *req
		again.Body = bodyOf(req)
		tr.restart()
		req = &again
	}
}

// bodyOf returns the body of a request for another try.
func bodyOf(req *http.Request) io.ReadCloser {
	if req.GetBody == nil {
		return empty{}
	}

	body, _ := req.GetBody() // cannot fail: it reads from memory
	return body
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

// newTransport creates the transports for a route's TLS files, proxy and guard.
func (h *Handler) newTransport(r *route.Route, g *guard) (*transportPool, error) {
	proxy := r.Proxy.URL()
	conf, err := tlsConfig(r)
	if err != nil {
		return nil, err
	}

	base := &net.Dialer{Timeout: h.opts.ConnectTimeout, KeepAlive: keepAlive, Resolver: h.opts.Resolver}
	dial := base.DialContext
	// All connections go to the proxy, which the operator has configured.
	if g != nil && proxy == nil {
		dial = g.dialer(base)
	}

	if h.dial != nil {
		dial = h.dial
	}

	perHost, total := max(idlePerHost, h.opts.Concurrency), max(1024, 4*h.opts.Concurrency)
	offered := conf.Clone()
	pool := newTransportPool(func() *http.Transport {
		t := &http.Transport{
			DialContext:            keepConns(dial, h.keep),
			TLSClientConfig:        offered.Clone(),
			TLSHandshakeTimeout:    h.opts.TLSTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           total,
			MaxIdleConnsPerHost:    perHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxResponseHeads,
			// No compression is requested. Bodies that are compressed nevertheless are decoded with a size
			// limit (decoded).
			DisableCompression: true,
			// A ping finds a connection that no longer answers, before the timeouts of all calls on it.
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
	})
	if pool.only = h.only; proxy == nil {
		conf.NextProtos = []string{"http/1.1"}
		pool.direct = &direct{dial: dial, conf: conf, tlsTimeout: h.opts.TLSTimeout, keep: h.keep, idle: newIdleConns(perHost, total)}
	}

	return pool, nil
}

// proxyError means that the proxy refused to connect to the target.
type proxyError struct{ status int }

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy answered %d %s to CONNECT", e.status, http.StatusText(e.status))
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
