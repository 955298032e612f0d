package ui

import (
	"cmp"
	"context"
	"io"
	"math"
	"time"

	"notifier/internal/notice"
	"notifier/internal/problems"
)

// duration is a duration to about two digits: 340ms, 1.2s, 45s, 3m10s, 2h5m, 3d4h.
func (l *language) duration(d time.Duration) string {
	if l == chinese {
		return problems.Chinese.Duration(d)
	}
	return problems.English.Duration(d)
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
func trimmed(f float64) string { return problems.Trimmed(f) }

// number groups digits: 1,234,567.
func number(n any) string { return problems.Number(n) }

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
	return stamp{notice.Stamp(t), t.Format(time.DateTime) + " UTC", fromNow(now, t), problems.Moment{At: t, Now: now}.Clock()}
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
func fromNow(now, t time.Time) text { return plain(problems.Until(t.Sub(now))) }

// plural counts things in the audit, which is in English: "1 notice", "1,204 notices".
func plural(n any, one string) string {
	text := number(n)
	if text == "1" {
		return "1 " + one
	}

	return text + " " + one + "s"
}
