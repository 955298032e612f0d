package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/problems"
)

// Charts are SVG. The shapes are data for a template, which escapes their texts. Each chart has a sentence
// with the same information.

// shape is all rectangles of a chart with the same colour. One path takes a fifth of the bytes of separate
// rectangles.
type shape struct {
	Class, Path string
}

// span is a part of the time axis with the text of its tooltip. The style sheet has its size.
type span struct {
	X    float64
	Text text
}

// label is a text on an axis.
type label struct {
	X, Y   float64
	Text   text
	Anchor string
}

// chart is a drawing in units of about a pixel.
type chart struct {
	W, H    float64
	Title   text
	Summary text // the same in words
	Hourly  bool // spans of an hour, else of a minute
	Shapes  []shape
	Spans   []span
	Labels  []label
}

// box adds a rectangle.
func (c *chart) box(class string, x, y, w, h float64) {
	i := slices.IndexFunc(c.Shapes, func(s shape) bool { return s.Class == class })
	if i < 0 {
		i, c.Shapes = len(c.Shapes), append(c.Shapes, shape{Class: class})
	}

	c.Shapes[i].Path += fmt.Sprintf("M%s %sh%sv%sh-%sz", trimmed(x), trimmed(y), trimmed(w), trimmed(h), trimmed(w))
}

// bands are the lower bounds of the rows of the heat map, latest first.
var bands = []time.Duration{time.Minute, 10 * time.Second, time.Second, 200 * time.Millisecond, 50 * time.Millisecond,
	10 * time.Millisecond, 2 * time.Millisecond, 0}

// bandName is the label of a band.
func bandName(i int) text {
	if bands[i] == 0 {
		return say("≤ %s", bands[i-1])
	}
	return say("> %s", bands[i])
}

func bandOf(d time.Duration) int {
	for i, from := range bands {
		if d >= from {
			return i
		}
	}
	return len(bands) - 1
}

const (
	chartLeft   = 66.0
	chartRight  = 6.0
	cellWidth   = 9.0
	cellHeight  = 15.0
	chartBottom = 20.0
	chartWidth  = chartLeft + problems.Spans*cellWidth + chartRight
)

// heatMap draws the lateness of the attempts of the last minutes. The last minute is that of end.
func heatMap(minutes []fleet.Work, end time.Time) chart {
	height := float64(len(bands)) * cellHeight
	c := chart{W: chartWidth, H: height + chartBottom + 4, Title: say("Start delay, last hour")}
	var cells [problems.Spans][]int64
	most, total, late := int64(0), int64(0), int64(0)
	worst := fleet.Spread{}
	for x, m := range minutes {
		cells[x] = make([]int64, len(bands))
		worst.Add(m.Late)
		for bucket, n := range m.Late {
			from, to := m.Late.Bounds(bucket)
			band := bandOf((from + to) / 2)
			cells[x][band] += n
			total += n
			if band <= 2 {
				late += n
			}
		}

		for _, n := range cells[x] {
			most = max(most, n)
		}
	}

	for y := range bands {
		c.box("h0", chartLeft, float64(y)*cellHeight, problems.Spans*cellWidth-1, cellHeight-1)
		c.Labels = append(c.Labels, label{chartLeft - 6, float64(y)*cellHeight + 11, bandName(y), "end"})
	}

	for x := range minutes {
		c.addMinute(chartLeft+float64(x)*cellWidth, end.Add(time.Duration(x-len(minutes)+1)*time.Minute).UTC(), cells[x], most)
	}

	c.Labels = append(c.Labels, hours(end, height+14, -1)...)
	switch {
	case total == 0:
		c.Summary = say("No attempts in the last hour.")
	case late == 0:
		c.Summary = say("%s attempt(s), none more than 1 s late. p50 %s, p99 %s.", total, worst.Quantile(0.5), worst.Quantile(0.99))
	default:
		c.Summary = say("%s attempt(s), %s more than 1 s late. p50 %s, p99 %s.", total, late, worst.Quantile(0.5), worst.Quantile(0.99))
	}

	return c
}

// addMinute adds the cells of a minute to the heat map, and a tooltip for all of them.
func (c *chart) addMinute(x float64, at time.Time, cells []int64, most int64) {
	sum, worst := int64(0), -1
	for y, n := range cells {
		if n == 0 {
			continue
		}

		if sum += n; worst < 0 {
			worst = y
		}

		c.box(fmt.Sprintf("h%d", 1+heat(n, most)), x, float64(y)*cellHeight, cellWidth-1, cellHeight-1)
	}

	if sum > 0 {
		c.Spans = append(c.Spans, span{x, say("%s: %s attempt(s), longest delay %s", at.Format("15:04"), sum, bandName(worst))})
	}
}

// heat returns a step from 0 to 4. Each step is four times the previous one, so that single attempts stay
// visible.
func heat(n, most int64) int {
	step := 4
	for most > n && step > 0 {
		most /= 4
		step--
	}

	return step
}

// hours returns the labels of a time axis of one hour, by quarters, which starts or ends at a time.
func hours(at time.Time, y float64, direction int) []label {
	var out []label
	for i := 0; i <= 4; i++ {
		t := at.Add(time.Duration(i*15) * time.Minute)
		if direction < 0 {
			t = at.Add(time.Duration((i-4)*15) * time.Minute)
		}

		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case 4:
			anchor = "end"
		}

		out = append(out, label{chartLeft + float64(i)*problems.Spans*cellWidth/4, y, plain(t.UTC().Format("15:04")), anchor})
	}

	return out
}

// comingHour draws the notices due in each of the next minutes.
func comingHour(counts []int64, from time.Time) chart {
	const height = 104.0
	c := chart{W: chartWidth, H: height + chartBottom + 4, Title: say("Due in the next hour")}
	most, total, peak := int64(0), int64(0), 0
	for i, n := range counts {
		total += n
		if n > most {
			most, peak = n, i
		}
	}

	for i, n := range counts {
		if n == 0 {
			continue
		}

		h := max(2, float64(n)/float64(most)*(height-8))
		x := chartLeft + float64(i)*cellWidth
		c.box("bar", x, height-h, cellWidth-1, h)
		c.Spans = append(c.Spans, span{x, say("%s: %s notice(s)", from.Add(time.Duration(i)*time.Minute).UTC().Format("15:04"), n)})
	}

	c.box("axis", chartLeft, height, problems.Spans*cellWidth, 1)
	if most > 0 {
		c.Labels = append(c.Labels, label{chartLeft - 6, 14, plain(most), "end"})
	}

	c.Labels = append(c.Labels, label{chartLeft - 6, height, plain(0), "end"})
	c.Labels = append(c.Labels, hours(from, height+14, 1)...)
	c.Summary = say("No notice is due in the next hour.")
	if total > 0 {
		c.Summary = say("%s notice(s) in the next hour, most at %s (%s).", total,
			from.Add(time.Duration(peak)*time.Minute).UTC().Format("15:04"), most)
	}

	return c
}

// sparkline returns the path of a line through the counts of an hour, in a box of 120 by 28. It is empty
// without data.
func sparkline(counts []int64) string {
	const w, h = 120.0, 26.0
	most := int64(0)
	for _, n := range counts {
		most = max(most, n)
	}

	if most == 0 || len(counts) < 2 {
		return ""
	}

	var b strings.Builder
	for i, n := range counts {
		verb := "L"
		if i == 0 {
			verb = "M"
		}

		fmt.Fprintf(&b, "%s%s %s", verb, trimmed(float64(i)*w/float64(len(counts)-1)), trimmed(1+h-float64(n)/float64(most)*h))
	}

	return b.String()
}
