//go:build fault

package acceptance

import (
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards connections between the service and Redis. It can silence subscriptions:
// their connections stay open and carry no data.
type proxy struct {
	addr string
	to   string
	l    net.Listener
	wg   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	subs  []*atomic.Bool // of each subscription's connection: it is mute
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), to: to, l: l}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		mute := &atomic.Bool{}
		p.wg.Go(func() { p.copy(in, out, func(b []byte) []byte { p.look(b, mute); return b }) })
		p.wg.Go(func() {
			p.copy(out, in, func(b []byte) []byte {
				if mute.Load() {
					return nil
				}
				return b
			})
		})
	}
}

func (p *proxy) copy(from, to net.Conn, pass func([]byte) []byte) {
	defer func() { _, _ = from.Close(), to.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(pass(b[:n])); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// toEvents matches the request that subscribes to expired events. Other subscriptions must
// not match: the fleet's channels on a separate connection, and the check of doctor.
var toEvents = regexp.MustCompile(`(?i)\*\d+\r\n\$9\r\nsubscribe\r\n\$\d+\r\n__keyevent@`)

// look marks a connection as a subscription once it subscribes to expired events.
func (p *proxy) look(b []byte, mute *atomic.Bool) {
	if !toEvents.Match(b) {
		return
	}
	p.mu.Lock()
	p.subs = append(p.subs, mute)
	p.mu.Unlock()
}

// silence makes the subscriptions that are there mute, for good, and says how
// many there are.
func (p *proxy) silence() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.subs {
		m.Store(true)
	}
	return len(p.subs)
}
