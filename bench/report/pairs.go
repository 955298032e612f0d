package report

import (
	"fmt"
	"strings"

	"notifier/bench/harness"
)

// pairRows are the compared figures. Those of the fleet case have the number of instances behind their names.
var pairRows = []struct{ what, cas, value string }{
	{"schedule, one a call", "schedule", ""},
	{"schedule, 500 a call", "schedule-batch", ""},
	{"drain", "drain-log", ""},
	{"ordered drain", "drain-order", ""},
	{"steady 1,000/s, one process", "fleet", "_1"},
	{"steady 1,000/s, eight processes", "fleet", "_8"},
	{"eight processes beside one, ×", "fleet", "_ratio"},
}

var pairFigures = []struct{ value, title string }{{"cpu_redis", "Redis CPU, µs/notice"},
	{"cpu_info", "the same by INFO"}, {"cpu_service", "service CPU, µs/notice"}, {"commands", "Redis commands/notice"},
	{"trips", "Redis round trips/notice"}, {"p99_ms", "lateness p99, ms"}, {"rate", "notices/s"}}

var sides = []string{"old", "new"}

// pairTable shows the medians of both programs and of the ratios of the pairs, with an interval for the latter.
func pairTable(r *harness.Comparison) table {
	t := table{head: []string{"what", "figure", "old", "new", "new / old", "interval", "pairs"}}
	for _, row := range pairRows {
		for _, f := range pairFigures {
			var before, after, ratios []float64
			for _, p := range r.Pairs {
				x, y := p.Old.Values[f.value+row.value], p.New.Values[f.value+row.value]
				if p.Case == row.cas && x > 0 && y > 0 {
					before, after, ratios = append(before, x), append(after, y), append(ratios, y/x)
				}
			}

			if len(ratios) == 0 {
				continue
			}

			least, most, _ := Interval(ratios)
			t.rows = append(t.rows, []string{row.what, f.title, Number(NewStat(before).Median), Number(NewStat(after).Median),
				fmt.Sprintf("%.3f", NewStat(ratios).Median), fmt.Sprintf("%.3f to %.3f", least, most), fmt.Sprint(len(ratios))})
		}
	}

	return t
}

// PairsText is a comparison for a terminal.
func PairsText(r *harness.Comparison) string {
	var b strings.Builder
	res := &harness.Result{Commit: r.Commit, Machine: r.Machine, Started: r.Started, Ended: r.Ended, Fixed: r.Fixed}
	fmt.Fprintf(&b, "\n%s\n%s\n", machineLine(res), fixedLine(res))
	for i, p := range []harness.Program{r.Old, r.New} {
		fmt.Fprintf(&b, "%s: %s, %s, %d bytes, sha256 %s\n", sides[i], p.Path, p.Version, p.Bytes, p.SHA256)
	}

	fmt.Fprintf(&b, "\n%s", pairTable(r).text())
	_, _, sure := Interval(make([]float64, len(r.Fixed)))
	fmt.Fprintf(&b, "\nThe interval contains the median with %.0f %% probability (order statistics of the paired ratios).\n", 100*sure)
	for _, p := range r.Pairs {
		for i, c := range []harness.Cell{p.Old, p.New} {
			if v := c.Values; c.Error != "" || v["early"]+v["missing"]+v["doubled"] > 0 {
				fmt.Fprintf(&b, "pair %d, %s, %s: early %.0f, missing %.0f, doubled %.0f %s\n", p.Number, p.Case, sides[i], v["early"], v["missing"],
					v["doubled"], c.Error)
			}
		}
	}

	return b.String()
}
