package report

import (
	"math"
	"strings"
	"testing"

	"notifier/bench/harness"
)

func TestIntervalCoversTheMedian(t *testing.T) {
	for _, x := range []struct {
		n                 int
		least, most, sure float64
	}{{1, 1, 1, 0}, {2, 1, 2, 0.5}, {5, 1, 5, 0.9375}, {7, 1, 7, 0.984375}, {8, 2, 7, 0.9296875}, {20, 6, 15, 0.9586105}} {
		values := make([]float64, x.n)
		for i := range values {
			values[i] = float64(x.n - i)
		}
		least, most, sure := Interval(values)
		if least != x.least || most != x.most || math.Abs(sure-x.sure) > 1e-6 {
			t.Errorf("%d values: %v to %v with %v, want %+v", x.n, least, most, sure, x)
		}
	}
	if _, _, sure := Interval(nil); sure != 0 {
		t.Errorf("no values: %v", sure)
	}
}

func TestPairsShowMedianOfRatios(t *testing.T) {
	r := &harness.Comparison{Old: harness.Program{SHA256: "aaa"}, New: harness.Program{SHA256: "bbb"}}
	for i, x := range [][2]float64{{10, 11}, {20, 20}, {40, 48}} {
		r.Pairs = append(r.Pairs, harness.Pair{Case: "drain-log", Number: i + 1, Old: harness.Cell{Values: harness.Values{"cpu_redis": x[0]}},
			New: harness.Cell{Values: harness.Values{"cpu_redis": x[1]}}})
	}
	r.Pairs = append(r.Pairs, harness.Pair{Case: "fleet", Number: 1, Old: harness.Cell{Error: "no room"},
		New: harness.Cell{Values: harness.Values{"p99_ms_8": 2, "missing": 3}}})
	text := strings.Join(strings.Fields(PairsText(r)), " ")
	for _, want := range []string{"sha256 aaa", "sha256 bbb", "drain Redis CPU, µs/notice 20 20 1.100 1.000 to 1.200 3",
		"pair 1, fleet, old: early 0, missing 0, doubled 0 no room", "pair 1, fleet, new: early 0, missing 3, doubled 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
