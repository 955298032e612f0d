package callback

import (
	"crypto/tls"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// stage is how far an exchange got.
type stage int32

const (
	stageStart stage = iota
	stageDNS
	stageConnect
	stageTLS
	stageSend
	stageHeaders
	stageBody
)

func (s stage) phrase() string {
	switch s {
	case stageDNS:
		return "while looking up the name"
	case stageConnect:
		return "while connecting"
	case stageTLS:
		return "during the TLS handshake"
	case stageSend:
		return "while sending the request"
	case stageHeaders:
		return "while waiting for the answer's head"
	case stageBody:
		return "while reading the answer's body"
	}
	return "before the connection"
}

// tracker follows one exchange. The transport calls it from several goroutines,
// and those of a dial may outlive the exchange.
type tracker struct {
	began  time.Time // the attempt; the route's timeout counts from then
	first  bool      // the first call to a host, as far as is known
	at     atomic.Int32
	reused atomic.Bool
	on     atomic.Pointer[connUse] // the connection it has
	sent   atomic.Bool
	tls    atomic.Pointer[tls.ConnectionState]
	remote atomic.Pointer[string]
}

func (t *tracker) stage() stage { return stage(t.at.Load()) }
func (t *tracker) set(s stage)  { t.at.Store(int32(s)) }

// advance moves on from one of the steps before a connection was there; a dial
// that lags behind must not turn back an exchange that got another connection.
func (t *tracker) advance(s stage) {
	for {
		old := t.at.Load()
		if stage(old) >= stageSend || t.at.CompareAndSwap(old, int32(s)) {
			return
		}
	}
}

func (t *tracker) trace(detail bool) *httptrace.ClientTrace {
	c := &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { t.advance(stageDNS) },
		DNSDone:      func(i httptrace.DNSDoneInfo) { t.dnsDone(i) },
		ConnectStart: func(_, _ string) { t.advance(stageConnect) },
		// A failed try of one address among several leaves the stage: what the
		// error says is about connecting.
		TLSHandshakeStart: func() { t.advance(stageTLS) },
		GotConn: func(i httptrace.GotConnInfo) {
			t.reused.Store(i.Reused)
			if k := keptOf(i.Conn); k != nil {
				t.on.Store(k.begin(i.Conn, i.Reused))
			}
			t.set(stageSend)
			if detail && i.Conn != nil {
				addr := i.Conn.RemoteAddr().String()
				t.remote.Store(&addr)
			}
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				t.sent.Store(true)
				t.at.CompareAndSwap(int32(stageSend), int32(stageHeaders))
			}
		},
		PutIdleConn: func(err error) {
			if u := t.on.Load(); err == nil && u != nil {
				u.becomeIdle()
			}
		},
		GotFirstResponseByte: func() { t.at.CompareAndSwap(int32(stageSend), int32(stageHeaders)) },
	}
	if detail {
		c.TLSHandshakeDone = func(s tls.ConnectionState, _ error) { t.tls.Store(&s) }
	}
	return c
}

// unsent reports of an exchange that broke with err whether its request was on a
// kept connection and surely not read whole by the receiver: the transport's
// writing has ended by then, and either it did not get to the request's end or the
// kernel took no byte of it. Of HTTP/2 the transport itself says what the receiver
// has not looked at, and repeats it where it can.
func (t *tracker) unsent(err error) bool {
	u := t.on.Load()
	switch {
	case u == nil || !t.reused.Load():
		return false
	case u.http2:
		return strings.Contains(err.Error(), "http2: Transport: cannot retry err") // no value is exported
	}
	return !t.sent.Load() || u.written.Load() == u.mark
}

// restart begins the same exchange anew.
func (t *tracker) restart() {
	t.sent.Store(false)
	t.reused.Store(false)
	t.on.Store(nil)
	t.set(stageStart)
}

// connected notes what is shown of a direct connection.
func (t *tracker) connected(c *directConn) {
	addr := c.RemoteAddr().String()
	t.remote.Store(&addr)
	if c.secure != nil {
		s := c.secure.ConnectionState()
		t.tls.Store(&s)
	}
}

func (t *tracker) dnsDone(i httptrace.DNSDoneInfo) {
	if i.Err == nil {
		t.advance(stageConnect)
	}
}
