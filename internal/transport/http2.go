package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// streamConn is an HTTP/2 connection. Many exchanges use it at the same time. http.ClientConn sends each request once,
// and http.Transport would repeat a request without limit if the receiver answers each of them with GOAWAY.
type streamConn struct {
	cc     *http.ClientConn
	secure *tls.Conn
	state  *originState
	peer   *peer
	born   time.Time
	used   atomic.Bool
	Links[streamConn]
}

func (c *streamConn) ByUseLinks() *Links[streamConn] { return &c.Links }

// newStreamConn starts HTTP/2 on a connection that has negotiated it.
func newStreamConn(secure *tls.Conn, s *originState, p *peer) (*streamConn, error) {
	c := &streamConn{secure: secure, state: s, peer: p, born: time.Now()}
	t := &http.Transport{
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return secure, nil },
		ForceAttemptHTTP2:      true,
		IdleConnTimeout:        MaxIdle,
		MaxResponseHeaderBytes: MaxHead,
		// No compression is requested. Bodies that are compressed nevertheless are decoded with a size limit by the caller.
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			// A ping finds a connection that no longer answers, before the timeouts of all calls on it.
			SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
		},
	}

	var err error
	c.cc, err = t.NewClientConn(context.Background(), "https", s.origin.Addr)
	return c, err
}

// retire closes the connection as soon as its running exchanges have ended. The caller has removed it from the pool.
func (c *streamConn) retire() {
	closeUnused := func(cc *http.ClientConn) {
		if cc.InFlight() == 0 {
			_ = cc.Close()
		}
	}
	c.cc.SetStateHook(closeUnused)
	closeUnused(c.cc)
}

// streamConns holds the HTTP/2 connections of a transport.
type streamConns struct {
	total  int
	maxAge time.Duration // 0: unlimited

	mu     sync.Mutex
	by     map[Origin]*streamOrigin
	all    ByUse[streamConn, *streamConn]
	closed bool
}

// streamOrigin holds the connections to one origin. It remains while the origin speaks HTTP/2, also without connections.
type streamOrigin struct {
	conns    []*streamConn
	dialling chan struct{} // closed when the call that is connecting has finished; nil: none is
}

func newStreamConns(total int, maxAge time.Duration) *streamConns {
	return &streamConns{total: total, maxAge: maxAge, by: map[Origin]*streamOrigin{}}
}

// take returns a connection with a reserved stream, or nil.
func (p *streamConns) take(o Origin, now time.Time) *streamConn {
	p.mu.Lock()
	defer p.mu.Unlock()

	so := p.by[o]
	if so == nil {
		return nil
	}

	for i := len(so.conns) - 1; i >= 0; i-- {
		c := so.conns[i]
		switch {
		case c.cc.Err() != nil, c.peer.gone(), p.maxAge > 0 && now.Sub(c.born) >= p.maxAge:
			p.drop(so, c)
		case c.cc.Reserve() == nil:
			p.all.Remove(c)
			p.all.Push(c)
			return c
		}
	}

	return nil
}

// drop removes a connection and retires it. The caller holds mu.
func (p *streamConns) drop(so *streamOrigin, c *streamConn) {
	i := slices.Index(so.conns, c)
	if i < 0 {
		return
	}

	so.conns = slices.Delete(so.conns, i, i+1)
	p.all.Remove(c)
	c.retire()
}

// forgetClosed removes a connection that has ended.
func (p *streamConns) forgetClosed(c *streamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if so := p.by[c.state.origin]; so != nil {
		p.drop(so, c)
	}
}

// put adds a connection to the pool. Above the limit, the least recently used one is retired.
func (p *streamConns) put(c *streamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed {
		c.retire()
		return
	}

	o := c.state.origin
	if p.by[o] == nil {
		p.forgetUnused()
		p.by[o] = &streamOrigin{}
	}

	p.by[o].conns = append(p.by[o].conns, c)
	p.all.Push(c)
	if old := p.all.oldest; p.all.n > p.total {
		p.drop(p.by[old.state.origin], old)
	}

	c.cc.SetStateHook(func(cc *http.ClientConn) {
		if cc.Err() != nil {
			go p.forgetClosed(c) // not here: take may hold mu
		}
	})
}

// forgetUnused removes the origins without connections if there are many. The caller holds mu.
func (p *streamConns) forgetUnused() {
	if len(p.by) < 2*p.total {
		return
	}

	for o, so := range p.by {
		if len(so.conns) == 0 && so.dialling == nil {
			delete(p.by, o)
		}
	}
}

// dial makes the caller the one that connects to an origin with HTTP/2, or returns a channel that is closed when another
// call has finished connecting. So calls that start together share one new connection.
func (p *streamConns) dial(o Origin) (done func(), wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()

	so := p.by[o]
	switch {
	case so == nil: // the origin may speak HTTP/1.1
		return func() {}, nil
	case so.dialling != nil:
		return func() {}, so.dialling
	}

	ch := make(chan struct{})
	so.dialling = ch
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		so.dialling = nil
		close(ch)
	}, nil
}

// forget removes an origin that has stopped speaking HTTP/2.
func (p *streamConns) forget(o Origin) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if so := p.by[o]; so != nil {
		for len(so.conns) > 0 {
			p.drop(so, so.conns[0])
		}
		delete(p.by, o)
	}
}

// retire retires the connections of an origin to addresses that are gone.
func (p *streamConns) retire(o Origin) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if so := p.by[o]; so != nil {
		for i := len(so.conns) - 1; i >= 0; i-- {
			if so.conns[i].peer.gone() {
				p.drop(so, so.conns[i])
			}
		}
	}
}

// closeOldest closes up to n of the least recently used connections that carry no exchange.
func (p *streamConns) closeOldest(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for c := p.all.oldest; c != nil && n > 0; {
		newer := c.newer
		if c.cc.InFlight() == 0 {
			p.drop(p.by[c.state.origin], c)
			n--
		}

		c = newer
	}
}

func (p *streamConns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.closed = true
	for _, so := range p.by {
		for len(so.conns) > 0 {
			p.drop(so, so.conns[0])
		}
	}
}

// overStream makes the call in a stream of c. again reports that the receiver has not processed the request.
func (p *Pool) overStream(outer context.Context, c *streamConn, x *Exchange) (again bool, err error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()

	x.Progress.set(StageSend)
	if x.Observe {
		x.Progress.connected(c.secure)
	}

	first := !c.used.Swap(true)
	var sent atomic.Bool
	resp, err := c.cc.RoundTrip(x.Request.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				x.Progress.at.CompareAndSwap(int32(StageSend), int32(StageHeaders))
			}
		},
	})))
	if sent.Load() {
		x.Progress.Requests++
	}

	if err == nil {
		x.answered(resp)
		x.readBody(resp, cancel)
	}

	x.Answer.Expired = errors.Is(outer.Err(), context.DeadlineExceeded)
	switch {
	case err == nil:
		x.Answer.BodyErr = explain(x.Answer.BodyErr, first)
		return false, nil
	case outer.Err() != nil:
		return false, outer.Err()
	}

	err = explain(err, first)
	if wantsHTTP1(err) {
		c.state.http1.Store(true)
		p.streams.forget(c.state.origin)
		return true, err
	}

	return isUnprocessed(err), err
}

// GoAwayError means that the receiver's GOAWAY frame ended the exchange.
type GoAwayError struct {
	code        string // empty: net/http does not report it
	unprocessed bool   // the receiver has not processed the request
}

// Error implements error.
func (e *GoAwayError) Error() string {
	return strings.TrimSuffix("HTTP/2 GOAWAY with "+e.code, " with ")
}

var (
	// ErrUnusedStream means that the connection ended before the request was sent.
	ErrUnusedStream   = errors.New("the receiver closed the HTTP/2 connection before the request")
	errLostConnection = fmt.Errorf("the receiver did not answer an HTTP/2 ping: %w", io.ErrUnexpectedEOF)
)

// frameCode matches the error code of a frame in the texts of net/http.
var frameCode = regexp.MustCompile(`ErrCode[:=](\w+)`)

// explain replaces errors of net/http that have no exported type. first means that the exchange was the first one on its
// connection.
func explain(err error, first bool) error {
	if err == nil {
		return nil
	}

	text := err.Error()
	switch {
	case strings.Contains(text, "GOAWAY"):
		// Streams after the last one that the frame names fail with this text.
		e := &GoAwayError{unprocessed: strings.HasPrefix(text, "http2: Transport received ")}
		if code := frameCode.FindStringSubmatch(text); code != nil {
			e.code = code[1]
		} else if first { // with another code the text would have it
			e.code = http2.ErrCodeNo.String()
		}

		return e
	case strings.Contains(text, "http2: client conn not usable"), strings.Contains(text, "http2: client conn could not be established"):
		return ErrUnusedStream
	case strings.Contains(text, "http2: client connection lost"):
		return errLostConnection
	}

	return err
}

// isUnprocessed reports whether the receiver has certainly not processed the request.
func isUnprocessed(err error) bool {
	var goAway *GoAwayError
	var stream http2.StreamError
	switch {
	case errors.Is(err, ErrUnusedStream):
		return true
	case errors.As(err, &goAway):
		return goAway.unprocessed
	}

	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
}

// wantsHTTP1 reports whether the receiver has refused HTTP/2 for this request. Servers do that for NTLM and for
// certificates that only some paths require.
func wantsHTTP1(err error) bool {
	var goAway *GoAwayError
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeHTTP11Required ||
		errors.As(err, &goAway) && goAway.code == http2.ErrCodeHTTP11Required.String()
}
