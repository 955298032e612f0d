package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"notifier/internal/notice"
)

// screen is the destination of a command's output. A terminal gets colours, cut lines and relative times. A pipe gets
// plain text without escape codes, uncut and with absolute times, so that equal results print equal text.
type screen struct {
	w        io.Writer
	terminal bool
	colours  bool
	width    int // of a terminal; 0 = unknown, and nothing is cut
}

func newScreen(w io.Writer, env map[string]string) screen {
	s := screen{w: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}

	s.terminal = true
	s.colours = env["NO_COLOR"] == "" && env["TERM"] != "dumb" // https://no-color.org
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = width
	}

	return s
}

// style is the look of a cell on a terminal with colours: the parameter of an escape code.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

func (s screen) paint(text string, look style) string {
	if !s.colours || look == plain || text == "" {
		return text
	}
	return "\x1b[" + string(look) + "m" + text + "\x1b[0m"
}

// cell is one field of a table.
type cell struct {
	text  string
	look  style
	right bool // numbers: the column is aligned to the right
}

func styled(text any, look style) cell { return cell{text: clean(fmt.Sprint(text)), look: look} }

// row returns the cells of a row; numbers are aligned to the right.
func row(values ...any) []cell {
	cells := make([]cell, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			cells[i] = v
		case int, int64:
			cells[i] = cell{text: fmt.Sprint(v), right: true}
		default:
			cells[i] = cell{text: clean(fmt.Sprint(v))}
		}
	}

	return cells
}

// head returns the first row of a table, from names separated by tabs.
func head(names string) []cell {
	cells := row()
	for name := range strings.SplitSeq(names, "\t") {
		cells = append(cells, styled(name, bold))
	}

	return cells
}

// table prints rows in columns. If cut is true, lines on a terminal end at its edge.
func (s screen) table(cut bool, rows ...[]cell) { (&columns{}).print(s, cut, rows...) }

// columns are the columns of a table that is printed in parts. Their width only grows.
type columns struct {
	widths []int
	right  []bool
}

// print prints more rows.
func (l *columns) print(s screen, cut bool, rows ...[]cell) {
	for _, r := range rows {
		for i, c := range r {
			if i == len(l.widths) {
				l.widths, l.right = append(l.widths, 0), append(l.right, false)
			}

			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(c.text))
			l.right[i] = l.right[i] || c.right
		}
	}
	for _, r := range rows {
		_, _ = fmt.Fprintln(s.w, s.line(r, l.widths, l.right, cut)) // see command.say
	}
}

func (s screen) line(r []cell, widths []int, right []bool, cut bool) string {
	var b strings.Builder
	used := 0
	for i, c := range r {
		if i > 0 {
			b.WriteString("  ")
			used += 2
		}

		last := i == len(r)-1
		if room := s.width - used; cut && last && s.width > 0 && room >= 8 {
			c.text = short(c.text, room)
		}

		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c.text)))
		switch {
		case right[i]:
			b.WriteString(pad + s.paint(c.text, c.look))
		case last:
			b.WriteString(s.paint(c.text, c.look))
		default:
			b.WriteString(s.paint(c.text, c.look) + pad)
		}

		used += widths[i]
	}

	return strings.TrimRight(b.String(), " ")
}

// clean removes characters that could move a terminal's cursor or break a table, because printed text may come from a
// foreign server.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if unicode.Is(unprintable, r) {
			return '\uFFFD'
		}

		return r
	}, s)
}

// unprintable are control characters and characters that change the direction of text.
var unprintable = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0, Hi: 0x1f, Stride: 1}, {Lo: 0x7f, Hi: 0x9f, Stride: 1},
	{Lo: 0x202a, Hi: 0x202e, Stride: 1}, {Lo: 0x2066, Hi: 0x2069, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1}}, LatinOffset: 2}

func short(s string, most int) string {
	s = clean(s)
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}

	return s
}

// when returns a time, and for a terminal its distance too.
func (s screen) when(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case s.terminal:
		return notice.Stamp(t) + " (" + away(time.Until(t)) + ")"
	}
	return notice.Stamp(t)
}

// near returns a time for a table: for a terminal only its distance.
func (s screen) near(t time.Time) string {
	if s.terminal && !t.IsZero() {
		return away(time.Until(t))
	}
	return s.when(t)
}

// away returns a distance: in 3m, 5s ago. Long distances are rounded.
func away(d time.Duration) string {
	ago := d < 0
	text := ""
	switch d = d.Abs(); {
	case d < time.Second:
		return "now"
	case d < 10*time.Minute:
		text = notice.Short(d.Round(time.Second))
	case d < 24*time.Hour:
		text = notice.Short(d.Round(time.Minute))
	default:
		hours := int(d.Round(time.Hour) / time.Hour)
		if text = fmt.Sprintf("%dd", hours/24); hours%24 > 0 && hours < 10*24 {
			text += fmt.Sprintf("%dh", hours%24)
		}
	}

	if ago {
		return text + " ago"
	}

	return "in " + text
}

// millis returns a short duration: 0.4 ms, 12.3 ms, 1520 ms.
func millis(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
