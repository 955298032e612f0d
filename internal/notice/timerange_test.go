package notice

import (
	"testing"
	"time"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	// 12:30 in Berlin
	now := time.Date(2026, 11, 24, 11, 30, 0, 0, time.UTC).In(berlin)
	for _, c := range []struct{ text, since, until string }{
		{"7d", "2026-11-17T11:30:00Z", "2026-11-24T11:30:00Z"},
		{"-30d", "2026-10-25T11:30:00Z", "2026-11-24T11:30:00Z"},
		{"−30d", "2026-10-25T11:30:00Z", "2026-11-24T11:30:00Z"},
		{"90m", "2026-11-24T10:00:00Z", "2026-11-24T11:30:00Z"},
		{"yesterday", "2026-11-22T23:00:00Z", "2026-11-23T23:00:00Z"},
		{"today", "2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z"},
		{"yesterday 10-11", "2026-11-23T09:00:00Z", "2026-11-23T10:00:00Z"},
		{"yesterday 10–11", "2026-11-23T09:00:00Z", "2026-11-23T10:00:00Z"},
		{"yesterday  9:30 – 11", "2026-11-23T08:30:00Z", "2026-11-23T10:00:00Z"},
		{"yesterday 23-1", "2026-11-23T22:00:00Z", "2026-11-24T00:00:00Z"},
		{"yesterday 22-24", "2026-11-23T21:00:00Z", "2026-11-23T23:00:00Z"},
		{"yesterday 10", "2026-11-23T09:00:00Z", "2026-11-24T11:30:00Z"},
		{"10:00-11:00", "2026-11-24T09:00:00Z", "2026-11-24T10:00:00Z"},
		{"14:00-15:00", "2026-11-23T13:00:00Z", "2026-11-23T14:00:00Z"},
		{"10:00", "2026-11-24T09:00:00Z", "2026-11-24T11:30:00Z"},
		{"2026-11-22", "2026-11-21T23:00:00Z", "2026-11-22T23:00:00Z"},
		{"2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		{"2026-11-22 09:30-10:15", "2026-11-22T08:30:00Z", "2026-11-22T09:15:00Z"},
		{"2026-11-22T09:00:00Z/2026-11-22T10:00:00Z", "2026-11-22T09:00:00Z", "2026-11-22T10:00:00Z"},
		{"2026-11-22T09:00:00+01:00 2026-11-22T10:00:00Z", "2026-11-22T08:00:00Z", "2026-11-22T10:00:00Z"},
		{"tomorrow 10", "2026-11-25T09:00:00Z", ""},
		{"2026-11-25T09:00:00Z", "2026-11-25T09:00:00Z", ""},
		{"2026-11-22T09:00:00Z", "2026-11-22T09:00:00Z", "2026-11-24T11:30:00Z"},
	} {
		got, err := ParseTimeRange(c.text, now)
		until := ""
		if !got.Until.IsZero() {
			until = got.Until.Format(time.RFC3339)
		}
		if err != nil || got.Since.Format(time.RFC3339) != c.since || until != c.until {
			t.Errorf("%q is %s to %s, %v; want %s to %s", c.text, got.Since.Format(time.RFC3339), until, err, c.since, c.until)
		}
	}

	for _, text := range []string{"", "-", "4711", "10-11", "10", "yesterday 25-26", "yesterday -", "order", "yesterday order",
		"2026-11-22T10:00:00Z/2026-11-22T09:00:00Z", "9999999w", "2026-13-01", "2026-10-25 02:30-04"} {
		if got, err := ParseTimeRange(text, now); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}
