package callback

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
)

// Delay and maximum number of deferrals for answers of 423.
const (
	lockedAfter = 5 * time.Second
	maxLocked   = 100
)

// facts is everything known about one exchange; resultOf needs nothing else.
type facts struct {
	status  int // 0: no answer came
	header  http.Header
	body    []byte          // at most transport.MaxBody
	more    bool            // the body was longer
	bodyErr error           // why the body is incomplete
	err     error           // why no answer came
	stage   transport.Stage // how far the exchange got
	timeout time.Duration
	// expired means that the timeout of the whole call has passed.
	expired bool
	// overrun is the time between the call's deadline and its end; negative if it ended before.
	overrun time.Duration
	// short is the shortage of this machine that caused err; empty = none.
	short notice.Shortage
	// cancelled means that the caller gave up, because the instance is stopping.
	cancelled bool
	locked    int // how often an answer of 423 has deferred the notice
	target    *url.URL
	fixed     bool // target is the route's, not the notice's own
	forwarded bool // a proxy has made the call
	olderTLS  bool // the route accepts an older TLS
	onStatus  route.OnStatus
	now       time.Time
	// secrets, unless nil, returns the secrets of the call, which are removed from the result.
	secrets func() scrubber
}

// add adds the answer.
func (f *facts) add(a *transport.Answer) {
	f.status, f.header, f.body, f.more, f.bodyErr = a.Status, a.Header, a.Body, a.More, a.BodyErr
	f.expired, f.forwarded = a.Expired, a.Forwarded
}

// hidden returns the secrets of the call.
func (f *facts) hidden() scrubber {
	if f.secrets == nil {
		return nil
	}
	return f.secrets()
}

// show returns bytes of an answer or of an error as text of a result. All such text goes through it, uncut: a secret that
// was cut before is not recognised.
func (f *facts) show(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return f.hidden().show(b)
}

// resultOf returns the result of an exchange. It is a pure function of the acknowledgement rule and the
// facts.
func resultOf(ack *route.Ack, f *facts) notice.Result {
	if f.status == 0 {
		err := f.err
		if err == nil { // net/http accepts "HTTP/1.1 000"
			err = errNoStatus
		}

		return failure(f, err, 0)
	}

	body := f.body
	if needsBody(ack) || len(body) > 0 {
		body = decoded(f)
	}

	if statusAcks(ack, f.status) {
		return acknowledged(ack, f, body)
	}

	if f.forwarded {
		if err := transport.ByProxy(f.status, f.header); err != nil {
			return failure(f, err, 0)
		}
	}

	text := f.show(body)
	if ack.Kind == route.AckStatus && f.status >= 200 && f.status <= 299 {
		text = join(fmt.Sprintf("%d is not in %s", f.status, strings.TrimPrefix(ack.String(), "status:")), text)
	}

	return unacknowledged(f, text)
}

// acknowledged returns the result of an answer whose status acknowledges the notice, if its body does too.
func acknowledged(ack *route.Ack, f *facts, body []byte) notice.Result {
	text := f.show(body)
	delivered := notice.Result{Outcome: notice.OutcomeDelivered, Status: f.status, Response: text}
	if !needsBody(ack) {
		return delivered
	}

	res := notice.Result{Outcome: notice.OutcomeRetry, Status: f.status}
	switch {
	case f.bodyErr != nil:
		res = failure(f, f.bodyErr, f.status)
		res.Response = join(res.Response, text)
	case f.more || len(body) > transport.MaxBody:
		res.Reason = notice.ReasonTooLarge
		res.Response = join(fmt.Sprintf("more than %d KiB, too long to search for the acknowledgement", transport.MaxBody>>10), text)
	default:
		ok, why := bodyAcks(ack, body, f.hidden)
		if ok {
			return delivered
		}

		res.Reason, res.Response = notice.ReasonAckMismatch, join(why, text)
	}

	return obeyReceiver(f, res)
}

// unacknowledged returns the result of an answer whose status does not acknowledge the notice.
func unacknowledged(f *facts, text string) notice.Result {
	res := notice.Result{Outcome: notice.OutcomeRetry, Status: f.status, Response: text}
	switch {
	case f.status == http.StatusGone:
		res.Outcome, res.Reason = notice.OutcomeDead, notice.ReasonGone
		return res
	case f.status == http.StatusLocked && f.locked < maxLocked && f.onStatus[f.status] != route.ActionDead:
		after := retryAfter(f.header, f.now)
		if after == 0 {
			after = lockedAfter
		}

		res.Outcome, res.Reason, res.After = notice.OutcomeDeferred, notice.ReasonLocked, after
		// obeyReceiver still applies abort-message: then the receiver wants no further attempt.
	case f.status >= 300 && f.status <= 399:
		res.Reason = notice.ReasonRedirect
		res.Response = join(redirectHint(f), text)
	case f.status >= 400 && f.status <= 499:
		res.Reason = notice.ReasonStatus4xx
	case f.status >= 500 && f.status <= 599:
		res.Reason = notice.ReasonStatus5xx
	default:
		res.Reason = notice.ReasonStatus
	}

	if f.onStatus[f.status] == route.ActionDead {
		res.Outcome, res.After = notice.OutcomeDead, 0
	}

	return obeyReceiver(f, res)
}

var errNoStatus = errors.New("the answer's status is 000")

// obeyReceiver applies the answer's headers Webhook-Delivery and Retry-After to a result.
func obeyReceiver(f *facts, res notice.Result) notice.Result {
	switch strings.ToLower(strings.TrimSpace(f.header.Get("Webhook-Delivery"))) {
	case "abort-message":
		res.Outcome, res.Reason, res.After = notice.OutcomeDead, notice.ReasonAborted, 0
		return res
	case "disable": // the receiver wants no further notice at all, as with 410
		res.Outcome, res.Reason, res.After = notice.OutcomeDead, notice.ReasonGone, 0
		return res
	}

	if res.Outcome == notice.OutcomeRetry {
		res.After = retryAfter(f.header, f.now)
	}

	return res
}

func join(detail, text string) string {
	if text != "" {
		detail += ": " + text
	}
	return notice.Kept(detail)
}

// redirectHint names the target of a 3xx, which is mostly the address that should have been configured.
func redirectHint(f *facts) string {
	loc := f.header.Get("Location")
	if loc == "" {
		return fmt.Sprintf("answered %d; redirects are not followed", f.status)
	}

	u, err := url.Parse(loc)
	// Resolving a relative path would show the address of a route, which only operators may see.
	if err == nil && f.target != nil && (!f.fixed || u.Host != "" || strings.HasPrefix(u.Path, "/")) {
		u = f.target.ResolveReference(u)
	}

	to := "(an invalid address)"
	if err == nil {
		to = f.show([]byte(redact(u)))
	}

	return fmt.Sprintf("redirected to %.300s; redirects are not followed, give this address as the target", to)
}

// decoded returns the body without a content encoding that was not requested, up to a size limit that stops
// compression bombs. A body that cannot be decoded is returned unchanged.
func decoded(f *facts) []byte {
	if enc := strings.ToLower(f.header.Get("Content-Encoding")); enc != "gzip" && enc != "x-gzip" {
		return f.body
	}

	z, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		return f.body
	}

	plain, err := io.ReadAll(io.LimitReader(z, transport.MaxBody+1))
	if err != nil && len(plain) == 0 {
		return f.body
	}

	return plain
}

// frozen is the minimal overrun that shows that this process, or its machine, was stopped. Such a call says
// nothing about the receiver.
const frozen = time.Second

// failure returns the result of an exchange that failed with err. status is 0 if no answer came.
func failure(f *facts, err error, status int) notice.Result {
	if f.cancelled && !transport.IsTimeout(err) {
		res := notice.DeferredResult(notice.ReasonShutdown, 0, "interrupted: this instance is stopping")
		res.Unsent = false
		return res
	}

	if f.overrun > frozen {
		return notice.RetryResult(notice.ReasonInterrupted, fmt.Sprintf("interrupted: this instance did not run at the deadline of the call, "+
			"which ended %s later",
			f.overrun.Round(100*time.Millisecond)))
	}

	if f.short != "" {
		return local(f.short, f.stage)
	}

	reason, detail := classify(f, err)
	var head *transport.HeadError
	if errors.As(err, &head) && !strings.Contains(detail, head.Line) {
		detail += "; received " + strconv.Quote(head.Line)
	}

	if reason == notice.ReasonTLS && !f.olderTLS && wantsOlderTLS(err) {
		detail += "; if the receiver has an older TLS, set _TLS=compatible for the route"
	}

	res := notice.RetryResult(reason, f.show([]byte(detail)))
	res.Status = status
	var blocked *route.BlockedError
	if errors.As(err, &blocked) && blocked.Literal || reason == notice.ReasonInvalid {
		res.Outcome = notice.OutcomeDead
	}

	return res
}

// classify returns the reason of a transport error and a description of it.
func classify(f *facts, err error) (notice.Reason, string) {
	var (
		blocked  *route.BlockedError
		dns      *net.DNSError
		op       *net.OpError
		proxy    *transport.ProxyError
		alert    tls.AlertError
		record   tls.RecordHeaderError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		stream   http2.StreamError
		goAway   *transport.GoAwayError
		shutdown = "the connection broke off " + f.stage.Phrase()
	)
	switch {
	case errors.Is(err, errInvalid):
		return notice.ReasonInvalid, err.Error()
	case errors.As(err, &blocked) && blocked.Literal:
		return notice.ReasonBlocked, blocked.Error()
	case errors.As(err, &blocked): // producers read the result and must not learn the address behind an internal name
		return notice.ReasonBlocked, "blocked: private address"
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return notice.ReasonDNS, fmt.Sprintf("the name %s was not found", dns.Name)
		}
		return notice.ReasonDNS, fmt.Sprintf("the lookup of %s failed: %s", dns.Name, scrubAddresses(dns.Err, ""))
	case transport.IsTimeout(err) && f.stage == transport.StageDNS:
		return notice.ReasonDNS, "the lookup of the name timed out"
	case transport.IsTimeout(err):
		return notice.ReasonTimeout, timeoutDetail(f)
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"), // alerts: their type is not exported
		errors.As(err, &alert), errors.As(err, &record), errors.As(err, &verify), errors.As(err, &unknown), f.stage == transport.StageTLS:
		return notice.ReasonTLS, "tls: " + strings.TrimPrefix(withoutAddresses(f, err), "tls: ")
	case errors.As(err, &proxy):
		return notice.ReasonConnect, proxy.Error()
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"), f.stage == transport.StageConnect:
		return notice.ReasonConnect, "connect: " + strings.TrimPrefix(withoutAddresses(f, err), "dial: ")
	case errors.As(err, &stream):
		return notice.ReasonReset, fmt.Sprintf("%s: HTTP/2 stream reset with %s", shutdown, stream.Code)
	case errors.As(err, &goAway), errors.Is(err, transport.ErrUnusedStream):
		return notice.ReasonReset, shutdown + ": " + err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, net.ErrClosed), errors.As(err, &op):
		return notice.ReasonReset, shutdown + ": " + withoutAddresses(f, err)
	}

	return notice.ReasonProtocol, "the answer is not valid HTTP: " + withoutAddresses(f, err)
}

// withoutAddresses returns the text of a network error with each IP address replaced by "(address)", except one that is
// the host of the called url. Producers can read the text, and must not learn other addresses, such as those of this
// machine, a resolver or a proxy.
func withoutAddresses(f *facts, err error) string {
	text := ""
	for {
		var op *net.OpError
		if !errors.As(err, &op) || op.Err == nil {
			break
		}

		text, err = text+op.Op+": ", op.Err
	}

	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err // the operation names the system call already
	}

	known := ""
	if f.target != nil {
		known = f.target.Hostname()
	}

	return scrubAddresses(f.hidden().scrub(text+err.Error()), known)
}

// addressLike matches every text that may contain an address. A zone follows a percent sign.
var addressLike = regexp.MustCompile(`\[?[0-9A-Fa-f.:]*[.:][0-9A-Fa-f.:]*(%[0-9A-Za-z]+)?(\](:\d+)?)?`)

func scrubAddresses(text, known string) string {
	return addressLike.ReplaceAllStringFunc(text, func(s string) string {
		bare := strings.TrimRight(s, ".:")
		ip, err := netip.ParseAddr(strings.Trim(bare, "[]"))
		if at, perr := netip.ParseAddrPort(bare); perr == nil {
			ip, err = at.Addr(), nil
		}

		if err != nil || ip.WithZone("").String() == known {
			return s
		}

		return "(address)" + s[len(bare):]
	})
}

// timeoutDetail names the timeout that fired: that of the whole call or that of the current step.
func timeoutDetail(f *facts) string {
	if f.expired {
		return fmt.Sprintf("timeout (total, %s) %s", f.timeout, f.stage.Phrase())
	}

	switch f.stage {
	case transport.StageStart, transport.StageConnect:
		return "timeout (connect) " + transport.StageConnect.Phrase()
	case transport.StageTLS:
		return "timeout (TLS) " + f.stage.Phrase()
	}

	return "timeout " + f.stage.Phrase()
}
