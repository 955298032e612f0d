package problems

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Text is an English message, followed by its arguments. An empty text shows nothing. A message may contain:
//
//	%s %[2]s                   the next argument, the second argument
//	%s notice(s), entr(y|ies)  singular or plural, by the number before it
//	`…` **…**                  code, strong
//	nav|Now                    the part before the bar is not shown; it distinguishes equal texts
type Text []any

// Plain is a number, a duration, or a text that is the same in each language.
func Plain(value any) Text {
	if value == "" {
		return nil
	}
	return Text{"", value}
}

// String returns the text in English, without markup.
func (t Text) String() string { return english(t) }

// Until is a duration from now to a time. It is negative if the time is past.
type Until time.Duration

// Text returns the distance in words: "in 3m10s", "5s ago".
func (u Until) Text() Text {
	switch d := time.Duration(max(u, -1<<63+1)); { // whose negative there is
	case d > -time.Second && d < time.Second:
		return say("now")
	case d > 0:
		return say("in %s", d)
	default:
		return say("%s ago", -d)
	}
}

// Moment is a time of day, with the day if that is not the day of Now.
type Moment struct{ At, Now time.Time }

// Clock returns the moment in UTC, without the zone.
func (m Moment) Clock() string {
	at := m.At.UTC()
	if at.Format(time.DateOnly) != m.Now.UTC().Format(time.DateOnly) {
		return at.Format(time.DateTime)
	}

	return at.Format(time.TimeOnly)
}

func say(message string, args ...any) Text { return append(Text{message}, args...) }

// english returns a text or an argument in English, without markup.
func english(x any) string {
	switch x := x.(type) {
	case Text:
		switch message, args := x.Split(); {
		case message != "":
			return Fill(strings.NewReplacer("`", "", "**", "").Replace(Bare(message)), args, english)
		case len(args) > 0:
			return english(args[0])
		}

		return ""
	case []Text:
		parts := make([]string, len(x))
		for i, t := range x {
			parts[i] = english(t)
		}

		return strings.Join(parts, ", ")
	case []string:
		return strings.Join(x, ", ")
	case time.Duration:
		return English.Duration(x)
	case Until:
		return english(x.Text())
	case Moment:
		return x.Clock() + " UTC"
	}
	return Number(x)
}

// Split returns the message and the arguments of a text. The message is empty if the text is a plain value.
func (t Text) Split() (message string, args []any) {
	if len(t) == 0 {
		return "", nil
	}

	message, _ = t[0].(string)
	return message, t[1:]
}

// Bare returns a message without the part that distinguishes equal texts.
func Bare(message string) string {
	if context, rest, ok := strings.Cut(message, "|"); ok && !strings.ContainsAny(context, "( ") {
		return rest
	}
	return message
}

// Fill puts the arguments in the places of a message. show returns an argument in a language.
func Fill(message string, args []any, show func(any) string) string {
	var b strings.Builder
	next := 0
	for len(message) > 0 {
		at := strings.IndexAny(message, "%(")
		if at < 0 {
			break
		}

		b.WriteString(message[:at])
		message = message[at:]
		if one, many, rest, ok := alternatives(message); ok {
			if next > 0 && next <= len(args) && isOne(args[next-1]) {
				many = one
			}

			b.WriteString(many)
			message = rest
			continue
		}

		n, rest, ok := place(message, next)
		if !ok || n >= len(args) {
			b.WriteByte(message[0])
			message = message[1:]
			continue
		}

		b.WriteString(show(args[n]))
		next, message = n+1, rest
	}

	return b.String() + message
}

// place reads %s or %[n]s. It returns the index of the argument, and the rest.
func place(s string, next int) (n int, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, "%s"); ok {
		return next, rest, true
	}

	index, rest, ok := strings.Cut(strings.TrimPrefix(s, "%["), "]s")
	n, err := strconv.Atoi(index)
	return n - 1, rest, ok && err == nil && n > 0
}

// alternatives reads (s) or (y|ies).
func alternatives(s string) (one, many, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, "(s)"); ok {
		return "", "s", rest, true
	}

	inner, rest, ok := strings.Cut(strings.TrimPrefix(s, "("), ")")
	if !ok || s[0] != '(' {
		return "", "", s, false
	}

	one, many, ok = strings.Cut(inner, "|")
	return one, many, rest, ok
}

func isOne(x any) bool { return Number(x) == "1" }

// Number groups digits: 1,234,567.
func Number(n any) string {
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
