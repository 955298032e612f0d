package clienttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// content is the part of a notice that a repeated schedule call compares.
type content struct {
	url, audience, contentType, method string
	body                               []byte
	headers                            map[string]string
	typed                              bool            // the producer gave contentType
	steps                              []time.Duration // nil = the route's
	expires                            expiry
}

// differs returns the names of the fields that differ.
func (c *content) differs(o *content) []string {
	var d []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"url", c.url == o.url}, {"audience", c.audience == o.audience}, {"body", bytes.Equal(c.body, o.body)},
		{"content_type", c.contentType == o.contentType}, {"method", c.method == o.method},
		{"headers", maps.Equal(c.headers, o.headers)}, {"retry", (c.steps == nil) == (o.steps == nil) && slices.Equal(c.steps, o.steps)},
		{"expires", c.expires.fixed().Equal(o.expires.fixed())},
	} {
		if !f.same {
			d = append(d, f.name)
		}
	}

	return d
}

// query returns the body as the query of a GET: a form percent-encoded, the fields of a JSON object as a form. wrong is
// the field that makes this impossible, if any.
func (c *content) query() (query, wrong string) {
	switch {
	case len(c.body) == 0:
		return "", ""
	case strings.HasPrefix(c.contentType, "application/x-www-form-urlencoded"):
		form := strings.TrimSpace(string(c.body))
		query, bare := encode(form, "#")
		if bare || strings.ContainsFunc(form, func(r rune) bool { return r < ' ' || r == 0x7f || r == ';' }) {
			return "", "body"
		}

		return query, ""
	case !strings.Contains(c.contentType, "json"):
		return "", "content_type"
	}

	var fields map[string]json.RawMessage
	if json.Unmarshal(c.body, &fields) != nil || fields == nil {
		return "", "body"
	}

	v := url.Values{}
	for name, raw := range fields {
		text := string(raw)
		switch raw[0] {
		case '"':
			_ = json.Unmarshal(raw, &text) // raw is valid JSON
		case 'n':
			text = ""
		}

		v.Set(name, text)
	}

	return v.Encode(), ""
}

// encode percent-encodes the characters that the service does, and those in more. bare says that a % without two
// hexadecimal digits was encoded.
func encode(text, more string) (encoded string, bare bool) {
	var out []byte
	for i, c := range []byte(text) {
		single := c == '%' && !escaped.MatchString(text[i:])
		bare = bare || single
		if single || c >= 0x80 || strings.IndexByte(" \"<>\\^`{|}"+more, c) >= 0 {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}

	return string(out), bare
}

// stamp formats a time like the API.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// spell formats a duration like the API: 10m, not 10m0s.
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

// view returns the notice as the API shows it, with additional members.
func (n *notice) view(withBody bool, more map[string]any) map[string]any {
	shown := client.Notice{Key: n.key, ID: n.id, Route: n.route.Name, State: n.state, Due: n.due, AttemptsMade: n.used,
		MaxAttempts: 1 + n.redriven + len(n.ladder()), URL: n.url, Audience: n.audience, Method: n.method, ContentType: n.contentType,
		Retry: spelt(n.steps), Expires: n.expires.at, Tick: n.tick, Ending: n.ending(), EndedBefore: n.ended, Resend: n.resend,
		ResentAfter: n.resent, CreatedAt: n.createdAt, SettledAt: n.settledAt, Reason: n.reason, Sealed: n.route.Sealed}
	shown.Headers, shown.Withheld = n.shownHeaders()
	if n.state == client.Scheduled {
		shown.NextAttempt = n.due
	}

	if n.state == client.Scheduled || n.state == client.Claimed {
		shown.Attempt = n.used + 1
	}

	if withBody {
		shown.Body, shown.BodyBase64 = n.shownBody()
	}

	v := present(shown, "attempts_made", "max_attempts", "ending")
	attempts := make([]any, len(n.attempts))
	for i, a := range n.attempts {
		attempts[i] = present(a, "duration_ms")
	}

	v["attempts"] = attempts
	if n.route.Sealed && !withBody {
		n.conceal(v)
	}

	if n.expires.after != 0 {
		v["expires_after"] = spell(n.expires.after)
	}

	maps.Copy(v, more)
	return v
}

// present returns the members of an answer that are not zero, and those whose names are in always.
func present(answer any, always ...string) map[string]any {
	members := map[string]any{}
	for field, value := range reflect.ValueOf(answer).Fields() {
		name := field.Tag.Get("json")
		if name == "" || value.IsZero() && !slices.Contains(always, name) {
			continue
		}

		members[name] = value.Interface()
		if at, ok := members[name].(time.Time); ok {
			members[name] = stamp(at)
		}
	}

	return members
}

// shownBody returns the body as JSON if it is JSON, and otherwise as bytes.
func (c *content) shownBody() (body json.RawMessage, bytes []byte) {
	switch {
	case len(c.body) == 0:
		return nil, nil
	case json.Valid(c.body) && c.contentType == "application/json":
		return c.body, nil
	}
	return nil, c.body
}

// shownHeaders returns the headers without those with secret values, and the names of those.
func (c *content) shownHeaders() (shown map[string]string, withheld []string) {
	for _, name := range slices.SortedFunc(maps.Keys(c.headers), func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}) {
		switch {
		case secretHeader(name):
			withheld = append(withheld, name)
		case shown == nil:
			shown = map[string]string{name: c.headers[name]}
		default:
			shown[name] = c.headers[name]
		}
	}

	return shown, withheld
}

// secretHeader reports whether a header has a secret value, by its name. The service has the same rule.
func secretHeader(name string) bool {
	l := strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(l, w) }) ||
		l == "key" || l == "sig" || l == "sign" || strings.HasSuffix(l, "-key") || strings.HasSuffix(l, "_key")
}

var secretWords = []string{"auth", "cookie", "token", "secret", "passw", "pwd", "apikey", "api-key", "api_key", "access", "credential",
	"signature", "private", "session"}

// spelt formats the delays of a ladder; nil has none.
func spelt(steps []time.Duration) (out []string) {
	if steps != nil {
		out = make([]string, len(steps))
	}

	for i, d := range steps {
		out[i] = spell(d)
	}

	return out
}

// problem is an error answer. A call panics with it.
type problem = client.Problem

func failed(status int, format string, a ...any) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, a...)}
}

func wrongField(location, format string, a ...any) *problem {
	message := fmt.Sprintf(format, a...)
	p := failed(http.StatusUnprocessableEntity, "%s: %s", location, message)
	p.Errors = []client.Wrong{{Location: location, Message: message}}
	return p
}

// conflict is the problem of a call that does not fit the state of a notice.
func conflict(state client.State, format string, a ...any) *problem {
	p := failed(http.StatusConflict, format, a...)
	p.State = state
	return p
}

// wrongCursor is the problem of a listing or a bulk call.
func wrongCursor() *problem {
	p := wrongField("query.cursor", "is not a cursor of this call; start again without a cursor")
	p.Title, p.Status = http.StatusText(http.StatusBadRequest), http.StatusBadRequest
	return p
}

// fields decodes a JSON object, and refuses unknown members.
func fields(data []byte, at string, known ...string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}

	if err := json.Unmarshal(data, &m); err != nil {
		if json.Valid(data) {
			panic(wrongField("body", "want a JSON object"))
		}
		panic(failed(http.StatusBadRequest, "the request's body is not JSON: %v", err))
	}

	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, name) {
			panic(wrongField(at+name, "no such field; the fields are %s", strings.Join(known, ", ")))
		}
	}

	return m
}

// request is the decoded request of a schedule call.
type request struct {
	content
	key, onDuplicate string
	due              time.Time
	dueGiven         bool // not as a delay
}

var (
	escaped   = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)
	webhookID = regexp.MustCompile(`^msg_[0-9a-f]{26}$`)
	segments  = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,64}(:[A-Za-z0-9_.~-]{1,64}){2}:[A-Za-z0-9_.~-]{1,128}$`)
	presets   = map[string]string{
		"none":     "",
		"standard": "5s,5m,30m,2h,5h,10h,14h,20h,24h",
		"wechat":   "15s,15s,30s,3m,10m,20m,30m,30m,30m,1h,3h,3h,3h,6h,6h",
		"alipay":   "4m,10m,10m,1h,2h,6h,15h",
	}
)

// read decodes and checks the request of a schedule call. Problems name the members with at before them, and the key as keyAt.
func (s *Service) read(data []byte, at, keyAt string) (r request) {
	m := fields(data, at, "key", "delay", "due", "body", "body_text", "body_base64", "content_type", "url", "audience", "headers",
		"method", "retry", "expires", "on_duplicate")

	for _, name := range []string{"key", "url", "audience", "content_type", "method", "on_duplicate", "headers", "retry", "body",
		"body_text", "body_base64"} {
		if raw, given := m[name]; given {
			if err := r.set(name, raw); err != nil {
				panic(wrongField(at+name, "%v", err))
			}
		}
	}

	_, plain := m["body"]
	_, text := m["body_text"]
	if _, base := m["body_base64"]; plain && text || plain && base || text && base {
		panic(wrongField(at+"body", "only one of body, body_text and body_base64 may be given"))
	}

	r.due, r.dueGiven = s.time(m, at), m["due"] != nil
	if raw := m["expires"]; raw != nil {
		r.expires = readExpiry(raw, at+"expires")
	}

	if r.typed = r.contentType != ""; !r.typed && json.Valid(r.body) {
		r.contentType = "application/json"
	}

	s.place(&r, at, keyAt)
	return r
}

// set decodes and checks a member of the request.
func (r *request) set(name string, raw json.RawMessage) (err error) {
	text := map[string]*string{"key": &r.key, "url": &r.url, "audience": &r.audience, "content_type": &r.contentType, "method": &r.method,
		"on_duplicate": &r.onDuplicate, "body_text": new(string)}[name]
	switch {
	case text != nil && json.Unmarshal(raw, text) != nil:
		return errors.New("want a string")
	case name == "headers" && json.Unmarshal(raw, &r.headers) != nil:
		return errors.New("want an object of strings")
	case name == "body_base64" && json.Unmarshal(raw, &r.body) != nil:
		return errors.New("is not base64 (the standard alphabet, with padding)")
	case name == "method" && !slices.Contains([]string{"POST", "PUT", "GET"}, r.method):
		return errors.New("want POST, PUT or GET")
	case name == "on_duplicate" && !slices.Contains([]string{"reject", "keep", "replace"}, r.onDuplicate):
		return errors.New("want reject, keep or replace")
	}

	switch name {
	case "body":
		r.body = raw
	case "body_text":
		r.body = []byte(*text)
	case "url":
		r.url, err = canonicalURL(r.url)
	case "retry":
		r.steps, err = ladder(raw)
	}

	return err
}

// canonicalURL checks a URL, and percent-encodes it like the service.
func canonicalURL(given string) (string, error) {
	start := strings.Index(given, "://") + len("://")
	if at := strings.IndexAny(given[start:], "/?#"); at >= 0 {
		start += at
	} else {
		start = len(given)
	}

	path, query := given[start:], ""
	if at := strings.IndexAny(path, "?#"); at >= 0 {
		path, query = path[:at], path[at:]
	}

	path, bare := encode(path, "")
	if bare {
		return "", errors.New("has a % in its path that no two hexadecimal digits follow; write %25 for the character %")
	}

	query, _ = encode(query, "")
	out := given[:start] + path + query
	u, err := url.Parse(out)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.TrimSpace(given) != given {
		return "", errors.New("want a URL that begins with http:// or https://, without white space around it")
	}
	if port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16); err != nil || port == 0 || strings.HasSuffix(u.Host, ":") {
		return "", errors.New("want a port from 1 to 65535")
	}

	return out, nil
}

// ladder decodes a list of durations, a text such as 15s,3m, or the name of a preset.
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
			return nil, fmt.Errorf("step %d is not a duration of 1ms or more", i+1)
		}

		steps[i] = d
	}

	return steps, nil
}

// duration decodes a Go duration or a number of seconds, and rounds it up to milliseconds.
func duration(raw json.RawMessage) (time.Duration, error) {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
	}

	d, err := withDays(text)
	if secs, serr := strconv.ParseFloat(text, 64); serr == nil && math.Abs(secs) < 1e9 {
		d, err = time.Duration(secs*float64(time.Second)), nil
	}

	if err != nil || d < 0 {
		return 0, errors.New("want a duration such as \"15s\" or \"1h30m\", or a number of seconds")
	}

	return (d + time.Millisecond - 1).Truncate(time.Millisecond), nil
}

// durationOf decodes a duration of a request.
func durationOf(raw json.RawMessage, at string) time.Duration {
	d, err := duration(raw)
	if err != nil {
		panic(wrongField(at, "%v", err))
	}

	return d
}

// longUnits matches the leading weeks and days of a duration, and the rest.
var longUnits = regexp.MustCompile(`^(?:(\d{1,5}(?:\.\d{1,9})?)w)?(?:(\d{1,5}(?:\.\d{1,9})?)d)?(\d.*)?$`)

// withDays is time.ParseDuration with the units w and d, before all others.
func withDays(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	m := longUnits.FindStringSubmatch(text)
	if m == nil || m[1] == "" && m[2] == "" {
		return time.ParseDuration(text)
	}

	weeks, _ := strconv.ParseFloat(m[1], 64) // "" is 0
	days, _ := strconv.ParseFloat(m[2], 64)
	whole := time.Duration((7*weeks + days) * 24 * float64(time.Hour))
	rest, err := time.ParseDuration(cmp.Or(m[3], "0"))
	return whole + rest, err
}

// time returns the due time of a request; without delay and due it is now.
func (s *Service) time(m map[string]json.RawMessage, at string) time.Time {
	delay, due := m["delay"], m["due"]
	switch {
	case delay != nil && due != nil:
		panic(wrongField(at+"due", "delay and due are both given; give one of them, or none for now"))
	case delay != nil:
		return s.now.Add(durationOf(delay, at+"delay"))
	case due != nil:
		var t time.Time
		if json.Unmarshal(due, &t) != nil {
			panic(wrongField(at+"due", "want a time such as 2026-11-21T09:30:00Z"))
		}

		return t.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC()
	}

	return s.now
}

// place checks the key, and the rules of its route.
func (s *Service) place(r *request, at, keyAt string) {
	if !segments.MatchString(r.key) {
		panic(wrongField(keyAt, "want app:module:type:id"))
	}

	rt := s.routeOf(r.key)
	switch {
	case rt == nil:
		panic(wrongField(keyAt, "no route covers it"))
	case rt.Target == "notice" && r.url == "":
		panic(wrongField(at+"url", "is missing: the target of route %s is notice, so each notice needs a url", rt.Name))
	case rt.Target != "notice" && r.url != "":
		panic(wrongField(at+"url", "the target of route %s is %s, so its notices have no url", rt.Name, targetKind(rt.Target)))
	}

	kind := targetKind(rt.Target)
	if _, wrong := r.query(); wrong != "" && r.method == http.MethodGet && (kind == "notice" || kind == "http") {
		panic(wrongField(at+wrong, "a GET needs a form or a JSON object"))
	}
}

// lines is an answer with a line of JSON for each element.
type lines []any

func write(w http.ResponseWriter, status int, answer any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	all, ctype := []any{answer}, "application/json"
	if list, ok := answer.(lines); ok {
		all, ctype = list, "application/x-ndjson"
	} else if status >= 400 {
		ctype = "application/problem+json"
	}

	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			panic("clienttest: " + err.Error()) // the answer has strings, numbers and valid JSON
		}
	}

	w.Header().Set("Content-Type", ctype)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails if the caller has closed the connection
}
