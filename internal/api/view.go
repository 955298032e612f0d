package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// stamp is a time as the API writes it: RFC 3339, UTC, milliseconds.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	return time.Time(s).UTC().AppendFormat(make([]byte, 0, 26), `"`+notice.StampLayout+`"`), nil
}

func (s *stamp) UnmarshalJSON(b []byte) error { return (*time.Time)(s).UnmarshalJSON(b) }

func stampOrNil(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// Notice is a notice as the API shows it. Body and BodyBase64 stand at the end
// because the body is appended to the rest byte for byte.
type Notice struct {
	Key          string            `json:"key" example:"app1:orders:paid:4711"`
	ID           string            `json:"id" doc:"The webhook-id of its callbacks."`
	Route        string            `json:"route" doc:"The name of its route."`
	State        notice.State      `json:"state" enum:"scheduled,claimed,delivered,cancelled,dead,replaced" doc:"replaced: another notice took its key; only from the history."`
	Due          stamp             `json:"due" doc:"When the coming (or last) attempt is (was) promised. A postponement does not change it: see next_attempt_at."`
	Attempt      int               `json:"attempt,omitempty" doc:"The number of the coming attempt, from 1. Absent once the notice is finalized."`
	AttemptsMade int               `json:"attempts_made" doc:"The number of attempts so far."`
	MaxAttempts  int               `json:"max_attempts" doc:"The attempts it may have in all."`
	URL          string            `json:"url,omitempty" doc:"Its own address, without a password."`
	Audience     string            `json:"audience,omitempty" doc:"Whom it is for, as given."`
	Method       string            `json:"method,omitempty" enum:"POST,PUT,GET"`
	ContentType  string            `json:"content_type,omitempty"`
	Retry        []string          `json:"retry,omitzero" doc:"Its own ladder, if it brought one; empty = one attempt."`
	Headers      map[string]string `json:"headers,omitempty" doc:"Its own headers but those in headers_withheld."`
	Withheld     []string          `json:"headers_withheld,omitempty" doc:"Names of headers whose values are secrets, which are not shown."`
	EndedBefore  int               `json:"ended_before,omitempty" doc:"How often it had ended before: it was dead and was redriven."`
	Replay       string            `json:"replay,omitempty" doc:"The id of the replay that sends it again."`
	Client       string            `json:"client,omitempty" doc:"The client that scheduled it, or # and its number if its name is unknown. Recorded where two or more clients are configured, and shown to clients without a prefix. Not in the history."`
	CreatedAt    stamp             `json:"created_at"`
	SettledAt    *stamp            `json:"settled_at,omitempty" doc:"When it was delivered or cancelled, or when it died."`
	Reason       string            `json:"reason,omitempty" doc:"Why it is dead."`
	NextAttempt  *stamp            `json:"next_attempt_at,omitempty" doc:"When a scheduled notice is attempted next: later than due if it was postponed, because its host was busy or its breaker open, for example."`
	Attempts     []Attempt         `json:"attempts" doc:"The last 20 attempts."`
	Body         any               `json:"body,omitempty" doc:"The body, if it is JSON, byte for byte."`
	BodyBase64   string            `json:"body_base64,omitempty" doc:"The body, if it is not JSON, or contains control characters or direction marks."`
}

// Attempt is one attempt of a notice.
type Attempt struct {
	N          int     `json:"n"`
	At         stamp   `json:"at"`
	Status     int     `json:"status,omitempty" doc:"The HTTP status of the answer; absent if there was none."`
	DurationMS float64 `json:"duration_ms" doc:"To the microsecond: 12.345."`
	Reason     string  `json:"reason,omitempty" doc:"Why it was no delivery."`
	Response   string  `json:"response,omitempty" doc:"The first 512 bytes of the answer, or the error."`
}

// view shows a notice without its body; by is the client that scheduled it. What is sent is written by appendHead,
// which must say the same and does it in a fraction of the time.
func (a *api) view(f store.Found, by string) Notice {
	n := f.Notice
	v := Notice{
		Key: n.Key, ID: n.ID(), Route: n.Route, State: f.State, Due: stamp(n.Due), Attempt: coming(f), AttemptsMade: n.AttemptsMade, MaxAttempts: 1 + n.Redriven,
		URL: redacted(n.URL), Audience: n.Audience, Method: n.Method, ContentType: n.EffectiveType(), CreatedAt: stamp(n.Made.Time()),
		EndedBefore: n.Endings, Replay: n.Replay, Client: by, SettledAt: stampOrNil(f.SettledAt), Reason: string(n.Reason), NextAttempt: stampOrNil(f.NextAttemptAt()),
		Attempts: make([]Attempt, len(n.Attempts)),
	}
	ladder := n.Ladder
	if r := a.routes.Prefix(n.Route); r != nil {
		v.Route = r.Name
		if ladder == nil {
			ladder = r.Ladder
		}
	}
	v.MaxAttempts += len(ladder)
	if n.Ladder != nil {
		v.Retry = make([]string, len(n.Ladder))
		for i, d := range n.Ladder {
			v.Retry[i] = notice.Short(d)
		}
	}
	v.Headers, v.Withheld = headersOf(n.Headers)
	for i, at := range n.Attempts {
		v.Attempts[i] = Attempt{N: at.Number, At: stamp(at.At), Status: at.Status, DurationMS: millis(at.Duration),
			Reason: string(at.Reason), Response: at.Response}
	}
	return v
}

// coming returns the number of the coming attempt, or 0 for a finalized notice.
func coming(f store.Found) int {
	if f.State != notice.Scheduled && f.State != notice.Claimed {
		return 0
	}
	return f.NextAttempt()
}

// headersOf are headers as they are shown: the values of secrets are not.
func headersOf(list []notice.Header) (shown map[string]string, withheld []string) {
	for _, h := range list {
		if notice.SecretName(h.Name) {
			withheld = append(withheld, h.Name)
			continue
		}
		if shown == nil {
			shown = map[string]string{}
		}
		shown[h.Name] = h.Value
	}
	return shown, withheld
}

// millis are milliseconds with their decimals, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// redacted takes the password out of an address.
func redacted(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}
	return address
}

// appendNotice appends the notice, its body included, and then more members
// (without the comma before them).
func (a *api) appendNotice(b []byte, f store.Found, by, more string) []byte {
	inline := f.InlineJSON()
	b = a.appendHead(b, f, by, inline)
	switch {
	case len(f.Raw) > 0: // all that is known of it
		b = append(b, `,"body_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, f.Raw), '"')
	case len(f.Body) == 0:
	case inline && !hiddenText(f.Body):
		b = append(append(b, `,"body":`...), f.Body...)
	default:
		b = append(b, `,"body_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, f.Body), '"')
	}
	if more != "" {
		b = append(append(b, ','), more...)
	}
	return append(b, '}')
}

// appendHead appends a notice without its body and without the closing brace.
// It is most of what a schedule call costs here, so it is written by hand; a
// test holds it against view.
func (a *api) appendHead(b []byte, f store.Found, by string, inline bool) []byte {
	n := f.Notice
	if f.State == notice.Settled { // nothing else is known of it
		b = appendString(append(b, `{"key":`...), n.Key)
		b = appendString(append(b, `,"id":`...), n.ID())
		return append(b, `,"state":"settled"`...)
	}
	name, steps := n.Route, n.Ladder
	if r := a.routes.Prefix(n.Route); r != nil {
		name = r.Name
		if steps == nil {
			steps = r.Ladder
		}
	}
	contentType := n.ContentType
	if contentType == "" && inline {
		contentType = "application/json"
	}
	b = appendString(append(b, `{"key":`...), n.Key)
	b = appendString(append(b, `,"id":`...), n.ID())
	b = appendString(append(b, `,"route":`...), name)
	b = appendString(append(b, `,"state":`...), string(f.State))
	b = appendStamp(append(b, `,"due":`...), n.Due)
	if next := coming(f); next > 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(next), 10)
	}
	b = strconv.AppendInt(append(b, `,"attempts_made":`...), int64(n.AttemptsMade), 10)
	b = strconv.AppendInt(append(b, `,"max_attempts":`...), int64(1+n.Redriven+len(steps)), 10)
	for _, m := range [...]struct{ name, value string }{{`,"url":`, redacted(n.URL)}, {`,"audience":`, n.Audience}, {`,"method":`, n.Method}, {`,"content_type":`,
		contentType}} {
		if m.value != "" {
			b = appendString(append(b, m.name...), m.value)
		}
	}
	if n.Ladder != nil {
		b = append(b, `,"retry":[`...)
		for i, d := range n.Ladder {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, notice.Short(d))
		}
		b = append(b, ']')
	}
	if len(n.Headers) > 0 {
		shown, withheld := headersOf(n.Headers)
		if len(shown) > 0 {
			b = appendJSON(append(b, `,"headers":`...), shown)
		}
		if len(withheld) > 0 {
			b = appendJSON(append(b, `,"headers_withheld":`...), withheld)
		}
	}
	if n.Endings > 0 {
		b = strconv.AppendInt(append(b, `,"ended_before":`...), int64(n.Endings), 10)
	}
	if n.Replay != "" {
		b = appendString(append(b, `,"replay":`...), n.Replay)
	}
	if by != "" {
		b = appendString(append(b, `,"client":`...), by)
	}
	b = appendStamp(append(b, `,"created_at":`...), n.Made.Time())
	if !f.SettledAt.IsZero() {
		b = appendStamp(append(b, `,"settled_at":`...), f.SettledAt)
	}
	if n.Reason != "" {
		b = appendString(append(b, `,"reason":`...), string(n.Reason))
	}
	if at := f.NextAttemptAt(); !at.IsZero() {
		b = appendStamp(append(b, `,"next_attempt_at":`...), at)
	}
	b = append(b, `,"attempts":`...)
	if len(n.Attempts) == 0 {
		return append(b, `[]`...)
	}
	return appendJSON(b, a.view(f, by).Attempts)
}

func appendStamp(b []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(b, '"'), notice.StampLayout), '"')
}

// appendString appends a string as JSON.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return appendJSON(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendJSON appends v, which is one of this package's own types.
func appendJSON(b []byte, v any) []byte {
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("api: " + err.Error()) // a type that JSON cannot hold: a defect
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	return writeRaw(w, status, "application/json", append(appendJSON(nil, v), '\n'))
}

// writeRaw answers, with JSON that is safe to print on a terminal. An error of the connection is nobody's to handle: the
// caller has gone.
func writeRaw(w http.ResponseWriter, status int, contentType string, data []byte) error {
	if strings.Contains(contentType, "json") {
		data = escapeHidden(data)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
	return nil
}
