package consume

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Entry is one notice as a list or stream brings it.
type Entry struct {
	ID          string
	Key         string
	Attempt     int
	Due         string // RFC 3339
	ContentType string
	Body        []byte
	Lost        bool // it never had its body: see package adopt

	stream string // its ID in the stream
	again  bool   // taken over from another consumer
}

// Variables are the facts as a command finds them in its environment.
func (e *Entry) Variables() []string {
	v := []string{"NOTIFIER_KEY=" + e.Key, "NOTIFIER_ID=" + e.ID, "NOTIFIER_ATTEMPT=" + strconv.Itoa(e.Attempt), "NOTIFIER_DUE=" + e.Due,
		"NOTIFIER_CONTENT_TYPE=" + e.ContentType}
	if e.Lost {
		v = append(v, "NOTIFIER_BODY=lost")
	}
	for i := range v { // a variable holds no NUL
		v[i] = strings.ReplaceAll(v[i], "\x00", "")
	}
	return v
}

var errEntry = errors.New("no entry of this service")

// fromList reads an envelope; see queue.Envelope.
func fromList(text string) (*Entry, error) {
	var x struct {
		ID      string          `json:"id"`
		Key     string          `json:"key"`
		Attempt int             `json:"attempt"`
		Due     string          `json:"due"`
		Type    string          `json:"content_type"`
		Body    json.RawMessage `json:"body"`
		Base64  string          `json:"body_base64"`
		Lost    bool            `json:"body_lost"`
	}
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	e := &Entry{ID: x.ID, Key: x.Key, Attempt: x.Attempt, Due: x.Due, ContentType: x.Type, Lost: x.Lost}
	switch {
	case x.Base64 != "":
		b, err := base64.StdEncoding.DecodeString(x.Base64)
		if err != nil {
			return nil, fmt.Errorf("%w: body_base64: %w", errEntry, err)
		}
		e.Body = b
	case x.Type == "application/json":
		e.Body = x.Body
	case x.Body != nil:
		var s string
		if err := json.Unmarshal(x.Body, &s); err != nil {
			return nil, fmt.Errorf("%w: body: %w", errEntry, err)
		}
		e.Body = []byte(s)
	}
	return e, e.check()
}

// fromStream reads fields; see queue.Fields.
func fromStream(id string, values map[string]any) (*Entry, error) {
	text := func(name string) string {
		s, _ := values[name].(string)
		return s
	}
	e := &Entry{ID: text("id"), Key: text("key"), Due: text("due"), ContentType: text("content_type"), Body: []byte(text("body")),
		Lost: text("body_lost") != "", stream: id}
	e.Attempt, _ = strconv.Atoi(text("attempt"))
	return e, e.check()
}

func (e *Entry) check() error {
	if e.Key == "" || e.Attempt < 1 {
		return fmt.Errorf("%w: it has no key or no attempt", errEntry)
	}
	return nil
}
