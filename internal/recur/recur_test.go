package recur

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

func rule(t testing.TB, s Spec) *Rule {
	t.Helper()
	r, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNextTicks(t *testing.T) {
	for _, c := range []struct{ name, cron, zone, after, want string }{
		{"daily in a zone", "0 2 * * *", "Asia/Shanghai", "2026-11-29T00:00:00Z", "2026-11-29T18:00:00Z 2026-11-30T18:00:00Z"},
		{"a tick is not its own next", "0 2 * * *", "", "2026-11-29T02:00:00Z", "2026-11-30T02:00:00Z"},
		{"just before a tick", "0 2 * * *", "", "2026-11-29T01:59:59.999999999Z", "2026-11-29T02:00:00Z"},
		{"names and lists", "5 0 * feb,AUG mon-FRI", "", "2026-07-30T00:00:00Z", "2026-08-03T00:05:00Z 2026-08-04T00:05:00Z"},
		{"over Sunday", "0 0 * * fri-sun", "", "2026-11-29T00:00:00Z", "2026-12-04T00:00:00Z 2026-12-05T00:00:00Z 2026-12-06T00:00:00Z"},
		{"Sunday is 0 and 7", "0 0 * * 7", "", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z 2026-12-06T00:00:00Z"},
		{"one day field or the other", "0 0 13 * fri", "", "2026-11-07T00:00:00Z", "2026-11-13T00:00:00Z 2026-11-20T00:00:00Z"},
		{"both if one begins with *", "0 0 */2 * fri", "", "2026-11-07T00:00:00Z", "2026-11-13T00:00:00Z 2026-11-27T00:00:00Z"},
		{"last day", "0 0 L * *", "", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z 2028-03-31T00:00:00Z"},
		{"last day and the 15th", "0 0 15,L * *", "", "2027-02-01T00:00:00Z", "2027-02-15T00:00:00Z 2027-02-28T00:00:00Z"},
		{"29 February", "0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"29 February on a Sunday", "0 0 29 feb */7", "", "2088-03-01T00:00:00Z", "2128-02-29T00:00:00Z"},
		{"macro", "@Weekly", "", "2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"range with a step", "10-50/20 4 * * *", "", "2026-11-29T00:00:00Z",
			"2026-11-29T04:10:00Z 2026-11-29T04:30:00Z 2026-11-29T04:50:00Z 2026-11-30T04:10:00Z"},
		{"skipped time", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"skipped times together", "*/10 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
		{"skipped time and the one after the gap", "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			"2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
		{"repeated time", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		{"repeated time, asked between", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:31:00Z", "2026-10-26T01:30:00Z"},
		{"every minute of a repeated hour", "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z"},
		{"step hours skip a skipped time", "30 */2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:30:00Z"},
		{"half an hour is skipped", "0,15,30 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z",
			"2026-10-03T15:30:00Z 2026-10-04T15:00:00Z"},
		{"a day is skipped", "0 5 * * *", "Pacific/Apia", "2011-12-29T20:00:00Z", "2011-12-30T10:00:00Z 2011-12-30T15:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, at := rule(t, Spec{Cron: c.cron, Zone: c.zone}), instant(t, c.after)
			for _, want := range strings.Fields(c.want) {
				if at = r.Next(at); !at.Equal(instant(t, want)) || at.Location() != time.UTC {
					t.Fatalf("got %s, want %s", at, want)
				}
			}
		})
	}
}

func TestNextTicksOfIntervals(t *testing.T) {
	for _, c := range []struct {
		every               time.Duration
		anchor, after, want string
	}{
		{15 * time.Minute, "", "2026-11-29T12:00:00Z", "2026-11-29T12:15:00Z"},
		{15 * time.Minute, "", "2026-11-29T12:14:59.9999Z", "2026-11-29T12:15:00Z"},
		{15 * time.Minute, "2026-11-29T12:01:00+08:00", "2026-11-29T12:00:00Z", "2026-11-29T12:01:00Z"},
		{15 * time.Minute, "2030-01-01T00:07:00Z", "2026-11-29T12:00:00Z", "2026-11-29T12:07:00Z"},
		{time.Second, "", "1969-12-31T23:59:58.5Z", "1969-12-31T23:59:59Z"},
		{25 * time.Hour, "2026-03-28T02:00:00Z", "2026-03-28T02:00:00Z", "2026-03-29T03:00:00Z"},
	} {
		s := Spec{Every: c.every}
		if c.anchor != "" {
			s.Anchor = instant(t, c.anchor)
		}
		if got := rule(t, s).Next(instant(t, c.after)); !got.Equal(instant(t, c.want)) {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// Each error says what would be right.
func TestParseRefusesWithRemedy(t *testing.T) {
	long := strings.Repeat("1,", 200) + "1 * * * *"
	for _, c := range []struct {
		s    Spec
		want string
	}{
		{Spec{}, "want cron such as 0 2 * * *, or every such as 15m"},
		{Spec{Cron: "@daily", Every: time.Hour}, "want one of them"},
		{Spec{Cron: "@daily", Anchor: time.Unix(1, 0)}, "anchor is only for every"},
		{Spec{Every: time.Hour, Zone: "UTC"}, "zone is only for cron"},
		{Spec{Every: time.Millisecond}, "every 1ms is not from 1s to"},
		{Spec{Every: -time.Hour}, "every -1h0m0s is not from 1s to"},
		{Spec{Every: notice.MaxHorizon + time.Second}, "is not from 1s to"},
		{Spec{Every: time.Second + time.Microsecond}, "whole milliseconds"},
		{Spec{Every: time.Hour, Anchor: time.Unix(-1e10, 0)}, "anchor 1653-02-10T06:13:20.000Z is not from 1970 to 2199"},
		{Spec{Cron: " "}, "has 0 fields; want five, such as 0 2 * * *"},
		{Spec{Cron: "0 0 2 * * *"}, "has 6 fields; want five"},
		{Spec{Cron: "CRON_TZ=Asia/Tokyo 0 2 * * *"}, "want it in zone"},
		{Spec{Cron: "@every 5m"}, "or every for an interval"},
		{Spec{Cron: "@reboot"}, "want @yearly"},
		{Spec{Cron: "60 * * * *"}, `"60" is no minute; want * or 0-59`},
		{Spec{Cron: "* 24 * * *"}, `"24" is no hour; want * or 0-23`},
		{Spec{Cron: "* * 0 * *"}, `"0" is no day of the month; want * or 1-31`},
		{Spec{Cron: "* * * foo *"}, `"foo" is no month; want * or 1-12`},
		{Spec{Cron: "* * * * 8"}, `"8" is no day of the week; want * or 0-7`},
		{Spec{Cron: "* * * * unm"}, `"unm" is no day of the week`},
		{Spec{Cron: "? * * * *"}, `"?" is no minute; want *`},
		{Spec{Cron: "30-10 * * * *"}, "the lower value first"},
		{Spec{Cron: "5/15 * * * *"}, `want 5-59/15 for a start with a step`},
		{Spec{Cron: "*/0 * * * *"}, "a step from 1 to 60"},
		{Spec{Cron: "*/90 * * * *"}, "a step from 1 to 60, or every"},
		{Spec{Cron: "*/ * * * *"}, "a step from 1 to 60"},
		{Spec{Cron: "1--5 * * * *"}, "is no minute"},
		{Spec{Cron: "+1 * * * *"}, "is no minute"},
		{Spec{Cron: ",1 * * * *"}, `"" is no minute`},
		{Spec{Cron: "١ * * * *"}, "is no minute"},
		{Spec{Cron: "001 * * * *"}, "is no minute"},
		{Spec{Cron: "L * * * *"}, "is no minute"},
		{Spec{Cron: "0 0 L,x * *"}, `"x" is no day of the month`},
		{Spec{Cron: "0 0 30 2 *"}, "matches no date"},
		{Spec{Cron: "0 0 31 4,6,9,11 *"}, "matches no date"},
		{Spec{Cron: long}, "at most 256 are allowed"},
		{Spec{Cron: "@daily", Zone: "asia/shanghai"}, "want Asia/Shanghai"},
		{Spec{Cron: "@daily", Zone: "america/port-au-prince"}, "want one such as Asia/Shanghai"},
		{Spec{Cron: "@daily", Zone: "utc"}, "want UTC"},
		{Spec{Cron: "@daily", Zone: "GMT+8"}, "want one such as Asia/Shanghai"},
		{Spec{Cron: "@daily", Zone: "+08:00"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "Local"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "localtime"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "right/UTC"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "../../etc/passwd"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "/etc/localtime"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: "Europe"}, "is not an IANA name"},
		{Spec{Cron: "@daily", Zone: strings.Repeat("Z", 1<<20)}, "is not an IANA name"},
	} {
		_, err := Parse(c.s)
		if !errors.Is(err, notice.ErrInvalid) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
			t.Errorf("%.200v: got %v, want %q", c.s, err, c.want)
		}
	}
}

// FuzzCron compares Next with a search that tries each minute.
func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 2 * * *", "*/15 0-3 1,L * mon-fri", "@hourly", "5 */2 */3 feb 0,7", "59 23 31 12 sat-sun/2",
		"0 1-23/11 13 * fri"} {
		f.Add(s, int64(1774656000), "Europe/Berlin")
		f.Add(s, int64(1325200000), "Pacific/Apia")
	}
	f.Fuzz(func(t *testing.T, expression string, unix int64, zone string) {
		r, err := Parse(Spec{Cron: expression, Zone: zone})
		if err != nil {
			if !errors.Is(err, notice.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		after := time.Unix(unix%(1<<32), 0)
		got := r.Next(after)
		if !got.After(after) {
			t.Fatalf("%s follows %s", got, after)
		}
		if again := r.Next(got.Add(-1)); !again.Equal(got) {
			t.Fatalf("%s, but %s when asked just before it", got, again)
		}
		want := searched(r, after.Add(1), min(got.Sub(after), 72*time.Hour))
		if got.Sub(after) <= 72*time.Hour && !want.Equal(got) || got.Sub(after) > 72*time.Hour && !want.IsZero() {
			t.Fatalf("%q in %q after %s: got %s, the search %s", expression, zone, after, got, want)
		}
	})
}

// searched tries each second up to a limit: a tick is where the clock shows a matching minute, and if the hours are
// fixed, where it passes one for the first time.
func searched(r *Rule, from time.Time, limit time.Duration) time.Time {
	end := from.Add(limit)
	for at := from.Truncate(time.Second); !at.After(end); at = at.Add(time.Second) {
		if shown := shows(at, offset(at, r.zone)); at.Before(from) || shown.Second() != 0 {
			continue
		}
		if matching(r.cron, r.zone, at) {
			return at
		}
	}
	return time.Time{}
}

func matching(c *cron, zone *time.Location, at time.Time) bool {
	shown, was := shows(at, offset(at, zone)), shows(at.Add(-time.Minute), offset(at.Add(-time.Minute), zone))
	if !c.fixed {
		return matches(c, shown)
	}
	// The latest time that the clock has shown in the last day, as it may have been set back since.
	for back := time.Minute; back <= 26*time.Hour; back += time.Minute {
		if earlier := shows(at.Add(-back), offset(at.Add(-back), zone)); earlier.After(was) {
			was = earlier
		}
	}
	for wall := fullMinute(was.Add(1)); !wall.After(shown); wall = wall.Add(time.Minute) {
		if matches(c, wall) {
			return true
		}
	}
	return false
}

func matches(c *cron, wall time.Time) bool {
	in := func(set uint64, v int) bool { return set>>v&1 == 1 }
	return in(c.minute, wall.Minute()) && in(c.hour, wall.Hour()) && in(c.month, int(wall.Month())) && c.onDay(wall)
}

func TestWordsAreValues(t *testing.T) {
	for i, f := range fields {
		for n := 0; n+3 <= len(f.words); n += 3 {
			if v, ok := f.value(f.words[n : n+3]); !ok || v != f.low+n/3 {
				t.Errorf("field %d: %s is %d", i, f.words[n:n+3], v)
			}
		}
	}
	if !slices.Contains([]int{21, 36}, len(fields[3].words)) || len(fields[4].words) != 21 {
		t.Error("words are missing")
	}
}

// A rule is parsed once for all steps, and not shared between zones.
func TestRulesAreCached(t *testing.T) {
	t.Parallel()
	var c cache
	first, err := c.parse(Spec{Cron: "0 2 * * *", Zone: "Asia/Shanghai"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.parse(Spec{Cron: "0 2 * * *", Zone: "Asia/Shanghai"})
	if err != nil || again != first {
		t.Errorf("parsed again: %v", err)
	}
	if other, err := c.parse(Spec{Cron: "0 2 * * *"}); err != nil || other == first {
		t.Errorf("the rule of another zone: %v", err)
	}
	if _, err := c.parse(Spec{Cron: "0 2 * *"}); err == nil || len(c.by) != 2 {
		t.Errorf("%d rules, %v", len(c.by), err)
	}
	if _, err := c.parse(Spec{Cron: "0 2 * * *", Anchor: time.Unix(1, 0)}); err == nil {
		t.Error("an anchor of a cron expression is accepted")
	}
}
