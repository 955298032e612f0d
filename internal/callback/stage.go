package callback

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync/atomic"
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

func (s stage) while() string {
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
	at     atomic.Int32
	reused atomic.Bool
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
		GotFirstResponseByte: func() { t.at.CompareAndSwap(int32(stageSend), int32(stageHeaders)) },
	}
	if detail {
		c.TLSHandshakeDone = func(s tls.ConnectionState, _ error) { t.tls.Store(&s) }
	}
	return c
}

func (t *tracker) dnsDone(i httptrace.DNSDoneInfo) {
	if i.Err == nil {
		t.advance(stageConnect)
	}
}
