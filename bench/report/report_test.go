package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

func TestStat(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "–"}, {[]float64{3}, "3"}, {[]float64{3, 1, 2}, "2 [1–3]"}, {[]float64{1, 2}, "1.50 [1–2]"}, {[]float64{5, 5}, "5"},
		{[]float64{123456.7, 99999, 200000}, "123,457 [99,999–200,000]"},
	} {
		if got := NewStat(c.values).String(); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 9.87: "9.87", 12.34: "12.3", 123.4: "123", 1234: "1,234",
		-476.2:  "-476",
		1234567: "1,234,567", -1234: "-1,234", -100000: "-100,000"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %s, want %s", v, got, want)
		}
	}
}

func sample() *harness.Result {
	size := harness.Sizes()["tiny"]
	size.Growth = []int{1000, 10000}
	cell := func(p, c string, v harness.Values) harness.Cell { return harness.Cell{Peer: p, Case: c, Values: v} }
	return &harness.Result{
		Started: time.Unix(0, 0).UTC(), Ended: time.Unix(600, 0).UTC(), Size: size,
		Peers: []peer.Info{{Name: "a", Title: "A & <b>", Kind: peer.Ours, Settings: "x|y"}, {Name: "b", Title: "B",
			Kind: peer.Pattern, Skip: map[string]string{"bytes": "not it"}},
			{Name: "c", Title: "C", Kind: peer.System}},
		Missing: map[string]string{"c": "needs c (Debian: apt-get install c)"},
		Cells: []harness.Cell{
			cell("a", "late-10", harness.Values{"mean_ms": 0.5, "p50_ms": 0.5, "p99_ms": 2, "max_ms": 3, "jobs": 20, "early": 0,
				"missing": 0, "doubled": 0}),
			cell("b", "late-10", harness.Values{"mean_ms": -476, "p50_ms": -470, "p99_ms": 15, "max_ms": 20, "jobs": 20, "early": 19,
				"missing": 0, "doubled": 1}),
			cell("a", "growth-1000", harness.Values{"p99_ms": 1, "total_mb": 0.6, "bytes": 600}),
			cell("a", "growth-10000", harness.Values{"p99_ms": 1, "total_mb": 6, "bytes": 600}),
			cell("a", "bytes", harness.Values{"bytes": 600}),
			{Peer: "b", Case: "drain", Error: "start b: no room | more"},
		},
	}
}

func TestPageShowsFaultsAndMissingServers(t *testing.T) {
	res := sample()
	page, cases := Page(res, plotsOf(res)), Text(res)
	for _, want := range []string{"19 / 0 / 1 of 20", "not run: not it", "not run: start b: no room", "x|y"} {
		if !strings.Contains(cases, want) {
			t.Errorf("the cases do not show %q", want)
		}
	}
	for _, want := range []string{"19 / 0 / 1 of 20", "0 / 0 / 0 of 20",
		"not run: needs c", "![", "benchmarks/late-10.svg", "benchmarks/growth-lateness.svg"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|\n") {
			t.Errorf("a row is cut off: %q", line)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"benchmarks.md", "benchmarks/cases.txt", "benchmarks/late-10.svg", "benchmarks/growth-memory.svg"} {
		if info, err := os.Stat(filepath.Join(dir, f)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
	}
}

func TestPlotsAreWellFormed(t *testing.T) {
	plots := plotsOf(sample())
	if len(plots) != 3 {
		t.Errorf("%d plots, want 3", len(plots))
	}
	for _, p := range plots {
		wellFormed(t, p.svg)
		if strings.Contains(p.svg, "NaN") || strings.Contains(p.svg, "Inf") {
			t.Errorf("%s holds a coordinate that is no number", p.file)
		}
	}
	wellFormed(t, Bars("none", nil))
	wellFormed(t, Lines("none", nil))
}

func TestScale(t *testing.T) {
	s := newScale([]float64{0.3, 400, -5}, 0, 400)
	for v, want := range map[float64]float64{0.1: 0, 1000: 400, 10: 200, -1: 0, 0: 0, 1e9: 400} {
		if got := s.at(v); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("at(%v) = %v, want %v", v, got, want)
		}
	}
}

func TestLabelsDoNotOverlap(t *testing.T) {
	lines := []Line{{Y: []float64{1}}, {Y: []float64{1}}, {Y: []float64{1.01}}}
	rows := labelRows(lines, newScale([]float64{0.1, 10}, 350, 50))
	for i := range rows {
		for j := range i {
			if d := rows[i] - rows[j]; d > -14 && d < 14 {
				t.Errorf("labels %d and %d are %v apart", j, i, d)
			}
		}
	}
}

func TestGoalsAreJudged(t *testing.T) {
	rows := goalTable(sample0("notifier")).text()
	for _, want := range []string{"lateness at 10/s, mean", "0.50 ms", "yes", "≤ 2 ms", "not measured in this size"} {
		if !strings.Contains(rows, want) {
			t.Errorf("no %q in\n%s", want, rows)
		}
	}
	bad := sample0("notifier")
	bad.Cells = append(bad.Cells, harness.Cell{Peer: "notifier", Case: "drain", Values: harness.Values{"rate": 100, "jobs": 10, "missing": 1}})
	bad.Cells = append(bad.Cells, harness.Cell{Peer: "asynq", Case: "drain", Values: harness.Values{"rate": 20}})
	killed := sample0("notifier")
	killed.Cells = append(killed.Cells, harness.Cell{Peer: "notifier", Case: "crash", Values: harness.Values{"jobs": 10, "doubled": 2}})
	if r := goalTable(killed).rows[0]; r[3] != "yes" {
		t.Errorf("%q", r)
	}
	for _, r := range goalTable(bad).rows {
		switch r[0] {
		case "early, missing, doubled, but where a worker is killed", "drain":
			if r[3] != "no" {
				t.Errorf("%q", r)
			}
		case "drain beside asynq":
			if r[3] != "yes" || !strings.Contains(r[2], "5.0 × asynq") {
				t.Errorf("%q", r)
			}
		}
	}
}

func TestCallbackGoalsAreComparedWithBestPeer(t *testing.T) {
	res := sample0("notifier")
	add := func(p, c, value string, v float64) {
		res.Cells = append(res.Cells, harness.Cell{Peer: p, Case: c, Values: harness.Values{value: v}})
	}
	for p, v := range map[string]float64{"notifier-http": 12_000, "asynq-10ms": 3000, "gocraft": 5000, "river": 8000, "beanstalkd": 11_000} {
		add(p, "callbacks", "pace", v)
	}
	add("notifier-http", "callbacks-fleet", "p99_ratio", 1.6)
	res.Machine.Cores = 2
	add("notifier", "drain", "rate", 50_000)
	add("notifier-http", "drain-log", "rate", 44_000)
	add("notifier-http", "schedule", "cpu_own", 60)
	add("notifier-http", "schedule", "cpu_servers", 30)
	add("notifier-http", "callbacks-fleet", "kb", 39)
	want := map[string][2]string{
		"HTTP callbacks beside the best on Redis that keeps a lease":      {"2.40 × gocraft (5,000/s)", "no"},
		"HTTP callbacks beside River":                                     {"1.50 × river (8,000/s)", "yes"},
		"HTTP callbacks beside beanstalkd":                                {"1.09 × beanstalkd (11,000/s)", "yes"},
		"200 receivers: lateness p99 at fast ones, slow ones beside none": {"1.60 ×", "no"},
		"drain by the built binary at target log beside package worker":   {"0.88 × (44,000/s)", "no"},
		"schedule over HTTP, single: client, service and Redis":           {"90 µs: ≤ 22,222/s of 2 cores", "yes"},
		"200 receivers: resident memory a call in flight":                 {"39 kB", "yes"},
	}
	for _, r := range goalTable(res).rows {
		if w, ok := want[r[0]]; ok {
			delete(want, r[0])
			if r[2] != w[0] || r[3] != w[1] {
				t.Errorf("%q, want %q", r, w)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no goal %q", want)
	}
}

func TestTextDescribesRefusedJobs(t *testing.T) {
	res := sample()
	res.Peers[0].Refused = "it is repeated"
	res.Cells = append(res.Cells, harness.Cell{Peer: "a", Case: "callbacks", Values: harness.Values{"rate": 1}})
	if text := Text(res); !strings.Contains(text, "answers 500:\n\n- A & <b>: it is repeated.") {
		t.Errorf("not described in\n%s", text)
	}
}

// sample0 is the sample with its own peer under another name.
func sample0(name string) *harness.Result {
	res := sample()
	res.Peers[0].Name = name
	for i := range res.Cells {
		if res.Cells[i].Peer == "a" {
			res.Cells[i].Peer = name
		}
	}
	return res
}

func TestReadmeIsWrittenBetweenMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	const markBegin, markEnd = "<!-- bench:patterns -->", "<!-- /bench:patterns -->"
	for _, c := range []struct{ page, want string }{
		{"no marks", "no marks"},
		{"a " + markBegin + "old" + markEnd + " z", ""},
		{"a " + markBegin + "never ended", "a " + markBegin + "never ended"},
	} {
		if err := os.WriteFile(file, []byte(c.page), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Readme(file, sample()); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := string(b)
		if c.want != "" && got != c.want {
			t.Errorf("%q became %q", c.page, got)
		}
		if c.want == "" && (!strings.HasPrefix(got, "a "+markBegin) || !strings.HasSuffix(got, markEnd+" z") || strings.Contains(got, "old") ||
			!strings.Contains(got, "| pattern |")) {
			t.Errorf("%q", got)
		}
	}
	if err := Readme(filepath.Join(t.TempDir(), "none.md"), sample()); err != nil {
		t.Error(err)
	}
}

func TestPageShowsTheFixedWorkload(t *testing.T) {
	res := &harness.Result{Commit: "abc1234", Fixed: []harness.Fixed{{Set: 90_000, HTTP: 20_000}, {Set: 95_000, HTTP: 21_000}}}
	if page := Page(res, nil); !strings.Contains(page, "SET 90,000 and 95,000/s; an empty HTTP loop 20,000 and 21,000/s") {
		t.Error(page)
	}
}

func TestPageShowsTheLargestModules(t *testing.T) {
	res := &harness.Result{}
	if page := Page(res, nil); strings.Contains(page, "## The program") {
		t.Error("a section without figures")
	}
	v := harness.Values{"build_s": 60, harness.MBOf + "big": 8, harness.SecondsOf + "big": 20, harness.SecondsOf + "linker": 4}
	for n := range modulesShown {
		v[fmt.Sprintf("%sm%d", harness.MBOf, n)] = 0.25
	}
	res.Cells = []harness.Cell{{Case: "program", Peer: "notifier-http", Values: v}}
	page := Page(res, nil)
	for _, row := range []string{"| big | 8.00 | 20.0 |", "| m0 | 0.25 | 0.0 |", "| all others | 0.25 | 4.0 |"} {
		if !strings.Contains(page, row) {
			t.Errorf("no row %q in\n%s", row, page)
		}
	}
}
