package codec

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

var (
	at   = time.Date(2026, 11, 21, 9, 30, 0, 7_000_000, time.UTC)
	full = Content{URL: "https://h/%C3%A4?a=%3Cb%3E&c", Audience: "m17", Method: "PUT", ContentType: "text/\"x\\",
		Retry:   Ladder{time.Second, time.Minute},
		Headers: Headers{{Name: "X-A", Value: "<1>"}}, Withheld: []string{"X-Token"}}
	attempts = Attempts{{Number: 3, At: at, Duration: 12345 * time.Microsecond, Status: 500, Reason: notice.ReasonStatus5xx,
		Response: "\x01\"<ä"}}
)

const (
	contentText = `"url":"https://h/%C3%A4?a=%3Cb%3E&c","audience":"m17","method":"PUT","content_type":"text/\"x\\","retry":["1s","1m"],"headers":{"X-A":"<1>"},"headers_withheld":["X-Token"]`
	stampText   = `"2026-11-21T09:30:00.007Z"`
	attemptText = `{"n":3,"at":` + stampText + `,"status":500,"duration_ms":12.345,"reason":"status_5xx","response":"\u0001\"<ä"}`
)

// The members of each form, their order and their bytes are a contract with other programs.
func TestAppendWritesEachForm(t *testing.T) {
	no := false
	for want, v := range map[string]any{
		`{"key":"a:b:c:d","id":"msg_1","ending":2,"route":"r","state":"dead","due":` + stampText + `,"attempts_made":3,"max_attempts":4,` + contentText +
			`,"ended_before":1,"replay":"rpl","resend":1,"client":"shop","created_at":` + stampText + `,"settled_at":` + stampText + `,"reason":"dns","attempts":[` + attemptText + `],"body":{"b" : 1}}`: &Notice{Key: "a:b:c:d", ID: "msg_1", Route: "r", State: notice.Dead, Due: Stamp(at), AttemptsMade: 3, MaxAttempts: 4, Content: full,
			Ending: 2, EndedBefore: 1, Replay: "rpl", Resend: 1, Client: "shop", CreatedAt: Stamp(at), SettledAt: Stamp(at), Reason: "dns", Attempts: attempts, Payload: Payload{Body: json.RawMessage(`{"b" : 1}`)}},
		`{"key":"a:b:c:d","id":"msg_1","ending":0,"route":"r","state":"scheduled","due":` + stampText + `,"attempt":1,"attempts_made":0,"max_attempts":1,"retry":[],"created_at":` + stampText +
			`,"next_attempt_at":` + stampText + `,"attempts":[],"body_base64":"/wA="}`: &Notice{Key: "a:b:c:d", ID: "msg_1", Route: "r", State: notice.Scheduled, Due: Stamp(at), Attempt: 1,
			MaxAttempts: 1, Content: Content{Retry: Ladder{}}, CreatedAt: Stamp(at), NextAttempt: Stamp(at),
			Payload: Payload{BodyBase64: []byte("\xff\x00")}},
		`{"key":"a:b:c:d","id":"","ending":0,"route":"","state":"scheduled","due":` + stampText + `,"attempts_made":0,"created_at":` + stampText +
			`,"waits":true,"waits_for":"a:b:x:d","attempts":[]}`: &Notice{Key: "a:b:c:d", State: notice.Scheduled, Due: Stamp(at), CreatedAt: Stamp(at), Waits: true, WaitsFor: "a:b:x:d"},
		`{"key":"a:b:c:d","id":"msg_1","ending":2,"route":"r","host":"h","outcome":"dead","due":` + stampText + `,"created_at":` + stampText + `,"ended_at":` + stampText +
			`,"attempts_made":3,` + contentText + `,"attempts":[` + attemptText + `],"body_size":7,"body_sha256":"ff","body_kept":false,"unreadable":["retry"]}`: &Ending{Key: "a:b:c:d", ID: "msg_1",
			Ending: 2, Route: "r", Host: "h", Outcome: notice.EndDead, Due: Stamp(at), CreatedAt: Stamp(at), EndedAt: Stamp(at), AttemptsMade: 3,
			Content: full, Attempts: attempts, BodySize: new(7), BodySHA256: "ff", Unreadable: []string{"retry"}},
		`{"key":"a:b:c:d","id":"msg_1","state":"dead","created_at":` + stampText + `,"attempts_made":0,"attempts":[],"masked":true,"body_kept":false,"on_duplicate":"replace"}`: &Snapshot{Key: "a:b:c:d",
			ID: "msg_1", State: notice.Dead, CreatedAt: Stamp(at), Masked: true, BodyKept: &no, OnDuplicate: "replace"},
		`{"key":"a:b:c:d","delay":"15s","due":` + stampText + `,"body_text":"x","retry":["1s"]}`: &Request{Key: "a:b:c:d", Delay: &Delay{Span: 15 * time.Second}, Due: Due(at), BodyText: new("x"), Retry: Steps{time.Second}},
		`{"id":"msg_1","key":"a:b:c:d","attempt":2,"due":"x","content_type":"text/plain","body":"text","body_lost":true,"replay":"rpl","resend":2}`: &Entry{ID: "msg_1", Key: "a:b:c:d", Attempt: 2, Due: "x",
			ContentType: "text/plain", Payload: Payload{Body: json.RawMessage(`"text"`)}, Lost: true, Replay: "rpl", Resend: 2},
	} {
		got := string(Append(nil, v))
		if got != want {
			t.Errorf("%T:\n%s, want\n%s", v, got, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%T is not JSON: %s", v, got)
		}
	}
}

// Reading a listing, a history entry or a download returns the values that were written.
func TestSnapshotReadsEachForm(t *testing.T) {
	v := Notice{Key: "a:b:c:d", ID: "msg_1", State: notice.Dead, Due: Stamp(at), AttemptsMade: 3, MaxAttempts: 4, Content: full,
		CreatedAt: Stamp(at), SettledAt: Stamp(at),
		Reason: "dns", Attempts: attempts, Payload: Payload{Body: json.RawMessage(`{"b" : 1}`)}}
	v.ContentType = "text/plain"
	var listed, ended Snapshot
	if err := Parse(Append(nil, &v), &listed); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(listed.Content, v.Content) || !reflect.DeepEqual(listed.Attempts, attempts) || listed.Died() != at || string(listed.Bytes()) != `{"b" : 1}` || listed.MaxAttempts != 4 {
		t.Errorf("%+v", listed)
	}

	e := Ending{Key: "a:b:c:d", ID: "msg_1", Ending: 2, Outcome: notice.EndDead, Due: Stamp(at), CreatedAt: Stamp(at), EndedAt: Stamp(at),
		Content: v.Content, Attempts: attempts}
	e.URL, e.Unreadable = "https://user@h/", []string{"retry"}
	if err := Parse(Append(nil, &e), &ended); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, w := range ended.Whole() {
		parts = append(parts, w.Location)
	}
	if ended.Last() != notice.Dead || ended.Died() != at || ended.Ending != 2 ||
		strings.Join(parts, " ") != "unreadable body_kept headers_withheld url" {
		t.Errorf("%+v lacks %v", ended, parts)
	}

	v.Sealed, v.ForgottenAt, listed = true, Stamp(at), Snapshot{}
	if err := Parse(Append(nil, &v), &listed); err != nil {
		t.Fatal(err)
	}
	if f := listed.Whole(); len(f) != 3 || f[0].Location != "sealed" || f[1].Location != "forgotten_at" {
		t.Errorf("a sealed notice of a forgotten subject lacks %v", f)
	}

	var f Faults
	var again Snapshot
	if err := Read(Append(nil, &ended), "body.", &again, &f); err != nil || len(f) > 0 || !reflect.DeepEqual(ended, again) {
		t.Errorf("%v, %v: %+v, want %+v", err, f, again, ended)
	}
}

// Read reports unknown members. Parse skips them, because a newer version may have written them.
func TestReadReportsUnknownMembersAndParseSkipsThem(t *testing.T) {
	const line = `{"key":"a:b:c:d","state":"paused","new":{"a":1},"body":null}`
	var s Snapshot
	if err := Parse([]byte(line), &s); err != nil || s.State != "paused" || string(s.Body) != "null" {
		t.Errorf("%v: %+v", err, s)
	}
	var f Faults
	if err := Read([]byte(line), "body[1].", &Snapshot{}, &f); err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, w := range f {
		at = append(at, w.Location)
	}
	if !slices.Equal(at, []string{"body[1].state", "body[1].new"}) || f[0].Message != "want scheduled, claimed or dead" {
		t.Errorf("%+v", f)
	}
	for _, wrong := range []string{"", "{", "[]", `{"due":5}`, `{"attempts":[{"n":0}]}`, `{"attempts":[{"n":1,"duration_ms":-1}]}`, `{"attempts_made":-1}`, `{"headers":[]}`,
		`{"masked":1}`, `{"unreadable":"x"}`, `{"reason":"bored"}`, `{"attempts":[{"n":2},{"n":1}]}`} {
		if err := Parse([]byte(wrong), &Snapshot{}); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}
}
