package notice

import (
	"errors"
	"strings"
	"time"
)

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}

	return a
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}

	return a
}

// TimeRange is a span of time. Until is exclusive; a zero time is no bound.
type TimeRange struct{ Since, Until time.Time }

// WantTimeRange names the forms of a range, for messages.
const WantTimeRange = "7d, -30d, yesterday, yesterday 10-11, 2026-11-22 09:30-10:15 or two RFC 3339 times with a slash between them"

// errRange is the error of a text that is not a range.
var errRange = errors.New("not a time range; want " + WantTimeRange)

// dashes are the characters that people write between two times.
var dashes = strings.NewReplacer("–", "-", "—", "-", "−", "-", "～", "-")

// ParseTimeRange reads a range of time; now says in which zone and on which day times without these are. A day alone is the
// whole day. An age, such as 7d or -7d, and a single time last until now; a single time later than now has no end.
func ParseTimeRange(text string, now time.Time) (TimeRange, error) {
	text = strings.Join(strings.Fields(dashes.Replace(text)), " ")
	if age := strings.TrimPrefix(text, "-"); !Unitless(age) {
		if d, err := ParseDuration(age); err == nil && d > 0 {
			return TimeRange{now.Add(-d).UTC(), now.UTC()}, nil
		}
	}

	for _, between := range []string{"/", " - ", " "} {
		from, to, ok := strings.Cut(text, between)
		since, err := time.Parse(time.RFC3339Nano, from)
		until, err2 := time.Parse(time.RFC3339Nano, to)
		if ok && err == nil && err2 == nil {
			return orderedRange(since.UTC(), until.UTC())
		}
	}

	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return untilNow(t.UTC(), now)
	}

	day, clocks := dayOf(text)
	switch from, to, two := strings.Cut(clocks, "-"); {
	case day == "" && clocks == "":
		return TimeRange{}, errRange
	case clocks == "":
		return wholeDay(day, now)
	case two:
		return betweenClocks(day, strings.TrimSpace(from), strings.TrimSpace(to), now)
	case day == "" && !strings.Contains(clocks, ":"):
		return TimeRange{}, errRange // a bare number is no time
	default:
		since, err := clockOn(day, clocks, now)
		if err != nil {
			return TimeRange{}, err
		}

		return untilNow(since, now)
	}
}

// untilNow returns the range from a time until now, or without an end if the time is later.
func untilNow(since, now time.Time) (TimeRange, error) {
	if !since.Before(now) {
		return orderedRange(since, time.Time{})
	}
	return orderedRange(since, now.UTC())
}

// orderedRange returns a range whose end, if it has one, is after its start.
func orderedRange(since, until time.Time) (TimeRange, error) {
	if _, err := plausible(since, since.Format(time.RFC3339)); err != nil || !until.IsZero() && !since.Before(until) {
		return TimeRange{}, errRange
	}
	return TimeRange{since, until}, nil
}

// dayOf splits a text into its day, a date or a word, and the times of day. day is empty without one.
func dayOf(text string) (day, clocks string) {
	first, rest, _ := strings.Cut(text, " ")
	if _, ok := days[first]; ok {
		return first, rest
	}
	if _, err := time.Parse(time.DateOnly, first); err == nil {
		return first, rest
	}

	return "", text
}

// wholeDay returns the range from one midnight to the next.
func wholeDay(day string, now time.Time) (TimeRange, error) {
	since, err := ParseTime(day, now, TakeLast)
	if err != nil {
		return TimeRange{}, err
	}

	next := since.In(now.Location()).AddDate(0, 0, 1)
	until, err := ParseTime(next.Format(time.DateOnly), now, TakeLast)
	return TimeRange{since, until}, err
}

// betweenClocks returns the range between two times of a day. An end before the start is of the next day.
func betweenClocks(day, from, to string, now time.Time) (TimeRange, error) {
	if day == "" && !strings.Contains(from, ":") {
		return TimeRange{}, errRange // 10-11 may be a part of an order number
	}

	since, err := clockOn(day, from, now)
	if err != nil {
		return TimeRange{}, err
	}

	date, end := since.In(now.Location()), to
	if to == "24" || to == "24:00" {
		date, end = date.AddDate(0, 0, 1), "00:00"
	}

	until, err := clockOn(date.Format(time.DateOnly), end, now)
	if err == nil && !since.Before(until) {
		until, err = clockOn(date.AddDate(0, 0, 1).Format(time.DateOnly), end, now)
	}

	if err != nil {
		return TimeRange{}, err
	}

	return orderedRange(since, until)
}

// clockOn returns a time of day, such as 10 or 10:30, of a day; of its last occurrence without a day.
func clockOn(day, clock string, now time.Time) (time.Time, error) {
	if len(clock) == 1 || len(clock) == 2 {
		clock += ":00"
	}

	if strings.IndexByte(clock, ':') == 1 {
		clock = "0" + clock
	}

	if _, zone, ok := clockOf(clock); !ok || zone != nil && day != "" {
		return time.Time{}, errRange
	}

	return ParseTime(strings.TrimSpace(day+" "+clock), now, TakeLast)
}
