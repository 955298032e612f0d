package callback

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/transport"
)

const (
	delivered = notice.OutcomeDelivered
	retry     = notice.OutcomeRetry
	dead      = notice.OutcomeDead
	deferred  = notice.OutcomeDeferred
)

// answer is a complete HTTP/1.1 answer.
func answer(status, body string, headers ...string) talk {
	h := strings.Join(headers, "\r\n")
	if h != "" {
		h += "\r\n"
	}
	return say(fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, h, len(body), body))
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.String()
}

// behaviour is one receiver with the expected result.
type behaviour struct {
	name   string
	talk   talk
	ack    string // default 2xx
	o      notice.Outcome
	r      notice.Reason
	status int
	says   string        // part of the result's text
	after  time.Duration // wanted After
	hangs  bool          // the route's timeout must end it
}

var behaviours = []behaviour{
	// Answers that acknowledge, and answers that look like one.
	{name: "200", talk: answer("200 OK", ""), o: delivered, status: 200},
	{name: "200 with a body", talk: answer("200 OK", "thanks"), o: delivered, status: 200, says: "thanks"},
	{name: "201 with a location", talk: answer("201 Created", "", "Location: /x"), o: delivered, status: 201},
	{name: "202", talk: answer("202 Accepted", ""), o: delivered, status: 202},
	{name: "204", talk: say("HTTP/1.1 204 No Content\r\n\r\n"), o: delivered, status: 204},
	{name: "204 with a body", talk: say("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\nsuccess"), o: delivered, status: 204},
	{name: "204 has no body to acknowledge", talk: say("HTTP/1.1 204 No Content\r\n\r\nsuccess"), ack: "body:success", o: retry,
		r: notice.ReasonAckMismatch, status: 204},
	{name: "299", talk: answer("299 Whatever", ""), o: delivered, status: 299},
	{name: "no reason phrase", talk: say("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), o: delivered, status: 200},
	{name: "HTTP/1.0 without length", talk: say("HTTP/1.0 200 OK\r\n\r\nsuccess"), ack: "body:success", o: delivered, status: 200},
	{name: "line feeds alone", talk: say("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), o: delivered, status: 200},
	{name: "connection: close", talk: answer("200 OK", "x", "Connection: close"), o: delivered, status: 200},
	{name: "set-cookie", talk: answer("200 OK", "x", "Set-Cookie: a=b; Path=/"), o: delivered, status: 200},
	{name: "chunked with trailers",
		talk: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n7\r\nsuccess\r\n0\r\nX-T: 1\r\n\r\n"),
		ack:  "body:success", o: delivered, status: 200},
	{name: "100 continue first", talk: say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), o: delivered,
		status: 200},
	{name: "103 early hints first", talk: say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
		o: delivered, status: 200},
	{name: "status list takes 204", talk: say("HTTP/1.1 204 No Content\r\n\r\n"), ack: "status:200,204", o: delivered, status: 204},
	{name: "status list without 202", talk: answer("202 Accepted", "queued"), ack: "status:200,204", o: retry, r: notice.ReasonStatus,
		status: 202, says: "queued"},
	{name: "success", talk: answer("200 OK", "success"), ack: "body:success", o: delivered, status: 200},
	{name: "success between white space", talk: answer("200 OK", "\r\n success\t\n"), ack: "body:success", o: delivered, status: 200},
	{name: "success after a byte order mark", talk: answer("200 OK", "\ufeffsuccess"), ack: "body:success", o: delivered, status: 200},
	{name: "success in capitals", talk: answer("200 OK", "SUCCESS"), ack: "body:success", o: retry, r: notice.ReasonAckMismatch, status: 200,
		says: "SUCCESS"},
	{name: "success in small letters", talk: answer("200 OK", "success"), ack: "body:SUCCESS", o: retry, r: notice.ReasonAckMismatch,
		status: 200},
	{name: "success in HTML", talk: answer("200 OK", "<p>success</p>"), ack: "body:success", o: retry, r: notice.ReasonAckMismatch,
		status: 200},
	{name: "success with status 500", talk: answer("500 Oops", "success"), ack: "body:success", o: retry, r: notice.ReasonStatus5xx,
		status: 500},
	{name: "empty body", talk: answer("200 OK", ""), ack: "body:success", o: retry, r: notice.ReasonAckMismatch, status: 200},
	{name: "WeChat's code", talk: answer("200 OK", `{"code":"SUCCESS","message":"成功"}`), ack: "json:code=SUCCESS", o: delivered, status: 200},
	{name: "WeChat's failure", talk: answer("200 OK", `{"code":"FAIL","message":"失败"}`), ack: "json:code=SUCCESS", o: retry,
		r: notice.ReasonAckMismatch, status: 200, says: "失败"},
	{name: "JSON under text/html", talk: answer("200 OK", `{"code":0}`, "Content-Type: text/html"), ack: "json:code=0", o: delivered,
		status: 200},
	{name: "HTML where JSON is wanted", talk: answer("200 OK", `<html>`), ack: "json:code=0", o: retry, r: notice.ReasonAckMismatch,
		status: 200, says: "not JSON"},
	{name: "gzip that was not requested", talk: answer("200 OK", zipped("success"), "Content-Encoding: gzip"), ack: "body:success",
		o: delivered, status: 200, says: "success"},
	{name: "gzip that is none", talk: answer("200 OK", "success", "Content-Encoding: gzip"), ack: "body:success", o: delivered, status: 200},
	{name: "gzip bomb", talk: answer("200 OK", zipped(strings.Repeat("0", 2<<20)), "Content-Encoding: gzip"), o: delivered, status: 200},
	{name: "gzip bomb before the acknowledgement", talk: answer("200 OK", zipped(strings.Repeat(" ", 2<<20)+"success"),
		"Content-Encoding: gzip"),
		ack: "body:success", o: retry, r: notice.ReasonTooLarge, status: 200},
	{name: "binary body", talk: answer("200 OK", "\x00\x01\xff\xfe"), o: delivered, status: 200, says: `\x00\x01\xff\xfe`},
	{name: "GBK text", talk: answer("500 Oops", "\xb3\xc9\xb9\xa6"), o: retry, r: notice.ReasonStatus5xx, status: 500,
		says: `\xb3\xc9\xb9\xa6`},
	{name: "terminal escapes", talk: answer("500 Oops", "\x1b[2Jgone"), o: retry, r: notice.ReasonStatus5xx, status: 500, says: `\x1b[2Jgone`},
	{name: "64 KiB and the acknowledgement in it", talk: answer("200 OK", strings.Repeat(" ", transport.MaxBody-7)+"success"),
		ack: "body:success", o: delivered, status: 200},
	{name: "a byte more than is read", talk: answer("200 OK", strings.Repeat(" ", transport.MaxBody-6)+"success"),
		ack: "body:success", o: retry, r: notice.ReasonTooLarge, status: 200},

	// Refusals.
	{name: "301", talk: answer("301 Moved", "", "Location: https://www.shop.example/n"), o: retry, r: notice.ReasonRedirect, status: 301,
		says: "https://www.shop.example/n"},
	{name: "302 to a login page", talk: answer("302 Found", "", "Location: /login"), o: retry, r: notice.ReasonRedirect, status: 302,
		says: "/login"},
	{name: "303", talk: answer("303 See Other", "", "Location: ok"), o: retry, r: notice.ReasonRedirect, status: 303},
	{name: "304", talk: say("HTTP/1.1 304 Not Modified\r\n\r\n"), o: retry, r: notice.ReasonRedirect, status: 304},
	{name: "307", talk: answer("307 Again", "", "Location: https://www.shop.example/n"), o: retry, r: notice.ReasonRedirect, status: 307,
		says: "www"},
	{name: "308 to itself", talk: answer("308 Again", "", "Location: /"), o: retry, r: notice.ReasonRedirect, status: 308},
	{name: "3xx without a target", talk: answer("302 Found", "success"), ack: "body:success", o: retry, r: notice.ReasonRedirect, status: 302,
		says: "not followed"},
	{name: "400", talk: answer("400 Bad Request", "no"), o: retry, r: notice.ReasonStatus4xx, status: 400, says: "no"},
	{name: "401", talk: answer("401 Unauthorized", "", "WWW-Authenticate: Basic"), o: retry, r: notice.ReasonStatus4xx, status: 401},
	{name: "404", talk: answer("404 Not Found", ""), o: retry, r: notice.ReasonStatus4xx, status: 404},
	{name: "410", talk: answer("410 Gone", ""), o: dead, r: notice.ReasonGone, status: 410},
	{name: "423", talk: answer("423 Locked", "", "Retry-After: 2"), o: deferred, r: notice.ReasonLocked, status: 423, after: 2 * time.Second},
	{name: "429 with retry-after", talk: answer("429 Too Many", "", "Retry-After: 120"), o: retry, r: notice.ReasonStatus4xx, status: 429,
		after: 2 * time.Minute},
	{name: "500", talk: answer("500 Oops", ""), o: retry, r: notice.ReasonStatus5xx, status: 500},
	{name: "502 from a gateway", talk: answer("502 Bad Gateway", "<html>nginx</html>"), o: retry, r: notice.ReasonStatus5xx, status: 502,
		says: "nginx"},
	{name: "503 with a date", talk: answer("503 Later", "", "Date: Sat, 21 Nov 2026 12:00:00 GMT",
		"Retry-After: Sat, 21 Nov 2026 12:10:00 GMT"),
		o: retry, r: notice.ReasonStatus5xx, status: 503, after: 10 * time.Minute},
	{name: "abort-message", talk: answer("500 Oops", "", "webhook-delivery: abort-message"), o: dead, r: notice.ReasonAborted, status: 500},
	{name: "status 600", talk: answer("600 Hm", ""), o: retry, r: notice.ReasonStatus, status: 600},
	{name: "status 999", talk: answer("999 Request denied", ""), o: retry, r: notice.ReasonStatus, status: 999},
	{name: "status 000", talk: answer("000 Nothing", ""), o: retry, r: notice.ReasonProtocol},
	{name: "101", talk: hold("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), o: retry,
		r: notice.ReasonStatus, status: 101},
	{name: "early 413", talk: func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		<-stop
	}, o: retry, r: notice.ReasonStatus4xx, status: 413},

	// Broken answers.
	{name: "closes at once", talk: func(net.Conn, *bufio.Reader, <-chan struct{}) {}, o: retry, r: notice.ReasonReset},
	{name: "closes after the request", talk: say(""), o: retry, r: notice.ReasonReset, says: "while waiting for the answer's head"},
	{name: "resets after the request", talk: reset(""), o: retry, r: notice.ReasonReset},
	{name: "closes within the head", talk: say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), o: retry, r: notice.ReasonReset,
		says: `received "HTTP/1.1 200 OK"`},
	{name: "closes within a line of the head", talk: say("HTTP/1.1 200 OK\r\nContent-"), o: retry, r: notice.ReasonReset,
		says: `received "HTTP/1.1 200 OK"`},
	{name: "closes within the status line", talk: say("HTTP/1.1 20"), o: retry, r: notice.ReasonReset, says: `received "HTTP/1.1 20"`},
	{name: "speaks SSH", talk: say("SSH-2.0-OpenSSH_9.6\r\n"), o: retry, r: notice.ReasonProtocol, says: "SSH-2.0-OpenSSH_9.6"},
	{name: "speaks Redis", talk: say("-ERR unknown command 'POST'\r\n"), o: retry, r: notice.ReasonProtocol},
	{name: "sends a body without a head", talk: say("success"), ack: "body:success", o: retry, r: notice.ReasonProtocol, says: `"success"`},
	{name: "status that is no number", talk: say("HTTP/1.1 abc OK\r\n\r\n"), o: retry, r: notice.ReasonProtocol},
	{name: "header without a colon", talk: say("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), o: retry, r: notice.ReasonProtocol,
		says: `received "HTTP/1.1 200 OK"`},
	{name: "two different lengths", talk: say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), o: retry,
		r: notice.ReasonProtocol},
	{name: "length that is no number", talk: say("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), o: retry, r: notice.ReasonProtocol},
	{name: "a megabyte of head", talk: say("HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), o: retry,
		r: notice.ReasonProtocol},
	{name: "endless head", talk: flood("HTTP/1.1 200 OK\r\n", "X-More: more\r\n"), o: retry, r: notice.ReasonProtocol},
	{name: "endless 1xx", talk: flood("", "HTTP/1.1 102 Processing\r\n\r\n"), o: retry, r: notice.ReasonProtocol},
	{name: "length too long", talk: say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsuccess"), o: delivered, status: 200, says: "success"},
	{name: "length too long where the body counts", talk: say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsuccess"), ack: "body:success",
		o: retry, r: notice.ReasonReset, status: 200, says: "unexpected EOF: success"},
	{name: "length too short", talk: say("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess and more"), ack: "body:success", o: delivered,
		status: 200},
	{name: "reset within the body", talk: reset("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsucc"), o: delivered, status: 200},
	{name: "reset within a body that counts", talk: reset("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsucc"), ack: "body:success", o: retry,
		r: notice.ReasonReset, status: 200, says: ": succ"},
	{name: "broken chunks", talk: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nsuccess\r\n"), ack: "body:success", o: retry,
		r: notice.ReasonProtocol, status: 200},
	{name: "chunks cut off", talk: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nsuccess\r\n"), ack: "body:success", o: retry,
		r: notice.ReasonReset, status: 200},
	{name: "broken chunks after 2xx", talk: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), o: delivered, status: 200},
	{name: "endless body", talk: flood("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)), o: delivered, status: 200},
	{name: "endless body that counts", talk: flood("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)), ack: "body:success", o: retry,
		r: notice.ReasonTooLarge, status: 200},
	{name: "endless event stream", talk: drip("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:"), o: delivered, status: 200},
	{name: "holds the body back", talk: hold("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsucc"), o: delivered, status: 200, says: "succ"},
	{name: "holds an error's body back", talk: hold("HTTP/1.1 500 Oops\r\nContent-Length: 7\r\n\r\n"), o: retry, r: notice.ReasonStatus5xx,
		status: 500},

	// No answer.
	{name: "never answers", talk: hold(""), o: retry, r: notice.ReasonTimeout, says: "waiting for the answer's head", hangs: true},
	{name: "stops within the head", talk: hold("HTTP/1.1 200 OK\r\nConte"), o: retry, r: notice.ReasonTimeout,
		says: `waiting for the answer's head; received "HTTP/1.1 200 OK"`, hangs: true},
	{name: "a status that is not accepted", talk: answer("201 Created", "made"), ack: "status:200,204", o: retry, r: notice.ReasonStatus,
		status: 201, says: "201 is not in 200,204: made"},
	{name: "drips its head", talk: drip("HTTP/1.1 200 OK\r\nX-Slow: zzzzzzzzzz"), o: retry, r: notice.ReasonTimeout,
		says: "waiting for the answer's head", hangs: true},
	{name: "1xx and then nothing", talk: hold("HTTP/1.1 102 Processing\r\n\r\n"), o: retry, r: notice.ReasonTimeout, hangs: true},
	{name: "holds a body back that counts", talk: hold("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsucc"), ack: "body:success", o: retry,
		r: notice.ReasonTimeout, status: 200, says: "reading the answer's body: succ", hangs: true},
	{name: "drips a body that counts", talk: drip("HTTP/1.1 200 OK\r\n\r\nsuccess "), ack: "body:success", o: retry, r: notice.ReasonTimeout,
		status: 200, hangs: true},
}

func TestReceivers(t *testing.T) {
	t.Parallel()
	if len(behaviours) < 60 {
		t.Errorf("only %d behaviours", len(behaviours))
	}
	ca := newAuthority(t)
	cert := ca.issue(t, nil)
	t.Run("plain", func(t *testing.T) { tryReceivers(t, nil, "") })
	t.Run("TLS", func(t *testing.T) {
		conf := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		tryReceivers(t, conf, ca.file)
	})
}

func (b behaviour) route(t *testing.T, address string, conf *tls.Config, ca string) *route.Route {
	r := fixedRoute(map[bool]string{true: "http://", false: "https://"}[conf == nil] + address + "/")
	r.CAFile = ca
	if b.ack != "" {
		r.Ack = *ack(t, b.ack)
	}
	return r
}

func (b behaviour) check(t *testing.T, res notice.Result) {
	expect(t, res, b.o, b.r)
	if res.Status == 0 { // otherwise the text is the receiver's
		namesNoAddress(t, b.name, res)
	}
	if res.Status != b.status || res.After != b.after || !strings.Contains(res.Response, b.says) || len(res.Response) > notice.KeptResponse {
		t.Errorf("status %d, after %s, %.200q; want %d, %s, %q", res.Status, res.After, res.Response, b.status, b.after, b.says)
	}
}

func tryReceivers(t *testing.T, conf *tls.Config, ca string) {
	h, results := newHandler(t, Options{}), make([]notice.Result, len(behaviours))
	var wg sync.WaitGroup
	for i, b := range behaviours {
		if !b.hangs {
			r := b.route(t, listen(t, conf, b.talk), conf, ca)
			wg.Go(func() { results[i] = h.Handle(background(t), r, testNotice(`{"paid":true}`)) })
		}
	}
	wg.Wait()
	wall := time.Now().Round(0)
	for i, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			if b.hangs {
				synctest.Test(t, func(t *testing.T) { b.hang(t, conf, ca, wall) })
				return
			}
			b.check(t, results[i])
		})
	}
}

// hang makes a call that the route's timeout must end. It runs in virtual time: by the clock of a busy machine a call can
// end before the receiver has the request.
func (b behaviour) hang(t *testing.T, conf *tls.Config, ca string, wall time.Time) {
	time.Sleep(time.Until(wall)) // a bubble begins in the year 2000, when the certificates were not valid
	if conf != nil {             // net.Pipe has no buffer, so server and client would write at the same time and wait for each other
		conf = conf.Clone()
		conf.SessionTicketsDisabled = true
	}
	var conns sync.WaitGroup
	stop, h := make(chan struct{}), newHandler(t, Options{})
	h.dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		conns.Go(func() { testkit.ServeConn(there, conf, b.talk, stop) })
		return here, nil
	}
	r := b.route(t, "127.0.0.1:9", conf, ca)
	r.Timeout = 5 * time.Second
	begin := time.Now()
	b.check(t, h.Handle(background(t), r, testNotice(`{"paid":true}`)))
	if took := time.Since(begin); took != r.Timeout {
		t.Errorf("it took %s, want %s", took, r.Timeout)
	}
	close(stop)
	h.Close()
	conns.Wait()
}

func TestReceiverThatDoesNotReadTimesOut(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	r := fixedRoute("http://" + listen(t, nil, func(_ net.Conn, _ *bufio.Reader, stop <-chan struct{}) { <-stop }))
	r.Timeout = 3 * time.Second
	res := h.Handle(background(t), r, testNotice(strings.Repeat("x", 32<<20)))
	expect(t, res, retry, notice.ReasonTimeout)
	if !strings.Contains(res.Response, "sending the request") {
		t.Error(res.Response)
	}
}

func TestFailedConnectionIsRetried(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	h := newHandler(t, Options{})
	expect(t, h.Handle(background(t), fixedRoute("http://"+l.Addr().String()), testNotice("x")), retry, notice.ReasonConnect)

	silent := newHandler(t, Options{})
	silent.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { // a host that drops every SYN
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := fixedRoute("http://127.0.0.1:9")
	r.Timeout = 50 * time.Millisecond
	res := silent.Handle(background(t), r, testNotice("x"))
	expect(t, res, retry, notice.ReasonTimeout)
	if !strings.Contains(res.Response, "total, 50ms") {
		t.Error(res.Response)
	}
	own := newHandler(t, Options{})
	own.dial = func(context.Context, string, string) (net.Conn, error) { // the error of a dialer's own timeout
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: timeoutError{}}
	}
	res = own.Handle(background(t), fixedRoute("http://127.0.0.1:9"), testNotice("x"))
	expect(t, res, retry, notice.ReasonTimeout)
	if !strings.Contains(res.Response, "timeout (connect)") {
		t.Error(res.Response)
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

func TestStoppingDefers(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	ctx, cancel := context.WithCancel(background(t))
	url := "http://" + listen(t, nil, func(_ net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		_ = testkit.ReadRequest(in)
		cancel()
		<-stop
	})
	expect(t, h.Handle(ctx, fixedRoute(url), testNotice("x")), deferred, notice.ReasonShutdown)
}

func TestTLSReceivers(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	ok := answer("200 OK", "")
	good := ca.issue(t, nil)
	conf := func(c tls.Certificate, change func(*tls.Config)) *tls.Config {
		conf := &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: []string{"http/1.1"}}
		if change != nil {
			change(conf)
		}
		return conf
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	mutual := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool }
	for _, c := range []struct {
		name   string
		conf   *tls.Config
		talk   talk
		change func(*route.Route)
		o      notice.Outcome
		r      notice.Reason
		says   string
	}{
		{"trusted", conf(good, nil), ok, nil, delivered, "", ""},
		{"TLS 1.2", conf(good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), ok, nil, delivered, "", ""},
		{"TLS 1.1", conf(good, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), ok, nil, retry,
			notice.ReasonTLS, "protocol version"},
		{"unknown authority", conf(other.issue(t, nil), nil), ok, nil, retry, notice.ReasonTLS, "unknown authority"},
		{"no CA file", conf(good, nil), ok, func(r *route.Route) { r.CAFile = "" }, retry, notice.ReasonTLS, "unknown authority"},
		{"expired", conf(ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), nil), ok, nil, retry,
			notice.ReasonTLS, "expired"},
		{"not yet valid", conf(ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }), nil), ok, nil, retry,
			notice.ReasonTLS, "not yet valid"},
		{"another host's", conf(ca.issue(t, func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"shop.example"} }), nil), ok,
			nil, retry, notice.ReasonTLS, "127.0.0.1"},
		{"for clients only", conf(ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
			nil),
			ok, nil, retry, notice.ReasonTLS, "key usage"},
		{"wants a client certificate", conf(good, mutual), ok, nil, retry, notice.ReasonTLS, "certificate required"},
		{"gets a client certificate", conf(good, mutual), ok, func(r *route.Route) { r.CertFile, r.KeyFile = files(t, ca.issue(t, nil)) },
			delivered, "", ""},
		{"gets a wrong client certificate", conf(good, mutual), ok, func(r *route.Route) {
			r.CertFile, r.KeyFile = files(t, other.issue(t,
				nil))
		}, retry, notice.ReasonTLS, ""},
		{"speaks plain HTTP", nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
			_, _ = in.ReadByte()
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		}, nil, retry, notice.ReasonTLS, ""},
		{"closes within the handshake", nil, func(_ net.Conn, in *bufio.Reader, _ <-chan struct{}) { _, _ = in.ReadByte() }, nil, retry,
			notice.ReasonTLS, ""},
		{"hangs in the handshake", nil, func(_ net.Conn, _ *bufio.Reader, stop <-chan struct{}) { <-stop }, nil, retry, notice.ReasonTimeout,
			"timeout (TLS) during the TLS handshake"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{TLSTimeout: 30 * time.Second}
			if c.r == notice.ReasonTimeout {
				o.TLSTimeout = time.Second
			}
			h := newHandler(t, o)
			r := fixedRoute("https://" + listen(t, c.conf, c.talk) + "/")
			r.CAFile = ca.file
			if c.change != nil {
				c.change(r)
			}
			res := h.Handle(background(t), r, testNotice("x"))
			expect(t, res, c.o, c.r)
			if !strings.Contains(res.Response, c.says) {
				t.Errorf("%q, want %q", res.Response, c.says)
			}
		})
	}
	t.Run("plain call to a TLS port", func(t *testing.T) {
		h := newHandler(t, Options{})
		res := h.Handle(background(t), fixedRoute("http://"+listen(t, conf(good, nil), ok)), testNotice("x"))
		if res.Outcome != retry {
			t.Errorf("%+v", res)
		}
	})
}

// frames makes an HTTP/2 receiver from its behaviour on the headers of a request's stream.
func frames(onHeaders func(c net.Conn, f *http2.Framer, stream uint32)) talk {
	return framed(func(*http2.Framer) {}, onHeaders)
}

// framed is as frames, and calls opened after the first SETTINGS frame.
func framed(opened func(f *http2.Framer), onHeaders func(c net.Conn, f *http2.Framer, stream uint32)) talk {
	return func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(in, preface); err != nil {
			return
		}
		f := http2.NewFramer(c, in)
		_ = f.WriteSettings()
		opened(f)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch x := frame.(type) {
			case *http2.SettingsFrame:
				if !x.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				onHeaders(c, f, x.StreamID)
			case *http2.PingFrame:
				if !x.IsAck() {
					_ = f.WritePing(true, x.Data)
				}
			case *http2.GoAwayFrame:
				return
			}
		}
	}
}

func respond(f *http2.Framer, stream uint32, status string) {
	var b bytes.Buffer
	_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndStream: true, EndHeaders: true})
}

func TestHTTP2Receivers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, nil)
	for _, c := range []struct {
		name string
		on   func(calls int) func(net.Conn, *http2.Framer, uint32)
		o    notice.Outcome
		r    notice.Reason
		slow bool
	}{
		{"200", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(_ net.Conn, f *http2.Framer, s uint32) { respond(f, s, "200") }
		}, delivered, "", false},
		{"503", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(_ net.Conn, f *http2.Framer, s uint32) { respond(f, s, "503") }
		}, retry, notice.ReasonStatus5xx, false},
		{"stream reset", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(_ net.Conn, f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeInternal) }
		}, retry, notice.ReasonReset, false},
		{"GOAWAY within the exchange", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(c net.Conn, f *http2.Framer, s uint32) {
				_ = f.WriteGoAway(s, http2.ErrCodeInternal, nil)
				_ = c.Close()
			}
		}, retry, notice.ReasonReset, false},
		{"graceful GOAWAY, then a new connection", func(n int) func(net.Conn, *http2.Framer, uint32) {
			return func(c net.Conn, f *http2.Framer, s uint32) {
				if n == 1 {
					_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
					_ = c.Close()
					return
				}
				respond(f, s, "200")
			}
		}, delivered, "", false},
		{"closes", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(c net.Conn, _ *http2.Framer, _ uint32) { _ = c.Close() }
		}, retry, notice.ReasonReset, false},
		{"never answers", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(net.Conn, *http2.Framer, uint32) {}
		}, retry, notice.ReasonTimeout, true},
		{"a frame that is none", func(int) func(net.Conn, *http2.Framer, uint32) {
			return func(_ net.Conn, f *http2.Framer, s uint32) { _ = f.WriteData(s, true, []byte("x")) }
		}, retry, notice.ReasonReset, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := make(chan int, 1)
			calls <- 0
			addr := listen(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}},
				func(conn net.Conn, in *bufio.Reader, stop <-chan struct{}) {
					n := <-calls + 1
					calls <- n
					frames(c.on(n))(conn, in, stop)
				})
			h := newHandler(t, Options{})
			r := fixedRoute("https://" + addr + "/")
			r.CAFile = ca.file
			if c.slow {
				r.Timeout = time.Second
			}
			expect(t, h.Handle(background(t), r, testNotice("x")), c.o, c.r)
		})
	}
}
