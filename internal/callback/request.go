package callback

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// errInvalid is what errors about a notice that cannot be sent as it is wrap.
var errInvalid = errors.New("the notice cannot be sent")

// target is where a call goes: the route's address, parsed once, or the notice's.
func (s *routeState) target(n *notice.Notice) (destination, error) {
	if s.guard == nil {
		return s.fixed, nil
	}
	if n.URL == "" {
		return destination{}, fmt.Errorf("%w: it has no url and the route's target is notice", errInvalid)
	}
	if err := notice.CheckURL(n.URL); err != nil {
		return destination{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	u, err := url.Parse(n.URL)
	if err != nil { // the error would quote the address, and with it a password
		return destination{}, fmt.Errorf("%w: its url cannot be read", errInvalid)
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

// call builds the request of one attempt. at is the attempt's own time: a signature
// made once would be refused as too old after five minutes. With explain, the call keeps the
// signed texts.
func (s *routeState) call(n *notice.Notice, to destination, at time.Time, explain bool) (*call, error) {
	c := &call{method: methodOf(s.route, n), to: to, agent: s.userAgent, body: n.Body}
	typ := n.EffectiveType()
	m := sign.Message{ID: n.ID(), At: at, Body: n.Body, Type: typ, Host: to.host, Audience: n.Audience, Explain: explain}
	if c.method == http.MethodGet {
		query, err := asQuery(n.Body, typ)
		if err != nil {
			return nil, err
		}
		c.query = joinQuery(to.call.RawQuery, query)
		m.Body, typ = []byte(c.query), ""
	}
	signed, err := s.chain.Sign(&m)
	if err != nil {
		return nil, fmt.Errorf("%w: its body cannot be signed: %w", errInvalid, err)
	}
	if c.texts = signed.Texts; c.method == http.MethodGet {
		c.body = nil
	} else {
		c.body = signed.Body
	}

	c.fields = make([]field, 0, 12+len(s.route.Headers)+len(n.Headers))
	if s.guard == nil || s.route.HeadersTo.Match(to.at) {
		c.setHeaders(s.route.Headers, s.route)
	}
	c.setHeaders(n.Headers, s.route)
	if to.token != "" {
		c.set("Authorization", to.token)
	}
	if to.call.User != nil && !c.has("Authorization") {
		c.set("Authorization", basicAuth(to.call.User))
	}
	if typ != "" {
		c.set("Content-Type", typ)
	}
	c.set("Notifier-Attempt", strconv.Itoa(n.NextAttempt()))
	if n.Lost {
		c.set("Notifier-Body", "lost")
	}
	c.set("Notifier-Due", notice.Stamp(n.Due))
	c.set("Notifier-Key", n.Key)
	if n.Replay != "" {
		c.set("Notifier-Replay", n.Replay)
	}
	if n.Traceparent != "" {
		c.set("Traceparent", n.Traceparent)
	}
	if n.Tracestate != "" {
		c.set("Tracestate", n.Tracestate)
	}
	c.set("Webhook-Id", m.ID)
	for _, f := range signed.Fields {
		c.set(f.Name, f.Value)
	}
	c.set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	for _, f := range c.fields { // configuration and store were checked; this is the last gate against injection
		if !httpguts.ValidHeaderFieldName(f.name) {
			return nil, fmt.Errorf("%w: %.60q is no name of a header", errInvalid, f.name)
		}
		if !httpguts.ValidHeaderFieldValue(f.value) {
			return nil, fmt.Errorf("%w: the value of header %s holds a control character", errInvalid, f.name)
		}
	}
	return c, nil
}

// setHeaders adds the headers of a route or notice. Reserved names are refused when a notice
// is scheduled. Here they are dropped: a notice may have been stored without that check, or
// before the route's signature had the name.
func (c *call) setHeaders(hs []notice.Header, r *route.Route) {
	for _, x := range hs {
		switch name := textproto.CanonicalMIMEHeaderKey(x.Name); {
		case notice.Reserved(x.Name), r.Reserves(x.Name):
		case name == "Idempotency-Key" || name == "X-Idempotency-Key":
			// By their usual spelling net/http knows a request that it may repeat by
			// itself, even one that the receiver has read whole.
			c.set(strings.ToLower(name), x.Value)
		default:
			c.set(name, x.Value)
		}
	}
}

func basicAuth(u *url.Userinfo) string {
	pw, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pw))
}

func joinQuery(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

// asQuery turns a body into a query string: a form as it is, a JSON object by
// its fields. Fields that are objects or arrays are spelt as JSON.
func asQuery(body []byte, typ string) (string, error) {
	if len(body) == 0 {
		return "", nil
	}
	media, _, _ := strings.Cut(typ, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch {
	case media == "application/x-www-form-urlencoded":
		vals, err := url.ParseQuery(strings.TrimSpace(string(body)))
		if err != nil {
			return "", fmt.Errorf("%w: a GET needs a form or a JSON object, and its form body cannot be read", errInvalid)
		}
		return vals.Encode(), nil
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return "", fmt.Errorf("%w: a GET needs a form or a JSON object, and its body is none", errInvalid)
		}
		vals := make(url.Values, len(fields))
		for name, raw := range fields {
			v := string(raw)
			switch raw[0] {
			case '"':
				if err := json.Unmarshal(raw, &v); err != nil {
					return "", fmt.Errorf("%w: field %.60q cannot be read", errInvalid, name)
				}
			case 'n':
				v = ""
			}
			vals[name] = []string{v}
		}
		return vals.Encode(), nil
	}
	return "", fmt.Errorf("%w: a GET needs a form or a JSON object, and its content type is %.60q", errInvalid, typ)
}
