package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

// plot is one SVG file.
type plot struct {
	file, title, svg string
}

// plotsOf are the plots that the run has figures for.
func plotsOf(res *harness.Result) []plot {
	var ps []plot
	for _, c := range casesOf(res) {
		switch c.Name {
		case "late-10", "late-1000", "late-5000":
			if bars := lateBars(res, c.Name); len(bars) > 0 {
				ps = append(ps, plot{c.Name + ".svg", c.Title, Bars(c.Title+": mean and p99, ms (log scale; shorter is better)",
					bars)})
			}
		}
	}

	for _, g := range []struct{ value, file, title string }{
		{"p99_ms", "growth-lateness.svg", "Lateness p99 by pending jobs, ms (both scales logarithmic; flat is good)"},
		{"total_mb", "growth-memory.svg", "Memory by pending jobs, MB (both scales logarithmic)"},
	} {
		if lines := growthLines(res, g.value); len(lines) > 0 {
			ps = append(ps, plot{g.file, g.title, Lines(g.title, lines)})
		}
	}

	return ps
}

// Bar is one peer: two lengths on one logarithmic scale.
type Bar struct {
	Label     string
	Mean, P99 float64
	Note      string // early, missing, doubled, if any
	Ours      bool
}

func lateBars(res *harness.Result, cas string) []Bar {
	var bars []Bar
	for _, p := range res.Peers {
		mean, p99 := stat(res, p.Name, cas, "mean_ms"), stat(res, p.Name, cas, "p99_ms")
		if mean.N == 0 {
			continue
		}

		b := Bar{Label: p.Title, Mean: mean.Median, P99: p99.Median, Ours: p.Kind == peer.Ours}
		var notes []string
		for _, name := range []string{"early", "missing", "doubled"} {
			if s := stat(res, p.Name, cas, name); s.Max > 0 {
				notes = append(notes, Number(s.Max)+" "+name)
			}
		}

		b.Note = strings.Join(notes, ", ")
		bars = append(bars, b)
	}

	// Peers with early, lost or doubled jobs come last.
	slices.SortStableFunc(bars, func(a, b Bar) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Note)), min(1, len(b.Note))), cmp.Compare(a.P99, b.P99))
	})
	return bars
}

// Line is one peer's values by pending jobs.
type Line struct {
	Label string
	X, Y  []float64
	Ours  bool
}

func growthLines(res *harness.Result, value string) []Line {
	var lines []Line
	for _, p := range res.Peers {
		l := Line{Label: p.Title, Ours: p.Kind == peer.Ours}
		for _, n := range res.Size.Growth {
			if s := stat(res, p.Name, "growth-"+strconv.Itoa(n), value); s.N > 0 && s.Median > 0 {
				l.X, l.Y = append(l.X, float64(n)), append(l.Y, s.Median)
			}
		}

		if len(l.X) > 1 {
			lines = append(lines, l)
		}
	}

	return lines
}

const (
	colourOurs  = "#0b6e4f"
	colourOther = "#8a97a6"
	colourText  = "#1c2733"
	colourGrid  = "#e3e8ee"
)

var colours = []string{"#b4532a", "#3563a8", "#7d4fa3", "#a8811f", "#4f7f8c", "#9c3d5f"}

type canvas struct {
	strings.Builder
}

func newCanvas(width, height int, title string) *canvas {
	c := &canvas{}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`+"\n",
		width, height)
	fmt.Fprintf(c, "<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", html.EscapeString(title))
	c.text(16, 22, title, "start", colourText, `font-weight="600" font-size="13"`)
	return c
}

func (c *canvas) text(x, y float64, s, anchor, colour, more string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" %s>%s</text>`+"\n", x, y, anchor, colour, more,
		html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

func (c *canvas) end() string { return c.String() + "</svg>\n" }

// scale maps a value to a length on a logarithmic scale of whole decades.
type scale struct {
	low, high float64 // exponents of ten
	from, to  float64
}

func newScale(values []float64, from, to float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = math.Min(low, math.Floor(math.Log10(v))), math.Max(high, math.Ceil(math.Log10(v)))
		}
	}

	if math.IsInf(low, 1) {
		low, high = 0, 1
	}

	if high <= low {
		high = low + 1
	}

	return scale{low, high, from, to}
}

func (s scale) at(v float64) float64 {
	if v <= 0 {
		return s.from
	}

	e := (math.Log10(v) - s.low) / (s.high - s.low)
	return s.from + math.Min(math.Max(e, 0), 1)*(s.to-s.from)
}

func (s scale) ticks() []float64 {
	var t []float64
	for e := s.low; e <= s.high; e++ {
		t = append(t, math.Pow(10, e))
	}

	return t
}

// Bars draws mean and p99 of each peer as two bars on one log scale.
func Bars(title string, bars []Bar) string {
	const width, left, right, top, row = 990, 360, 250, 52, 34
	height := top + row*len(bars) + 34
	c := newCanvas(width, height, title)
	var values []float64
	for _, b := range bars {
		values = append(values, b.Mean, b.P99)
	}

	s := newScale(values, left, width-right)
	bottom := float64(top + row*len(bars))
	for _, t := range s.ticks() {
		c.line(s.at(t), top-8, s.at(t), bottom, colourGrid)
		c.text(s.at(t), bottom+16, strconv.FormatFloat(t, 'g', -1, 64), "middle", colourOther, "")
	}

	for i, b := range bars {
		y := float64(top + row*i)
		colour := colourOther
		if b.Ours {
			colour = colourOurs
		}

		c.text(left-10, y+17, b.Label, "end", colourText, weight(b.Ours))
		fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="%.1f" height="11" rx="2" fill="%s"/>`+"\n", left, y+2,
			math.Max(s.at(b.Mean)-left, 1.5), colour)
		fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="%.1f" height="11" rx="2" fill="%s" fill-opacity="0.45"/>`+"\n",
			left, y+14, math.Max(s.at(b.P99)-left, 1.5), colour)
		label := Number(b.Mean) + " / " + Number(b.P99)
		end := math.Max(s.at(b.Mean), s.at(b.P99)) + 8
		c.text(end, y+17, label, "start", colourText, weight(b.Ours))
		if b.Note != "" {
			c.text(end+float64(7*len(label))+8, y+17, b.Note, "start", "#b3261e", "")
		}
	}

	return c.end()
}

func weight(ours bool) string {
	if ours {
		return `font-weight="600"`
	}
	return ""
}

// Lines draws values by pending jobs, both on log scales.
func Lines(title string, lines []Line) string {
	const width, height, left, right, top, bottom = 860, 400, 70, 310, 50, 350
	c := newCanvas(width, height, title)
	var xs, ys []float64
	for _, l := range lines {
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
	}

	sx, sy := newScale(xs, left, width-right), newScale(ys, bottom, top)
	for _, t := range sx.ticks() {
		c.line(sx.at(t), top, sx.at(t), bottom, colourGrid)
		c.text(sx.at(t), bottom+18, Number(t), "middle", colourOther, "")
	}

	for _, t := range sy.ticks() {
		c.line(left, sy.at(t), width-right, sy.at(t), colourGrid)
		c.text(left-8, sy.at(t)+4, strconv.FormatFloat(t, 'g', -1, 64), "end", colourOther, "")
	}

	labels := labelRows(lines, sy)
	for i, l := range lines {
		colour, thick := colours[i%len(colours)], 1.8
		if l.Ours {
			colour, thick = colourOurs, 3
		}

		var points []string
		for j := range l.X {
			points = append(points, fmt.Sprintf("%.1f,%.1f", sx.at(l.X[j]), sy.at(l.Y[j])))
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", sx.at(l.X[j]), sy.at(l.Y[j]), colour)
		}

		fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"/>`+"\n", strings.Join(points, " "), colour,
			thick)
		c.text(width-right+12, labels[i], l.Label+": "+Number(l.Y[len(l.Y)-1]), "start", colour, weight(l.Ours))
	}

	return c.end()
}

// labelRows puts each line's label at its end's height, moved down where two
// would overlap.
func labelRows(lines []Line, s scale) []float64 {
	const gap = 15
	order := make([]int, len(lines))
	rows := make([]float64, len(lines))
	for i, l := range lines {
		order[i], rows[i] = i, s.at(l.Y[len(l.Y)-1])+4
	}

	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	for i := 1; i < len(order); i++ {
		if prev := rows[order[i-1]]; rows[order[i]] < prev+gap {
			rows[order[i]] = prev + gap
		}
	}

	return rows
}
