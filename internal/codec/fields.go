package codec

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// StringField reads a string.
func StringField(f *Faults, at string, raw []byte) string {
	if Kind(raw) != '"' {
		f.Add(at, Shown(raw), "want a string")
		return ""
	}

	s := text(raw)
	if !faithful(raw, s) {
		f.Add(at, nil, "contains half of a surrogate pair, which is not a character")
	}

	return s
}

// Base64Field reads bytes. The result is not nil.
func Base64Field(f *Faults, at string, raw []byte) []byte {
	data, err := base64.StdEncoding.DecodeString(StringField(f, at, raw))
	if err != nil {
		f.Add(at, Shown(raw), "is not base64 (the standard alphabet, with padding)")
	}

	return data
}

// BoolField reads true or false.
func BoolField(f *Faults, at string, raw []byte) bool {
	if s := string(raw); s != "true" && s != "false" {
		f.Add(at, Shown(raw), "want true or false")
	}
	return string(raw) == "true"
}

// maxCount is larger than any number in a notice.
const maxCount = 1 << 30

// CountField reads a whole number.
func CountField(f *Faults, at string, raw []byte, least int) int {
	var n int
	if json.Unmarshal(raw, &n) != nil || n < least || n > maxCount {
		f.Add(at, Shown(raw), "want a number from %d", least)
		return least
	}

	return n
}

// InstantField reads a time: RFC 3339, in a year from 1971 to 2200.
func InstantField(f *Faults, at string, raw []byte) time.Time {
	t, err := time.Parse(time.RFC3339Nano, StringField(f, at, raw))
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		f.Add(at, Shown(raw), "want a time such as 2026-11-21T09:30:00.000Z")
	}

	return t.UTC()
}

// DurationField reads a Go duration in a string, or seconds as number or string. It rounds up to the millisecond.
func DurationField(f *Faults, at string, raw []byte) (time.Duration, bool) {
	var s string
	switch k := Kind(raw); {
	case k == '"':
		s = text(raw)
	case k == '-' || k >= '0' && k <= '9':
		s = string(raw)
	default:
		f.Add(at, Shown(raw), "want a duration such as \"15s\" or \"1h30m\", or a number of seconds")
		return 0, false
	}

	if len(s) > 64 {
		f.Add(at, Shown(raw), "is too long for a duration")
		return 0, false
	}

	d, err := notice.ParseDuration(s)
	if err != nil {
		f.AddErr(at, Shown(raw), err)
		return 0, false
	}

	if cut := d.Truncate(time.Millisecond); cut < d {
		d = cut + time.Millisecond
	}

	return d, true
}

func (s *Stamp) read(f *Faults, at string, raw []byte) { *s = Stamp(InstantField(f, at, raw)) }

func (d *Delay) read(f *Faults, at string, raw []byte) {
	span, ok := DurationField(f, at, raw)
	if !ok {
		return
	}

	d.Span = span
	if Kind(raw) != '"' || notice.Unitless(text(raw)) {
		d.ReadAs = notice.Short(span)
	}
}

// read rounds up to the millisecond: a notice is never early.
func (d *Due) read(f *Faults, at string, raw []byte) {
	s := StringField(f, at, raw)
	if Kind(raw) != '"' {
		return
	}

	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		f.Add(at, Shown(raw), "want a time such as 2026-11-21T09:30:00Z or 2026-11-21T10:30:00.250+01:00")
		return
	}

	if t.Unix() <= 0 { // "long ago" means now; the zero time would mean "not given"
		t = time.UnixMilli(1)
	}

	if cut := t.Truncate(time.Millisecond); cut.Before(t) {
		t = cut.Add(time.Millisecond)
	}

	*d = Due(t.UTC())
}

// ExpiryField reads when a notice expires from a query.
func ExpiryField(f *Faults, at, s string) notice.Expiry {
	var x Expiry
	x.read(f, at, AppendString(nil, s))
	return notice.Expiry(x)
}

// read takes a text with a T or a colon for a time. It rounds as Due and Delay do.
func (x *Expiry) read(f *Faults, at string, raw []byte) {
	if Kind(raw) == '"' && strings.ContainsAny(text(raw), "TtZz:") {
		var d Due
		d.read(f, at, raw)
		x.At = time.Time(d)
		return
	}

	d, ok := DurationField(f, at, raw)
	if x.After = d; ok && d < time.Millisecond {
		f.Add(at, Shown(raw), "want a time such as 2026-11-21T09:30:00Z, or a duration after the due time such as 10m")
	}
}

func (u *URL) read(f *Faults, at string, raw []byte) {
	given := StringField(f, at, raw)
	canonical, err := notice.CanonicalURL(given)
	if *u = URL(canonical); err != nil && Kind(raw) == '"' {
		*u = URL(given)        // so that it is not reported as missing too
		f.AddErr(at, nil, err) // the value may contain a password
	}
}

func (a *Audience) read(f *Faults, at string, raw []byte) {
	*a = Audience(StringField(f, at, raw))
	if err := notice.CheckAudience(string(*a)); err != nil && Kind(raw) == '"' {
		f.AddErr(at, nil, err)
	}
}

func (c *ContentType) read(f *Faults, at string, raw []byte) {
	*c = ContentType(StringField(f, at, raw))
	if err := (&notice.Content{ContentType: string(*c)}).Check(); err != nil {
		f.AddErr(at, Shown(raw), err)
	}
}

func (r *Reason) read(f *Faults, at string, raw []byte) {
	*r = Reason(StringField(f, at, raw))
	if !slices.Contains(notice.Reasons, notice.Reason(*r)) {
		f.Add(at, Shown(raw), "want one of %s", Join(notice.Reasons))
	}
}

// Join lists words, comma-separated.
func Join[S ~string](words []S) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}

	return strings.Join(list, ", ")
}

// read reads an object of strings.
func (h *Headers) read(f *Faults, at string, raw []byte) {
	if Kind(raw) != '{' {
		f.Add(at, nil, "want an object of strings, such as {\"x-tenant\":\"7\"}")
		return
	}

	var list []notice.Header
	for name, v := range members(raw) {
		if len(list) > notice.MaxHeaders {
			break // CheckHeaders reports the excess
		}

		if Kind(v) != '"' {
			f.Add(at+"."+Clip(name, 60), nil, "want a string")
			return
		}

		list = append(list, notice.Header{Name: name, Value: text(v)})
	}

	if twice := notice.SortHeaders(list); twice != "" {
		f.Add(at, nil, "%s occurs twice", Clip(twice, 60))
		return
	}

	if err := notice.CheckHeaders(list); err != nil {
		f.AddErr(at, nil, err) // the value may be a secret
	}

	*h = list
}

func (l *Ladder) read(f *Faults, at string, raw []byte) { *l = Ladder(ladderField(f, at, raw)) }

func (s *Steps) read(f *Faults, at string, raw []byte) { *s = Steps(ladderField(f, at, raw)) }

// ladderField reads an array of durations, a ladder's text, or a preset's name.
func ladderField(f *Faults, at string, raw []byte) notice.Ladder {
	switch Kind(raw) {
	case '"':
		return ladderText(f, at, raw)
	case '[':
		l := notice.Ladder{}
		for v := range Elements(raw) {
			if len(l) > notice.MaxSteps {
				break // Check reports the excess
			}

			d, ok := stepField(f, at+"["+strconv.Itoa(len(l))+"]", v)
			if !ok {
				return nil
			}

			l = append(l, d)
		}

		if err := l.Check(); err != nil {
			f.AddErr(at, nil, err)
		}

		return l
	}

	f.Add(at, Shown(raw), "want an array of delays such as [\"15s\",\"3m\"], or \"none\"")
	return nil
}

// stepField reads a duration, or a text such as "1h*".
func stepField(f *Faults, at string, raw []byte) (time.Duration, bool) {
	if Kind(raw) == '"' && strings.HasSuffix(text(raw), "*") {
		d, err := notice.ParseStep(text(raw))
		if err != nil {
			f.AddErr(at, Shown(raw), err)
		}

		return d, err == nil
	}

	return DurationField(f, at, raw)
}

func ladderText(f *Faults, at string, raw []byte) notice.Ladder {
	s := text(raw)
	if p := route.FindPreset(s); p != nil {
		return p.Ladder
	}

	if len(s) > 4096 {
		f.Add(at, nil, "is too long")
		return nil
	}

	l, err := notice.ParseLadder(s)
	if err != nil {
		f.AddErr(at, Shown(raw), err)
	}

	return l
}

// read reads attempts and keeps the number that a record keeps.
func (l *Attempts) read(f *Faults, at string, raw []byte) {
	var list []notice.Attempt
	wrong := json.Unmarshal(raw, &list) != nil
	n := &notice.Notice{}
	for _, a := range list {
		wrong = wrong || a.Reason != "" && !slices.Contains(notice.Reasons, a.Reason) || a.Number <= n.AttemptsMade
		a.Response = notice.Kept(a.Response)
		n.Add(a)
	}

	if wrong {
		f.Add(at, nil, "want attempts in the form of GET /v1/notices")
		return
	}

	*l = n.Attempts
}
