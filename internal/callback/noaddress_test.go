package callback

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/transport"
)

var anyAddress = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|\[?[0-9a-f]*::[0-9a-f:]*`)

// namesNoAddress checks the text that is stored in the notice, which producers read.
func namesNoAddress(t testing.TB, what string, res notice.Result) {
	t.Helper()
	if found := anyAddress.FindString(res.Response); found != "" {
		t.Errorf("%s: the notice names the address %s: %q", what, found, res.Response)
	}
}

// Results reveal neither this machine's addresses nor those behind a name, a proxy or a resolver.
func TestFailureTextHasNoAddress(t *testing.T) {
	t.Parallel()
	closed := listen(t, nil, func(net.Conn, *bufio.Reader, <-chan struct{}) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	_ = l.Close()
	local := func(address string) string { return strings.Replace(address, "127.0.0.1", "shop.example", 1) }
	resolver := loopbackNames(t)
	deaf := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, refused) // no listener
	}}
	resets := listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		_, _ = in.ReadByte()
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	for name, c := range map[string]struct {
		url      string
		proxy    string
		resolver *net.Resolver
		want     []notice.Reason
	}{
		"refused":              {"http://" + local(refused), "", resolver, []notice.Reason{notice.ReasonConnect}},
		"refused with TLS":     {"https://" + local(refused), "", resolver, []notice.Reason{notice.ReasonConnect}},
		"closed":               {"http://" + local(closed), "", resolver, []notice.Reason{notice.ReasonReset}},
		"reset":                {"http://" + local(resets), "", resolver, []notice.Reason{notice.ReasonReset}},
		"reset during TLS":     {"https://" + local(resets), "", resolver, []notice.Reason{notice.ReasonTLS}},
		"closed during TLS":    {"https://" + local(closed), "", resolver, []notice.Reason{notice.ReasonTLS}},
		"no resolver":          {"http://" + local(closed), "", deaf, []notice.Reason{notice.ReasonLocal}},
		"no HTTP proxy":        {"http://" + local(closed), "http://" + local(refused), resolver, []notice.Reason{notice.ReasonConnect}},
		"no proxy for CONNECT": {"https://" + local(closed), "http://" + local(refused), resolver, []notice.Reason{notice.ReasonConnect}},
		"no SOCKS proxy":       {"http://" + local(closed), "socks5://" + local(refused), resolver, []notice.Reason{notice.ReasonConnect}},
		"a SOCKS proxy resets": {"http://" + local(closed), "socks5://" + local(resets), resolver, []notice.Reason{notice.ReasonConnect}},
	} {
		t.Run(name, func(t *testing.T) {
			r := noticeRoute("127.0.0.0/8")
			if c.proxy != "" {
				r.Proxy = proxyAt(t, c.proxy)
			}
			n := testNotice("x")
			n.URL = c.url
			res := newHandler(t, Options{Resolver: c.resolver}).Handle(background(t), r, n)
			outcome := retry
			if c.want[0] == notice.ReasonLocal {
				outcome = notice.OutcomeDeferred
			}
			expect(t, res, outcome, c.want[0])
			namesNoAddress(t, name, res)
		})
	}
}

// The same for errors that are hard to provoke.
func TestErrorTextHasNoAddress(t *testing.T) {
	t.Parallel()
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	dial := &net.OpError{Op: "dial", Net: "tcp", Source: tcp("10.1.2.3:4000"), Addr: tcp("10.1.2.4:443"),
		Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	read := &net.OpError{Op: "read", Net: "tcp6", Source: tcp("[fd00::1]:4000"), Addr: tcp("[fd00::2]:443"),
		Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for name, err := range map[string]error{
		"dial":      dial,
		"read":      read,
		"wrapped":   fmt.Errorf("http: %w", read),
		"twice":     &net.OpError{Op: "socks connect", Net: "tcp", Source: tcp("10.1.2.5:1080"), Addr: tcp("10.1.2.6:443"), Err: dial},
		"joined":    errors.Join(errors.New("first"), dial),
		"text only": errors.New("read tcp 10.1.2.3:4000->[fd00::2%eth0]:443: use of closed connection"),
		"DNS": &net.DNSError{Name: "shop.example", Server: "10.0.0.2:53", Err: "read udp 10.1.2.3:53000->10.0.0.2:53: i/o timeout",
			IsTimeout: true},
		"DNS, another one": &net.DNSError{Name: "shop.example", Server: "10.0.0.2:53",
			Err: "lookup shop.example on 10.0.0.2:53: server misbehaving"},
		"alert": &net.OpError{Op: "remote error", Addr: tcp("10.1.2.4:443"), Err: tls.AlertError(40)},
	} {
		for stage := range transport.StageBody + 1 {
			namesNoAddress(t, fmt.Sprint(name, " ", stage), failure(&facts{stage: stage}, err, 0))
		}
	}
	// No word comes twice.
	for _, c := range []struct {
		err    error
		stage  transport.Stage
		reason notice.Reason
		text   string
	}{
		{dial, transport.StageConnect, notice.ReasonConnect, "connect: no route to host"},
		{read, transport.StageTLS, notice.ReasonTLS, "tls: read: connection reset by peer"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, transport.StageTLS, notice.ReasonTLS,
			"tls: first record does not look like a TLS handshake"},
	} {
		if got := failure(&facts{stage: c.stage, olderTLS: true}, c.err, 0); got.Reason != c.reason || got.Response != c.text {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
