package callback

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/transport"
)

// Exchange is one callback with its request and answer, safe to show to users: secrets are replaced by dots.
type Exchange struct {
	Method          string          `json:"method,omitempty"`
	URL             string          `json:"url,omitempty"`
	RequestHeaders  []notice.Header `json:"request_headers,omitempty"` // by name
	RequestBody     string          `json:"request_body,omitempty"`
	Signed          []Signed        `json:"signed,omitempty"`
	Remote          string          `json:"remote,omitempty"` // address of the connection
	TLS             string          `json:"tls,omitempty"`
	Proto           string          `json:"proto,omitempty"`
	Status          int             `json:"status,omitempty"`
	ResponseHeaders []notice.Header `json:"response_headers,omitempty"`
	ResponseBody    string          `json:"response_body,omitempty"` // the first notice.KeptResponse bytes
	Duration        time.Duration   `json:"-"`
	Result          notice.Result   `json:"-"`
	// Final means that the notice would be dead, and not tried again.
	Final bool `json:"final"`
	// Next is the delay until the service would try again; zero if it would not.
	Next time.Duration `json:"-"`

	answered http.Header
	steps    int // number of the ladder's steps
}

// Signed is a text that a scheme signed, with control characters escaped.
type Signed struct {
	Scheme sign.Scheme `json:"scheme"`
	Text   string      `json:"text"`
}

// MarshalJSON writes the result with the names of the API.
func (x Exchange) MarshalJSON() ([]byte, error) {
	type plain Exchange
	return json.Marshal(struct {
		plain
		Milliseconds float64        `json:"duration_ms"`
		Outcome      notice.Outcome `json:"outcome"`
		Reason       notice.Reason  `json:"reason,omitempty"`
		Detail       string         `json:"detail,omitempty"`
		AfterMS      int64          `json:"after_ms,omitempty"`
		NextMS       int64          `json:"next_ms,omitempty"`
	}{plain(x), float64(x.Duration.Microseconds()) / 1000, x.Result.Outcome, x.Result.Reason, x.Result.Response,
		x.Result.After.Milliseconds(), x.Next.Milliseconds()})
}

// setNext computes the next step of the service after this result of a first attempt.
func (x *Exchange) setNext(r *route.Route, n *notice.Notice) {
	x.steps = len(r.Ladder)
	step, more := n.Step(r.Ladder)
	switch x.Result.Outcome {
	case notice.OutcomeDelivered:
	case notice.OutcomeDeferred:
		x.Next = x.Result.After
	case notice.OutcomeRetry:
		if more {
			x.Next = max(step, x.Result.After)
		}
		x.Final = !more
	default:
		x.Final = true
	}
}

// nextText describes the next step of the service.
func (x *Exchange) nextText() string {
	switch {
	case x.Final && x.Result.Outcome == notice.OutcomeRetry:
		return "final: the route's ladder has no retry, so the notice would be dead"
	case x.Final:
		return "final: the notice would be dead; the service would not try again"
	case x.Result.Outcome == notice.OutcomeDeferred:
		return fmt.Sprintf("the service would try again in %s, without counting an attempt", notice.Short(x.Next))
	case x.Next > 0:
		return fmt.Sprintf("the service would try again in %s, at most %d times", notice.Short(x.Next), x.steps)
	}

	return ""
}

// Probe makes one signed callback at once, ignoring all limits. It returns the exchange, with the step that the
// service would take after such an attempt.
func (h *Handler) Probe(ctx context.Context, r *route.Route, n *notice.Notice) Exchange {
	x := h.probe(ctx, r, n)
	x.setNext(r, n)
	return x
}

func (h *Handler) probe(ctx context.Context, r *route.Route, n *notice.Notice) Exchange {
	x := Exchange{}
	s, err := h.state(r)
	if err != nil {
		x.Result = notice.RetryResult(notice.ReasonInvalid, "route "+r.Name+": "+err.Error())
		return x
	}

	to, err := s.check(n)
	if err != nil {
		x.Result = s.refusal(n, to, err)
		if to.url != nil {
			x.Method, x.URL = methodOf(r, n), redact(to.url)
		}

		return x
	}

	began, progress := time.Now(), &transport.Progress{}
	if without := s.authorize(ctx, n, &to, began); without != nil {
		x.Result = *without
		x.Method, x.URL = methodOf(r, n), redact(to.url)
		return x
	}

	f := s.exchange(ctx, &attempt{n: n, to: to, began: began, progress: progress}, &x)
	x.Duration = time.Since(began)
	x.Result = resultOf(&r.Ack, f)
	s.logBlocked(n.Key, f.err)
	if f.status != 0 {
		x.ResponseBody = f.show(decoded(f))
		x.ResponseHeaders = s.shown(f.hidden(), x.answered)
	}

	x.Remote = progress.Remote()
	if c := progress.TLS(); c != nil && c.HandshakeComplete {
		x.TLS = tls.VersionName(c.Version) + " " + tls.CipherSuiteName(c.CipherSuite)
	}

	return x
}

func (x *Exchange) request(s *routeState, n *notice.Notice, c *call) {
	x.Method, x.URL = c.Method, redact(c.URL)
	if s.route.Target.Secret {
		x.URL = redact(s.route.Target.Shown())
	}

	secrets := s.secretsOf(n, c.to)
	x.RequestHeaders = s.shown(secrets, c.Header())
	if c.Method != http.MethodGet {
		x.RequestBody = printable(c.Body)
	}

	for _, t := range c.texts { // that of a GET contains the query of the address
		x.Signed = append(x.Signed, Signed{t.Scheme, escaped([]byte(secrets.scrub(string(t.Bytes))))})
	}
}

func (x *Exchange) answer(a *transport.Answer) {
	x.Proto, x.Status, x.answered = a.Proto, a.Status, a.Header
}

// shown returns headers that are safe to show, sorted by name. The signature is not a secret: it is valid for
// this one message.
func (s *routeState) shown(secrets scrubber, h http.Header) []notice.Header {
	var out []notice.Header

	for name, vs := range h {
		for _, v := range vs {
			switch {
			case s.signing.Reserves(name), name == "notifier-key": // of the notice
			case notice.SecretName(name):
				v = dots
			case name == "Location":
				v = RedactURL(v)
			}
			out = append(out, notice.Header{Name: strings.ToLower(name), Value: secrets.show([]byte(v))})
		}
	}

	slices.SortFunc(out, func(a, b notice.Header) int { return strings.Compare(a.Name+a.Value, b.Name+b.Value) })
	return out
}

// String returns the exchange as lines similar to those of curl -v, and its result.
func (x Exchange) String() string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	if x.Method != "" {
		line("> %s %s", x.Method, x.URL)
	}

	for _, h := range x.RequestHeaders {
		line("> %s: %s", h.Name, h.Value)
	}

	if x.RequestBody != "" {
		line(">\n> %s", strings.ReplaceAll(x.RequestBody, "\n", "\n> "))
	}

	for _, t := range x.Signed {
		line("* %s signed %q", t.Scheme, t.Text)
	}

	if x.Remote != "" {
		line("* connected to %s %s", x.Remote, x.TLS)
	}

	if x.Status != 0 {
		line("< %s %d %s", x.Proto, x.Status, http.StatusText(x.Status))
	}

	for _, h := range x.ResponseHeaders {
		line("< %s: %s", h.Name, h.Value)
	}

	if x.ResponseBody != "" {
		line("<\n< %s", strings.ReplaceAll(x.ResponseBody, "\n", "\n< "))
	}

	line("= %s after %s", x.resultText(), x.Duration.Round(100*time.Microsecond))
	if next := x.nextText(); next != "" {
		line("= %s", next)
	}

	return b.String()
}

// resultText returns the outcome, the reason, and the response unless that is the body.
func (x Exchange) resultText() string {
	text := string(x.Result.Outcome)
	if x.Result.Reason != "" {
		text += " (" + string(x.Result.Reason) + ")"
	}

	if x.Result.Response != "" && x.Result.Response != x.ResponseBody {
		text += ": " + x.Result.Response
	}

	return text
}
