package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"
)

// MaxIdle is the longest time for which a connection without a request is kept.
const MaxIdle = 90 * time.Second

// Options of a Pool. Dial, TLS, TLSTimeout, PerHost and Total are required.
type Options struct {
	// Dial opens TCP connections.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// IsLocal reports whether an error of Dial has its cause in this machine. Do returns such an error although the deadline
	// has passed.
	IsLocal func(error) bool
	// TLS has the settings of connections to receivers. HTTP/2 is used only if NextProtos contains it.
	TLS        *tls.Config
	TLSTimeout time.Duration // of a handshake
	Proxy      *Proxy        // nil = none
	// Idle is how long a connection is kept if the receiver announces no time, normally [DefaultIdle].
	Idle time.Duration
	// PerHost and Total limit the idle HTTP/1.1 connections, and Total also the HTTP/2 connections.
	PerHost, Total int
	// MaxAge is the maximum age of connections; 0 = unlimited.
	MaxAge time.Duration
	// Resolver repeats lookups, to find connections to an old address of a name; nil = the system's.
	Resolver *net.Resolver
	// Recheck is the time between two such lookups of a name, normally [DefaultRecheck].
	Recheck time.Duration
}

// Pool sends requests and keeps the connections. It is safe for concurrent use.
type Pool struct {
	o       Options
	idle    *idleConns
	streams *streamConns
	origins *originTable
}

// New returns a Pool. The caller closes it.
func New(o Options) *Pool {
	if o.IsLocal == nil {
		o.IsLocal = func(error) bool { return false }
	}

	p := &Pool{o: o, idle: newIdleConns(o.PerHost, o.Total, o.MaxAge), streams: newStreamConns(o.Total, o.MaxAge)}
	p.origins = newOriginTable(o.Resolver, o.Recheck, p.retire)
	return p
}

// Do sends the request of x and reads the answer. It repeats a request that the receiver has certainly not processed, on
// another connection. But it never repeats a request that the receiver may be processing.
func (p *Pool) Do(ctx context.Context, x *Exchange) error {
	for {
		before := x.Progress.Requests
		again, err := p.try(ctx, x)
		if !again || !x.mayRepeat(ctx, x.Progress.Requests > before) {
			return err
		}

		x.Progress.Restart()
	}
}

// mayRepeat reports whether the attempt may use another connection. sent means that the last one has carried a request,
// or a part of it.
func (x *Exchange) mayRepeat(outer context.Context, sent bool) bool {
	ctx, cancel := x.withDeadline(outer)
	defer cancel()

	switch {
	case ctx.Err() != nil, x.Progress.Requests >= MaxRequests, x.Progress.connections >= maxConnections:
		return false
	}

	return !sent || x.Repeats == nil || x.Repeats.MayRepeat(ctx)
}

func (x *Exchange) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, x.Deadline)
}

// try makes the call on one connection, a kept one if possible. again reports that the receiver has not processed the
// request.
func (p *Pool) try(outer context.Context, x *Exchange) (again bool, err error) {
	o := p.o.Proxy.share(x.Request.Origin)
	if p.o.Proxy.forwards(x.Request.Origin) {
		x.proxy, x.Answer.Forwarded = p.o.Proxy, true
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
func (p *Pool) open(ctx context.Context, x *Exchange, o Origin) (*directConn, *streamConn, error) {
	if !o.Secure {
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

func (p *Pool) takeStream(o Origin) *streamConn {
	now := time.Now()
	c := p.streams.take(o, now)
	if c != nil {
		p.origins.used(c.state, now)
	}

	return c
}

// connect opens a connection to an origin, with TLS if the origin needs it.
func (p *Pool) connect(ctx context.Context, x *Exchange, o Origin) (*directConn, *streamConn, error) {
	x.Progress.connections++
	tcp, conn, err := p.dialProxy(ctx, x, o)
	if err != nil {
		return nil, nil, p.connectError(ctx, x, err)
	}

	s := p.origins.connected(o, time.Now())
	var at *peer
	if p.o.Proxy == nil {
		at = s.at(tcp)
	}

	if !o.Secure {
		return newDirectConn(tcp, conn, s, at, p.o.Idle), nil, nil
	}

	x.Progress.advance(StageTLS)
	secure := tls.Client(conn, p.tlsFor(o, s))
	if err := handshake(ctx, secure, p.o.TLSTimeout); err != nil {
		_ = tcp.Close()
		return nil, nil, p.connectError(ctx, x, err)
	}

	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		p.streams.forget(o)
		return newDirectConn(tcp, secure, s, at, p.o.Idle), nil, nil
	}

	c, err := newStreamConn(secure, s, at)
	if err != nil {
		_ = tcp.Close()
		return nil, nil, p.connectError(ctx, x, err)
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
func (p *Pool) connectError(ctx context.Context, x *Exchange, err error) error {
	if ctx.Err() == nil || p.o.IsLocal(err) {
		return err
	}

	x.Answer.Expired = errors.Is(ctx.Err(), context.DeadlineExceeded)
	return ctx.Err()
}

// tlsFor returns the TLS settings of a connection to an origin.
func (p *Pool) tlsFor(o Origin, s *originState) *tls.Config {
	conf := p.o.TLS.Clone()
	conf.ServerName = o.serverName()
	if s.http1.Load() {
		conf.NextProtos = []string{"http/1.1"}
	}

	return conf
}

// retire closes the idle connections of an origin to addresses that are gone. Running exchanges end normally.
func (p *Pool) retire(s *originState) {
	p.idle.retire(s.origin)
	p.streams.retire(s.origin)
}

// Handshake opens a connection to an origin and closes it. It returns the error of the connection or of the TLS handshake.
func (p *Pool) Handshake(ctx context.Context, o Origin) error {
	one, many, err := p.connect(ctx, &Exchange{Request: &Request{Origin: o}, Progress: &Progress{}}, o)
	switch {
	case one != nil:
		one.close()
	case many != nil:
		many.cc.Release()
	}

	return err
}

// CloseOldest closes up to n of the least recently used idle connections of each protocol.
func (p *Pool) CloseOldest(n int) {
	p.idle.closeOldest(n)
	p.streams.closeOldest(n)
}

// Close closes the idle connections. Exchanges that are in flight end normally.
func (p *Pool) Close() {
	p.origins.close()
	p.streams.close()
	p.idle.close()
}

// readBody reads the answer's body. If the result needs only the status, a receiver that holds the body back
// is cut off after bodyDrain, so that it does not hold the slot.
func (x *Exchange) readBody(resp *http.Response, cancel context.CancelFunc) {
	defer func() { _ = resp.Body.Close() }()

	if resp.StatusCode == http.StatusSwitchingProtocols { // a stream, not an answer
		return
	}

	if x.StatusOnly && resp.ContentLength != 0 {
		stop := time.AfterFunc(bodyDrain, cancel)
		defer stop.Stop()
	}

	x.Answer.readBody(resp.Body, resp.ContentLength)
}
