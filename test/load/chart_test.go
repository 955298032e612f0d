//go:build load

package load

import (
	"fmt"
	"math"
	"strings"
)

// series is one line of a chart, a value for each second.
type series struct {
	name   string
	colour string
	values []float64
}

// chart draws lines over seconds as SVG.
func chart(title, unit string, lines ...series) string {
	const width, height, left, top, right, bottom = 760.0, 260.0, 64.0, 34.0, 16.0, 34.0
	most, long := 0.0, 2
	for _, l := range lines {
		long = max(long, len(l.values))
		for _, v := range l.values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	most = nice(most)
	x := func(i int) float64 { return left + (width-left-right)*float64(i)/float64(long-1) }
	y := func(v float64) float64 { return height - bottom - (height-top-bottom)*v/most }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#fff"/><text x="%g" y="18" font-size="13" fill="#222">%s</text>`+"\n", width, height,
		left, title)
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(&b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end" fill="#555">%.4g%s</text>`+"\n", left, width-right, y(v), y(v), left-6, y(v)+4, v, unit)
	}
	for i := range 6 {
		s := (long - 1) * i / 5
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle" fill="#555">%d s</text>`+"\n", x(s), height-12, s)
	}
	for n, l := range lines {
		var points []string
		for i, v := range l.values {
			if !math.IsNaN(v) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
			}
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.3" points="%s"/><text x="%g" y="18" text-anchor="end" fill="%s">%s</text>`+"\n", l.colour, strings.Join(points, " "),
			width-right-float64(len(lines)-1-n)*80, l.colour, l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// nice is the next 1, 2 or 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, k := range []float64{1, 2, 5, 10} {
		if v <= k*unit {
			return k * unit
		}
	}
	return v
}
