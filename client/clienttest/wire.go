package clienttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// content is the part of a notice in which two notices under one key may differ.
type content struct {
	url, audience, contentType, method string
	body                               []byte
	headers                            map[string]string
	steps                              []time.Duration // nil = the route's
}

func (c *content) differs(o *content) []string {
	var d []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"url", c.url == o.url}, {"audience", c.audience == o.audience}, {"body", bytes.Equal(c.body, o.body)},
		{"content_type", c.contentType == o.contentType}, {"method", c.method == o.method},
		{"headers", maps.Equal(c.headers, o.headers)}, {"retry", (c.steps == nil) == (o.steps == nil) && slices.Equal(c.steps, o.steps)},
	} {
		if !f.same {
			d = append(d, f.name)
		}
	}
	return d
}

// query is the body of a GET: a form as it is, a JSON object by its fields.
func (c *content) query() string {
	if !strings.Contains(c.contentType, "json") {
		return string(c.body)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(c.body, &fields) != nil {
		return ""
	}
	v := url.Values{}
	for name, raw := range fields {
		text := string(raw)
		if raw[0] == '"' {
			_ = json.Unmarshal(raw, &text) // it was read as JSON just now
		}
		v.Set(name, text)
	}
	return v.Encode()
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// spell writes a duration as the API does: 10m, not 10m0s.
func spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// view is a notice as the API shows it, with more members behind.
func (n *notice) view(withBody bool, more map[string]any) map[string]any {
	v := map[string]any{"key": n.key, "id": n.id, "route": n.route.Name, "state": n.state, "due": stamp(n.due), "attempts_made": n.used,
		"max_attempts": 1 + n.redriven + len(n.ladder()), "created_at": stamp(n.createdAt), "attempts": n.attempts}
	if n.attempts == nil {
		v["attempts"] = []attempt{}
	}
	if n.state == client.Scheduled || n.state == client.Claimed {
		v["attempt"] = n.used + 1
	}
	if n.state == client.Scheduled {
		v["next_attempt_at"] = stamp(n.due)
	}
	for name, s := range map[string]string{"url": n.url, "audience": n.audience, "method": n.method, "content_type": n.contentType,
		"reason": n.reason} {
		if s != "" {
			v[name] = s
		}
	}
	if n.steps != nil {
		v["retry"] = spelt(n.steps)
	}
	if shown, withheld := n.shownHeaders(); len(shown)+len(withheld) > 0 {
		if len(shown) > 0 {
			v["headers"] = shown
		}
		if len(withheld) > 0 {
			v["headers_withheld"] = withheld
		}
	}
	if n.ended > 0 {
		v["ended_before"] = n.ended
	}
	if !n.settledAt.IsZero() {
		v["settled_at"] = stamp(n.settledAt)
	}
	switch {
	case !withBody || len(n.body) == 0:
	case json.Valid(n.body) && n.contentType == "application/json":
		v["body"] = json.RawMessage(n.body)
	default:
		v["body_base64"] = base64.StdEncoding.EncodeToString(n.body)
	}
	maps.Copy(v, more)
	return v
}

// shownHeaders returns the notice's headers, and the names of headers whose values are
// secrets.
func (n *notice) shownHeaders() (shown map[string]string, withheld []string) {
	shown = map[string]string{}
	names := slices.SortedFunc(maps.Keys(n.headers), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		if secretHeader(name) {
			withheld = append(withheld, name)
		} else {
			shown[name] = n.headers[name]
		}
	}
	return shown, withheld
}

// secretHeader reports whether a header's value is a secret, by its name, as the
// service judges it.
func secretHeader(name string) bool {
	l := strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(l, w) }) ||
		l == "key" || l == "sig" || l == "sign" || strings.HasSuffix(l, "-key") || strings.HasSuffix(l, "_key")
}

var secretWords = []string{"auth", "cookie", "token", "secret", "passw", "pwd", "apikey", "api-key", "api_key", "access", "credential",
	"signature", "private", "session"}

func spelt(steps []time.Duration) []string {
	out := make([]string, len(steps))
	for i, d := range steps {
		out[i] = spell(d)
	}
	return out
}

// problem is an answer that says what is wrong: RFC 9457.
type problem struct {
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail,omitempty"`
	Errors  []wrong  `json:"errors,omitempty"`
	State   string   `json:"state,omitempty"`
	Differs []string `json:"differs,omitempty"`
}

type wrong struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *problem) Error() string { return p.Detail }

func failed(status int, format string, a ...any) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, a...)}
}

func wrongField(location, format string, a ...any) *problem {
	message := fmt.Sprintf(format, a...)
	p := failed(http.StatusUnprocessableEntity, "%s: %s", location, message)
	p.Errors = []wrong{{location, message}}
	return p
}

// fields reads a JSON object with no other members than those known.
func fields(data []byte, at string, known ...string) (map[string]json.RawMessage, *problem) {
	var m map[string]json.RawMessage
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	if err := json.Unmarshal(data, &m); err != nil {
		if json.Valid(data) {
			return nil, wrongField("body", "want a JSON object")
		}
		return nil, failed(http.StatusBadRequest, "the request's body is not JSON: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, name) {
			return nil, wrongField(at+name, "no such field; the fields are %s", strings.Join(known, ", "))
		}
	}
	return m, nil
}

// request is a notice to schedule, read.
type request struct {
	content
	key, onDuplicate string
	due              time.Time
}

var (
	segments = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,64}(:[A-Za-z0-9_.~-]{1,64}){2}:[A-Za-z0-9_.~-]{1,128}$`)
	presets  = map[string]string{
		"none":     "",
		"standard": "5s,5m,30m,2h,5h,10h,14h,20h,24h",
		"wechat":   "15s,15s,30s,3m,10m,20m,30m,30m,30m,1h,3h,3h,3h,6h,6h",
		"alipay":   "4m,10m,10m,1h,2h,6h,15h",
	}
)

// read reads a notice to schedule. The key is set with an error, too.
func (s *Service) read(data []byte, at string) (r request, p *problem) {
	m, p := fields(data, at, "key", "delay", "due", "body", "body_text", "body_base64", "content_type", "url", "audience", "headers",
		"method", "retry", "on_duplicate")
	if p != nil {
		return r, p
	}
	bodies := 0
	for _, name := range []string{"key", "url", "audience", "content_type", "method", "on_duplicate", "headers", "retry", "body",
		"body_text", "body_base64"} {
		raw, given := m[name]
		if !given {
			continue
		}
		if strings.HasPrefix(name, "body") {
			bodies++
		}
		if err := r.set(name, raw); err != nil {
			return r, wrongField(at+name, "%v", err)
		}
	}
	if bodies > 1 {
		return r, wrongField(at+"body", "several bodies are given; give one of them")
	}
	if r.due, p = s.time(m, at); p != nil {
		return r, p
	}
	if r.contentType == "" && json.Valid(r.body) {
		r.contentType = "application/json"
	}
	return r, s.place(&r, at)
}

func (r *request) set(name string, raw json.RawMessage) error {
	texts := map[string]*string{"key": &r.key, "url": &r.url, "audience": &r.audience, "content_type": &r.contentType, "method": &r.method,
		"on_duplicate": &r.onDuplicate}
	if to := texts[name]; to != nil {
		if json.Unmarshal(raw, to) != nil {
			return errors.New("want a string")
		}
	}
	var text string
	switch name {
	case "url":
		if u, err := url.Parse(r.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("want an address that begins with http:// or https://")
		}
	case "method":
		if !slices.Contains([]string{"POST", "PUT", "GET"}, r.method) {
			return errors.New("want POST, PUT or GET")
		}
	case "on_duplicate":
		if !slices.Contains([]string{"reject", "keep", "replace"}, r.onDuplicate) {
			return errors.New("want reject, keep or replace")
		}
	case "headers":
		if json.Unmarshal(raw, &r.headers) != nil {
			return errors.New("want an object of strings")
		}
	case "retry":
		var err error
		r.steps, err = ladder(raw)
		return err
	case "body":
		r.body = raw
	case "body_text":
		if json.Unmarshal(raw, &text) != nil {
			return errors.New("want a string")
		}
		r.body = []byte(text)
	case "body_base64":
		if json.Unmarshal(raw, &r.body) != nil {
			return errors.New("is not base64 (the standard alphabet, with padding)")
		}
	}
	return nil
}

// ladder reads a list of durations, a ladder's text, or a preset's name.
func ladder(raw json.RawMessage) ([]time.Duration, error) {
	var list []json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &list) == nil:
	case json.Unmarshal(raw, &text) == nil:
		if preset, ok := presets[text]; ok {
			text = preset
		}
		for step := range strings.SplitSeq(text, ",") {
			if text != "" {
				list = append(list, json.RawMessage(strconv.Quote(strings.TrimSpace(step))))
			}
		}
	default:
		return nil, errors.New("want a list of durations, or a text such as 15s,3m")
	}
	steps := make([]time.Duration, len(list))
	for i, step := range list {
		d, err := duration(step)
		if err != nil || d < time.Millisecond {
			return nil, fmt.Errorf("step %d is no duration of 1ms or more", i+1)
		}
		steps[i] = d
	}
	return steps, nil
}

// duration reads a Go duration or seconds, rounded up to the millisecond.
func duration(raw json.RawMessage) (time.Duration, error) {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
	}
	d, err := time.ParseDuration(text)
	if secs, serr := strconv.ParseFloat(text, 64); serr == nil && math.Abs(secs) < 1e9 {
		d, err = time.Duration(secs*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return 0, errors.New("want a duration such as \"15s\" or \"1h30m\", or a number of seconds")
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond), nil
}

// time reads delay or due; neither means now.
func (s *Service) time(m map[string]json.RawMessage, at string) (time.Time, *problem) {
	delay, due := m["delay"], m["due"]
	switch {
	case delay != nil && due != nil:
		return time.Time{}, wrongField(at+"due", "delay and due are both given; give one of them, or none for now")
	case delay != nil:
		d, err := duration(delay)
		if err != nil {
			return time.Time{}, wrongField(at+"delay", "%v", err)
		}
		return s.now.Add(d), nil
	case due != nil:
		var t time.Time
		if json.Unmarshal(due, &t) != nil {
			return t, wrongField(at+"due", "want a time such as 2026-11-21T09:30:00Z")
		}
		return t.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC(), nil
	}
	return s.now, nil
}

// place checks the key and the rules of its route.
func (s *Service) place(r *request, at string) *problem {
	if !segments.MatchString(r.key) {
		return wrongField(at+"key", "want app:module:type:id")
	}
	rt := s.routeOf(r.key)
	switch {
	case rt == nil:
		return wrongField(at+"key", "no route covers it")
	case rt.Target == "notice" && r.url == "":
		return wrongField(at+"url", "is missing: the target of route %s is notice, so each notice brings its url", rt.Name)
	case rt.Target != "notice" && r.url != "":
		return wrongField(at+"url", "the target of route %s is %s, so its notices bring no url", rt.Name, targetKind(rt.Target))
	}
	return nil
}

func write(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("clienttest: " + err.Error()) // strings, numbers and JSON that was read
	}
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the caller has gone
}

func readAll(r *http.Request) ([]byte, *problem) {
	b, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	if err != nil {
		return nil, failed(http.StatusBadRequest, "the request's body could not be read to its end")
	}
	return b, nil
}
