package codec

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

func TestExpiryOfARequest(t *testing.T) {
	at := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]notice.Expiry{
		`"2026-12-24T18:00:00Z"`:      {At: at},
		`"2026-12-24T19:00:00+01:00"`: {At: at},
		`"10m"`:                       {After: 10 * time.Minute},
		`"1d12h"`:                     {After: 36 * time.Hour},
		`90`:                          {After: 90 * time.Second},
	} {
		var q Request
		var f Faults
		if err := Read([]byte(`{"key":"a:b:c:1","expires":`+text+`}`), "body.", &q, &f); err != nil || len(f) > 0 {
			t.Errorf("%s: %v, %v", text, err, f)
			continue
		}

		if c := q.Given(); c.Expiry() != want {
			t.Errorf("%s: %+v, want %+v", text, c.Expiry(), want)
		}

		var again Request
		if err := Read(Append(nil, &q), "", &again, &f); err != nil || again.Expires != q.Expires {
			t.Errorf("%s: written as %s", text, Append(nil, &q))
		}
	}

	for _, text := range []string{`"never"`, `"0s"`, `"-5m"`, `"24.12.2026 18:00"`, `true`, `{}`, `0`} {
		var q Request
		var f Faults
		if err := Read([]byte(`{"key":"a:b:c:1","expires":`+text+`}`), "body.", &q, &f); err != nil || len(f) == 0 {
			t.Errorf("%s is accepted: %+v", text, q.Expires)
		} else if f[0].Location != "body.expires" || strings.Contains(f[0].Message, "%!") {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// A snapshot keeps whether the producer gave a time or a duration, and the tick of a notice of a recurring one.
func TestExpiryOfASnapshot(t *testing.T) {
	const text = `{"key":"a:b:c:1","id":"msg_1","state":"scheduled","created_at":"2026-11-29T10:00:00.000Z","expires":"2026-11-29T11:00:00.000Z"`
	at := time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		more string
		want notice.Content
	}{{`,"tick":"2026-11-29T11:00:00.000Z"`, notice.Content{Expires: at, Tick: at}}, {"", notice.Content{Expires: at}}, {`,"expires_after":"1h"`, notice.Content{Expires: at, ExpiresAfter: time.Hour}}} {
		var s Snapshot
		var f Faults
		if err := Read([]byte(text+x.more+`}`), "", &s, &f); err != nil || len(f) > 0 {
			t.Fatal(err, f)
		}

		if c := s.Content.Given(); !c.Expires.Equal(at) || c.ExpiresAfter != x.want.ExpiresAfter || !c.Tick.Equal(x.want.Tick) {
			t.Errorf("%+v, want %+v", c, x.want)
		}
	}
}
