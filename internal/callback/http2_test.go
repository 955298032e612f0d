package callback

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

// h2Receiver is an HTTP/2 receiver that counts its connections and requests.
type h2Receiver struct {
	conns, requests, http1 atomic.Int64
	offered                atomic.Pointer[[]string]
	// opened is called after the preface, and asked for each request with its number. Both may be nil.
	opened func(c net.Conn, f *http2.Framer)
	asked  func(c net.Conn, f *http2.Framer, stream uint32, n int64)
}

// start returns a route that calls the receiver.
func (h *h2Receiver) start(t *testing.T) *route.Route {
	t.Helper()
	ca := newAuthority(t)
	conf := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"h2", "http/1.1"}}
	conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		h.offered.Store(&hello.SupportedProtos)
		return nil, nil
	}
	r := fixedRoute("https://" + listen(t, conf, func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		h.conns.Add(1)
		if c.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
			for testkit.ReadRequest(in) == nil {
				h.http1.Add(1)
				_, _ = io.WriteString(c, okEmpty)
			}
			return
		}
		framed(func(f *http2.Framer) {
			if h.opened != nil {
				h.opened(c, f)
			}
		}, func(c net.Conn, f *http2.Framer, s uint32) {
			n := h.requests.Add(1)
			if h.asked != nil {
				h.asked(c, f, s, n)
				return
			}
			respond(f, s, "200")
		})(c, in, stop)
	}))
	r.CAFile = ca.file
	return r
}

// refusals are the ways in which a receiver says that it has not processed a request.
var refusals = map[string]func(f *http2.Framer, stream uint32){
	"REFUSED_STREAM":           func(f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeRefusedStream) },
	"GOAWAY with NO_ERROR":     func(f *http2.Framer, s uint32) { _ = f.WriteGoAway(s-1, http2.ErrCodeNo, nil) },
	"GOAWAY with ENHANCE_YOUR": func(f *http2.Framer, s uint32) { _ = f.WriteGoAway(s-1, http2.ErrCodeEnhanceYourCalm, nil) },
}

// One attempt sent 7,160 requests to a receiver that answers each connection with GOAWAY.
func TestAttemptSendsAtMostTwoRequests(t *testing.T) {
	t.Parallel()
	goAway := func(_ net.Conn, f *http2.Framer) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) }
	cases := map[string]*h2Receiver{"GOAWAY after connecting": {opened: goAway, asked: func(net.Conn, *http2.Framer, uint32, int64) {}},
		"GOAWAY and close": {opened: func(c net.Conn, f *http2.Framer) { goAway(c, f); _ = c.Close() }},
		"closes":           {opened: func(c net.Conn, _ *http2.Framer) { _ = c.Close() }}}
	for name, refuse := range refusals {
		cases[name] = &h2Receiver{asked: func(_ net.Conn, f *http2.Framer, s uint32, _ int64) { refuse(f, s) }}
	}
	for name, receiver := range cases {
		for _, method := range []string{"POST", "GET", "PUT"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				receiver := &h2Receiver{opened: receiver.opened, asked: receiver.asked}
				r, n := receiver.start(t), testNotice(`{"a":1}`)
				n.Method = method
				res := newHandler(t, Options{}).Handle(background(t), r, n)
				expect(t, res, retry, notice.ReasonReset)
				if receiver.requests.Load() > 2 || receiver.conns.Load() > 3 {
					t.Errorf("%d requests over %d connections", receiver.requests.Load(), receiver.conns.Load())
				}
				if refusals[name] != nil && (receiver.requests.Load() != 2 || !strings.Contains(res.Response, name)) {
					t.Errorf("%d requests, %q", receiver.requests.Load(), res.Response)
				}
			})
		}
	}
}

// A request that the receiver has not processed is sent once more, also a GET, and also on a connection in use.
func TestUnprocessedRequestIsRepeated(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals {
		for _, method := range []string{"POST", "GET", "PUT"} {
			for refused := range int64(2) {
				t.Run(fmt.Sprint(name, "/", method, "/", refused), func(t *testing.T) {
					receiver := &h2Receiver{asked: func(_ net.Conn, f *http2.Framer, s uint32, n int64) {
						if n == refused+1 {
							refuse(f, s)
							return
						}
						respond(f, s, "200")
					}}
					r, h := receiver.start(t), newHandler(t, Options{})
					for range refused + 1 {
						n := testNotice(`{"a":1}`)
						n.Method = method
						expect(t, h.Handle(background(t), r, n), delivered, "")
					}
					if got := receiver.requests.Load(); got != refused+2 {
						t.Errorf("%d requests", got)
					}
				})
			}
		}
	}
}

// Other errors of a stream do not prove that the receiver has not processed the request.
func TestProcessedStreamIsNotRepeated(t *testing.T) {
	t.Parallel()
	for text, end := range map[string]func(c net.Conn, f *http2.Framer, s uint32){
		"reset with PROTOCOL_ERROR": func(_ net.Conn, f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeProtocol) },
		"reset with CANCEL":         func(_ net.Conn, f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeCancel) },
		"GOAWAY with ENHANCE_YOUR_CALM": func(c net.Conn, f *http2.Framer, s uint32) {
			_ = f.WriteGoAway(s, http2.ErrCodeEnhanceYourCalm, nil)
			_ = c.Close()
		},
		"GOAWAY with NO_ERROR": func(c net.Conn, f *http2.Framer, s uint32) {
			_ = f.WriteGoAway(s, http2.ErrCodeNo, nil)
			_ = c.Close()
		},
		"waiting for the answer's head: EOF": func(c net.Conn, _ *http2.Framer, _ uint32) { _ = c.Close() },
	} {
		t.Run(text, func(t *testing.T) {
			receiver := &h2Receiver{asked: func(c net.Conn, f *http2.Framer, s uint32, _ int64) { end(c, f, s) }}
			res := newHandler(t, Options{}).Handle(background(t), receiver.start(t), testNotice("x"))
			expect(t, res, retry, notice.ReasonReset)
			if !strings.Contains(res.Response, text) && !strings.HasSuffix(text, "EOF") || receiver.requests.Load() != 1 {
				t.Errorf("%d requests, %q", receiver.requests.Load(), res.Response)
			}
		})
	}
}

// A repeated request needs another turn at the rate.
func TestRepeatedRequestCountsForTheRate(t *testing.T) {
	t.Parallel()
	receiver := &h2Receiver{asked: func(_ net.Conn, f *http2.Framer, s uint32, _ int64) { refusals["REFUSED_STREAM"](f, s) }}
	r := receiver.start(t)
	r.Rate = 1.0 / 3600
	expect(t, newHandler(t, Options{}).Handle(background(t), r, testNotice("x")), retry, notice.ReasonReset)
	if got := receiver.requests.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Servers refuse HTTP/2 for NTLM and for certificates that only some paths require.
func TestHTTP11RequiredIsLearned(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(f *http2.Framer, s uint32){
		"stream": func(f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeHTTP11Required) },
		"GOAWAY": func(f *http2.Framer, s uint32) { _ = f.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			receiver := &h2Receiver{asked: func(_ net.Conn, f *http2.Framer, s uint32, _ int64) { refuse(f, s) }}
			r, h := receiver.start(t), newHandler(t, Options{})
			for range 3 {
				expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
			}
			if receiver.requests.Load() != 1 || receiver.http1.Load() != 3 {
				t.Errorf("%d requests over HTTP/2, %d over HTTP/1.1", receiver.requests.Load(), receiver.http1.Load())
			}
		})
	}
}

func TestHTTP1RouteOffersNoHTTP2(t *testing.T) {
	t.Parallel()
	receiver := &h2Receiver{}
	r, h := receiver.start(t), newHandler(t, Options{})
	for _, c := range []struct {
		http1 bool
		want  string
	}{{true, "[http/1.1]"}, {false, "[h2 http/1.1]"}} {
		copied := *r
		copied.HTTP1 = c.http1
		expect(t, h.Handle(background(t), &copied, testNotice("x")), delivered, "")
		if got := fmt.Sprint(*receiver.offered.Load()); got != c.want {
			t.Errorf("offered %s, want %s", got, c.want)
		}
	}
}

// closeReporter reports that this process has closed a connection.
type closeReporter struct {
	net.Conn
	closed chan<- struct{}
}

func (c *closeReporter) Close() error {
	defer func() {
		select {
		case c.closed <- struct{}{}:
		default:
		}
	}()
	return c.Conn.Close()
}

// Calls that start together after a connection has ended share one new connection.
func TestHTTP2CallsShareANewConnection(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	receiver := &h2Receiver{asked: func(c net.Conn, f *http2.Framer, s uint32, n int64) {
		respond(f, s, "200")
		if n == 1 {
			testkit.CloseAndWait(&testing.T{}, c)
			close(ended)
		}
	}}
	r, h := receiver.start(t), newHandler(t, Options{})
	r.HostConcurrency = 0
	noticed := make(chan struct{}, 1)
	h.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &closeReporter{c, noticed}, err
	}
	expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
	<-ended
	<-noticed
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "") })
	}
	wg.Wait()
	if got := receiver.conns.Load(); got != 2 {
		t.Errorf("%d connections", got)
	}
}
