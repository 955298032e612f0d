package callback

import (
	"bytes"
	"compress/gzip"
	"context"
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
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// maxBody is how much of an answer is read.
const maxBody = 64 << 10

// Bounds of being put off by 423.
const (
	lockedAfter = 5 * time.Second
	maxLocked   = 100
)

// facts is all that is known of one exchange.
type facts struct {
	status  int // 0 = no answer came
	header  http.Header
	body    []byte // at most maxBody
	more    bool   // there was more of it
	bodyErr error  // the body broke off
	err     error  // no answer came, and why
	stage   stage  // how far it got
	timeout time.Duration
	// expired: the whole call's timeout has passed.
	expired bool
	// overrun is how long after the call's deadline it ended; negative = before.
	overrun time.Duration
	// cancelled: the caller gave up; the instance is stopping.
	cancelled bool
	locked    int // how often the notice was put off by a lock
	target    *url.URL
	fixed     bool // target is the route's, not the notice's own
	now       time.Time
}

// resultOf is what an exchange comes to. It is pure: everything it looks at
// stands in facts.
func resultOf(ack *route.Ack, f *facts) notice.Result {
	if f.status == 0 {
		err := f.err
		if err == nil { // "HTTP/1.1 000" is read without complaint
			err = errNoStatus
		}
		return failure(f, err, 0)
	}
	res := notice.Result{Outcome: notice.OutcomeRetry, Status: f.status}
	body := f.body
	if needsBody(ack) || len(body) > 0 {
		body = decoded(f)
	}
	text := printable(body)

	if statusAcks(ack, f.status) {
		if !needsBody(ack) {
			return notice.Result{Outcome: notice.OutcomeDelivered, Status: f.status, Response: text}
		}
		switch {
		case f.bodyErr != nil:
			return obeyReceiver(f, failure(f, f.bodyErr, f.status))
		case f.more || len(body) > maxBody:
			res.Reason = notice.ReasonTooLarge
			res.Response = fmt.Sprintf("more than %d KiB, and the acknowledgement is looked for in the whole body: %s", maxBody>>10, text)
		default:
			ok, why := bodyAcks(ack, body)
			if ok {
				return notice.Result{Outcome: notice.OutcomeDelivered, Status: f.status, Response: text}
			}
			res.Reason, res.Response = notice.ReasonAckMismatch, join(why, text)
		}
		return obeyReceiver(f, res)
	}

	res.Response = text
	switch {
	case f.status == http.StatusGone:
		res.Outcome, res.Reason = notice.OutcomeDead, notice.ReasonGone
		return res
	case f.status == http.StatusLocked && f.locked < maxLocked:
		after := retryAfter(f.header, f.now)
		if after == 0 {
			after = lockedAfter
		}
		res.Outcome, res.Reason, res.After = notice.OutcomeDeferred, notice.ReasonLocked, after
		// abort-message beats the lock: the receiver wants it no more.
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
	return obeyReceiver(f, res)
}

var errNoStatus = errors.New("status 000")

// obeyReceiver applies what the receiver says beside its status.
func obeyReceiver(f *facts, res notice.Result) notice.Result {
	switch strings.ToLower(strings.TrimSpace(f.header.Get("Webhook-Delivery"))) {
	case "abort-message":
		res.Outcome, res.Reason, res.After = notice.OutcomeDead, notice.ReasonAborted, 0
		return res
	case "disable": // the receiver wants nothing more at all: what 410 says
		res.Outcome, res.Reason, res.After = notice.OutcomeDead, notice.ReasonGone, 0
		return res
	}
	if res.Outcome == notice.OutcomeRetry {
		res.After = retryAfter(f.header, f.now)
	}
	return res
}

func join(detail, text string) string {
	if text == "" {
		return detail
	}
	return notice.Kept(detail + ": " + text)
}

// redirectHint names where a 3xx points to: mostly the address that should have
// been configured.
func redirectHint(f *facts) string {
	loc := f.header.Get("Location")
	if loc == "" {
		return fmt.Sprintf("answered %d; redirects are not followed", f.status)
	}
	u, err := url.Parse(loc)
	// A path that is relative to the address of a route would show that one, which is for operators only.
	if err == nil && f.target != nil && (!f.fixed || u.Host != "" || strings.HasPrefix(u.Path, "/")) {
		u = f.target.ResolveReference(u)
	}
	to := "(an address that cannot be read)"
	if err == nil {
		to = redact(u)
	}
	return fmt.Sprintf("redirected to %.300s; redirects are not followed, give this address as the target", to)
}

// decoded undoes a content encoding that was not asked for, up to the limit. A
// bomb ends there; what cannot be decoded is taken as it is.
func decoded(f *facts) []byte {
	if enc := strings.ToLower(f.header.Get("Content-Encoding")); enc != "gzip" && enc != "x-gzip" {
		return f.body
	}
	z, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		return f.body
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxBody+1))
	if err != nil && len(plain) == 0 {
		return f.body
	}
	return plain
}

// frozen is how long after its deadline a call ends, at least, if it says nothing of the
// receiver: this process was stopped, or its machine was.
const frozen = time.Second

// failure judges an exchange that broke.
func failure(f *facts, err error, status int) notice.Result {
	if f.cancelled && !isTimeout(err) {
		res := notice.DeferredResult(notice.ReasonShutdown, 0, "interrupted: this instance is stopping")
		res.Unsent = false
		return res
	}
	if f.overrun > frozen {
		return notice.RetryResult(notice.ReasonInterrupted, fmt.Sprintf("interrupted: this instance did not run at the deadline of the call, which ended %s later",
			f.overrun.Round(100*time.Millisecond)))
	}
	reason, detail := classify(f, err)
	res := notice.RetryResult(reason, notice.Kept(printable([]byte(detail))))
	res.Status = status
	var blocked *route.BlockedError
	if errors.As(err, &blocked) && blocked.Literal || reason == notice.ReasonInvalid {
		res.Outcome = notice.OutcomeDead
	}
	return res
}

// classify finds the reason of a transport error, and words for it.
func classify(f *facts, err error) (notice.Reason, string) {
	var (
		blocked  *route.BlockedError
		dns      *net.DNSError
		op       *net.OpError
		proxy    *proxyError
		alert    tls.AlertError
		record   tls.RecordHeaderError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		stream   http2.StreamError
		goAway   http2.GoAwayError //lint:ignore SA1019 the transport in use returns it
		shutdown = "the connection broke off " + f.stage.phrase()
	)
	switch {
	case errors.Is(err, errInvalid):
		return notice.ReasonInvalid, err.Error()
	case errors.As(err, &blocked) && blocked.Literal:
		return notice.ReasonBlocked, blocked.Error()
	case errors.As(err, &blocked): // the result must not tell producers the address of an internal name
		return notice.ReasonBlocked, "blocked: private address"
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return notice.ReasonDNS, fmt.Sprintf("the name %s was not found", dns.Name)
		}
		return notice.ReasonDNS, fmt.Sprintf("the name %s could not be looked up: %s", dns.Name, scrubAddresses(dns.Err, ""))
	case isTimeout(err) && f.stage == stageDNS:
		return notice.ReasonDNS, "the name could not be looked up in time"
	case isTimeout(err):
		return notice.ReasonTimeout, timeoutDetail(f)
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"), // alerts, of a type that is not exported
		errors.As(err, &alert), errors.As(err, &record), errors.As(err, &verify), errors.As(err, &unknown), f.stage == stageTLS:
		return notice.ReasonTLS, "tls: " + withoutAddresses(f, err)
	case errors.As(err, &proxy):
		return notice.ReasonConnect, proxy.Error()
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"), f.stage == stageConnect:
		return notice.ReasonConnect, "connect: " + withoutAddresses(f, err)
	case errors.As(err, &stream):
		return notice.ReasonReset, fmt.Sprintf("%s: HTTP/2 stream reset with %s", shutdown, stream.Code)
	case errors.As(err, &goAway), strings.Contains(err.Error(), "GOAWAY"): // the bundled type cannot be named
		return notice.ReasonReset, shutdown + ": HTTP/2 GOAWAY"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, net.ErrClosed), errors.As(err, &op),
		strings.Contains(err.Error(), "server closed idle connection"):
		return notice.ReasonReset, shutdown + ": " + withoutAddresses(f, err)
	}
	return notice.ReasonProtocol, "the answer is no valid HTTP: " + withoutAddresses(f, err)
}

// withoutAddresses is an error's text without IP addresses: those of this machine, of a resolver
// and of a proxy, and what a name leads to, are not for producers, who read the notice. An
// address that the target's url spells out stays.
func withoutAddresses(f *facts, err error) string {
	text := ""
	for {
		var op *net.OpError
		if !errors.As(err, &op) || op.Err == nil {
			break
		}
		text, err = text+op.Op+": ", op.Err
	}
	known := ""
	if f.target != nil {
		known = f.target.Hostname()
	}
	return scrubAddresses(text+err.Error(), known)
}

// addressLike is what an address may be a part of. A zone follows a percent sign.
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

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// timeoutDetail names the timeout that fired: the whole call's, or the one of
// the step it was in.
func timeoutDetail(f *facts) string {
	if f.expired {
		return fmt.Sprintf("timeout (total, %s) %s", f.timeout, f.stage.phrase())
	}
	switch f.stage {
	case stageStart, stageConnect:
		return "timeout (connect) " + stageConnect.phrase()
	case stageTLS:
		return "timeout (TLS) " + f.stage.phrase()
	}
	return "timeout " + f.stage.phrase()
}
