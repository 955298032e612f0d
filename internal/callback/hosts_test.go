package callback

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
)

// Random host names grew the table of hosts by 530 bytes each for ten minutes: 1.6 GB at 5,000 per second.
func TestRandomHostsDoNotGrowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		held := must(t, l, "held:80")
		for range breakerFailures {
			p := must(t, l, "hangs:80")
			time.Sleep(2 * slowFailure)
			p.end(timeout, true)
		}
		for range series {
			must(t, l, "busy:80").end(status(429), false)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 20 * hostsKept {
			p, _ := l.enter(fmt.Sprintf("h%d.evil.example:80", i))
			p.end(refused, false)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := len(l.hosts.byName); n > hostsKept+1 {
			t.Errorf("%d hosts are kept, want at most %d and the one that is being called", n, hostsKept)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("grown by %d bytes", grown)
		}
		// Marked hosts are not pushed out by others.
		refusal(t, l, "hangs:80", notice.ReasonBreaker)
		if n := l.hosts.byName["busy:80"].limit(16); n != 7 {
			t.Errorf("a host that asked to be called less has %d slots, want 7", n)
		}
		held.end(good, false)
		if l.hosts.byName["held:80"] == nil {
			t.Error("a host that was being called was forgotten")
		}
	})
}

// Any number of hosts that hang leaves room for hosts that answer.
func TestHangingHostsDoNotFillTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		l.hosts.most = 64
		for i := range 1000 {
			p := must(t, l, fmt.Sprintf("hangs%d:80", i))
			time.Sleep(slowFailure)
			p.end(timeout, true)
			for j := range 30 {
				must(t, l, fmt.Sprintf("good%d:80", j)).end(good, false)
			}
		}
		known := 0
		for j := range 30 {
			if h := l.hosts.byName[fmt.Sprintf("good%d:80", j)]; h != nil && h.health == answers && h.called {
				known++
			}
		}
		if n := len(l.hosts.byName); known != 30 || n > 64 {
			t.Errorf("%d of 30 hosts that answer are known, %d in all", known, n)
		}
	})
}

// net/http never forgets a request that waited for a connection to an unreachable host
// (Transport.idleConnWait).
func TestUnreachableHostsDoNotGrowTheTransport(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{Resolver: dnsServer(t, func(string, int) []netip.Addr { return nil })})
	h.only = onlyNetHTTP
	r := noticeRoute()
	if err := h.Prepare(r); err != nil {
		t.Fatal(err)
	}
	var p *transportPool
	for _, p = range h.transports {
		p.most = 100
	}
	waiting := func(of *http.Transport) int {
		m := reflect.ValueOf(of).Elem().FieldByName("idleConnWait")
		if !m.IsValid() {
			t.Fatal("this version of net/http has no idleConnWait: look whether the pool is still needed")
		}
		return m.Len()
	}
	for i := range 350 {
		n := testNotice("x")
		n.URL = fmt.Sprintf("http://h%d.evil.example/", i)
		if i > 250 { // the same host in many spellings is one host
			n.URL = "http://" + spelling(i-250) + ".evil.example./"
		}
		expect(t, h.Handle(background(t), r, n), retry, notice.ReasonDNS)
		if got := waiting(p.now); got > 100 {
			t.Fatalf("%d hosts are remembered after %d calls", got, i+1)
		}
	}
	if got := waiting(p.now); p.newHosts != 52 || got != 52 {
		t.Errorf("%d hosts were met by this transport and %d are remembered, want 52", p.newHosts, got)
	}
}

func spelling(n int) string {
	b := []byte("abcdefgh")
	for i := range b {
		if n>>i&1 == 1 {
			b[i] -= 'a' - 'A'
		}
	}
	return string(b)
}

// A replaced transport completes its running calls and then closes their connections.
func TestReplacedTransportCompletesCalls(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	s, conns := counting(t, false, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
	})
	h := newHandler(t, Options{})
	h.only = onlyNetHTTP
	r := noticeRoute("127.0.0.0/8", "localhost")
	done := make(chan notice.Result)
	slow := testNotice("x")
	slow.URL = s.URL + "/slow"
	go func() { done <- h.Handle(background(t), r, slow) }()
	<-arrived
	for _, p := range h.transports {
		p.transport(false)
		p.mu.Lock()
		p.newHosts = p.most
		p.mu.Unlock()
	}
	n := testNotice("x")
	n.URL = "http://localhost" + s.URL[len("http://127.0.0.1"):]
	expect(t, h.Handle(background(t), r, n), delivered, "")
	close(release)
	expect(t, <-done, delivered, "")
	if got := conns.Load(); got != 2 {
		t.Errorf("%d connections", got)
	}
}
