package ui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
)

// units are the units of a duration, from the smallest: milliseconds, seconds, minutes, hours, days.
type units [5]string

var (
	shortUnits   = units{"ms", "s", "m", "h", "d"}
	chineseUnits = units{" 毫秒", " 秒", " 分钟", " 小时", " 天"}
)

// fromNow returns the distance of a time from now: "in 3m10s", "5s ago".
func (l *language) fromNow(x until) string {
	d := max(time.Duration(x), -math.MaxInt64) // whose negative there is
	switch {
	case d > -time.Second && d < time.Second:
		return l.plain(say("now"))
	case d > 0:
		return l.plain(say("in %s", d))
	}

	return l.plain(say("%s ago", -d))
}

// duration is a duration to about two digits: 340ms, 1.2s, 45s, 3m10s, 2h5m, 3d4h.
func (l *language) duration(d time.Duration) string {
	u := shortUnits
	if l == chinese {
		u = chineseUnits
	}

	switch {
	case d < 0:
		return "-" + l.duration(-max(d, -math.MaxInt64))
	case d == 0:
		return "0"
	case d < 9950*time.Microsecond:
		return u.of(trimmed(float64(d)/1e6), 0)
	case d < 995*time.Millisecond:
		return u.of(strconv.Itoa(int(math.Round(float64(d)/1e6))), 0)
	case d < 9950*time.Millisecond:
		return u.of(trimmed(d.Seconds()), 1)
	case d < time.Minute:
		return u.of(strconv.Itoa(int(d.Seconds())), 1)
	case d < time.Hour:
		return u.two(int(d/time.Minute), int(d%time.Minute/time.Second), 2)
	case d < 24*time.Hour:
		return u.two(int(d/time.Hour), int(d%time.Hour/time.Minute), 3)
	}

	return u.two(int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour), 4)
}

func (u units) of(n string, unit int) string { return strings.TrimSpace(n + u[unit]) }

// two is a number of a unit, and one of the next smaller unit if that is not 0.
func (u units) two(a, b, unit int) string {
	first := u.of(strconv.Itoa(a), unit)
	switch {
	case b == 0:
		return first
	case u == chineseUnits && unit == 2:
		first = strings.TrimSuffix(first, "钟") // 3 分 10 秒, but 3 分钟
	}

	if u == chineseUnits {
		first += " "
	}

	return first + u.of(strconv.Itoa(b), unit-1)
}

// rate is a rate: 0.4/s, 12/s, 3/min.
func (l *language) rate(f float64) string {
	switch {
	case f == 0:
		return l.plain(say("%s/s", 0))
	case f < 0.095:
		return l.plain(say("%s/min", trimmed(f*60)))
	case f < 9.95:
		return l.plain(say("%s/s", trimmed(f)))
	}
	return l.plain(say("%s/s", int64(math.Round(f))))
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

// stamp is a time as a page shows it.
type stamp struct {
	Stamp, UTC string
	Ago        text
	// Clock is the time of day, and the day if that is not today.
	Clock string
}

func (p *Pages) stamp(t time.Time) stamp { return stampFrom(p.now(), t) }

// stampFrom returns a stamp with its distance from now, which for a figure is the time of its sample: other figures of the
// sample would contradict a later one.
func stampFrom(now, t time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}

	t, now = t.UTC(), now.UTC()
	clock := t.Format(time.TimeOnly)
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		clock = t.Format(time.DateTime)
	}

	return stamp{notice.Stamp(t), t.Format(time.DateTime) + " UTC", fromNow(now, t), clock}
}

// clock is a stamp that is shown without its distance from now.
type clock stamp

// Render writes the time of day, and how far it is from now.
func (s stamp) Render(ctx context.Context, w io.Writer) error { return plain(s).Render(ctx, w) }

// Render writes the time of day.
func (c clock) Render(ctx context.Context, w io.Writer) error { return plain(c).Render(ctx, w) }

// symbol is the character that marks a level.
func symbol(l level) string {
	symbols := map[level]string{fine: "✓", mind: "!"}
	return cmp.Or(symbols[l], "✕")
}

// orUnlimited is a limit, where 0 is none.
func orUnlimited(n int) string {
	if n == 0 {
		return "∞"
	}
	return number(n)
}

// orDash is a value, or a dash if it is empty.
func orDash(s string) string { return cmp.Or(s, "–") }

// time returns the time of day of a stamp, and how far it is from now.
func (l *language) time(s stamp, escape func(string) string) string {
	if escape == nil || s.Stamp == "" {
		return s.clock(escape)
	}
	return `<span class="t">` + s.clock(escape) + ` <span class="soft">· ` + l.show(s.Ago, escape) + `</span></span>`
}

// clock returns the time of day of a stamp.
func (s stamp) clock(escape func(string) string) string {
	switch {
	case s.Stamp == "":
		return "–"
	case escape == nil:
		return s.Clock
	}
	return `<time datetime="` + escape(s.Stamp) + `" title="` + escape(s.UTC) + `">` + escape(s.Clock) + `</time>`
}

// fromNow is a time compared with now: "in 3m10s", "5s ago".
func fromNow(now, t time.Time) text { return plain(until(t.Sub(now))) }

// plural counts things in the audit, which is in English: "1 notice", "1,204 notices".
func plural(n any, one string) string {
	text := number(n)
	if text == "1" {
		return "1 " + one
	}

	return text + " " + one + "s"
}
