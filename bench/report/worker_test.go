package report

import (
	"strings"
	"testing"

	"notifier/bench/harness"
)

func TestWorkerTableHasAColumnForEachPeer(t *testing.T) {
	res := sample()
	res.Cells = append(res.Cells, harness.Cell{Peer: "a", Case: "crash",
		Values: harness.Values{"running": 5, "lost": 0, "again": 2, "recovery_s": 3.5}})
	text := workerTable(res).markdown()
	for _, want := range []string{"| what | **A & <b>** | B | C |", "| 0.50 / 2 | -476 / 15 | not run |", "| 5 / 0 / 2 | – | not run |",
		"| 3.50 | – | not run |",
		"| 600 | not run | not run |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "first build") {
		t.Error("a row of a case that was not run")
	}
	for _, r := range workerRows {
		if _, err := harness.CaseNamed(harness.Sizes()[harness.Worker], r.cas); err != nil {
			t.Error(err)
		}
	}
}
