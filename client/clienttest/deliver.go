package clienttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/client"
	"notifier/client/webhook"
)

// notice is a notice in the service.
type notice struct {
	content
	key, id   string
	serial    int
	route     *routeState
	state     client.State
	due       time.Time
	createdAt time.Time
	firstDue  time.Time // the due time when it was created
	settledAt time.Time
	tick      time.Time // of a notice of a recurring one
	reason    string
	attempts  []client.Attempt
	used      int  // attempts made
	redriven  int  // attempts before the last redrive or resend
	ended     int  // how often it was finalized before
	resend    int  // how often it was resent
	resent    int  // value of ending at the last resend
	handed    bool // pushed to a consumer, and awaiting a report
	locked    int  // how often it was deferred
}

func (n *notice) ladder() []time.Duration {
	if n.steps != nil {
		return n.steps
	}
	return n.route.Retry
}

func (n *notice) last() *client.Attempt { return &n.attempts[len(n.attempts)-1] }

// result is the result of an attempt.
type result struct {
	status   int
	reason   string // empty = delivered
	response string
	after    time.Duration // minimum delay until the next attempt
	final    bool          // no further attempt
	deferred bool          // does not count as an attempt
}

const (
	keptAttempts = 20
	keptResponse = 512
	deferral     = 5 * time.Second
	maxDeferrals = 100
)

// attempt makes an attempt. Its receiver may call the API, and even cancel this notice.
func (s *Service) attempt(n *notice) {
	switch kind := targetKind(n.route.Target); kind {
	case "list", "stream":
		n.route.entries = append(n.route.entries, s.entry(n))
		if n.route.Report {
			s.hand(n)
			return
		}

		s.end(n, result{})
	case "log":
		s.end(n, result{})
	default:
		n.state = client.Claimed
		req, cancel := s.request(n)
		defer cancel()
		r := s.call(req, n.locked)
		// A call may have changed the notice during the attempt. Then the outcome changes nothing.
		if s.kept[n.key] == n && n.state == client.Claimed {
			s.end(n, r)
		}
	}
}

// entry returns the entry of the coming attempt.
func (s *Service) entry(n *notice) Entry {
	e := Entry{ID: n.id, Key: n.key, Attempt: n.used + 1, Due: n.due}
	if !n.route.Sealed || n.typed {
		e.ContentType = n.contentType
	}

	if n.route.Sealed {
		e.Sealed = s.seal(n)
	} else {
		e.Body = bytes.Clone(n.body)
	}

	return e
}

// hand records a notice as pushed to its consumer, which must report within the route's timeout.
func (s *Service) hand(n *notice) {
	s.count(n, result{})
	n.state, n.handed, n.due = client.Claimed, true, s.now.Add(n.route.Timeout)
}

// unreported settles an attempt whose report is overdue.
func (s *Service) unreported(n *notice) {
	s.end(n, result{reason: "unreported"})
}

// count adds an attempt to a notice.
func (s *Service) count(n *notice, r result) {
	n.used++
	n.attempts = append(n.attempts, client.Attempt{N: n.used, At: s.now, Status: r.status, Reason: r.reason, Response: r.response})
	if over := len(n.attempts) - keptAttempts; over > 0 {
		n.attempts = n.attempts[over:]
	}
}

// end settles an attempt. The attempt of a pushed notice has already been counted.
func (s *Service) end(n *notice, r result) {
	if r.deferred && n.locked < maxDeferrals {
		if n.handed { // the next attempt has the same number
			n.used--
			n.attempts = n.attempts[:len(n.attempts)-1]
		}

		n.locked++
		n.state, n.handed, n.due = client.Scheduled, false, s.now.Add(r.after)
		if n.expired(s.now) {
			s.bury(n)
		}

		return
	}

	if n.handed {
		n.last().Reason, n.last().Response = r.reason, r.response
	} else {
		s.count(n, r)
	}

	n.handed, n.locked = false, 0

	step := n.used - n.redriven - 1
	switch steps := n.ladder(); {
	case r.reason == "":
		n.state, n.settledAt = client.Delivered, s.now
	case r.final || step >= len(steps):
		n.state, n.settledAt, n.reason = client.Dead, s.now, r.reason
	case n.expired(s.now):
		s.bury(n)
	default:
		n.state, n.due = client.Scheduled, s.now.Add(max(steps[step], r.after))
	}
}

// request returns the signed HTTP request of an attempt.
func (s *Service) request(n *notice) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), n.route.Timeout)
	req, signed := n.unsigned(ctx)

	for name, value := range n.headers {
		req.Header.Set(name, value)
	}

	if n.contentType != "" && req.Method != http.MethodGet {
		req.Header.Set("Content-Type", n.contentType)
	}

	req.Header.Set("User-Agent", "notifier/clienttest")
	req.Header.Set("Webhook-Id", n.id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
	req.Header.Set("Notifier-Key", n.key)
	req.Header.Set("Notifier-Attempt", strconv.Itoa(n.used+1))
	req.Header.Set("Notifier-Due", stamp(n.due))
	if n.resend > 0 {
		req.Header.Set("Notifier-Resend", strconv.Itoa(n.resend))
	}

	if n.route.Secret != "" {
		if err := webhook.Sign(req.Header, n.id, time.Now(), signed, strings.Split(n.route.Secret, ",")...); err != nil {
			panic("clienttest: " + err.Error()) // New has checked the secret
		}
	}

	return req, cancel
}

// unsigned returns the HTTP request of an attempt without its headers, and the text to sign: the body, or
// the query of a GET.
func (n *notice) unsigned(ctx context.Context) (req *http.Request, signed []byte) {
	u, err := url.Parse(cmp.Or(n.url, n.route.Target))
	if err != nil {
		panic("clienttest: " + err.Error()) // the URL was checked by the schedule call
	}

	method, signed := cmp.Or(n.method, http.MethodPost), n.body
	var body io.Reader = bytes.NewReader(n.body)
	if method == http.MethodGet {
		query, _ := n.query() // checked by the schedule call
		u.RawQuery = strings.Trim(u.RawQuery+"&"+query, "&")
		signed, body = []byte(u.RawQuery), http.NoBody
	}

	if req, err = http.NewRequestWithContext(ctx, method, u.String(), body); err != nil {
		panic("clienttest: " + err.Error())
	}

	return req, signed
}

// call makes a request and classifies the answer like a route with _ACK=2xx. It unlocks the service meanwhile, because the
// receiver may call the API.
func (s *Service) call(req *http.Request, locked int) result {
	s.mu.Unlock()
	defer s.mu.Lock()
	var res *http.Response
	if s.receiver != nil {
		req.RequestURI, req.RemoteAddr = req.URL.RequestURI(), "192.0.2.1:1234"
		w := httptest.NewRecorder()
		s.receiver.ServeHTTP(w, req)
		res = w.Result()
	} else {
		var err error
		if res, err = s.web.Do(req); err != nil {
			return broken(err)
		}
	}

	defer func() { _ = res.Body.Close() }()

	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return broken(err)
	}

	return judge(res, cut(b), locked)
}

// broken classifies the error of a request without an answer.
func broken(err error) result {
	var timeout net.Error
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return result{reason: "timeout", response: err.Error()}
	case errors.As(err, &dns):
		return result{reason: "dns", response: err.Error()}
	case errors.As(err, &op) && op.Op == "dial":
		return result{reason: "connect", response: err.Error()}
	}

	return result{reason: "reset", response: err.Error()}
}

// judge classifies an answer. text is its body, locked how often the notice was deferred.
func judge(res *http.Response, text string, locked int) result {
	r := result{status: res.StatusCode, response: text, reason: statusReason(res.StatusCode)}
	switch {
	case r.reason == "":
		return r
	case r.status == http.StatusGone:
		r.final = true
		return r
	case r.status == http.StatusLocked && locked < maxDeferrals:
		r.reason, r.deferred = "locked", true
		r.after = cmp.Or(retryAfter(res.Header), deferral)
	}

	switch strings.ToLower(strings.TrimSpace(res.Header.Get("Webhook-Delivery"))) {
	case "abort-message":
		r.reason, r.final, r.deferred = "aborted", true, false
	case "disable":
		r.reason, r.final, r.deferred = "gone", true, false
	}

	if !r.deferred {
		r.after = retryAfter(res.Header)
	}

	return r
}

// statusReason returns the reason of a failure by the status of the answer; "" for a delivery.
func statusReason(status int) string {
	if status == http.StatusGone {
		return "gone"
	}

	switch status / 100 {
	case 2:
		return ""
	case 3:
		return "redirect"
	case 4:
		return "status_4xx"
	case 5:
		return "status_5xx"
	}

	return "status"
}

// retryAfter returns the delay in the header Retry-After, at most 24 h. A date is compared with the real
// time, because the receiver does not know the clock of the service.
func retryAfter(h http.Header) time.Duration {
	const most = 24 * time.Hour
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return min(max(0, time.Duration(min(n, 1e6))*time.Second), most)
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, time.Until(t)), most)
	}

	return 0
}

// cut returns the beginning of an answer as text.
func cut(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	for len(s) > keptResponse {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}

	return s
}
