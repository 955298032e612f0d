package notice

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // where the machine has no zones, as in a container
)

// TimeSide says which day a clock time without a day is of.
type TimeSide int

const (
	// TakeLast is the last such time, now at the latest.
	TakeLast TimeSide = iota
	// TakeNext is the next such time, later than now.
	TakeNext
)

// WantTime names the forms, for messages.
const WantTime = "14:00, today 14:00, yesterday, 14:00+08:00, 2026-11-22 09:30, 2026-11-22T09:30:00Z, now, 7d, -1h or +15m"

var (
	clocks = []string{"15:04", "15:04:05"}
	dates  = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly}
	days   = map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}
)

// ParseInstant reads a time as people type it, in UTC: one that Parse reads, now, or a duration before (-1h) or after (+15m)
// now. A duration without a sign is before now on the side Last, and after it on the side Next.
func ParseInstant(text string, now time.Time, side TimeSide) (time.Time, error) {
	text = strings.TrimSpace(dashes.Replace(text))
	if text == "now" {
		return now.UTC(), nil
	}

	d, err := ParseDuration(strings.TrimLeft(text, "+-"))
	switch {
	case err != nil || strings.LastIndexAny(text, "+-") > 0:
		return ParseTime(text, now, side)
	case text[0] == '-', text[0] != '+' && side == TakeLast:
		d = -d
	}

	return now.Add(d).UTC(), nil
}

// ParseTime reads a time, in UTC. now says in which zone and on which day times without these are.
func ParseTime(text string, now time.Time, side TimeSide) (time.Time, error) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return plausible(t, text)
	}

	for _, layout := range dates {
		if t, err := time.Parse(layout, text); err == nil {
			if _, err := plausible(t, text); err != nil {
				return t, err
			}
			return inZone(t, now.Location())
		}
	}

	first, rest, _ := strings.Cut(text, " ")
	if n, ok := days[first]; ok {
		clock, zone, ok := clockOf(strings.TrimSpace(rest))
		if rest == "" {
			clock, ok = time.Time{}, true // midnight
		}

		if zone != nil {
			now = now.In(zone)
		}

		if ok {
			return inZone(onDay(now.AddDate(0, 0, n), clock), now.Location())
		}
	}

	if clock, zone, ok := clockOf(text); ok {
		if zone != nil {
			now = now.In(zone)
		}
		return nearest(clock, now, side)
	}

	return time.Time{}, unknownTime(text)
}

// TimeError describes a time that cannot be read.
type TimeError struct {
	Text string
	// Zone is empty if Text is not a time. Otherwise the zone's clocks show Text never, or at several Times.
	Zone  string
	Times []string
}

func (e *TimeError) Error() string {
	switch {
	case e.Zone == "":
		return fmt.Sprintf("%q is not a time; want %s", e.Text, WantTime)
	case len(e.Times) == 0:
		return fmt.Sprintf("there is no %s in the zone %s: clocks were set forward", e.Text, e.Zone)
	}
	return fmt.Sprintf("%s is twice in the zone %s, at %s: write one of these", e.Text, e.Zone, strings.Join(e.Times, " and at "))
}

func unknownTime(text string) error { return &TimeError{Text: text} }

// plausible refuses years before 1970 and from 2200 on.
func plausible(t time.Time, text string) (time.Time, error) {
	if t.Year() < 1970 || t.Year() >= 2200 {
		return t, unknownTime(text)
	}
	return t.UTC(), nil
}

// clockOf reads a time of day. zone is that of its offset; nil = it has none.
func clockOf(text string) (clock time.Time, zone *time.Location, ok bool) {
	for _, layout := range clocks {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil, true
		}
		if t, err := time.Parse(layout+"Z07:00", text); err == nil {
			_, offset := t.Zone()
			return t, time.FixedZone("", offset), true
		}
	}

	return clock, nil, false
}

// onDay is a time of day on a day, as the clocks show it.
func onDay(day, clock time.Time) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, time.UTC)
}

// nearest is the last or the next time at which the clocks of now's zone show a time of day.
func nearest(clock, now time.Time, side TimeSide) (time.Time, error) {
	t, err := inZone(onDay(now, clock), now.Location())
	switch {
	case err == nil && side == TakeLast && t.After(now):
		return inZone(onDay(now.AddDate(0, 0, -1), clock), now.Location())
	case err == nil && side == TakeNext && !t.After(now):
		return inZone(onDay(now.AddDate(0, 0, 1), clock), now.Location())
	}

	return t, err
}

// inZone is when the clocks of a zone show what shown says in UTC.
func inZone(shown time.Time, zone *time.Location) (time.Time, error) {
	var found []time.Time
	for _, around := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := shown.Add(around).In(zone).Zone()
		t := shown.Add(-time.Duration(offset) * time.Second)
		_, has := t.In(zone).Zone()
		if has == offset && (len(found) == 0 || !found[0].Equal(t)) {
			found = append(found, t)
		}
	}

	if len(found) == 1 {
		return found[0], nil
	}

	e := &TimeError{Text: shown.Format("2006-01-02 15:04:05"), Zone: zone.String()}
	for _, t := range found {
		e.Times = append(e.Times, t.Format(time.RFC3339))
	}

	return time.Time{}, e
}
