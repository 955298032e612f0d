package callback

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
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

// request builds the request of one attempt. at is the attempt's own time: a
// signature made once would be refused as too old after five minutes.
func (s *routeState) request(ctx context.Context, n *notice.Notice, to destination, at time.Time) (*http.Request, error) {
	u := to.call
	method, body, typ := methodOf(s.route, n), n.Body, n.EffectiveType()
	signed := body
	if method == http.MethodGet {
		query, err := asQuery(body, typ)
		if err != nil {
			return nil, err
		}
		c := *u
		c.RawQuery = joinQuery(u.RawQuery, query)
		u, signed, body, typ = &c, []byte(c.RawQuery), nil, ""
	}
	h := make(http.Header, 13+len(s.route.Headers)+len(n.Headers))
	values := make([]string, 0, 13) // one allocation for all the values
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if s.guard == nil || s.route.HeadersTo.Match(to.host) {
		setHeaders(h, s.route.Headers)
	}
	setHeaders(h, n.Headers)
	if u.User != nil && h.Get("Authorization") == "" {
		set("Authorization", basicAuth(u.User))
	}
	if typ != "" {
		set("Content-Type", typ)
	}
	id := n.ID()
	h["User-Agent"] = s.userAgent
	set("Webhook-Id", id)
	set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	if sig := s.signer.sign(message{id: id, at: at, body: signed, host: to.host, audience: n.Audience}); sig != "" {
		set("Webhook-Signature", sig)
	}
	set("Notifier-Key", n.Key)
	set("Notifier-Attempt", strconv.Itoa(n.NextAttempt()))
	set("Notifier-Due", notice.Stamp(n.Due))
	if n.Replay != "" {
		set("Notifier-Replay", n.Replay)
	}
	if n.Traceparent != "" {
		set("Traceparent", n.Traceparent)
	}
	if n.Lost {
		set("Notifier-Body", "lost")
	}
	for name, vs := range h { // configuration and store were checked; this is the last gate against injection
		if strings.ContainsAny(vs[0], "\r\n\x00") {
			return nil, fmt.Errorf("%w: the value of header %s holds a control character", errInvalid, name)
		}
	}
	req := &http.Request{Method: method, URL: u, Host: to.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h}
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	} else if method == http.MethodGet {
		req.Body = empty{}
	} else {
		req.Body = http.NoBody
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	}
	return req.WithContext(ctx), nil
}

// setHeaders adds what configuration or notice ask for. Reserved names were
// refused where they came in; here they are passed over once more.
func setHeaders(h http.Header, hs []notice.Header) {
	for _, x := range hs {
		switch name := textproto.CanonicalMIMEHeaderKey(x.Name); {
		case notice.Reserved(x.Name):
		case name == "Idempotency-Key" || name == "X-Idempotency-Key":
			// By their usual spelling net/http knows a request that it may repeat by
			// itself, even one that the receiver has read whole.
			h[strings.ToLower(name)] = []string{x.Value}
		default:
			h[name] = []string{x.Value}
		}
	}
}

func basicAuth(u *url.Userinfo) string {
	pw, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pw))
}

// empty is a body without a byte. net/http repeats a GET by itself if its body is
// nil or http.NoBody, even one that the receiver has read whole.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

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
