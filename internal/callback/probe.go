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
)

// Exchange is one callback with all that was said, fit to be shown: secrets are
// dots.
type Exchange struct {
	Method          string          `json:"method,omitempty"`
	URL             string          `json:"url,omitempty"`
	RequestHeaders  []notice.Header `json:"request_headers,omitempty"` // by name
	RequestBody     string          `json:"request_body,omitempty"`
	Signed          []Signed        `json:"signed,omitempty"`
	Remote          string          `json:"remote,omitempty"` // the address that was connected to
	TLS             string          `json:"tls,omitempty"`
	Proto           string          `json:"proto,omitempty"`
	Status          int             `json:"status,omitempty"`
	ResponseHeaders []notice.Header `json:"response_headers,omitempty"`
	ResponseBody    string          `json:"response_body,omitempty"` // its beginning
	Duration        time.Duration   `json:"-"`
	Result          notice.Result   `json:"-"`
	// Final: the notice would be dead, and nothing tried again.
	Final bool `json:"final"`
	// Next is when the service would try again; zero if it would not.
	Next time.Duration `json:"-"`

	answered http.Header
	steps    int // of the ladder
}

// Signed is a text that a scheme signed, with control characters escaped.
type Signed struct {
	Scheme sign.Scheme `json:"scheme"`
	Text   string      `json:"text"`
}

// MarshalJSON spells the result in the API's words.
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
	}{plain(x), float64(x.Duration.Microseconds()) / 1000, x.Result.Outcome, x.Result.Reason, x.Result.Response, x.Result.After.Milliseconds(), x.Next.Milliseconds()})
}

// setNext notes what would follow for a first attempt of the notice.
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

// nextText says what would follow.
func (x *Exchange) nextText() string {
	switch {
	case x.Final && x.Result.Outcome == notice.OutcomeRetry:
		return "final: the route's ladder has no retry, so the notice would be dead"
	case x.Final:
		return "final: the notice would be dead; nothing would be tried again"
	case x.Result.Outcome == notice.OutcomeDeferred:
		return fmt.Sprintf("it would be tried again in %s, and this would count as no attempt", notice.Short(x.Next))
	case x.Next > 0:
		return fmt.Sprintf("it would be tried again in %s, %d times at most", notice.Short(x.Next), x.steps)
	}
	return ""
}

// Probe makes one signed callback at once, past all limits, and shows it, with
// what the service would do after such an attempt.
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
		x.Result = s.finish(n, to, s.refusal(n, err))
		if to.url != nil {
			x.Method, x.URL = methodOf(r, n), redact(to.url)
		}
		return x
	}
	tr := &tracker{began: time.Now()}
	if without := s.authorize(ctx, n, &to, tr.began); without != nil {
		x.Result = *without
		x.Method, x.URL = methodOf(r, n), redact(to.url)
		return x
	}
	f := s.exchange(ctx, n, to, tr, &x)
	x.Duration = time.Since(tr.began)
	x.Result = s.finish(n, to, resultOf(&r.Ack, f))
	s.logBlocked(n.Key, f.err)
	if f.status != 0 {
		x.ResponseBody = s.finish(n, to, notice.Result{Response: printable(decoded(f))}).Response
		x.ResponseHeaders = s.shown(n, x.answered)
	}
	if p := tr.remote.Load(); p != nil {
		x.Remote = *p
	}
	if c := tr.tls.Load(); c != nil && c.HandshakeComplete {
		x.TLS = tls.VersionName(c.Version) + " " + tls.CipherSuiteName(c.CipherSuite)
	}
	return x
}

func (x *Exchange) request(s *routeState, n *notice.Notice, c *call) {
	x.Method, x.URL = c.method, redact(c.url())
	x.RequestHeaders = s.shown(n, c.header())
	if c.method != http.MethodGet {
		x.RequestBody = printable(c.body)
	}
	secrets := slices.Clip(s.secrets) // a GET's text has the query of the address
	secrets.addURL(c.to.url)
	for _, t := range c.texts {
		x.Signed = append(x.Signed, Signed{t.Scheme, secrets.scrub(escaped(t.Bytes))})
	}
}

func (x *Exchange) answer(resp *http.Response) {
	x.Proto, x.Status, x.answered = resp.Proto, resp.StatusCode, resp.Header
}

// shown are headers fit to be shown, by name. The signature is none of the
// secrets: it is made for this one message.
func (s *routeState) shown(n *notice.Notice, h http.Header) []notice.Header {
	secrets := slices.Clip(s.secrets)
	secrets.addHeaders(n.Headers)
	s.tokens.secrets(&secrets)
	var out []notice.Header
	for name, vs := range h {
		for _, v := range vs {
			switch {
			case s.signing.Reserves(name), name == "Notifier-Key": // the notice's
			case notice.SecretName(name):
				v = dots
			case name == "Location":
				v = RedactURL(v)
			}
			out = append(out, notice.Header{Name: strings.ToLower(name), Value: printable([]byte(secrets.scrub(v)))})
		}
	}
	slices.SortFunc(out, func(a, b notice.Header) int { return strings.Compare(a.Name+a.Value, b.Name+b.Value) })
	return out
}

// String shows the exchange the way it went over the wire, and its result.
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
	result := string(x.Result.Outcome)
	if x.Result.Reason != "" {
		result += " (" + string(x.Result.Reason) + ")"
	}
	if x.Result.Response != "" && x.Result.Response != x.ResponseBody {
		result += ": " + x.Result.Response
	}
	line("= %s after %s", result, x.Duration.Round(100*time.Microsecond))
	if next := x.nextText(); next != "" {
		line("= %s", next)
	}
	return b.String()
}
