package notice

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The record is one JSON object that a person can read with redis-cli:
//
//	{"due":1763740800000,"made":185903985000123,"url":"https://…","json":{"paid":true},"n":1,"attempts":[…]}
//
// The scripts write its head, due (Unix ms) and made (a Made), because times come from Redis. They replace
// the head without reading the rest. Go writes the tail, from the comma after made (or the closing brace) on.
// The scripts also add "first", the due time of the creation, behind the head when they change due for the first time, and
// "expires" (Unix ms) there when they create a notice that expires. "expires_after" is the duration that "expires" was computed from.
// Sending a notice again with another expiry adds "first_expires", that of the creation, -1 = none.
// "tick" (Unix ms) is the time that an occurrence of a recurring notice is for.
// A redrive appends "again" before the closing brace. The next settle replaces that by "redriven" and
// increments "endings". A redrive of many notices also appends its id as "job". Defaults are omitted and the key is not
// repeated. "resend" is how often the notice was resent, and "resent" the number of the ending after which it was last
// resent.
//
// A notice that a replay scheduled again keeps its "made", and so its webhook-id, and has the replay's id in
// "replay". "client" is the number of the client that scheduled the notice. A notice whose url or headers were changed
// has the url and a digest of the content of the schedule call in "scheduled", and the id of the redirect that changed
// it last, if any, in "redirect". Older versions ignore these members, and drop them at their settle.
//
// On a route with a seal, "sealed" is the sealed text of the body, the headers and the credentials of the url, and "same" a digest of
// them. An attempt has the receiver's answer in "sealed" too. With "url_sealed", "sealed" also has the query and the fragment of the url,
// which "url" lacks.
//
// The body is in "json" when it is JSON, byte for byte as received, in "text" when it is UTF-8, and in
// "base64" otherwise.
//
// A notice whose record cannot be decoded dies with the stored text in "raw", in base64. A redrive decodes
// that text again, because a later version may be able to.

// AppendTail appends the record without its head.
func (n *Notice) AppendTail(b []byte) []byte {
	if n.FirstDue != 0 {
		b = appendInt(b, "first", n.FirstDue)
	}

	if !n.Expires.IsZero() {
		b = appendInt(b, "expires", n.Expires.UnixMilli())
	}

	if n.FirstExpires != 0 {
		b = appendInt(b, "first_expires", n.FirstExpires)
	}

	if n.kept != "" {
		b = append(b, n.kept...)
	} else {
		b = n.Content.append(b)
	}

	if n.Client > 0 {
		b = appendInt(b, "client", int64(n.Client))
	}

	if n.Raw != nil {
		b = append(b, `,"raw":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, n.Raw), '"')
	}

	if n.Locked > 0 {
		b = appendInt(b, "locked", int64(n.Locked))
	}

	if n.AwaitsReport {
		b = append(b, `,"handed":true`...)
	}

	if !n.Waits.Until.IsZero() {
		b = n.Waits.append(b)
	}

	if n.AttemptsMade > 0 {
		b = appendInt(b, "n", int64(n.AttemptsMade))
	}

	if n.Redriven > 0 {
		b = appendInt(b, "redriven", int64(n.Redriven))
	}

	if n.Endings > 0 {
		b = appendInt(b, "endings", int64(n.Endings))
	}

	if n.Replay != "" {
		b = appendString(b, "replay", n.Replay)
	}

	if n.Redirect != "" {
		b = appendString(b, "redirect", n.Redirect)
	}

	if n.Job != "" {
		b = appendString(b, "job", n.Job)
	}

	if n.Resend > 0 {
		b = appendInt(b, "resend", int64(n.Resend))
		b = appendInt(b, "resent", int64(n.Resent))
	}

	if n.Reason != "" {
		b = appendString(b, "reason", string(n.Reason))
	}

	return append(n.appendAttempts(b), '}')
}

func (n *Notice) appendAttempts(b []byte) []byte {
	if len(n.Attempts) == 0 {
		return b
	}

	b = append(b, `,"attempts":[`...)
	for i := range n.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = n.Attempts[i].append(b)
	}

	return append(b, ']')
}

func (c *Content) append(b []byte) []byte {
	if c.URL != "" {
		b = appendString(b, "url", c.URL)
	}

	if c.Audience != "" {
		b = appendString(b, "audience", c.Audience)
	}

	if c.Method != "" && c.Method != "POST" {
		b = appendString(b, "method", c.Method)
	}

	if c.ContentType != "" {
		b = appendString(b, "type", c.ContentType)
	}

	if c.Sealed != "" {
		b = appendString(b, "sealed", c.Sealed)
		b = appendString(b, "same", c.Same)
	}

	if c.URLSealed {
		b = append(b, `,"url_sealed":true`...)
	}

	b = c.appendBody(b)
	b = c.appendHeaders(b)

	if c.Ladder != nil {
		b = appendString(b, "retry", c.Ladder.String())
	}

	if c.ExpiresAfter > 0 {
		b = appendInt(b, "expires_after", c.ExpiresAfter.Milliseconds())
	}

	if !c.Tick.IsZero() {
		b = appendInt(b, "tick", c.Tick.UnixMilli())
	}

	if c.Traceparent != "" {
		b = appendString(b, "trace", c.Traceparent)
	}

	if c.Tracestate != "" {
		b = appendString(b, "tracestate", c.Tracestate)
	}

	if c.Adopted {
		b = append(b, `,"adopted":true`...)
	}

	if c.Lost {
		b = append(b, `,"lost":true`...)
	}

	if c.Scheduled != nil {
		b = c.Scheduled.append(b)
	}

	return b
}

// appendBody appends the body in the form that is the easiest to read.
func (c *Content) appendBody(b []byte) []byte {
	switch {
	case len(c.Body) == 0:
		return b
	case inlineJSON(c.Body):
		return append(append(b, `,"json":`...), c.Body...)
	case utf8.Valid(c.Body):
		return appendString(b, "text", string(c.Body))
	}

	b = append(b, `,"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, c.Body), '"')
}

func (c *Content) appendHeaders(b []byte) []byte {
	if len(c.Headers) == 0 {
		return b
	}

	b = append(b, `,"headers":[`...)
	for i, h := range c.Headers {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, '[')
		b = quote(b, h.Name)
		b = append(b, ',')
		b = quote(b, h.Value)
		b = append(b, ']')
	}

	return append(b, ']')
}

// InlineJSON reports whether the body can be embedded in another JSON text and read back byte for byte. That requires
// valid JSON in UTF-8, without white space around it and without very deep nesting.
func (c *Content) InlineJSON() bool { return inlineJSON(c.Body) }

// maxDepth is far below the 10,000 levels that encoding/json accepts, because the record and the API's
// answers add levels around a body.
const maxDepth = 1000

func inlineJSON(body []byte) bool {
	if len(body) == 0 || !json.Valid(body) || !utf8.Valid(body) {
		return false
	}
	return !isSpace(body[0]) && !isSpace(body[len(body)-1]) && depth(body) <= maxDepth
}

// depth returns how deep arrays and objects are nested in valid JSON.
func depth(valid []byte) int {
	level, deepest := 0, 0
	for i := 0; i < len(valid); i++ {
		switch valid[i] {
		case '"':
			for i++; valid[i] != '"'; i++ {
				if valid[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			level++
			deepest = max(deepest, level)
		case ']', '}':
			level--
		}
	}

	return deepest
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (a *Attempt) append(b []byte) []byte {
	b = append(append(b, `{"n":`...), strconv.Itoa(a.Number)...)
	b = appendInt(b, "at", a.At.UnixMilli())
	b = appendInt(b, "ms", a.Duration.Milliseconds())
	if us := a.Duration.Microseconds() % 1000; us != 0 {
		b = appendInt(b, "us", us) // in addition to the whole ms
	}

	if a.Status != 0 {
		b = appendInt(b, "status", int64(a.Status))
	}

	if a.Reason != "" {
		b = appendString(b, "reason", string(a.Reason))
	}

	if a.Response != "" {
		b = appendString(b, "response", Kept(a.Response))
	}

	if a.Sealed != "" {
		b = appendString(b, "sealed", a.Sealed)
	}

	return append(b, '}')
}

func appendInt(b []byte, name string, v int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, v, 10)
}

func appendString(b []byte, name, v string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return quote(b, v)
}

const hexDigits = "0123456789abcdef"

// quote appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}

		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}

			b = append(append(b, s[start:i]...), "\ufffd"...)
			i++
			start = i
			continue
		}

		b = escape(append(b, s[start:i]...), c)
		i++
		start = i
	}

	return append(append(b, s[start:]...), '"')
}

// escape appends the JSON escape of an ASCII character.
func escape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}

	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

type record struct {
	Due      int64           `json:"due"`
	Made     Made            `json:"made"`
	First    int64           `json:"first"`
	Expires  int64           `json:"expires"`
	WasUntil int64           `json:"first_expires"`
	After    int64           `json:"expires_after"`
	URL      string          `json:"url"`
	Audience string          `json:"audience"`
	Method   string          `json:"method"`
	Type     string          `json:"type"`
	JSON     json.RawMessage `json:"json"`
	Text     *string         `json:"text"`
	Base64   *string         `json:"base64"`
	Headers  [][2]string     `json:"headers"`
	Sealed   string          `json:"sealed"`
	Same     string          `json:"same"`
	SealsURL bool            `json:"url_sealed"`
	Retry    *string         `json:"retry"`
	Tick     int64           `json:"tick"`
	Trace    string          `json:"trace"`
	State    string          `json:"tracestate"`
	Adopted  bool            `json:"adopted"`
	Lost     bool            `json:"lost"`
	As       *AsScheduled    `json:"scheduled"`
	Client   int             `json:"client"`
	Raw      []byte          `json:"raw"`
	Locked   int             `json:"locked"`
	Handed   bool            `json:"handed"`
	Held     json.RawMessage `json:"held"`
	N        int             `json:"n"`
	Redriven int             `json:"redriven"`
	Endings  int             `json:"endings"`
	Again    bool            `json:"again"` // appended by the redrive script
	Replay   string          `json:"replay"`
	Redirect string          `json:"redirect"`
	Job      string          `json:"job"` // a redrive appends another one, which counts
	Resend   int             `json:"resend"`
	Resent   int             `json:"resent"`
	Reason   Reason          `json:"reason"`
	Attempts []struct {
		N        int    `json:"n"`
		At       int64  `json:"at"`
		MS       int64  `json:"ms"`
		US       int64  `json:"us"` // added to MS
		Status   int    `json:"status"`
		Reason   Reason `json:"reason"`
		Response string `json:"response"`
		Sealed   string `json:"sealed"`
	} `json:"attempts"`
}

// ErrRecord is wrapped by the errors of Decode.
var ErrRecord = errors.New("not a record")

// Decode parses a record. The url gets its canonical form, because a record may have been written without Go. The most
// frequent form of a record takes the fast path of scan.
func Decode(key, route, data string) (*Notice, error) {
	n, ok := scan(key, route, data)
	if !ok {
		var err error
		if n, err = decode(key, route, data); err != nil {
			return nil, err
		}
	}

	if canonical, err := encodeURL(n.URL); err == nil && canonical != n.URL { // an invalid url fails at the attempt
		n.URL, n.kept = canonical, ""
	}

	return n, nil
}

// decode parses a record of any form.
func decode(key, route, data string) (*Notice, error) {
	var r record
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, key, err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, key, err)
	}
	if r.Resend < 0 || r.Resend > r.Resent || r.Resent > r.Endings || r.Resend == 0 && r.Resent > 0 {
		return nil, fmt.Errorf("%w: %s: ended %d times and resent %d times, last after ending %d", ErrRecord, key, r.Endings, r.Resend, r.Resent)
	}

	if r.Raw != nil && r.Again {
		if n, err := Decode(key, route, string(r.Raw)); err == nil && n.Raw == nil {
			n.FirstDue = n.DueAtCreation()
			n.Due, n.Redriven, n.Endings, n.Reason = time.UnixMilli(r.Due).UTC(), n.AttemptsMade, r.Endings+1, ""
			n.Job = r.Job
			return n, nil
		}
	}

	n := &Notice{
		Key: key, Route: route, Made: r.Made, Due: time.UnixMilli(r.Due).UTC(), FirstDue: r.First, Locked: r.Locked, AwaitsReport: r.Handed,
		Waits: waitsOf(r.Held), AttemptsMade: r.N, Redriven: r.Redriven, Endings: r.Endings, Client: r.Client, Replay: r.Replay,
		Redirect: r.Redirect, Job: r.Job, Resend: r.Resend, Resent: r.Resent,
		Reason: r.Reason, Raw: r.Raw, Attempts: r.attempts(),
	}
	if r.Again {
		n.Redriven, n.Reason = n.AttemptsMade, ""
		n.Endings++
	}

	var err error
	if n.Content, err = r.content(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, key, err)
	}

	n.inline = r.JSON != nil
	return n, nil
}

// check rejects numbers that no notice can have.
func (r *record) check() error {
	switch {
	case r.Due <= 0 || r.Made <= 0:
		return errors.New("due or made is missing")
	case r.N < 0 || r.N > maxCount || r.Redriven < 0 || r.Redriven > r.N || r.Locked < 0 || r.Locked > maxCount:
		return fmt.Errorf("impossible counts: %d attempts, %d of them before the redrive, and %d locks", r.N, r.Redriven, r.Locked)
	case r.Client < 0 || r.Client > maxCount:
		return fmt.Errorf("impossible client number: %d", r.Client)
	case r.Expires < 0 || r.Expires > maxNumber || r.After < 0 || r.After > MaxHorizon.Milliseconds() ||
		r.WasUntil < NoExpiry || r.WasUntil > maxNumber:
		return fmt.Errorf("impossible expiry: %d, %d ms after the due time", r.Expires, r.After)
	case r.Tick < 0 || r.Tick > maxNumber:
		return fmt.Errorf("impossible tick: %d", r.Tick)
	case r.Endings < 0 || r.Endings > maxCount:
		return fmt.Errorf("impossible count of endings: %d", r.Endings)
	}

	return nil
}

func (r *record) content() (Content, error) {
	c := Content{URL: r.URL, Audience: r.Audience, Method: r.Method, ContentType: r.Type, Traceparent: r.Trace, Tracestate: r.State,
		Adopted: r.Adopted, Lost: r.Lost, Scheduled: r.As, Expires: timeOf(r.Expires), ExpiresAfter: time.Duration(r.After) * time.Millisecond,
		FirstExpires: r.WasUntil, Tick: timeOf(r.Tick), Sealed: r.Sealed, Same: r.Same, URLSealed: r.SealsURL}

	switch {
	case r.JSON != nil:
		c.Body = r.JSON
	case r.Text != nil:
		c.Body = []byte(*r.Text)
	case r.Base64 != nil:
		body, err := base64.StdEncoding.DecodeString(*r.Base64)
		if err != nil {
			return c, fmt.Errorf("base64: %w", err)
		}

		c.Body = body
	}

	for _, h := range r.Headers {
		c.Headers = append(c.Headers, Header{h[0], h[1]})
	}

	if r.Retry != nil {
		l, err := ParseLadder(*r.Retry)
		if err != nil {
			return c, fmt.Errorf("retry: %w", err)
		}

		c.Ladder = l
	}

	return c, nil
}

// attempts returns the record's attempts, with room for the next one.
func (r *record) attempts() []Attempt {
	if len(r.Attempts) == 0 {
		return nil
	}

	out := make([]Attempt, len(r.Attempts), len(r.Attempts)+1)
	for i, a := range r.Attempts {
		out[i] = Attempt{Number: a.N, At: time.UnixMilli(a.At).UTC(),
			Duration: time.Duration(a.MS)*time.Millisecond + time.Duration(a.US)*time.Microsecond,
			Status:   a.Status, Reason: a.Reason, Response: a.Response, Sealed: a.Sealed}
	}

	return out
}

// Unread returns the notice of a key whose record Decode cannot parse. It holds the stored text, and due and
// made if the text contains them.
func Unread(key, route, data string) *Notice {
	n := &Notice{Key: key, Route: route, Raw: []byte(data)}
	n.Reason = n.Unreadable()
	if ms := number(data, `"due":`); ms > 0 {
		n.Due = time.UnixMilli(ms).UTC()
	}

	n.Made = Made(number(data, `"made":`))
	return n
}

// number returns the digits after the first occurrence of name as a number, as the scripts do; 0 if there are
// none.
func number(s, name string) int64 {
	_, s, _ = strings.Cut(s, name)
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}

	v, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil || v > maxNumber {
		return 0
	}

	return v
}

// maxCount is an upper bound of all counts of a notice.
const maxCount = 1 << 30

// maxNumber is the largest number that a script's numbers hold exactly.
const maxNumber = 1 << 53

// Unreadable returns why the notice's record could not be decoded; empty if it could.
func (n *Notice) Unreadable() Reason {
	switch {
	case n.Raw == nil:
		return ""
	case len(n.Raw) == 0:
		return ReasonMissing
	}
	return ReasonUnreadable
}
