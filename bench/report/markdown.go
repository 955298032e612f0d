package report

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

// headline are the columns of the first table: the numbers that a reader
// compares first.
var headline = []struct {
	Case, Value, Title string
}{
	{"schedule", "rate", "schedule, one a call /s"},
	{"schedule-batch", "rate", "schedule, batch /s"},
	{"drain", "rate", "drain /s"},
	{"late-10", "mean_ms", "10/s: mean ms"},
	{"late-10", "p99_ms", "10/s: p99 ms"},
	{"late-1000", "mean_ms", "1,000/s: mean ms"},
	{"late-1000", "p99_ms", "1,000/s: p99 ms"},
	{"late-5000", "p99_ms", "5,000/s among %s: p99 ms"},
	{"off", "p99_ms", "events off: p99 ms"},
	{"bytes", "bytes", "bytes/job"},
	{"idle", "commands", "idle commands/s"},
	{"idle", "cpu", "idle CPU %"},
	{"callbacks", "rate", "HTTP callbacks /s"},
}

type table struct {
	head []string
	rows [][]string
}

func (t table) markdown() string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.head)
	b.WriteString("|" + strings.Repeat(" --- |", len(t.head)) + "\n")
	for _, r := range t.rows {
		for i := range r {
			r[i] = strings.ReplaceAll(r[i], "|", "\\|")
		}
		line(r)
	}

	return b.String()
}

func (t table) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(w, strings.ReplaceAll(strings.Join(r, "\t"), "**", ""))
	}

	w.Flush()
	return b.String()
}

// rowName returns the name of a peer in a row. This project's is bold.
func rowName(p peer.Info) string {
	if p.Kind == peer.Ours {
		return "**" + p.Title + "**"
	}
	return p.Title
}

// cellStat is stat, and knows cpu: worker and servers together.
func cellStat(res *harness.Result, peer, cas, value string) Stat {
	if value != "cpu" {
		return stat(res, peer, cas, value)
	}

	a, b := stat(res, peer, cas, "cpu_worker"), stat(res, peer, cas, "cpu_server")
	return Stat{a.Median + b.Median, a.Min + b.Min, a.Max + b.Max, a.N}
}

// summaryTable is one row a peer, one column a headline number, and the faults
// of all cases together.
func summaryTable(res *harness.Result) table {
	t := table{head: []string{"peer"}}
	cols := headline[:0:0]
	for _, h := range headline {
		if slices.ContainsFunc(res.Cells, func(c harness.Cell) bool { return c.Case == h.Case }) {
			h.Title = strings.ReplaceAll(h.Title, "%s", Number(float64(res.Size.PendingL)))
			cols = append(cols, h)
			t.head = append(t.head, h.Title)
		}
	}

	t.head = append(t.head, "early / missing / doubled, all cases")
	for _, p := range res.Peers {
		if len(p.Cases) > 0 {
			continue // it is in none of these columns
		}

		row := []string{rowName(p)}
		if reason := res.Missing[p.Name]; reason != "" {
			row = append(row, "not run: "+reason)
			for range len(cols) {
				row = append(row, "")
			}

			t.rows = append(t.rows, row)
			continue
		}

		for _, h := range cols {
			s := cellStat(res, p.Name, h.Case, h.Value)
			switch {
			case s.N == 0 && failure(res, p, h.Case) != "":
				row = append(row, "(see below)")
			case s.N == 0:
				row = append(row, "–")
			default:
				row = append(row, Number(s.Median))
			}
		}

		t.rows = append(t.rows, append(row, allFaults(res, p.Name)))
	}

	return t
}

// sumFaults returns the numbers of early, missing, doubled and all jobs of a peer. The crash case is left out: the jobs of a
// killed worker are delivered again.
func sumFaults(res *harness.Result, peer string) (sum [4]float64) {
	for _, c := range res.Cells {
		if c.Peer != peer || c.Error != "" || strings.HasPrefix(c.Case, "crash") {
			continue
		}
		for i, name := range []string{"early", "missing", "doubled", "jobs"} {
			sum[i] += c.Values[name]
		}
	}

	return sum
}

func allFaults(res *harness.Result, peer string) string {
	sum := sumFaults(res, peer)
	if sum[3] == 0 {
		return "–"
	}

	return fmt.Sprintf("%s / %s / %s of %s", Number(sum[0]), Number(sum[1]), Number(sum[2]), Number(sum[3]))
}

// caseTable is all of one case.
func caseTable(res *harness.Result, c harness.Case) table {
	t := table{head: []string{"peer"}}
	for _, col := range c.Columns {
		t.head = append(t.head, col.Title)
	}

	if c.Counts {
		t.head = append(t.head, "early / missing / doubled")
	}

	for _, p := range res.Peers {
		row := []string{rowName(p)}
		reason := failure(res, p, c.Name)
		if !ran(res, p.Name, c.Name) && reason == "" {
			continue // not in this case, or not in this size
		}

		var any bool
		for _, col := range c.Columns {
			s := stat(res, p.Name, c.Name, col.Value)
			any = any || s.N > 0
			row = append(row, s.String())
		}

		if c.Counts {
			row = append(row, faults(res, p.Name, c.Name))
		}

		switch {
		case !any && reason != "":
			row = append(row[:1], make([]string, len(row)-1)...)
			row[1] = "not run: " + reason
		case reason != "":
			row[1] += " (a repeat failed: " + reason + ")"
		}

		t.rows = append(t.rows, row)
	}

	return t
}

// refusals describes each peer's reaction to an answer 500, for the peers of a case.
func refusals(res *harness.Result, c harness.Case) string {
	if !c.Refusals {
		return ""
	}

	var b strings.Builder
	for _, p := range res.Peers {
		if p.Refused != "" && ran(res, p.Name, c.Name) {
			fmt.Fprintf(&b, "- %s: %s.\n", p.Title, p.Refused)
		}
	}

	if b.Len() == 0 {
		return ""
	}

	return "\nWhat becomes of a job whose receiver answers 500:\n\n" + b.String()
}

// patternTable is issue 5's: the patterns that people build by hand, measured,
// with the properties that no clock shows.
func patternTable(res *harness.Result) table {
	t := table{head: []string{"pattern", "late at 1,000/s: mean / p99 ms", "early / missing / doubled",
		"lost when a worker is killed", "two workers",
		"retry ladder", "cancel", "idle commands/s, CPU %"}}
	for _, p := range res.Peers {
		if p.Kind == peer.System && p.Name != "rabbitmq" {
			continue
		}

		late := "–"
		if s := stat(res, p.Name, "late-1000", "mean_ms"); s.N > 0 {
			late = Number(s.Median) + " / " + Number(stat(res, p.Name, "late-1000", "p99_ms").Median)
		}

		crash := p.Traits.Crash
		if s := stat(res, p.Name, "crash", "lost_percent"); s.N > 0 {
			crash = fmt.Sprintf("%s: %s %% measured", crash, Number(s.Median))
		}

		race := p.Traits.Race
		if s := stat(res, p.Name, "race", "doubled_percent"); s.N > 0 {
			race = fmt.Sprintf("%s: %s %% twice", race, Number(s.Median))
		}

		idle := "–"
		if s := cellStat(res, p.Name, "idle", "cpu"); s.N > 0 {
			commands := "–"
			if c := stat(res, p.Name, "idle", "commands"); c.N > 0 {
				commands = Number(c.Median)
			}

			idle = commands + ", " + Number(s.Median)
		}

		t.rows = append(t.rows, []string{rowName(p), late, faults(res, p.Name, "late-1000"), crash, race, p.Traits.Ladder,
			p.Traits.Cancel, idle})
	}

	return t
}

// programTable shows the largest modules of the program; it has no rows if the run did not measure the program.
func programTable(res *harness.Result) table {
	t := table{head: []string{"module", "MB", "compiling, s"}}
	mb, seconds := byModule(res, harness.MBOf), byModule(res, harness.SecondsOf)
	all := maps.Clone(mb)
	maps.Copy(all, seconds)
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(mb[b], mb[a]), cmp.Compare(seconds[b], seconds[a]), cmp.Compare(a, b))
	})
	row := func(name string, mb, seconds float64) {
		t.rows = append(t.rows, []string{name, fmt.Sprintf("%.2f", mb), fmt.Sprintf("%.1f", seconds)})
	}

	var otherMB, otherSeconds float64
	for i, n := range names {
		if i < modulesShown {
			row(n, mb[n], seconds[n])
			continue
		}

		otherMB, otherSeconds = otherMB+mb[n], otherSeconds+seconds[n]
	}

	if len(names) > modulesShown {
		row("all others", otherMB, otherSeconds)
	}

	return t
}

// byModule returns a value of the program case by module, such as the MB of the program.
func byModule(res *harness.Result, prefix string) map[string]float64 {
	values := map[string]float64{}
	for _, c := range res.Cells {
		for name, v := range c.Values {
			if m, ok := strings.CutPrefix(name, prefix); ok {
				values[m] = v
			}
		}
	}

	return values
}

// modulesShown is the number of modules that the page names.
const modulesShown = 14

// programSection is the part of the page about the program itself; empty if the run did not measure it.
func programSection(res *harness.Result) string {
	t := programTable(res)
	if len(t.rows) == 0 {
		return ""
	}

	return "## The program\n\nBy module: the share of the program with its symbols (types and strings have none, so they are one row), " +
		"and how long\nthe compiler worked in the first build; two packages are compiled at once.\n\n" + t.markdown() + "\n"
}

func peersTable(res *harness.Result) table {
	t := table{head: []string{"peer", "kind", "version", "settings", "memory is", "commands are"}}
	for _, p := range res.Peers {
		t.rows = append(t.rows, []string{rowName(p) + " (`" + p.Name + "`)", string(p.Kind), p.Version, p.Settings, p.BytesOf,
			p.CommandsOf})
	}

	return t
}

func machineLine(res *harness.Result) string {
	m := res.Machine
	return fmt.Sprintf("%d × %s, %.0f GiB, %s, %s; revision %s, %s to %s UTC.", m.Cores, m.CPU, m.MemoryGB, m.Kernel, m.Go,
		res.Commit,
		res.Started.Format("2006-01-02 15:04"), res.Ended.Format("15:04"))
}

// fixedLine are the rates of the fixed workload before and after the run; empty for a result without them.
func fixedLine(res *harness.Result) string {
	if len(res.Fixed) == 0 {
		return ""
	}

	var set, http []string
	for _, f := range res.Fixed {
		set, http = append(set, Number(f.Set)), append(http, Number(f.HTTP))
	}

	return fmt.Sprintf("Fixed workload before and after, by which to compare absolute rates: redis-benchmark SET %s/s; "+
		"an empty HTTP loop %s/s.\n",
		strings.Join(set, " and "), strings.Join(http, " and "))
}

func serversLine(res *harness.Result) string {
	names := make([]string, 0, len(res.Machine.Servers))
	for n := range res.Machine.Servers {
		names = append(names, n)
	}

	slices.Sort(names)
	for i, n := range names {
		names[i] = n + ": " + res.Machine.Servers[n]
	}

	return strings.Join(names, "; ")
}

// Text is the run for a terminal.
func Text(res *harness.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n%s\n", machineLine(res), serversLine(res), fixedLine(res))
	for _, c := range casesOf(res) {
		fmt.Fprintf(&b, "%s (%s)\n%s\n%s%s\n", c.Title, c.Name, wrap(c.What, 140), caseTable(res, c).text(),
			refusals(res, c))
	}

	fmt.Fprintf(&b, "Peers\n%s\nGoals\n%s\nSummary (medians)\n%s\n", peersTable(res).text(), goalTable(res).text(), summaryTable(res).text())
	fmt.Fprintf(&b, "Patterns built by hand (a figure was measured; a text is the documented property)\n%s\nTried and dropped\n%s\n",
		patternTable(res).text(), dropped.text())
	return b.String()
}

func wrap(s string, width int) string {
	var b strings.Builder
	n := 0
	for i, w := range strings.Fields(s) {
		if l := utf8.RuneCountInString(w); i > 0 && n+1+l > width {
			b.WriteByte('\n')
			n = 0
		} else if i > 0 {
			b.WriteByte(' ')
			n++
		}

		b.WriteString(w)
		n += utf8.RuneCountInString(w)
	}

	return b.String()
}

// casesFile has the tables of all cases, in the folder of the plots.
const casesFile = "cases.txt"

// Write writes docs/benchmarks.md, its plots and its tables of cases.
func Write(docs string, res *harness.Result) error {
	dir := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the plots: %w", err)
	}

	plots := plotsOf(res)
	for _, p := range plots {
		if err := os.WriteFile(filepath.Join(dir, p.file), []byte(p.svg), 0o644); err != nil {
			return fmt.Errorf("write a plot: %w", err)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, casesFile), []byte(Text(res)), 0o644); err != nil {
		return fmt.Errorf("write the cases: %w", err)
	}
	if err := os.WriteFile(filepath.Join(docs, "benchmarks.md"), []byte(Page(res, plots)), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}

	return nil
}

// Page is benchmarks.md.
func Page(res *harness.Result, plots []plot) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks

Written by `+"`cd bench && go run . -size=standard`"+`; do not edit. Size %s, taking %s.

%s
%s
%s
All systems ran on this machine in one run, each cell with its own servers, without persistence. All workers are Go programs with GOGC=400,
the service's setting. Repeats alternate between the peers; a cell shows the median. Absolute rates vary with the machine: compare ratios.
Lateness is the start of the handler minus the due time, of the jobs that were handled. Due times are whole milliseconds. A dash: not measured.

## Summary

%s
## Goals

The service's own goals, by the medians of this run.

%s
%s`, res.Size.Name, res.Ended.Sub(res.Started).Round(time.Minute), machineLine(res), serversLine(res), fixedLine(res),
		summaryTable(res).markdown(), goalTable(res).markdown(), programSection(res))
	for _, p := range plots {
		fmt.Fprintf(&b, "![%s](benchmarks/%s)\n\n", p.title, p.file)
	}

	fmt.Fprintf(&b, `[Every case](benchmarks/%s), with the versions and settings of each peer, changes that were tried and dropped, and the patterns
built by hand with their properties ([explained](patterns.md)).

## Run it yourself

`+"```"+`
scripts/bench-deps.sh        # Debian: redis-server, postgresql, beanstalkd, rabbitmq-server
make bench                   # three minutes, writes no page
make bench-worker            # eight minutes: package worker beside asynq and River, the table of worker.md
make bench-pairs OLD=a NEW=b # seven minutes: two built programs in alternating pairs, writes no page
make bench-age               # the revision of this page, and how old it is
make bench-nightly           # all peers, all cases
cd bench && go run . -list   # names for -peers and -cases
`+"```"+`

A peer whose server is not installed is in the table with the missing program.
`, casesFile)
	return b.String()
}

// dropped are changes that were measured for goals that are not reached, each against the same run without it, and
// that did not help. The figures are of the revisions of the time.
var dropped = table{head: []string{"tried", "result"}, rows: [][]string{
	{"one schedule call in flight instead of two; three or four", "7 % slower; none faster"},
	{"waiting before each gathered call for more to come", "0.082 to 0.061 calls a job, no faster; schedule 7 to 18 % slower"},
	{"a binary record in place of JSON", "320 in place of 400 ns, and redis-cli shows nothing"},
	{"no check (HMGET) for an existing notice before it is scheduled", "no difference: the check warms the data of the next write"},
	{"settle calls 2 ms apart; no second sweep call for a few; waiting 1 to 3 ms for freed slots", "no difference"},
	{"a PING to Redis 0.6 ms before each due time, at 10/s", "mean 1.65 → 1.25 ms, for a round trip a notice"},
	{"lists of settles begun at the size of the last one",
		"2 to 11 % fewer bytes allocated a notice; processor time, measured beside other load, no lower"},
	{"an eighth of the slots kept for hints always", "p99 beside a hanging merchant 2.7 → 3.4 to 4.9 ms"},
	{"256 slots in place of 64", "0.034 calls a job, 12 % more callbacks: not within the goal, which counts at 64 in flight"},
	{"another HTTP client (fasthttp) for the callbacks",
		"14 in place of 31 µs a call; led to the direct transport, since its limits and errors differ"},
	{"deleting a timer when its notice is claimed, so that no event comes", "not done: other programs and instances rely on the event"},
}}
