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

// Entry is one notice as an element of a list or an entry of a stream.
type Entry struct {
	ID          string
	Key         string
	Attempt     int
	Due         string // RFC 3339
	ContentType string
	Body        []byte
	Replay      string // id of the replay that scheduled it again, if any
	Resend      int    // how often it was resent
	Lost        bool   // its body was never read, see package intake
	Sealed      string // the text that has the content, in place of Body; usually empty
}

// Envelope returns the entry of a notice for a Redis list: a JSON object with the members id, key, attempt and due, and
// usually content_type and a member for the body. [notice.Content.InlineJSON] says which JSON can be embedded. More
// members mark notices that were replayed or resent, or whose body was lost.
//
//	body of the notice                             member
//	JSON of the type application/json              body: the same JSON, byte for byte
//	text in UTF-8 of another type                  body: a string
//	other bytes, or JSON that cannot be embedded   body_base64
//	empty                                          none
//	of a sealed notice                             sealed: the sealed text
func Envelope(n *notice.Notice) []byte {
	e := codec.Entry{ID: n.ID(), Key: n.Key, Attempt: n.NextAttempt(), Due: notice.Stamp(n.Due), ContentType: n.EffectiveType(), Lost: n.Lost,
		Replay: n.Replay, Resend: n.Resend, Sealed: n.Sealed}
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

// Fields returns the fields of a stream's entry: the same facts, and the body byte for byte, or the sealed text in its place.
func Fields(n *notice.Notice) []string {
	f := []string{"id", n.ID(), "key", n.Key, "attempt", strconv.Itoa(n.NextAttempt()), "due", notice.Stamp(n.Due),
		"content_type", n.EffectiveType()}
	if n.Sealed != "" {
		f = append(f, "sealed", n.Sealed)
	} else {
		f = append(f, "body", string(n.Body))
	}

	if n.Lost {
		f = append(f, "body_lost", "1")
	}

	if n.Replay != "" {
		f = append(f, "replay", n.Replay)
	}

	if n.Resend > 0 {
		f = append(f, "resend", strconv.Itoa(n.Resend))
	}

	return f
}

// ErrEntry is wrapped by errors about invalid entries.
var ErrEntry = errors.New("not an entry of this service")

// ParseEnvelope parses a list's element, as returned by Envelope.
func ParseEnvelope(text string) (*Entry, error) {
	var x codec.Entry
	if err := codec.Parse([]byte(text), &x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}

	e := &Entry{ID: x.ID, Key: x.Key, Attempt: x.Attempt, Due: x.Due, ContentType: x.ContentType, Lost: x.Lost, Replay: x.Replay,
		Resend: x.Resend, Sealed: x.Sealed}
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

// ParseFields parses a stream's entry, as returned by Fields.
func ParseFields(values map[string]any) (*Entry, error) {
	text := func(name string) string {
		s, _ := values[name].(string)
		return s
	}
	e := &Entry{ID: text("id"), Key: text("key"), Due: text("due"), ContentType: text("content_type"), Body: []byte(text("body")),
		Lost: text("body_lost") != "", Replay: text("replay"), Sealed: text("sealed")}
	e.Attempt, _ = strconv.Atoi(text("attempt"))
	e.Resend, _ = strconv.Atoi(text("resend"))
	return e, e.check()
}

func (e *Entry) check() error {
	if e.Key == "" || e.ID == "" || e.Attempt < 1 {
		return fmt.Errorf("%w: key, id or attempt is missing", ErrEntry)
	}
	return nil
}
