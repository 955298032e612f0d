package callback

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/transport"
)

// errInvalid is wrapped by the errors of notices that cannot be sent.
var errInvalid = errors.New("the notice cannot be sent")

// target returns the destination of a call: the route's address, parsed once, or the notice's url.
func (s *routeState) target(n *notice.Notice) (destination, error) {
	if s.guard == nil {
		return s.fixed, nil
	}
	if n.URL == "" {
		return destination{}, fmt.Errorf("%w: it has no url and the route's target is notice", errInvalid)
	}

	address, err := notice.CanonicalURL(n.URL)
	if err != nil {
		return destination{}, fmt.Errorf("%w: %w", errInvalid, err)
	}

	u, err := url.Parse(address)
	if err != nil { // err would quote the address, which may hold a password
		return destination{}, fmt.Errorf("%w: its url cannot be parsed", errInvalid)
	}

	to, err := destinationOf(u)
	if err != nil {
		return destination{}, fmt.Errorf("%w: %w", errInvalid, err)
	}

	return to, nil
}

func methodOf(r *route.Route, n *notice.Notice) string {
	switch {
	case n.Method != "":
		return n.Method
	case r.Method != "":
		return r.Method
	}
	return http.MethodPost
}

// call builds the request of one attempt. at is the time of this attempt: receivers refuse signatures older
// than five minutes, so each attempt is signed again. With explain, the call keeps the signed texts.
func (s *routeState) call(n *notice.Notice, to destination, at time.Time, explain bool) (*call, error) {
	c := &call{Request: transport.Request{Method: methodOf(s.route, n), UserAgent: s.userAgent, Body: n.Body}, to: to}
	typ := n.EffectiveType()
	m := sign.Message{ID: n.ID(), At: at, Body: n.Body, Type: typ, Host: to.host, Audience: n.Audience, Explain: explain}
	if c.Method == http.MethodGet {
		query, err := notice.Query(n.Body, typ)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errInvalid, err)
		}

		c.query = joinQuery(to.call.RawQuery, query)
		if strings.ContainsFunc(c.query, func(r rune) bool { return r <= ' ' || r == '#' || r >= 0x7f }) { // the last gate, as for headers
			return nil, fmt.Errorf("%w: its query holds a character that the request line cannot carry", errInvalid)
		}

		m.Body, typ = []byte(c.query), ""
	}

	signed, err := s.chain.Sign(&m)
	if err != nil {
		return nil, fmt.Errorf("%w: its body cannot be signed: %w", errInvalid, err)
	}

	if c.texts = signed.Texts; c.Method == http.MethodGet {
		c.Body = nil
	} else {
		c.Body = signed.Body
	}

	if robot := s.route.Robot; robot != nil {
		var query string
		if query, c.Body = robot.Sign(c.Body, at); query != "" {
			c.to.addQuery(query)
		}
	}

	c.setAddress()
	c.Fields = make([]transport.Field, 0, 12+len(s.route.Headers)+len(n.Headers))
	if s.guard == nil || s.route.HeadersTo.Match(to.at) {
		c.setHeaders(s.route.Headers, s.route)
	}

	c.setHeaders(n.Headers, s.route)
	c.setCredentials()
	if typ != "" {
		c.set("content-type", typ)
	}

	c.setNotice(n)
	c.set("webhook-id", m.ID)

	for _, f := range signed.Fields {
		c.set(f.Name, f.Value)
	}

	c.set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))

	if err := c.checkFields(); err != nil {
		return nil, err
	}

	return c, nil
}

// setCredentials adds the Authorization header: the route's access token, or else user and password of the address.
func (c *call) setCredentials() {
	if c.to.token != "" {
		c.set("Authorization", c.to.token)
	}
	if c.to.call.User != nil && !c.has("Authorization") {
		c.set("Authorization", transport.BasicAuth(c.to.call.User))
	}
}

// setNotice adds the headers that describe the notice and this attempt.
func (c *call) setNotice(n *notice.Notice) {
	c.set("notifier-attempt", strconv.Itoa(n.NextAttempt()))
	if n.Lost {
		c.set("notifier-body", "lost")
	}

	c.set("notifier-due", notice.Stamp(n.Due))
	c.set("notifier-key", n.Key)
	if n.Replay != "" {
		c.set("notifier-replay", n.Replay)
	}

	if n.Resend > 0 {
		c.set("notifier-resend", strconv.Itoa(n.Resend))
	}

	if n.Traceparent != "" {
		c.set("traceparent", n.Traceparent)
	}

	if n.Tracestate != "" {
		c.set("tracestate", n.Tracestate)
	}
}

// checkFields rejects invalid headers. Configuration and notices were checked before: this is the last gate against injection.
func (c *call) checkFields() error {
	for _, f := range c.Fields {
		if !httpguts.ValidHeaderFieldName(f.Name) {
			return fmt.Errorf("%w: %.60q is not a header name", errInvalid, f.Name)
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			return fmt.Errorf("%w: the value of header %s holds a control character", errInvalid, f.Name)
		}
	}

	return nil
}

// setHeaders adds headers of the route or the notice to the request, in their own spelling. It drops reserved names: they
// are refused at scheduling, but a notice may have been stored without that check.
func (c *call) setHeaders(hs []notice.Header, r *route.Route) {
	for _, x := range hs {
		switch {
		case notice.Reserved(x.Name), r.Reserves(x.Name):
		case strings.EqualFold(x.Name, "idempotency-key"), strings.EqualFold(x.Name, "x-idempotency-key"):
			// In lower case, since net/http repeats a request that has such a header in its usual spelling.
			c.set(strings.ToLower(x.Name), x.Value)
		default:
			c.set(x.Name, x.Value)
		}
	}
}

func joinQuery(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}
