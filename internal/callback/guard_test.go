package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/dns/dnsmessage"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// loopbackNames returns a resolver for which each name has the address 127.0.0.1.
func loopbackNames(t testing.TB) *net.Resolver {
	return dnsServer(t, func(string, int) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
}

var servfail = []netip.Addr{{}}

// dnsServer runs a DNS server for A and AAAA queries, and returns a resolver that uses it. answer returns the
// addresses for the n-th query of a name; none = it does not exist, servfail = the server fails.
func dnsServer(t testing.TB, answer func(name string, n int) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { // the queries before are answered: a lookup's goroutine waits for its answer although the lookup was cancelled
		_, _ = conn.WriteTo(nil, conn.LocalAddr())
		<-done
		_ = conn.Close()
	})
	var mu sync.Mutex
	asked := map[string]int{}
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil || n == 0 {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			name := strings.TrimSuffix(q.Name.String(), ".")
			mu.Lock()
			if q.Type == dnsmessage.TypeA { // queries for both types come together: count one
				asked[name]++
			}
			addrs := answer(name, max(1, asked[name]))
			mu.Unlock()
			m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true}
			m.Additionals = nil
			switch {
			case addrs == nil:
				m.RCode = dnsmessage.RCodeNameError
			case !addrs[0].IsValid():
				m.RCode, addrs = dnsmessage.RCodeServerFailure, nil
			}
			for _, a := range addrs {
				h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
				switch {
				case q.Type == dnsmessage.TypeA && a.Is4():
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
				case q.Type == dnsmessage.TypeAAAA && !a.Is4():
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			out, err := m.Pack()
			if err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// forbidden are addresses that a notice may not reach unless they are allowed.
var forbidden = []string{
	"127.0.0.1", "127.8.8.8", "127.255.255.255", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
	"192.168.0.1", "192.168.255.255", "169.254.169.254", "169.254.170.2", "169.254.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255",
	"168.63.129.16", "192.0.0.192", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
	"239.255.255.250", "240.0.0.1", "255.255.255.255", "192.88.99.1", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
	"::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8", "64:ff9b:1::7f00:1",
	"fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fd12:3456::1", "ff02::1", "ff05::2", "100::1", "2001::1", "2001:0:7f00:1::1",
	"2001:db8::1", "2002:7f00:1::1", "2002:a00:1::", "3fff::1", "5f00::1", "2600:1f00::5efe:7f00:1", "2600:1f00::200:5efe:a00:1",
}

// spellings are addresses that some resolver or parser reads as a forbidden one.
var spellings = []string{
	"http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://0/",
	"http://127.0.0.1./", "http://10.1/", "http://0xa9fea9fe/", "http://169.254.43518/", "http://localhost/", "http://LOCALHOST:6379/",
	"http://localhost./", "http://a.localhost/", "http://[::1]:6379/", "http://[::ffff:7f00:1]/", "http://[fe80::1%25eth0]/",
	"http://[::1%25lo]/",
	"http://127.0.0.1:80/", "http://user:pw@127.0.0.1/", "https://127.0.0.1/", "http://[0:0:0:0:0:0:0:1]/", "http://1.2.3.4.0x7f/",
	"http://127.0.0.1:6379/%0d%0aFLUSHALL", "http://0x7F000001/", "http://00000000177.0.0.01/",
}

func TestForbiddenAddresses(t *testing.T) {
	t.Parallel()
	if n := len(forbidden) + len(spellings); n < 80 {
		t.Fatalf("%d forms", n)
	}
	g := &guard{noticeRoute()}
	resolver := dnsServer(t, func(name string, _ int) []netip.Addr {
		for i, s := range forbidden {
			if name == fmt.Sprintf("t%d.evil.example", i) {
				return []netip.Addr{netip.MustParseAddr(s)}
			}
		}
		return nil
	})
	h := newHandler(t, Options{Resolver: resolver})
	r := noticeRoute()
	for i, s := range forbidden {
		t.Run(s, func(t *testing.T) {
			ip := netip.MustParseAddr(s)
			n := testNotice("x")
			n.URL = "http://" + net.JoinHostPort(s, "9") + "/"
			res := h.Handle(background(t), r, n)
			expect(t, res, notice.OutcomeDead, notice.ReasonBlocked)
			if !strings.Contains(res.Response, "NOTIFIER_ROUTE_SHOP_ALLOW=") {
				t.Errorf("says not what would allow it: %s", res.Response)
			}
			refusedWhenScheduled(t, r, n, "NOTIFIER_ROUTE_SHOP_ALLOW=")
			// The same address returned by DNS, checked at the socket.
			n.URL = fmt.Sprintf("http://t%d.evil.example:9/", i)
			res = h.Handle(background(t), r, n)
			expect(t, res, notice.OutcomeRetry, notice.ReasonBlocked)
			var blocked *route.BlockedError
			if err := g.control(t.Context(), "tcp6", netip.AddrPortFrom(ip, 80).String(), nil); !errors.As(err, &blocked) {
				t.Errorf("at the socket: %v", err)
			}
			// The setting that the error names does allow the address.
			if err := noticeRoute(blocked.Allow).CheckAddr(ip); err != nil && !netip.MustParsePrefix("64:ff9b::/96").Contains(ip) {
				t.Errorf("allowed by %s and still: %v", blocked.Allow, err)
			}
		})
	}
	for _, s := range spellings {
		t.Run(s, func(t *testing.T) {
			n := testNotice("x")
			n.URL = s
			res := h.Handle(background(t), r, n)
			expect(t, res, notice.OutcomeDead, notice.ReasonBlocked)
			refusedWhenScheduled(t, r, n, "")
		})
	}
	for _, network := range []string{"udp4", "unix", "tcp"} {
		if g.control(t.Context(), network, "8.8.8.8:80", nil) == nil {
			t.Errorf("network %s was let through", network)
		}
	}
	if g.control(t.Context(), "tcp4", "nonsense", nil) == nil {
		t.Error("an invalid address was allowed")
	}
}

// Urls that would be refused for every answer of DNS are refused when the notice is scheduled, with the same
// error.
func refusedWhenScheduled(t *testing.T, r *route.Route, n *notice.Notice, remedy string) {
	t.Helper()
	wrong := r.Misfits(&n.Content)
	if len(wrong) != 1 || wrong[0].Field != "url" || !strings.HasPrefix(wrong[0].Text, "may not be called: ") ||
		!strings.Contains(wrong[0].Text, remedy) {
		t.Errorf("scheduled: %+v", wrong)
	}
}

func TestPublicAddressesAreAllowed(t *testing.T) {
	t.Parallel()
	r := noticeRoute()
	for _, s := range []string{"8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "192.167.1.1", "2606:4700::1111",
		"::ffff:8.8.8.8", "11.0.0.1", "126.0.0.1", "128.0.0.1"} {
		if err := r.CheckAddr(netip.MustParseAddr(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"https://shop.example/", "https://127.example/", "https://0x7f.example/x", "https://1.1.1.1/",
		"https://localhost.example/"} {
		u, _ := url.Parse(s)
		if err := r.CheckTarget(u, u.Hostname()); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	r := noticeRoute("10.1.0.0/16", "192.168.7.7", "fd00::/8", "pay.internal", "*.corp.example", "::ffff:172.16.0.0/108",
		"64:ff9b::/96", "[::1]")
	for s, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "192.168.7.7": true, "192.168.7.8": false, "fd12::1": true, "fe80::1": false, "172.16.5.5": true,
		"172.32.0.1": true, "::ffff:10.1.0.1": true, "64:ff9b::8.8.8.8": true, "64:ff9b::127.0.0.1": false, "64:ff9b::10.1.0.1": true,
		"::1": true,
	} {
		if err := r.CheckAddr(netip.MustParseAddr(s)); (err == nil) != want {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// Text that resolvers and net/http read as an address is checked as one, in every script of its digits,
// before a proxy could get it.
func TestWideDigitsAreCheckedAsAddress(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	r := noticeRoute()
	r.Proxy = proxyAt(t, "http://127.0.0.1:1") // behind it no address is seen when connecting
	n := testNotice("x")
	for _, address := range []string{"http://127.0.0.\uff11/", "http://\uff11\uff10.0.0.1/", "http://169.254.169.254./",
		"http://127\u30020\u30020\u30021/"} {
		n.URL = address
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDead, notice.ReasonBlocked)
		refusedWhenScheduled(t, r, n, "")
	}
}

// A rebinding name first resolves to a public address and then to a forbidden one. The address that is
// connected to decides.
func TestRebindingNameIsBlocked(t *testing.T) {
	t.Parallel()
	base := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the call came through") })
	loopback := netip.MustParseAddr("127.0.0.1")
	var seen []string
	var mu sync.Mutex
	resolver := dnsServer(t, func(name string, n int) []netip.Addr {
		mu.Lock()
		seen = append(seen, name)
		mu.Unlock()
		switch {
		case strings.HasPrefix(name, "both"):
			return []netip.Addr{netip.MustParseAddr("169.254.169.254"), loopback, netip.MustParseAddr("::1")}
		case n == 1:
			return []netip.Addr{netip.MustParseAddr("203.0.113.9")} // forbidden too, but the first answer
		}
		return []netip.Addr{loopback}
	})
	core, logs := observer.New(zap.WarnLevel)
	h := newHandler(t, Options{Resolver: resolver, Logger: zap.New(core)})
	port := base.Listener.Addr().(*net.TCPAddr).Port
	for _, name := range []string{"rebind.example", "both.example"} {
		n := testNotice("x")
		n.URL = fmt.Sprintf("http://%s:%d/", name, port)
		for range 3 {
			res := h.Handle(background(t), noticeRoute(), n)
			expect(t, res, notice.OutcomeRetry, notice.ReasonBlocked)
			if res.Response != "blocked: private address" { // producers read it: the result must not reveal DNS answers
				t.Errorf("the result says %q", res.Response)
			}
		}
	}
	if list := logs.FilterMessageSnippet("private address").All(); len(list) != 6 ||
		!strings.Contains(fmt.Sprint(list[5].ContextMap()["why"]), "127.0.0.1") &&
			!strings.Contains(fmt.Sprint(list[5].ContextMap()["why"]), "::1") &&
			!strings.Contains(fmt.Sprint(list[5].ContextMap()["why"]), "169.254") {
		t.Errorf("the log has no address: %v", list)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 6 {
		t.Errorf("%d lookups: the resolver was not asked each time", len(seen))
	}
}

// A connection that one route was allowed to open is not reused by a route that was not.
func TestPermissionsAreNotShared(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{})
	n := testNotice("x")
	n.URL = base
	may, mayNot := noticeRoute("127.0.0.1"), noticeRoute()
	for range 3 {
		expect(t, h.Handle(background(t), may, n), notice.OutcomeDelivered, "")
		<-got
		expect(t, h.Handle(background(t), mayNot, n), notice.OutcomeDead, notice.ReasonBlocked)
	}
	// Not even if the routes differ only in the name.
	byName := loopbackNames(t)
	h = newHandler(t, Options{Resolver: byName})
	n.URL = strings.Replace(base, "127.0.0.1", "pay.internal", 1)
	expect(t, h.Handle(background(t), noticeRoute("pay.internal"), n), notice.OutcomeDelivered, "")
	<-got
	expect(t, h.Handle(background(t), noticeRoute("other.internal"), n), notice.OutcomeRetry, notice.ReasonBlocked)
	expect(t, h.Handle(background(t), noticeRoute("*.internal"), n), notice.OutcomeDelivered, "")
}

func TestHTTPSOnly(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	r := noticeRoute("127.0.0.1")
	r.HTTPSOnly = true
	n := testNotice("x")
	n.URL = "http://127.0.0.1:9/"
	expect(t, h.Handle(background(t), r, n), notice.OutcomeDead, notice.ReasonBlocked)
}

func TestUnknownNameIsRetried(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{Resolver: dnsServer(t, func(string, int) []netip.Addr { return nil })})
	n := testNotice("x")
	n.URL = "http://nowhere.example/"
	res := h.Handle(background(t), noticeRoute(), n)
	expect(t, res, notice.OutcomeRetry, notice.ReasonDNS)
	if !strings.Contains(res.Response, "nowhere.example") {
		t.Error(res.Response)
	}
}
