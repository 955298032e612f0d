package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

// Stat is the median of a value's repeats, with their range.
type Stat struct {
	Median, Min, Max float64
	N                int
}

// NewStat is the statistic of some values; N is 0 if there are none.
func NewStat(values []float64) Stat {
	if len(values) == 0 {
		return Stat{}
	}

	s := slices.Sorted(slices.Values(values))
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (s[len(s)/2-1] + m) / 2
	}

	return Stat{m, s[0], s[len(s)-1], len(s)}
}

// Interval returns the bounds of the median of the distribution from which the values come, and how probable it is between
// them: the narrowest interval of order statistics with at least 90 %, or the range if that has less.
func Interval(values []float64) (least, most, sure float64) {
	n := len(values)
	if n == 0 {
		return 0, 0, 0
	}

	s := slices.Sorted(slices.Values(values))
	outside := math.Exp2(1 - float64(n)) // that the median is below the smallest or above the largest
	k, sure := 0, 1-outside
	for choose := float64(n); k+1 < n-k-1; k++ { // how often k+1 values of n are below it
		next := sure - choose*math.Exp2(1-float64(n))
		if next < 0.9 {
			break
		}

		sure, choose = next, choose*float64(n-k-1)/float64(k+2)
	}

	return s[k], s[n-1-k], sure
}

// Number spells a value with the digits that mean something.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1000:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}

		return s
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// String spells the median, and the range where there is more than one run.
func (s Stat) String() string {
	switch {
	case s.N == 0:
		return "–"
	case s.N == 1 || s.Min == s.Max:
		return Number(s.Median)
	}
	return fmt.Sprintf("%s [%s–%s]", Number(s.Median), Number(s.Min), Number(s.Max))
}

// stat is the statistic of one value of one peer in one case.
func stat(res *harness.Result, peer, cas, value string) Stat {
	var vs []float64
	for _, c := range res.Cells {
		if v, ok := c.Values[value]; ok && c.Peer == peer && c.Case == cas && c.Error == "" {
			vs = append(vs, v)
		}
	}

	return NewStat(vs)
}

// faults are early, missing and doubled, the worst of the repeats.
func faults(res *harness.Result, peer, cas string) string {
	var worst [3]float64
	seen, jobs := false, 0.0
	for _, c := range res.Cells {
		if c.Peer != peer || c.Case != cas || c.Error != "" {
			continue
		}

		seen, jobs = true, max(jobs, c.Values["jobs"])
		for i, name := range []string{"early", "missing", "doubled"} {
			worst[i] = max(worst[i], c.Values[name])
		}
	}

	if !seen {
		return "–"
	}

	return fmt.Sprintf("%s / %s / %s of %s", Number(worst[0]), Number(worst[1]), Number(worst[2]), Number(jobs))
}

// failure is why a peer has no value in a case; empty = it has one, or did not
// take part.
func failure(res *harness.Result, info peer.Info, cas string) string {
	if reason := res.Missing[info.Name]; reason != "" {
		return reason
	}
	if reason := info.Skip[cas]; reason != "" {
		return reason
	}

	for _, c := range res.Cells {
		if c.Peer == info.Name && c.Case == cas && c.Error != "" {
			return firstLine(c.Error)
		}
	}

	return ""
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s, _, _ = strings.Cut(s, " | ")
	if len(s) > 160 {
		s = s[:160] + "…"
	}

	return s
}

func ran(res *harness.Result, peer, cas string) bool {
	return slices.ContainsFunc(res.Cells, func(c harness.Cell) bool { return c.Peer == peer && c.Case == cas })
}

// casesOf are the cases of which the run has any cell.
func casesOf(res *harness.Result) []harness.Case {
	var cs []harness.Case
	for _, c := range harness.Cases(res.Size) {
		if slices.ContainsFunc(res.Cells, func(cell harness.Cell) bool { return cell.Case == c.Name }) {
			cs = append(cs, c)
		}
	}

	return cs
}
