package queue

import (
	"slices"
	"testing"
	"time"

	"notifier/internal/notice"
)

// An entry reads back byte for byte.
func TestEntriesRoundTrip(t *testing.T) {
	for _, c := range []notice.Content{
		{Body: []byte(`{"a": "<b>"}`)}, {Body: []byte(`"text"`)}, {Body: []byte("text")}, {Body: []byte("text"), ContentType: "text/plain"},
		{Body: []byte("no json"), ContentType: "application/json"}, {Body: []byte("\x00\xff")},
		{Body: []byte(`{"a":1}`), ContentType: "text/plain"},
		{}, {Lost: true}, {Body: []byte("null")}, {Body: []byte("a=1&b=2"), ContentType: "application/x-www-form-urlencoded"},
	} {
		n := &notice.Notice{Key: "app1:a:b:1", Made: 1763740785000, Due: time.UnixMilli(1763740800123), AttemptsMade: 1, Content: c}
		values := map[string]any{}
		for f := range slices.Chunk(Fields(n), 2) {
			values[f[0]] = f[1]
		}
		list, err := ParseEnvelope(string(Envelope(n)))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		stream, err := ParseFields(values)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, e := range []*Entry{list, stream} {
			if e.Key != n.Key || e.ID != n.ID() || e.Attempt != 2 || e.Due != "2025-11-21T16:00:00.123Z" || e.ContentType != n.EffectiveType() ||
				string(e.Body) != string(c.Body) || e.Lost != c.Lost {
				t.Errorf("%+v was read as %+v", c, e)
			}
		}
	}
	sealed := &notice.Notice{Key: "app1:a:b:1", Content: notice.Content{Sealed: "s1c:x:y", ContentType: "text/plain"}}
	if e, err := ParseEnvelope(string(Envelope(sealed))); err != nil || e.Lost ||
		e.Sealed != sealed.Sealed || e.Body != nil || e.ContentType != "text/plain" {
		t.Errorf("%+v, %v", e, err)
	}
	if slices.Contains(Fields(sealed), "body") || !slices.Contains(Fields(sealed), sealed.Sealed) {
		t.Errorf("%q", Fields(sealed))
	}
	for _, bad := range []string{"", "{", `{"key":"k"}`, `{"attempt":1,"id":"i"}`, `{"key":"k","attempt":1}`, `{"key":"k","id":"i"}`,
		`{"key":"k","id":"i","attempt":1,"body":{}}`, `{"key":"k","id":"i","attempt":1,"body_base64":"*"}`} {
		if e, err := ParseEnvelope(bad); err == nil {
			t.Errorf("%s was read as %+v", bad, e)
		}
	}
}
