package transport

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Some name servers return a part of the addresses.
func TestPartialAnswersRetireNothing(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2")
	s := &originState{origin: Origin{Addr: "shop.example:443"}}
	pa, pb := s.at(connTo(a)), s.at(connTo(b))
	for range 10 {
		for _, answer := range [][]netip.Addr{{a}, {a}, {b.Unmap()}, {b}} {
			if s.answered(answer) || pa.gone() || pb.gone() {
				t.Fatal("retired")
			}
		}
	}
	for i := range 2 * minMissed { // it has missed two answers before
		if late := i+1 >= 2*2+1; s.answered([]netip.Addr{a}) != (i == 2*2) || pb.gone() != late || pa.gone() {
			t.Errorf("answer %d: retired %v", i+1, pb.gone())
		}
	}
	if s.at(connTo(b)).gone() || !pb.gone() {
		t.Error("the address came back: only new connections use it")
	}
	if p := (&originState{origin: Origin{Addr: "192.0.2.1:443"}}).at(connTo(a)); p != nil {
		t.Error("an address needs no lookup")
	}
}

func TestRandomAnswersRetireFewConnections(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	s, retired := &originState{origin: Origin{Addr: "shop.example:443"}}, 0
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	conns := map[int]*peer{}
	for range 1440 { // a day
		var answer []netip.Addr
		for _, i := range random.Perm(8)[:4] {
			answer = append(answer, addr(i))
			if conns[i].gone() || conns[i] == nil {
				conns[i] = s.at(connTo(addr(i)))
			}
		}
		if s.answered(answer) {
			retired++
		}
	}
	if retired > 10 {
		t.Errorf("retired %d times", retired)
	}
}

type remote struct {
	net.Conn
	addr netip.Addr
}

func (r remote) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 443))
}

func connTo(a netip.Addr) net.Conn { return remote{addr: a} }

func TestOriginTableIsBounded(t *testing.T) {
	t.Parallel()
	table := newOriginTable(nil, time.Minute, nil)
	defer table.close()
	now := time.Now()
	for i := range 1000 {
		table.connected(Origin{Addr: "h:" + strings.Repeat("1", i%5), Secure: i%2 == 0}, now)
		now = now.Add(time.Minute)
	}
	if n := len(table.by); n > 10 {
		t.Errorf("%d origins", n)
	}
	s := table.connected(Origin{Addr: "used"}, now)
	for range 10 {
		now = now.Add(time.Minute)
		s.next.Store(now.Add(time.Minute).UnixNano()) // it gets calls
		table.connected(Origin{Addr: now.String()}, now)
	}
	if table.find(Origin{Addr: "used"}) != s {
		t.Error("an origin in use was forgotten")
	}
}
