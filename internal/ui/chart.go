package ui

import (
	"fmt"
	"strings"
	"time"

	"notifier/internal/metrics"
)

// Charts are SVG made here: shapes as data for a template, so that whatever they
// hold is escaped like the rest. Each comes with a sentence that says the same.

// box is a rectangle of a chart, with the class that colours it and the text that
// appears beside the pointer.
type box struct {
	X, Y, W, H float64
	Class      string
	Text       string
}

// label is a text on an axis.
type label struct {
	X, Y   float64
	Text   string
	Anchor string
}

// chart is a drawing in units of about a pixel.
type chart struct {
	W, H    float64
	Title   string // what it shows
	Summary string // what it comes to, in words
	Boxes   []box
	Labels  []label
}

// bands are the rows of the heat map, the latest on top: attempts that began later
// than the one and no later than the next.
var bands = []struct {
	Name string
	From time.Duration
}{
	{"> 1 min", time.Minute}, {"> 10 s", 10 * time.Second}, {"> 1 s", time.Second}, {"> 200 ms", 200 * time.Millisecond},
	{"> 50 ms", 50 * time.Millisecond}, {"> 10 ms", 10 * time.Millisecond}, {"> 2 ms", 2 * time.Millisecond}, {"≤ 2 ms", 0},
}

func bandOf(d time.Duration) int {
	for i, b := range bands {
		if d >= b.From {
			return i
		}
	}
	return len(bands) - 1
}

const (
	chartLeft   = 58.0
	chartRight  = 6.0
	cellWidth   = 9.0
	cellHeight  = 15.0
	chartBottom = 20.0
	chartWidth  = chartLeft + spans*cellWidth + chartRight
)

// heatMap draws how late attempts were in each of the last minutes; the last one
// is that of end.
func heatMap(minutes []metrics.Work, end time.Time) chart {
	c := chart{W: chartWidth, H: float64(len(bands))*cellHeight + chartBottom + 4, Title: "Start delay, last hour"}
	var cells [spans][]int64
	most, total, late := int64(0), int64(0), int64(0)
	worst := metrics.Spread{}
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
	var rows []box
	for x := range minutes {
		at := end.Add(time.Duration(x-len(minutes)+1) * time.Minute).UTC()
		for y, n := range cells[x] {
			if n > 0 {
				c.Boxes = append(c.Boxes, box{chartLeft + float64(x)*cellWidth, float64(y) * cellHeight, cellWidth - 1, cellHeight - 1,
					fmt.Sprintf("h%d", 1+heat(n, most)), fmt.Sprintf("%s: %s %s late", at.Format("15:04"), plural(n, "attempt"), bands[y].Name)})
			}
		}
	}
	for y, b := range bands {
		rows = append(rows, box{chartLeft, float64(y) * cellHeight, spans*cellWidth - 1, cellHeight - 1, "h0", ""})
		c.Labels = append(c.Labels, label{chartLeft - 6, float64(y)*cellHeight + 11, b.Name, "end"})
	}
	c.Boxes = append(rows, c.Boxes...)
	c.Labels = append(c.Labels, hours(end, float64(len(bands))*cellHeight+14, -1)...)
	switch {
	case total == 0:
		c.Summary = "No attempt was made in the last hour."
	case late == 0:
		c.Summary = fmt.Sprintf("%s; none began more than 1 s late. Half began within %s, 99 %% within %s.", plural(total, "attempt"),
			rough(worst.Quantile(0.5)), rough(worst.Quantile(0.99)))
	default:
		c.Summary = fmt.Sprintf("%s; %s of them began more than 1 s late. Half began within %s, 99 %% within %s.", plural(total, "attempt"), number(late),
			rough(worst.Quantile(0.5)), rough(worst.Quantile(0.99)))
	}
	return c
}

// heat is a step from 0 to 4, each four times the one before: few among many are
// to be seen.
func heat(n, most int64) int {
	step := 4
	for most > n && step > 0 {
		most /= 4
		step--
	}
	return step
}

// hours are the labels of a time axis of an hour, by quarters; it begins or ends
// at a time.
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
		out = append(out, label{chartLeft + float64(i)*spans*cellWidth/4, y, t.UTC().Format("15:04"), anchor})
	}
	return out
}

// comingHour draws how many fall due in each of the next minutes.
func comingHour(counts []int64, from time.Time) chart {
	const height = 104.0
	c := chart{W: chartWidth, H: height + chartBottom + 4, Title: "Due in the next hour"}
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
		c.Boxes = append(c.Boxes, box{chartLeft + float64(i)*cellWidth, height - h, cellWidth - 1, h, "bar",
			fmt.Sprintf("%s: %s", from.Add(time.Duration(i)*time.Minute).UTC().Format("15:04"), plural(n, "notice"))})
	}
	c.Boxes = append(c.Boxes, box{chartLeft, height, spans * cellWidth, 1, "axis", ""})
	if most > 0 {
		c.Labels = append(c.Labels, label{chartLeft - 6, 14, number(most), "end"})
	}
	c.Labels = append(c.Labels, label{chartLeft - 6, height, "0", "end"})
	c.Labels = append(c.Labels, hours(from, height+14, 1)...)
	c.Summary = "Nothing falls due in the next hour."
	if total > 0 {
		c.Summary = fmt.Sprintf("%s in the next hour, most at %s (%s).", plural(total, "notice"),
			from.Add(time.Duration(peak)*time.Minute).UTC().Format("15:04"), number(most))
	}
	return c
}

// sparkline is the path of a line through the counts of an hour, in a box of 120 by
// 28; empty where there is nothing to draw.
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
		fmt.Fprintf(&b, "%s%.1f %.1f", verb, float64(i)*w/float64(len(counts)-1), 1+h-float64(n)/float64(most)*h)
	}
	return b.String()
}
