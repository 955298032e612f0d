package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
)

// ago says how far a time is from now: "in 3m10s", "5s ago".
func ago(now, t time.Time) string {
	d := max(t.Sub(now), -math.MaxInt64) // whose negative there is
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + rough(d)
	}
	return rough(-d) + " ago"
}

// rough is a duration to about two digits: 340ms, 1.2s, 45s, 3m10s, 2h5m, 3d4h.
func rough(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + rough(-max(d, -math.MaxInt64))
	case d == 0:
		return "0"
	case d < 9950*time.Microsecond:
		return trimmed(float64(d)/1e6) + "ms"
	case d < 995*time.Millisecond:
		return strconv.Itoa(int(math.Round(float64(d)/1e6))) + "ms"
	case d < 9950*time.Millisecond:
		return trimmed(d.Seconds()) + "s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return two(int(d/time.Minute), "m", int(d%time.Minute/time.Second), "s")
	case d < 24*time.Hour:
		return two(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "m")
	}
	return two(int(d/(24*time.Hour)), "d", int(d%(24*time.Hour)/time.Hour), "h")
}

func two(a int, unit string, b int, small string) string {
	if b == 0 {
		return strconv.Itoa(a) + unit
	}
	return strconv.Itoa(a) + unit + strconv.Itoa(b) + small
}

// trimmed is a number with one decimal, if it has one.
func trimmed(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// number groups digits: 1,234,567.
func number(n any) string {
	var v int64
	switch x := n.(type) {
	case int:
		v = int64(x)
	case int64:
		v = x
	default:
		return fmt.Sprint(n)
	}
	s := strconv.FormatInt(v, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// perSecond is a rate: 0.4/s, 12/s, 3 a minute.
func perSecond(f float64) string {
	switch {
	case f == 0:
		return "0/s"
	case f < 0.095:
		return trimmed(f*60) + "/min"
	case f < 9.95:
		return trimmed(f) + "/s"
	}
	return number(int64(math.Round(f))) + "/s"
}

// stamp is what a page says of a time.
type stamp struct {
	Stamp, UTC, Ago string
	// Clock is the time of day, and the day if that is not today.
	Clock string
}

func (p *Pages) stamp(t time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}
	t, now := t.UTC(), p.now().UTC()
	clock := t.Format(time.TimeOnly)
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		clock = t.Format(time.DateTime)
	}
	return stamp{notice.Stamp(t), t.Format(time.DateTime) + " UTC", ago(now, t), clock}
}

// plural counts things: "1 notice", "1,204 notices".
func plural(n any, one string) string {
	text := number(n)
	if text == "1" {
		return "1 " + one
	}
	return text + " " + one + "s"
}
