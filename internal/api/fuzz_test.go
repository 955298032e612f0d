package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzSchedule: whatever a producer sends, the answer is no fault of the service,
// what is refused changes nothing, and a body that is taken is kept byte for byte.
func FuzzSchedule(f *testing.F) {
	for _, s := range []string{`{"key":"app2:a:b:c","delay":"15s","body":{"a": 1}}`,
		`{"key":"app1:orders:b:c","url":"https://m.example/","due":"2031-01-01T00:00:00Z","body_text":"x"}`,
		`[{"key":"app2:a:b:c"},{"key":"app2:a:b:d","body_base64":"AA=="}]`, "{\"key\":\"app2:a:b:c\"}\n{\"key\":\"app2:a:b:d\"}\n",
		`{"key":"app2:a:b:c","key":"app1:jobs:a:b"}`,
		`{"key":"app2:a:b:c","retry":["1s",2,"1e3"],"on_duplicate":"keep","headers":{"X-A":"b"},"content_type":"text/plain"}`,
		`{"key":"app2:a:b:\u0000"}`, `{"key":"app2:a:b:c","body":1e400}`,
		`{"key":"app2:a:b:c","delay":-0}`, "", "null", "[", "{}{}", "\xff", `{"key":"app2:a:b:c","body":"` + strings.Repeat("a", 3000) + `"}`} {
		f.Add(s, "application/json", false)
		f.Add(s, "application/x-ndjson", true)
	}
	made := newBench(f, withClients)
	f.Fuzz(func(t *testing.T, body, kind string, batch bool) {
		b := *made.as("token-of-two")
		b.t = t
		b.engine.Use(t)
		path := "/v1/notices"
		if batch {
			path = "/v1/notices/batch"
		}
		a := b.do("POST", path, body, "Content-Type", kind)
		all := b.engine.All()
		defer b.engine.Clear()
		switch {
		case a.status >= 500:
			t.Fatalf("%d %s", a.status, a.raw)
		case a.status >= 400 && (len(all) > 0 || !json.Valid([]byte(a.raw))):
			t.Fatalf("%d with %d notices: %s", a.status, len(all), a.raw)
		}
		for key := range all {
			if !strings.HasPrefix(key, "app2:") {
				t.Errorf("%q was kept by a client of app2", key)
			}
		}
		if a.status != 201 || batch {
			return
		}
		var sent struct {
			Key  string          `json:"key"`
			Body json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("taken, but no JSON: %v", err)
		}
		got, ok := all[sent.Key]
		if !ok || sent.Body != nil && !bytes.Equal(got.Body, sent.Body) {
			t.Errorf("sent %q with the body %q, kept %+v", sent.Key, sent.Body, all)
		}
		// It reads back as JSON.
		if r := b.do("GET", "/v1/notices/"+sent.Key, ""); r.status != 200 || !json.Valid([]byte(r.raw)) {
			t.Errorf("reads back as %d %s", r.status, r.raw)
		}
	})
}

// FuzzChange: the bodies of all calls that change a notice.
func FuzzChange(f *testing.F) {
	for _, s := range []string{`{"delay":"1h"}`, `{"due":"2031-01-01T00:00:00Z"}`, `{"attempt":1,"id":"msg_x"}`,
		`{"attempt":1,"id":"msg_x","after":"5m","permanent":true,"response":"x"}`, "", "[]", "null",
		`{"attempt":1e9,"id":""}`} {
		for i := range uint8(6) {
			f.Add(s, i)
		}
	}
	made := newBench(f)
	f.Fuzz(func(t *testing.T, body string, which uint8) {
		b := *made
		b.t = t
		b.engine.Use(t)
		b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1","delay":"1h"}`).is(201)
		defer b.engine.Clear()
		call := []string{"PATCH ", "POST /ack", "POST /nack", "POST /defer", "POST /fire", "POST /redrive"}[which%6]
		method, path, _ := strings.Cut(call, " ")
		before := b.engine.Changes()
		if a := b.do(method, "/v1/notices/app1:jobs:t:1"+path, body); a.status >= 500 || a.status >= 400 && (b.engine.Changes() != before ||
			!json.Valid([]byte(a.raw))) {
			t.Fatalf("%s %q: %d %s", call, body, a.status, a.raw)
		}
	})
}
