package meta

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"notifier/test/record"
)

// Each text that lists the causes of a second delivery names the settle that Redis loses,
// and the setting against that.
func TestCausesOfSecondDeliveryNameLostSettle(t *testing.T) {
	for _, rel := range []string{"README.md", "docs/operations.md", "internal/dispatch/doc.go"} {
		_, after, ok := strings.Cut(strings.ReplaceAll(read(t, rel), "\n// ", " "), "A second delivery needs")
		after = after[:min(len(after), 1600)]
		if !ok || !strings.Contains(after, "loses the settle") && !strings.Contains(after, "loses its settle") ||
			!strings.Contains(after, "NOTIFIER_DURABILITY_SETTLE") ||
			!strings.Contains(after, "failover") || !strings.Contains(after, "power cut") {
			t.Errorf("%s does not name the settle that a failover or power cut loses, and NOTIFIER_DURABILITY_SETTLE", rel)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// A version of Redis or Valkey is called tried if a record names it, and each version that
// a record names is called tried.
func TestTestedVersionsMatchRecords(t *testing.T) {
	ran := map[string]bool{}
	for _, page := range []string{"docs/scaling.md", "docs/reliability.md", "docs/benchmarks.md", "docs/history.md",
		"docs/records/chaos.txt", "docs/records/faults.txt", "docs/records/sim.txt"} {
		for _, m := range ranOn.FindAllStringSubmatch(read(t, page), -1) {
			ran[m[1]+" "+m[2]] = true
		}
	}

	tried := map[string]bool{}
	for _, m := range versionRow.FindAllStringSubmatch(read(t, "docs/scaling.md"), -1) {
		for version := range strings.SplitSeq(m[2], ", ") {
			if version != "untried" {
				tried[m[1]+" "+version] = true
			}
		}
	}
	if len(tried) == 0 || !maps.Equal(tried, ran) {
		t.Errorf("docs/scaling.md calls tried %v, and the records name %v", slices.Sorted(maps.Keys(tried)), slices.Sorted(maps.Keys(ran)))
	}
}

var (
	// ranOn finds a server with its whole version in a row or a note of a record.
	ranOn = regexp.MustCompile(`\b(Redis|Valkey) (\d+\.\d+\.\d+), (?:notifier|go)`)
	// versionRow finds the rows of the table of versions.
	versionRow = regexp.MustCompile(`(?m)^\| (Redis|Valkey) [^|]* \| ([^|]*) \| [^|]* \|$`)
)

// The table of transitions quotes the line of code behind each step of the model. A change of
// that line fails this test, so that the model is checked too.
func TestModelTransitionsQuoteExistingLines(t *testing.T) {
	const page = "model/transitions.txt"
	quotes, err := record.Quotes(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if len(quotes) < 20 {
		t.Errorf("%s quotes %d lines only", page, len(quotes))
	}
	for _, q := range quotes {
		if q.Found != 1 {
			t.Errorf("%s quotes %q, which %s has %d times: find the line that took its place, check that model/notifier.pml still "+
				"does the same, then change the row", page, q.Text, q.File, q.Found)
		}
	}
	model := read(t, "model/notifier.pml")
	for _, m := range inModel.FindAllStringSubmatch(read(t, page), -1) {
		if !regexp.MustCompile(`(?m)^(inline|proctype) ` + m[1] + `\(`).MatchString(model) {
			t.Errorf("%s names %s, which is not in the model", page, m[1])
		}
	}
}

var inModel = regexp.MustCompile("\\| `(\\w+)` \\| `[\\w./-]+` \\|")
