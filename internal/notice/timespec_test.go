package notice

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	// 12:30 in Berlin
	now := time.Date(2026, 11, 24, 11, 30, 0, 0, time.UTC).In(berlin)
	for _, c := range []struct {
		text string
		side TimeSide
		want string
	}{
		{"12:00", TakeLast, "2026-11-24T11:00:00Z"},
		{"14:00", TakeLast, "2026-11-23T13:00:00Z"},
		{"12:30", TakeLast, "2026-11-24T11:30:00Z"},
		{"12:30", TakeNext, "2026-11-25T11:30:00Z"},
		{"14:00", TakeNext, "2026-11-24T13:00:00Z"},
		{"12:00:05", TakeNext, "2026-11-25T11:00:05Z"},
		{"14:00+08:00", TakeLast, "2026-11-24T06:00:00Z"},
		{"14:00+08:00", TakeNext, "2026-11-25T06:00:00Z"},
		{"11:00Z", TakeLast, "2026-11-24T11:00:00Z"},
		{"today 14:00", TakeLast, "2026-11-24T13:00:00Z"},
		{"today 14:00+08:00", TakeLast, "2026-11-24T06:00:00Z"},
		{"today", TakeLast, "2026-11-23T23:00:00Z"},
		{"yesterday", TakeLast, "2026-11-22T23:00:00Z"},
		{"yesterday 09:30", TakeLast, "2026-11-23T08:30:00Z"},
		{"tomorrow 09:30", TakeNext, "2026-11-25T08:30:00Z"},
		{"2026-07-01 09:30", TakeLast, "2026-07-01T07:30:00Z"},
		{"2026-07-01", TakeLast, "2026-06-30T22:00:00Z"},
		{"2026-11-22T09:30:00.25+01:00", TakeLast, "2026-11-22T08:30:00.25Z"},
	} {
		got, err := ParseTime(c.text, now, c.side)
		if err != nil || got.Format(time.RFC3339Nano) != c.want || got.Location() != time.UTC {
			t.Errorf("%s, side %d: %s, %v; want %s", c.text, c.side, got.Format(time.RFC3339Nano), err, c.want)
		}
	}
	for text, want := range map[string]string{
		"2026-10-25 02:30": "is twice in the zone Europe/Berlin, at 2026-10-25T00:30:00Z and at 2026-10-25T01:30:00Z",
		"2026-03-29 02:30": "there is no 2026-03-29 02:30:00 in the zone Europe/Berlin",
		"":                 "is not a time",
		"25:00":            "is not a time",
		"monday":           "is not a time",
		"today noon":       "is not a time",
		"1801-01-01":       "is not a time",
	} {
		if got, err := ParseTime(text, now, TakeLast); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want an error that says %q", text, got, err, want)
		}
	}
}

// A clock time is refused on a day on which it occurs twice, for either side.
func TestParseRefusesAClockTimeOfTheDayThatIsTwice(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC).In(berlin)
	if got, err := ParseTime("02:30", now, TakeLast); err == nil {
		t.Errorf("%s", got)
	}
	if got, err := ParseTime("02:30+01:00", now, TakeLast); err != nil || !got.Equal(time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC)) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 11, 30, 0, 0, time.UTC).In(time.FixedZone("", 3600))
	for _, c := range []struct {
		text string
		side TimeSide
		want string
	}{
		{"now", TakeLast, "2026-11-24T11:30:00Z"},
		{"-1h", TakeNext, "2026-11-24T10:30:00Z"},
		{"−1h", TakeLast, "2026-11-24T10:30:00Z"},
		{"+15m", TakeLast, "2026-11-24T11:45:00Z"},
		{"7d", TakeLast, "2026-11-17T11:30:00Z"},
		{"-2w", TakeLast, "2026-11-10T11:30:00Z"},
		{"7d", TakeNext, "2026-12-01T11:30:00Z"},
		{"3600", TakeLast, "2026-11-24T10:30:00Z"},
		{"yesterday 09:30", TakeLast, "2026-11-23T08:30:00Z"},
		{"2026-11-22T09:30:00Z", TakeLast, "2026-11-22T09:30:00Z"},
	} {
		if got, err := ParseInstant(c.text, now, c.side); err != nil || got.Format(time.RFC3339) != c.want || got.Location() != time.UTC {
			t.Errorf("%s, side %d: %s, %v; want %s", c.text, c.side, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, text := range []string{"", "-", "--1h", "+-1h", "-soon", "-now", "1h-", "9999999w"} {
		if got, err := ParseInstant(text, now, TakeLast); err == nil {
			t.Errorf("%q is %s; want an error", text, got)
		}
	}
}
