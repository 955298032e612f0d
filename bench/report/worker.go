package report

import (
	"fmt"
	"slices"
	"strings"

	"notifier/bench/harness"
)

// workerRows are the figures of libraries that call handlers inside a Go program. A row shows the medians of the values.
var workerRows = []struct {
	what, cas string
	values    []string
}{
	{"late at 10/s: mean / p99, ms", "late-10", []string{"mean_ms", "p99_ms"}},
	{"late at 1,000/s: mean / p99, ms", "late-1000", []string{"mean_ms", "p99_ms"}},
	{"late at 5,000/s: mean / p99, ms", "late-5000", []string{"mean_ms", "p99_ms"}},
	{"drain, jobs/s", "drain", []string{"rate"}},
	{"schedule, one a call, jobs/s", "schedule", []string{"rate"}},
	{"schedule, many a call, jobs/s", "schedule-batch", []string{"rate"}},
	{"kill -9 of one of two: ran in it / lost / finished twice", "crash", []string{"running", "lost", "again"}},
	{"the last of those that ran in it finished after, s", "crash", []string{"recovery_s"}},
	{"idle: worker / servers, % of a core", "idle", []string{"cpu_worker", "cpu_server"}},
	{"idle: commands/s", "idle", []string{"commands"}},
	{"memory a pending job, bytes", "bytes", []string{"bytes"}},
	{"smallest program: lines", "quickstart", []string{"lines"}},
	{"its module: lines of go.sum / modules in go.mod", "quickstart", []string{"sums", "modules"}},
	{"its size, MB", "quickstart", []string{"mb"}},
}

// workerTable has a row for each figure and a column for each peer.
func workerTable(res *harness.Result) table {
	t := table{head: []string{"what"}}
	for _, p := range res.Peers {
		t.head = append(t.head, rowName(p))
	}

	for _, r := range workerRows {
		if !slices.ContainsFunc(res.Cells, func(c harness.Cell) bool { return c.Case == r.cas }) {
			continue // not in this run
		}

		row := []string{r.what}
		for _, p := range res.Peers {
			parts := make([]string, len(r.values))
			for i, v := range r.values {
				if s := stat(res, p.Name, r.cas, v); s.N > 0 {
					parts[i] = Number(s.Median)
				}
			}

			text := strings.Join(parts, " / ")
			if strings.Trim(text, " /") == "" {
				text = "–"
			}

			if failure(res, p, r.cas) != "" {
				text = "not run"
			}

			row = append(row, text)
		}

		t.rows = append(t.rows, row)
	}

	faults := []string{"early / missing / doubled, all but the killed"}
	for _, p := range res.Peers {
		faults = append(faults, allFaults(res, p.Name))
	}

	t.rows = append(t.rows, faults)
	return t
}

// WorkerText is a run of size worker for a terminal.
func WorkerText(res *harness.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n%s\n%s\n", machineLine(res), serversLine(res), fixedLine(res), workerTable(res).text())
	for _, p := range res.Peers {
		fmt.Fprintf(&b, "%s %s: %s; memory is %s, commands are %s\n", p.Title, p.Version, p.Settings, p.BytesOf, p.CommandsOf)
	}

	return b.String()
}

// WriteWorker writes the table of a run of size worker between the marks bench:worker of a page.
func WriteWorker(file string, res *harness.Result) error {
	return between(file, "bench:worker", machineLine(res)+"\n"+fixedLine(res)+"\n"+workerTable(res).markdown())
}
