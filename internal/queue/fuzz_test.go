package queue

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"notifier/internal/notice"
)

// FuzzParseEnvelope checks that any text in a list is an entry or an ErrEntry.
func FuzzParseEnvelope(f *testing.F) {
	for _, s := range []string{`{"id":"msg_1","key":"a:b:c:d","attempt":1,"due":"2026-11-22T00:00:00.000Z","content_type":"application/json","body":{"a":1}}`,
		`{"id":"x","key":"k","attempt":1,"body":"text"}`, `{"id":"x","key":"k","attempt":1,"body_base64":"AA=="}`,
		`{"id":"x","key":"k","attempt":-1}`, "null", "[]",
		`{"id":1}`, `{"id":"x","key":"k","attempt":1,"body":{}}`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEnvelope(s)
		if err != nil {
			if !errors.Is(err, ErrEntry) {
				t.Fatalf("not an ErrEntry: %v", err)
			}
			return
		}
		if e.ID == "" || e.Key == "" || e.Attempt < 1 {
			t.Fatalf("%+v", e)
		}
	})
}

// FuzzParseFields checks that any fields in a stream are an entry or an ErrEntry.
func FuzzParseFields(f *testing.F) {
	f.Add("msg_1", "a:b:c:d", "1", "application/json", "{}", "")
	f.Add("", "", "0x1", "\x00", "\xff", "1")
	f.Fuzz(func(t *testing.T, id, key, attempt, kind, body, lost string) {
		e, err := ParseFields(map[string]any{"id": id, "key": key, "attempt": attempt, "content_type": kind, "body": body, "body_lost": lost,
			"other": 1})
		if err != nil {
			if !errors.Is(err, ErrEntry) {
				t.Fatalf("not an ErrEntry: %v", err)
			}
			return
		}
		if e.ID != id || e.Key != key || e.Attempt < 1 || string(e.Body) != body || e.ContentType != kind {
			t.Fatalf("%+v", e)
		}
	})
}

// FuzzEntry checks that a notice is unchanged after it was written to and read from a list or stream.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"a":1}`), "")
	f.Add([]byte(`{"a":1}`), "text/plain")
	f.Add([]byte("\xff\x00"), "application/json")
	f.Add([]byte(` {"a":1}`), "application/json")
	f.Add([]byte("plain"), "application/octet-stream")
	f.Add([]byte(`"<>&"`), "application/json; charset=utf-8")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		n := &notice.Notice{Key: "a:b:c:d", Made: 1, Due: time.UnixMilli(1), Content: notice.Content{Body: body, ContentType: kind}}
		if n.Check() != nil {
			return
		}
		fields, values := Fields(n), map[string]any{}
		for i := 0; i+1 < len(fields); i += 2 {
			values[fields[i]] = fields[i+1]
		}
		for name, read := range map[string]func() (*Entry, error){
			"list":   func() (*Entry, error) { return ParseEnvelope(string(Envelope(n))) },
			"stream": func() (*Entry, error) { return ParseFields(values) },
		} {
			e, err := read()
			if err != nil || !bytes.Equal(e.Body, body) || e.ContentType != n.EffectiveType() || e.ID != n.ID() || e.Attempt != 1 {
				t.Errorf("%s: %q of type %q is %+v, %v", name, body, kind, e, err)
			}
		}
	})
}
