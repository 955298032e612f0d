package transport

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// spare is a connection that reports when it is closed.
type spare struct {
	net.Conn
	closed chan struct{}
}

func (s *spare) Close() error { close(s.closed); return nil }

func idle(host string, keep time.Duration) *directConn {
	c := &spare{closed: make(chan struct{})}
	return newDirectConn(c, c, &originState{origin: Origin{Addr: host}}, nil, keep)
}

func (c *directConn) isClosed() bool {
	select {
	case <-c.under.(*spare).closed:
		return true
	default:
		return false
	}
}

func TestIdleConnectionsAreTakenLastFirst(t *testing.T) {
	t.Parallel()
	p := newIdleConns(3, 10, 0)
	defer p.close()
	a, b, other := idle("a", time.Hour), idle("a", time.Hour), idle("b", time.Hour)
	secure := idle("a", time.Hour)
	secure.state.origin.Secure = true
	for _, c := range []*directConn{a, b, other, secure} {
		if !p.put(c) {
			t.Fatal("no room")
		}
	}
	for i, want := range []*directConn{b, a, nil} {
		if got := p.take(Origin{Addr: "a"}); got != want {
			t.Errorf("take %d: another one", i)
		}
	}
	if p.take(other.state.origin) != other || p.take(secure.state.origin) != secure {
		t.Error("others were taken")
	}
	if p.all.n != 0 || p.all.oldest != nil || p.all.newest != nil {
		t.Errorf("%d are left", p.all.n)
	}
}

func TestIdleConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	p := newIdleConns(2, 4, 0)
	defer p.close()
	for i := range 3 {
		if p.put(idle("a", time.Hour)) != (i < 2) {
			t.Error("two of a host are kept, no more")
		}
	}
	first := p.all.oldest
	for i := range 20 { // the least recently used are closed
		c := idle(fmt.Sprint(i), time.Hour)
		if !p.put(c) || p.all.n > 4 {
			t.Fatalf("%d are kept", p.all.n)
		}
		if i == 2 && (!first.isClosed() || p.all.oldest.state.origin.Addr != "a") {
			t.Error("not the oldest one was closed")
		}
	}
	if p.take(Origin{Addr: "a"}) != nil || p.take(Origin{Addr: "15"}) != nil || p.take(Origin{Addr: "16"}) == nil {
		t.Error("others are kept than the last four")
	}
	if len(p.by) > 4 {
		t.Errorf("%d hosts are remembered", len(p.by))
	}
}

func TestIdleConnectionsExpire(t *testing.T) {
	t.Parallel()
	p := newIdleConns(9, 9, 0)
	long, short := idle("a", time.Hour), idle("a", time.Millisecond)
	p.put(long)
	p.put(short)
	<-short.under.(*spare).closed
	if p.put(idle("a", 0)) {
		t.Error("one is kept that the receiver has closed")
	}
	if p.take(long.state.origin) != long {
		t.Error("one was closed that has time")
	}
	p.put(long)
	p.close()
	if !long.isClosed() {
		t.Error("one is left after the end")
	}
	if p.put(idle("a", time.Hour)) {
		t.Error("one is kept after the end")
	}
}

// An expired connection is not used, even before the sweep closes it.
func TestExpiredConnectionIsNotTaken(t *testing.T) {
	t.Parallel()
	p := newIdleConns(9, 9, 0)
	c := idle("a", time.Hour)
	p.put(c)
	c.ends = time.Now()
	if p.take(c.state.origin) != nil {
		t.Error("a late one was taken")
	}
	p.close()
}
