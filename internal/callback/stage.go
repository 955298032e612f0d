package callback

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
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
	began time.Time // start of the attempt, from which the route's timeout counts
	// requests is the number of requests that the attempt has sent, in full or in part, and connections the number of
	// those that it has opened.
	requests, connections int
	at                    atomic.Int32
	tls                   atomic.Pointer[tls.ConnectionState]
	remote                atomic.Pointer[string]
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

// dialTrace returns the trace of a dial. A failed try of one address among several does not change the stage: the
// error will name connecting.
func (t *tracker) dialTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { t.advance(stageDNS) },
		DNSDone:      func(i httptrace.DNSDoneInfo) { t.dnsDone(i) },
		ConnectStart: func(_, _ string) { t.advance(stageConnect) },
	}
}

// restart resets the tracker for another try of the same exchange.
func (t *tracker) restart() { t.set(stageStart) }

// connected records the facts of a connection that are shown to users.
func (t *tracker) connected(c net.Conn) {
	addr := c.RemoteAddr().String()
	t.remote.Store(&addr)
	if secure, ok := c.(*tls.Conn); ok {
		s := secure.ConnectionState()
		t.tls.Store(&s)
	}
}

func (t *tracker) dnsDone(i httptrace.DNSDoneInfo) {
	if i.Err == nil {
		t.advance(stageConnect)
	}
}
