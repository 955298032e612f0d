package callback

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// onWire is a receiver that passes on the bytes of each request.
func onWire(t testing.TB) (string, <-chan string) {
	ch := make(chan string, 8)
	return listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		var seen bytes.Buffer
		tee := bufio.NewReader(io.TeeReader(in, &seen))
		for testkit.ReadRequest(tee) == nil {
			ch <- seen.String()
			seen.Reset()
			_, _ = io.WriteString(c, okEmpty)
		}
	}), ch
}

// Receivers that compare names with regard to case get the headers as they are documented and configured.
func TestHeadersKeepTheirSpelling(t *testing.T) {
	t.Parallel()
	addr, got := onWire(t)
	r, n := fixedRoute("http://"+addr+"/hook"), testNotice(`{"a":1}`)
	r.Secrets = secrets(t, vectorSecret)
	r.Headers = []notice.Header{{Name: "SOAPAction", Value: `"pay"`}, {Name: "X-shop", Value: "route"}, {Name: "Idempotency-Key", Value: "r"}}
	n.Headers = []notice.Header{{Name: "x-SHOP", Value: "notice"}, {Name: "X-Idempotency-Key", Value: "k"}, {Name: "zebra", Value: ""},
		{Name: "X-Wide", Value: "付款"}, {Name: "Authorization", Value: "Bearer t"}}
	h := newHandler(t, Options{UserAgent: "notifier/1", Now: func() time.Time { return made }})
	expect(t, h.Handle(background(t), r, n), delivered, "")
	sent := <-got
	signature := regexp.MustCompile(`webhook-signature: v1,\S+`)
	want := "POST /hook HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: notifier/1\r\nContent-Length: 7\r\nAuthorization: Bearer t\r\n" +
		"content-type: application/json\r\nidempotency-key: r\r\nnotifier-attempt: 1\r\nnotifier-due: 2026-11-21T12:00:15.000Z\r\n" +
		"notifier-key: shop:trans:paid:4711\r\nSOAPAction: \"pay\"\r\nwebhook-id: " + n.ID() + "\r\nwebhook-signature: …\r\n" +
		"webhook-timestamp: 1795262400\r\nx-idempotency-key: k\r\nx-SHOP: notice\r\nX-Wide: 付款\r\nzebra: \r\n\r\n" + `{"a":1}`
	if sent = signature.ReplaceAllString(sent, "webhook-signature: …"); sent != want {
		t.Errorf("sent %q\nwant %q", sent, want)
	}
}

// Plain requests go to an HTTP proxy itself, over shared connections, as a request for the whole address.
func TestProxyGetsTheWholeAddress(t *testing.T) {
	t.Parallel()
	addr, got := onWire(t)
	h := newHandler(t, Options{})
	for _, target := range []string{"http://a.example/x?y=1", "http://b.example:8080/"} {
		r := fixedRoute(target)
		r.Proxy = proxyAt(t, "http://user:hunter2@"+addr)
		expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
		if sent := <-got; !strings.HasPrefix(sent, "POST "+target+" HTTP/1.1\r\nHost: "+r.Target.URL.Host+"\r\n") ||
			!strings.Contains(sent, "\r\nProxy-Authorization: Basic dXNlcjpodW50ZXIy\r\n") {
			t.Errorf("%q", sent)
		}
	}
}

// A receiver may answer before it has read a long body, and read no more of it.
func TestLongBodyIsAnsweredEarly(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	var conns atomic.Int64
	r := fixedRoute("http://" + listen(t, nil, func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		conns.Add(1)
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-stop
	}))
	for i := range 2 {
		res := h.Handle(background(t), r, testNotice(strings.Repeat("x", 32<<20)))
		expect(t, res, retry, notice.ReasonStatus4xx)
		if res.Response != "no" || conns.Load() != int64(i+1) {
			t.Errorf("%q over %d connections", res.Response, conns.Load())
		}
	}
}

func TestLongBodiesKeepTheirConnection(t *testing.T) {
	s, conns := counting(t, false, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	h := newHandler(t, Options{})
	for _, size := range []int{16 << 10, 16<<10 + 1, 1 << 20, 1} {
		for range 10 {
			res := h.Handle(background(t), fixedRoute(s.URL), testNotice(strings.Repeat("x", size)))
			if res.Response != fmt.Sprint(size) {
				t.Errorf("%+v", res)
			}
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A stopping instance interrupts calls at every stage.
func TestStopInterruptsCalls(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"http/1.1"}}
	arrived := make(chan struct{}, 1)
	body := func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		_ = testkit.ReadRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsucc")
		arrived <- struct{}{}
		<-stop
	}
	mute := func(_ net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		_, _ = in.ReadByte()
		arrived <- struct{}{}
		<-stop
	}
	for name, c := range map[string]struct {
		talk   talk
		conf   *tls.Config
		secure bool
		size   int
	}{
		"amid the body": {body, nil, false, 1}, "amid the body, TLS": {body, cert, true, 1},
		"waiting": {mute, nil, false, 1}, "waiting, TLS": {mute, cert, true, 1},
		"handshake": {mute, nil, true, 1}, "sending": {mute, nil, false, 32 << 20}, "sending, TLS": {mute, cert, true, 32 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, Options{TLSTimeout: time.Minute})
			r := fixedRoute(map[bool]string{false: "http://", true: "https://"}[c.secure] + listen(t, c.conf, c.talk))
			r.CAFile, r.Ack = ca.file, *ack(t, "body:success")
			ctx, cancel := context.WithCancel(background(t))
			defer cancel()
			go func() { <-arrived; cancel() }()
			expect(t, h.Handle(ctx, r, testNotice(strings.Repeat("x", c.size))), deferred, notice.ReasonShutdown)
		})
	}
	t.Run("dialling", func(t *testing.T) {
		h := newHandler(t, Options{})
		ctx, cancel := context.WithCancel(background(t))
		h.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded} // how dialers report a deadline
		}
		expect(t, h.Handle(ctx, fixedRoute("http://127.0.0.1:9"), testNotice("x")), deferred, notice.ReasonShutdown)
	})
}

// A call whose timeout passes just as the call ends does not spoil the next call on its connection.
func TestDeadlineAppliesToOneCall(t *testing.T) {
	s, conns := counting(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	h := newHandler(t, Options{})
	short, none := fixedRoute(s.URL), fixedRoute(s.URL)
	short.Timeout, none.Timeout = 300*time.Millisecond, 0
	expect(t, h.Handle(background(t), short, testNotice("x")), delivered, "")
	<-time.After(short.Timeout) // until the first call's deadline has passed
	expect(t, h.Handle(background(t), none, testNotice("x")), delivered, "")
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
}

// A connection is not used again, though it stays open, if the receiver announced its end or sent more than
// the answer.
func TestConnectionIsNotReusedAfterExtraBytes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"announced":     "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"more":          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
		"body of a 204": "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
		"too large":     "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000),
		"upgrade":       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int64
			addr := listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
				conns.Add(1)
				for testkit.ReadRequest(in) == nil {
					_, _ = io.WriteString(c, text)
				}
			})
			h, r := newHandler(t, Options{}), fixedRoute("http://"+addr)
			for i := range 5 {
				res := h.Handle(background(t), r, testNotice("x"))
				if res.Status == 500 || conns.Load() != int64(i+1) {
					t.Fatalf("status %d, %d connections after %d calls", res.Status, conns.Load(), i+1)
				}
			}
		})
	}
}

type deaf struct{ net.Conn }

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestFreshConnectionThatTakesNothingFails(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	var dialled atomic.Int64
	h.dial = func(context.Context, string, string) (net.Conn, error) {
		dialled.Add(1)
		a, b := net.Pipe()
		t.Cleanup(func() { _ = b.Close() })
		return deaf{a}, nil
	}
	if res := h.Handle(background(t), fixedRoute("http://127.0.0.1:9"), testNotice("x")); res.Outcome != retry || dialled.Load() != 1 {
		t.Errorf("%+v after %d connections", res, dialled.Load())
	}
}
