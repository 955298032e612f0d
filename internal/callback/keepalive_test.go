package callback

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

const okEmpty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// A request on a kept connection that broke within a second was sent again, although the receiver had read
// all of it and was processing it. net/http itself does the same with a GET and with requests that have an
// Idempotency-Key.
func TestRequestReadInFullIsNotRepeated(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, secure := range []bool{false, true} {
		for name, change := range map[string]func(*notice.Notice){
			"POST":                      func(*notice.Notice) {},
			"large":                     func(n *notice.Notice) { n.Body = []byte(`"` + strings.Repeat("x", 100<<10) + `"`) },
			"POST without a body":       func(n *notice.Notice) { n.Body = nil },
			"PUT":                       func(n *notice.Notice) { n.Method = "PUT" },
			"GET":                       func(n *notice.Notice) { n.Method = "GET" },
			"POST with idempotency key": func(n *notice.Notice) { n.Headers = []notice.Header{{Name: "Idempotency-Key", Value: "7"}} },
			"and none, with the key": func(n *notice.Notice) {
				n.Body, n.Headers = nil, []notice.Header{{Name: "x-idempotency-key", Value: "7"}}
			},
		} {
			for _, end := range []string{"closes", "resets"} {
				t.Run(fmt.Sprintf("%s/tls %v/%s", name, secure, end), func(t *testing.T) {
					var conf *tls.Config
					if secure {
						conf = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"http/1.1"}}
					}
					var requests atomic.Int64
					addr := listen(t, conf, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
						for testkit.ReadRequest(in) == nil {
							if requests.Add(1) == 2 {
								if tcp, ok := c.(*net.TCPConn); ok && end == "resets" {
									_ = tcp.SetLinger(0)
								}
								return // the request was read, but not answered
							}
							_, _ = io.WriteString(c, okEmpty)
						}
					})
					h := newHandler(t, Options{})
					r := fixedRoute(map[bool]string{false: "http://", true: "https://"}[secure] + addr)
					r.CAFile = ca.file
					expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
					n := testNotice(`{"a":1}`)
					change(n)
					expect(t, h.Handle(background(t), r, n), retry, notice.ReasonReset)
					if got := requests.Load(); got != 2 {
						t.Errorf("the receiver read %d requests, want 2", got)
					}
				})
			}
		}
	}
}

// A receiver that closes a kept connection after its answer, as Node does after five seconds, costs no
// attempt: the connection is checked before it is used.
func TestClosedConnectionIsNotUsed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, secure := range []bool{false, true} {
		var conf *tls.Config
		if secure {
			conf = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"http/1.1"}}
		}
		closed := make(chan struct{}, 1)
		addr := listen(t, conf, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
			if testkit.ReadRequest(in) == nil {
				_, _ = io.WriteString(c, okEmpty)
				testkit.CloseAndWait(t, c)
				closed <- struct{}{}
			}
		})
		h := newHandler(t, Options{})
		r := fixedRoute(map[bool]string{false: "http://", true: "https://"}[secure] + addr)
		r.CAFile = ca.file
		for i := range 50 {
			n := testNotice(`{"a":1}`)
			n.Method = []string{"POST", "GET", "PUT"}[i%3]
			expect(t, h.Handle(background(t), r, n), delivered, "")
			if t.Failed() {
				return // the receiver may not have read it
			}
			<-closed
		}
	}
}

// A request that the receiver cannot have read in full is sent again in the same attempt.
func TestPartlySentRequestIsRepeated(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	addr := listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		first := conns.Add(1) == 1
		for i := 0; ; i++ {
			if first && i == 1 {
				_, _ = in.ReadByte()
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				return
			}
			if testkit.ReadRequest(in) != nil {
				return
			}
			_, _ = io.WriteString(c, okEmpty)
		}
	})
	h := newHandler(t, Options{})
	r := fixedRoute("http://" + addr)
	expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
	n := testNotice(strings.Repeat("x", 32<<20)) // more than the kernel takes at once
	expect(t, h.Handle(background(t), r, n), delivered, "")
	if got := conns.Load(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// An idle connection without a Keep-Alive header is closed here before the receiver closes it.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 4)
	addr := listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		for testkit.ReadRequest(in) == nil {
			_, _ = io.WriteString(c, okEmpty)
		}
		gone <- struct{}{}
	})
	h := newHandler(t, Options{})
	if h.keep != 4*time.Second {
		t.Errorf("kept for %s", h.keep)
	}
	h.keep = 20 * time.Millisecond
	r := fixedRoute("http://" + addr)
	for range 2 {
		expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
		<-gone
	}
}

// Many concurrent calls on connections that are closed all the time: no call is lost or duplicated.
func TestClosingConnectionsLoseNoCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	var conns atomic.Int64
	addr := listen(t, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		for left := 1 + conns.Add(1)%4; left > 0; left-- {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			mu.Lock()
			seen[req.Header.Get("X-Call")]++
			mu.Unlock()
			_, _ = io.WriteString(c, okEmpty)
		}
	})
	h := newHandler(t, Options{})
	h.keep = time.Millisecond
	r := fixedRoute("http://" + addr)
	var wg sync.WaitGroup
	var lost atomic.Int64
	const callers, each = 8, 100
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				n := testNotice("x")
				n.Headers = []notice.Header{{Name: "X-Call", Value: fmt.Sprint(c, "-", i)}}
				res := h.Handle(background(t), r, n)
				if res.Outcome != delivered {
					lost.Add(1) // written in full while the connection was being closed: it may not be sent again
				}
			}
		})
	}
	wg.Wait()
	for call, n := range seen {
		if n != 1 {
			t.Errorf("call %s came %d times", call, n)
		}
	}
	if len(seen)+int(lost.Load()) < callers*each {
		t.Errorf("%d of %d came, and only %d failed", len(seen), callers*each, lost.Load())
	}
	t.Logf("%d of %d met a closing connection", lost.Load(), callers*each)
}
