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
// Its head, due (Unix ms) and made (a Made), is written by the scripts, because
// times come from Redis; they splice it without reading the rest. What Go writes is the tail,
// from the comma after made (or the closing brace) on. A redrive appends
// "again" before the closing brace; the next settle writes it as "redriven" and one more in "endings". Defaults are left out
// and the key is not repeated. A notice that a replay scheduled again has the "made" that it had, and so its webhook-id,
// and the replay's id under "replay". "client" is the number of the client that scheduled the notice; versions before
// that read it as any other and forget "replay" at their settle.
//
// The body stands under "json" when it is JSON, byte for byte as it came, under
// "text" when it is UTF-8 and under "base64" otherwise.
//
// A notice whose record could not be read dies with what stood there under "raw",
// in base64. If it is redriven, that is tried again: a later version may read it.

// AppendTail appends the record without its head.
func (n *Notice) AppendTail(b []byte) []byte {
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
	if n.Reason != "" {
		b = appendString(b, "reason", string(n.Reason))
	}
	if len(n.Attempts) > 0 {
		b = append(b, `,"attempts":[`...)
		for i := range n.Attempts {
			if i > 0 {
				b = append(b, ',')
			}
			b = n.Attempts[i].append(b)
		}
		b = append(b, ']')
	}
	return append(b, '}')
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
	isJSON := inlineJSON(c.Body)
	if c.ContentType != "" {
		b = appendString(b, "type", c.ContentType)
	}
	switch {
	case len(c.Body) == 0:
	case isJSON:
		b = append(append(b, `,"json":`...), c.Body...)
	case utf8.Valid(c.Body):
		b = appendString(b, "text", string(c.Body))
	default:
		b = append(b, `,"base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, c.Body), '"')
	}
	if len(c.Headers) > 0 {
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
		b = append(b, ']')
	}
	if c.Ladder != nil {
		b = appendString(b, "retry", c.Ladder.String())
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
	return b
}

// InlineJSON reports whether the body may stand in another JSON text as it is: a
// JSON value without white space around it, which a decoder would strip, in
// UTF-8, and not so deep that the text around it passes a decoder's limit.
func (c *Content) InlineJSON() bool { return inlineJSON(c.Body) }

// maxDepth is far below the 10,000 levels that encoding/json reads: the record
// and the API's answers put levels of their own around a body.
const maxDepth = 1000

func inlineJSON(body []byte) bool {
	if len(body) == 0 || !json.Valid(body) || !utf8.Valid(body) {
		return false
	}
	return !isSpace(body[0]) && !isSpace(body[len(body)-1]) && depth(body) <= maxDepth
}

// depth is how deep arrays and objects are nested in valid JSON.
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
		b = appendInt(b, "us", us) // beside the whole ms, which are all that another version may read
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
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

type record struct {
	Due      int64           `json:"due"`
	Made     Made            `json:"made"`
	URL      string          `json:"url"`
	Audience string          `json:"audience"`
	Method   string          `json:"method"`
	Type     string          `json:"type"`
	JSON     json.RawMessage `json:"json"`
	Text     *string         `json:"text"`
	Base64   *string         `json:"base64"`
	Headers  [][2]string     `json:"headers"`
	Retry    *string         `json:"retry"`
	Trace    string          `json:"trace"`
	State    string          `json:"tracestate"`
	Adopted  bool            `json:"adopted"`
	Lost     bool            `json:"lost"`
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
	Reason   Reason          `json:"reason"`
	Attempts []struct {
		N        int    `json:"n"`
		At       int64  `json:"at"`
		MS       int64  `json:"ms"`
		US       int64  `json:"us"` // beside MS
		Status   int    `json:"status"`
		Reason   Reason `json:"reason"`
		Response string `json:"response"`
	} `json:"attempts"`
}

// ErrRecord is what Decode's errors wrap.
var ErrRecord = errors.New("not a record")

// Decode reads a record.
func Decode(key, route, data string) (*Notice, error) {
	if n, ok := scan(key, route, data); ok {
		return n, nil
	}
	return decode(key, route, data)
}

// decode reads any record.
func decode(key, route, data string) (*Notice, error) {
	var r record
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, key, err)
	}
	if r.Due <= 0 || r.Made <= 0 {
		return nil, fmt.Errorf("%w: %s: due or made is missing", ErrRecord, key)
	}
	if r.N < 0 || r.N > maxCount || r.Redriven < 0 || r.Redriven > r.N || r.Locked < 0 || r.Locked > maxCount {
		return nil, fmt.Errorf("%w: %s: no notice has made %d attempts, %d of them before it was redriven, and met %d locks", ErrRecord, key, r.N,
			r.Redriven, r.Locked)
	}
	if r.Client < 0 || r.Client > maxCount {
		return nil, fmt.Errorf("%w: %s: no client has the number %d", ErrRecord, key, r.Client)
	}
	if r.Endings < 0 || r.Endings > maxCount {
		return nil, fmt.Errorf("%w: %s: no notice has ended %d times before", ErrRecord, key, r.Endings)
	}
	if r.Raw != nil && r.Again {
		if n, err := Decode(key, route, string(r.Raw)); err == nil && n.Raw == nil {
			n.Due, n.Redriven, n.Endings, n.Reason = time.UnixMilli(r.Due).UTC(), n.AttemptsMade, r.Endings+1, ""
			return n, nil
		}
	}
	n := &Notice{
		Key: key, Route: route, Made: r.Made, Due: time.UnixMilli(r.Due).UTC(), Locked: r.Locked, AwaitsReport: r.Handed,
		Waits: waitsOf(r.Held), AttemptsMade: r.N, Redriven: r.Redriven, Endings: r.Endings, Client: r.Client, Replay: r.Replay, Reason: r.Reason,
		Raw: r.Raw,
		Content: Content{URL: r.URL, Audience: r.Audience, Method: r.Method, ContentType: r.Type, Traceparent: r.Trace, Tracestate: r.State,
			Adopted: r.Adopted, Lost: r.Lost},
	}
	switch {
	case r.JSON != nil:
		n.Body, n.inline = r.JSON, true
	case r.Text != nil:
		n.Body = []byte(*r.Text)
	case r.Base64 != nil:
		body, err := base64.StdEncoding.DecodeString(*r.Base64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: base64: %w", ErrRecord, key, err)
		}
		n.Body = body
	}
	for _, h := range r.Headers {
		n.Headers = append(n.Headers, Header{h[0], h[1]})
	}
	if r.Retry != nil {
		l, err := ParseLadder(*r.Retry)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: retry: %w", ErrRecord, key, err)
		}
		n.Ladder = l
	}
	if r.Again {
		n.Redriven, n.Reason = n.AttemptsMade, ""
		n.Endings++
	}
	if len(r.Attempts) > 0 {
		n.Attempts = make([]Attempt, len(r.Attempts), len(r.Attempts)+1)
		for i, a := range r.Attempts {
			n.Attempts[i] = Attempt{Number: a.N, At: time.UnixMilli(a.At).UTC(),
				Duration: time.Duration(a.MS)*time.Millisecond + time.Duration(a.US)*time.Microsecond,
				Status:   a.Status, Reason: a.Reason, Response: a.Response}
		}
	}
	return n, nil
}

// Unread is the notice of a key whose record Decode cannot read: all that is
// known is what stands there, and what of due and made can be made out.
func Unread(key, route, data string) *Notice {
	n := &Notice{Key: key, Route: route, Raw: []byte(data)}
	n.Reason = n.Unreadable()
	if ms := number(data, `"due":`); ms > 0 {
		n.Due = time.UnixMilli(ms).UTC()
	}
	n.Made = Made(number(data, `"made":`))
	return n
}

// number reads the digits behind the first occurrence of name, as the scripts
// do; 0 if there are none.
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

// maxCount is more than a notice can count.
const maxCount = 1 << 30

// maxNumber is what a script's numbers hold exactly.
const maxNumber = 1 << 53

// Unreadable says why the notice's record could not be read; "" = it could.
func (n *Notice) Unreadable() Reason {
	switch {
	case n.Raw == nil:
		return ""
	case len(n.Raw) == 0:
		return ReasonMissing
	}
	return ReasonUnreadable
}

// EffectiveType is the content type a callback carries: the one given, else
// application/json for a JSON body, else none.
func (c *Content) EffectiveType() string {
	if c.ContentType != "" {
		return c.ContentType
	}
	if inlineJSON(c.Body) {
		return "application/json"
	}
	return ""
}

// EffectiveType is the content's; a record says by itself which body is JSON.
func (n *Notice) EffectiveType() string {
	if n.inline && n.ContentType == "" {
		return "application/json"
	}
	return n.Content.EffectiveType()
}

// Reserved reports whether a producer may not set a header of this name: the
// ones that frame the exchange, and those this service speaks for itself. Some servers
// read an underscore as a hyphen, so both are the same here.
func Reserved(name string) bool {
	switch l := strings.ReplaceAll(strings.ToLower(name), "_", "-"); l {
	case "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade",
		"keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "expect", "accept-encoding",
		"user-agent", "traceparent", "tracestate":
		return true
	default:
		return strings.HasPrefix(l, "webhook-") || strings.HasPrefix(l, "notifier-")
	}
}
