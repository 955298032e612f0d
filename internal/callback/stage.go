package callback

import (
	"crypto/tls"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// stage is the last step that an exchange reached.
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
		return "during the lookup of the name"
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

// tracker records the progress of one exchange. The transport calls it from several goroutines, and those of
// a dial may outlive the exchange.
type tracker struct {
	began  time.Time // start of the attempt, from which the route's timeout counts
	first  bool      // the first known call to the host
	at     atomic.Int32
	reused atomic.Bool
	on     atomic.Pointer[connUse] // its connection
	sent   atomic.Bool
	tls    atomic.Pointer[tls.ConnectionState]
	remote atomic.Pointer[string]
}

func (t *tracker) stage() stage { return stage(t.at.Load()) }
func (t *tracker) set(s stage)  { t.at.Store(int32(s)) }

// advance moves to a later step before the connection. A late dial does not move back an exchange that has
// got another connection.
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
		// A failed try of one address among several does not change the stage: the error will name
		// connecting.
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

// unsent reports whether a request may be sent again after the error err, because the receiver cannot have read all
// of it. It is always false for the first request on a connection.
func (t *tracker) unsent(err error) bool {
	u := t.on.Load()
	switch {
	case u == nil || !t.reused.Load():
		return false
	case u.http2:
		return strings.Contains(err.Error(), "http2: Transport: cannot retry err") // no value is exported
	}

	// The request was not written to its end, or the kernel accepted no byte of it.
	return !t.sent.Load() || u.written.Load() == u.mark
}

// restart resets the tracker for another try of the same exchange.
func (t *tracker) restart() {
	t.sent.Store(false)
	t.reused.Store(false)
	t.on.Store(nil)
	t.set(stageStart)
}

// connected records the facts of a direct connection that are shown to users.
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
