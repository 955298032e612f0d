package clienttest

import (
	"bytes"
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
	state     string
	due       time.Time
	createdAt time.Time
	settledAt time.Time
	reason    string
	attempts  []attempt
	used      int  // attempts made
	redriven  int  // of them, before the last redrive
	ended     int  // how often it had ended before
	handed    bool // the consumer has it and its report is awaited
	locked    int  // how often it was put off
}

// attempt is an attempt in the form of the API.
type attempt struct {
	N          int     `json:"n"`
	At         string  `json:"at"`
	Status     int     `json:"status,omitempty"`
	DurationMS float64 `json:"duration_ms"`
	Reason     string  `json:"reason,omitempty"`
	Response   string  `json:"response,omitempty"`
}

func (n *notice) ladder() []time.Duration {
	if n.steps != nil {
		return n.steps
	}
	return n.route.Retry
}

func (n *notice) last() *attempt { return &n.attempts[len(n.attempts)-1] }

// result is the result of an attempt.
type result struct {
	status   int
	reason   string // empty = delivered
	response string
	after    time.Duration // the least time until the next
	final    bool          // no further attempt
	deferred bool          // it uses no attempt
}

const (
	keptAttempts = 20
	keptResponse = 512
	putOff       = 5 * time.Second
	maxPutOff    = 100
)

// attempt makes an attempt. The receiver is called without the lock: it may call
// the API, and cancel this notice.
func (s *Service) attempt(n *notice) {
	switch kind := targetKind(n.route.Target); kind {
	case "list", "stream":
		n.route.entries = append(n.route.entries, Entry{ID: n.id, Key: n.key, Attempt: n.used + 1, Due: n.due, ContentType: n.contentType,
			Body: bytes.Clone(n.body)})
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
		s.mu.Unlock()
		r := s.call(req, n.locked)
		s.mu.Lock()
		// A notice that was changed during the attempt stays as it is.
		if s.kept[n.key] == n && n.state == client.Claimed {
			s.end(n, r)
		}
	}
}

// hand gives a notice to its consumer, whose report has the route's timeout.
func (s *Service) hand(n *notice) {
	s.count(n, result{})
	n.state, n.handed, n.due = client.Claimed, true, s.now.Add(n.route.Timeout)
}

func (s *Service) unreported(n *notice) {
	s.end(n, result{reason: "unreported"})
}

// count records an attempt.
func (s *Service) count(n *notice, r result) {
	n.used++
	n.attempts = append(n.attempts, attempt{N: n.used, At: stamp(s.now), Status: r.status, Reason: r.reason, Response: r.response})
	if over := len(n.attempts) - keptAttempts; over > 0 {
		n.attempts = n.attempts[over:]
	}
}

// end settles an attempt. One that was handed over is counted already.
func (s *Service) end(n *notice, r result) {
	if r.deferred && n.locked < maxPutOff {
		if n.handed { // its number comes again
			n.used--
			n.attempts = n.attempts[:len(n.attempts)-1]
		}
		n.locked++
		n.state, n.handed, n.due = client.Scheduled, false, s.now.Add(r.after)
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
	default:
		n.state, n.due = client.Scheduled, s.now.Add(max(steps[step], r.after))
	}
}

// request makes the request of an attempt.
func (s *Service) request(n *notice) (*http.Request, context.CancelFunc) {
	address := n.url
	if address == "" {
		address = n.route.Target
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.route.Timeout)
	method, signed := n.method, n.body
	if method == "" {
		method = http.MethodPost
	}
	var body io.Reader = bytes.NewReader(n.body)
	u, err := url.Parse(address)
	if err != nil {
		panic("clienttest: " + err.Error()) // it was parsed when it was scheduled
	}
	if method == http.MethodGet {
		u.RawQuery = strings.Trim(u.RawQuery+"&"+n.query(), "&")
		signed, body = []byte(u.RawQuery), http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		panic("clienttest: " + err.Error())
	}
	for name, value := range n.headers {
		req.Header.Set(name, value)
	}
	if n.contentType != "" && method != http.MethodGet {
		req.Header.Set("Content-Type", n.contentType)
	}
	req.Header.Set("User-Agent", "notifier/clienttest")
	req.Header.Set("Webhook-Id", n.id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
	req.Header.Set("Notifier-Key", n.key)
	req.Header.Set("Notifier-Attempt", strconv.Itoa(n.used+1))
	req.Header.Set("Notifier-Due", stamp(n.due))
	if n.route.Secret != "" {
		if err := webhook.Sign(req.Header, n.id, time.Now(), signed, strings.Split(n.route.Secret, ",")...); err != nil {
			panic("clienttest: " + err.Error()) // New has checked it
		}
	}
	return req, cancel
}

// call makes the request and judges the answer, as a route with _ACK=2xx does.
func (s *Service) call(req *http.Request, locked int) result {
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
	defer func() { _ = res.Body.Close() }() // it was read as far as it is kept
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return broken(err)
	}
	return judge(res, cut(b), locked)
}

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

func judge(res *http.Response, text string, locked int) result {
	r := result{status: res.StatusCode, response: text}
	switch {
	case r.status >= 200 && r.status < 300:
		return r
	case r.status == http.StatusGone:
		r.reason, r.final = "gone", true
		return r
	case r.status == http.StatusLocked && locked < maxPutOff:
		r.reason, r.deferred, r.after = "locked", true, retryAfter(res.Header)
		if r.after == 0 {
			r.after = putOff
		}
	case r.status >= 300 && r.status < 400:
		r.reason = "redirect"
	case r.status >= 400 && r.status < 500:
		r.reason = "status_4xx"
	case r.status >= 500 && r.status < 600:
		r.reason = "status_5xx"
	default:
		r.reason = "status"
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

// retryAfter is the delay that the receiver asks for, at most 24 h. A date counts
// from the true time: the receiver has no other clock.
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

// cut is the beginning of an answer, as text.
func cut(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	for len(s) > keptResponse {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
