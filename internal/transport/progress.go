package transport

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// Stage is the last step that an exchange reached.
type Stage int32

const (
	StageStart Stage = iota
	StageDNS
	StageConnect
	StageTLS
	StageSend
	StageHeaders
	StageBody
)

// Phrase describes the stage as part of an error.
func (s Stage) Phrase() string {
	switch s {
	case StageDNS:
		return "during the lookup of the name"
	case StageConnect:
		return "while connecting"
	case StageTLS:
		return "during the TLS handshake"
	case StageSend:
		return "while sending the request"
	case StageHeaders:
		return "while waiting for the answer's head"
	case StageBody:
		return "while reading the answer's body"
	}

	return "before the connection"
}

// Progress records how far an attempt came. An attempt with several exchanges has one Progress. The transport calls it from
// several goroutines, and those of a dial may outlive the exchange.
type Progress struct {
	// Requests is the number of requests that the attempt has sent, in full or in part.
	Requests    int
	connections int // that the attempt has opened
	at          atomic.Int32
	tls         atomic.Pointer[tls.ConnectionState]
	remote      atomic.Pointer[string]
}

// Stage returns the last step of the exchange.
func (t *Progress) Stage() Stage { return Stage(t.at.Load()) }

func (t *Progress) set(s Stage) { t.at.Store(int32(s)) }

// Remote returns the address of the connection, if the exchange was observed.
func (t *Progress) Remote() string {
	if p := t.remote.Load(); p != nil {
		return *p
	}
	return ""
}

// TLS returns the state of the connection, if the exchange was observed; nil without TLS.
func (t *Progress) TLS() *tls.ConnectionState { return t.tls.Load() }

// advance moves to a later step before the connection. A late dial does not move back an exchange that has
// got another connection.
func (t *Progress) advance(s Stage) {
	for {
		old := t.at.Load()
		if Stage(old) >= StageSend || t.at.CompareAndSwap(old, int32(s)) {
			return
		}
	}
}

// dialTrace returns the trace of a dial. A failed try of one address among several does not change the stage: the
// error will name connecting.
func (t *Progress) dialTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { t.advance(StageDNS) },
		DNSDone:      func(i httptrace.DNSDoneInfo) { t.dnsDone(i) },
		ConnectStart: func(_, _ string) { t.advance(StageConnect) },
	}
}

// Restart resets the stage for another exchange of the same attempt.
func (t *Progress) Restart() { t.set(StageStart) }

// connected records the facts of a connection that are shown to users.
func (t *Progress) connected(c net.Conn) {
	addr := c.RemoteAddr().String()
	t.remote.Store(&addr)
	if secure, ok := c.(*tls.Conn); ok {
		s := secure.ConnectionState()
		t.tls.Store(&s)
	}
}

func (t *Progress) dnsDone(i httptrace.DNSDoneInfo) {
	if i.Err == nil {
		t.advance(StageConnect)
	}
}
