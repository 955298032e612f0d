package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"notifier/internal/codec"
	"notifier/internal/notice"
)

// Entry is one notice as a list or stream brings it.
type Entry struct {
	ID          string
	Key         string
	Attempt     int
	Due         string // RFC 3339
	ContentType string
	Body        []byte
	Replay      string // the id of the replay that sent it again, if one did
	Lost        bool   // it never had its body: see package adopt
}

// Envelope is a list's element: {"id","key","attempt","due","content_type",
// "body"}. The body stands byte for byte as it is when it is JSON, as a string
// when it is text of another type, and under "body_base64" otherwise.
func Envelope(n *notice.Notice) []byte {
	e := codec.Entry{ID: n.ID(), Key: n.Key, Attempt: n.NextAttempt(), Due: notice.Stamp(n.Due), ContentType: n.EffectiveType(), Lost: n.Lost,
		Replay: n.Replay}
	switch isJSON := e.ContentType == "application/json"; {
	case len(n.Body) == 0:
	case isJSON && n.InlineJSON():
		e.Body = n.Body
	case utf8.Valid(n.Body) && !isJSON:
		e.Body = codec.AppendString(nil, string(n.Body))
	default:
		e.BodyBase64 = n.Body
	}
	return codec.Append(nil, &e)
}

// Fields are a stream's entry: the same facts, the body byte for byte.
func Fields(n *notice.Notice) []string {
	f := []string{"id", n.ID(), "key", n.Key, "attempt", strconv.Itoa(n.NextAttempt()), "due", notice.Stamp(n.Due),
		"content_type", n.EffectiveType(), "body", string(n.Body)}
	if n.Lost {
		f = append(f, "body_lost", "1")
	}
	if n.Replay != "" {
		f = append(f, "replay", n.Replay)
	}
	return f
}

// ErrEntry is what errors about an entry that cannot be read wrap.
var ErrEntry = errors.New("no entry of this service")

// ParseEnvelope reads a list's element, which Envelope made.
func ParseEnvelope(text string) (*Entry, error) {
	var x codec.Entry
	if err := codec.Parse([]byte(text), &x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}

	e := &Entry{ID: x.ID, Key: x.Key, Attempt: x.Attempt, Due: x.Due, ContentType: x.ContentType, Lost: x.Lost, Replay: x.Replay}
	switch {
	case len(x.BodyBase64) > 0:
		e.Body = x.BodyBase64
	case x.ContentType == "application/json":
		e.Body = x.Body
	case x.Body != nil:
		var s string
		if err := json.Unmarshal(x.Body, &s); err != nil {
			return nil, fmt.Errorf("%w: body: %w", ErrEntry, err)
		}
		e.Body = []byte(s)
	}
	return e, e.check()
}

// ParseFields reads a stream's entry, which Fields made.
func ParseFields(values map[string]any) (*Entry, error) {
	text := func(name string) string {
		s, _ := values[name].(string)
		return s
	}
	e := &Entry{ID: text("id"), Key: text("key"), Due: text("due"), ContentType: text("content_type"), Body: []byte(text("body")),
		Lost: text("body_lost") != "", Replay: text("replay")}
	e.Attempt, _ = strconv.Atoi(text("attempt"))
	return e, e.check()
}

func (e *Entry) check() error {
	if e.Key == "" || e.ID == "" || e.Attempt < 1 {
		return fmt.Errorf("%w: it has no key, no id or no attempt", ErrEntry)
	}
	return nil
}
