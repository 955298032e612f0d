package notice

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// WantDuration returns a hint for a text that is not a valid duration. If the text uses other common units,
// the hint spells the same time in valid ones.
func WantDuration(s string) string {
	if d, ok := Respelled(s); ok {
		return "want " + Short(d) + ": the units are w, d, h, m, s and ms"
	}
	return "want one such as 15s, 3m, 1h30m, 7d, or a number of seconds"
}

// Unitless reports whether a duration is a number without a unit, which means seconds.
func Unitless(s string) bool {
	_, ok := seconds(strings.TrimSpace(s))
	return ok
}

// seconds returns the number that a duration without a unit is; ok is false if it has a unit, or is not a number.
func seconds(s string) (n float64, ok bool) {
	if s == "" || strings.IndexByte("wdhms", s[len(s)-1]) >= 0 { // the error of ParseFloat would allocate
		return 0, false
	}

	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// longUnits matches the leading weeks and days of a duration, and the rest.
var longUnits = regexp.MustCompile(`^(?:(\d{1,9}(?:\.\d{1,9})?)w)?(?:(\d{1,9}(?:\.\d{1,9})?)d)?(.*)$`)

// parseUnits is time.ParseDuration with the units w and d, before all others.
func parseUnits(s string) (time.Duration, error) {
	if !strings.ContainsAny(s, "wd") { // the match takes ten times as long as time.ParseDuration
		return time.ParseDuration(s)
	}

	m := longUnits.FindStringSubmatch(s)
	if m == nil || m[1] == "" && m[2] == "" {
		return time.ParseDuration(s)
	}

	hours := 0.0
	for i, of := range []float64{7 * 24, 24} {
		if m[i+1] != "" {
			n, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, err
			}

			hours += n * of
		}
	}

	if hours > MaxHorizon.Hours() {
		return math.MaxInt64, nil // the caller refuses it
	}

	whole := time.Duration(hours * float64(time.Hour))
	if m[3] == "" {
		return whole, nil
	}
	if m[3][0] == '-' || m[3][0] == '+' {
		return 0, strconv.ErrSyntax
	}

	rest, err := time.ParseDuration(m[3])
	return whole + min(rest, math.MaxInt64-whole), err
}

// part matches a number with its unit.
var part = regexp.MustCompile(`^\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]+)`)

// units maps units that people write to their length. ParseDuration knows only some of them.
var units = map[string]time.Duration{
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "msec": time.Millisecond, "millis": time.Millisecond, "milliseconds": time.Millisecond,
}

// Respelled parses durations that ParseDuration rejects but people write, such as 1 day 12 hours or
// 15min, up to MaxHorizon.
func Respelled(s string) (time.Duration, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	var total time.Duration
	for len(s) > 0 {
		m := part.FindStringSubmatch(s)
		if m == nil || units[m[2]] == 0 {
			return 0, false
		}

		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n*float64(units[m[2]]) > float64(MaxHorizon-total) {
			return 0, false
		}

		total += time.Duration(n * float64(units[m[2]]))
		s = s[len(m[0]):]
	}

	return total, total > 0
}
