package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifier/bench/harness"
)

var update = flag.Bool("update", false, "write the texts of testdata")

func load(t *testing.T, file string) *harness.Result {
	t.Helper()
	res := &harness.Result{}
	if err := json.Unmarshal([]byte(read(t, file)), res); err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// same compares a text with a file, and reports the first line that differs.
func same(t *testing.T, file, got string) {
	t.Helper()
	want := read(t, file)
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d is\n%s\nwant\n%s", file, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s has %d lines, want %d", file, len(a), len(b))
}

// The results of testdata have failed cells, missing servers, and goals that are and are not reached. After a change of the texts,
// run the test with -update and read the difference.
func TestResultsRenderAsStored(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		res := load(t, f)
		got := Page(res, plotsOf(res)) + Text(res) + WorkerText(res)
		for _, p := range plotsOf(res) {
			wellFormed(t, p.svg)
			got += p.svg
		}
		f = strings.TrimSuffix(f, "json") + "txt"
		if *update {
			write(t, f, got)
		}
		same(t, f, got)
	}
}

// go run . -size=standard -render and -size=worker -render write the tables.
func TestPublishedTablesAreRendered(t *testing.T) {
	const readme, worker, results = "../../README.md", "../../docs/worker.md", "../../docs/benchmarks/"
	copied := func(file string) string {
		to := filepath.Join(t.TempDir(), "page.md")
		write(t, to, read(t, file))
		return to
	}
	r, w := copied(readme), copied(worker)
	if err := errors.Join(Readme(r, load(t, results+"standard.json")), WriteWorker(w, load(t, results+"worker.json"))); err != nil {
		t.Fatal(err)
	}
	same(t, readme, read(t, r))
	same(t, worker, read(t, w))
}

func TestPageWithoutBothMarksIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	for _, page := range []string{"no marks", "a <!-- m -->never ended", "never begun<!-- /m -->"} {
		write(t, file, page)
		if err := between(file, "m", "new"); err != nil || read(t, file) != page {
			t.Errorf("%q became %q, %v", page, read(t, file), err)
		}
	}
	if err := between(file+".none", "m", "new"); err != nil {
		t.Error(err)
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
	}
}

func TestPlotsOfNothingAreWellFormed(t *testing.T) {
	wellFormed(t, Bars("none", nil))
	wellFormed(t, Lines("none", nil))
}

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

func TestRowsAreOfRealCases(t *testing.T) {
	for _, r := range workerRows {
		if _, err := harness.CaseNamed(harness.Sizes()[harness.Worker], r.cas); err != nil {
			t.Error(err)
		}
	}
	for _, r := range pairRows {
		if _, err := harness.CaseNamed(harness.Sizes()[harness.Pairs], r.cas); err != nil {
			t.Error(err)
		}
	}
}
