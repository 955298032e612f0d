package search

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"notifier/internal/history"
	"notifier/internal/route"
)

// ReportFile is a report of a month as a file.
type ReportFile struct {
	*history.Report
	Month string
	Name  func(string) string // of a group
}

// GroupName returns the function that names the groups of a report for people.
func GroupName(by history.Group, routes *route.Table) func(string) string {
	if by == history.ByRoute {
		return routes.NameOf
	}
	return func(name string) string { return name }
}

// reportHead has the names of the columns: the members of GET /v1/reports/{month}.
var reportHead = []string{"name", "notices", "delivered", "first_attempt", "within_minute", "within_hour", "within_day", "dead",
	"cancelled", "replaced", "later_endings", "later_delivered", "median_ms", "p99_ms"}

// Serve answers with the file: a line for each group and then the total.
func (f ReportFile) Serve(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", FileType)
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="report-%s.csv"`, f.Month))
	out := csv.NewWriter(patient{w, http.NewResponseController(w)})
	out.UseCRLF = true
	_ = out.Write(reportHead) // Flush reports the error
	for i := range f.Lines {
		_ = out.Write(reportCells(&f.Lines[i], f.Name(f.Lines[i].Name)))
	}

	_ = out.Write(reportCells(&f.Total, "total"))
	switch {
	case f.Counting:
		_ = out.Write([]string{"not complete: older entries are being counted"})
	case !f.KeptSince.IsZero():
		_ = out.Write([]string{"not complete: older entries have expired; kept since", stamp(f.KeptSince)})
	}

	if f.Groups > len(f.Lines) {
		_ = out.Write([]string{fmt.Sprintf("the other %d lines are left out", f.Groups-len(f.Lines))})
	}

	out.Flush()
	if out.Error() != nil {
		panic(http.ErrAbortHandler)
	}

	return nil
}

func reportCells(l *history.Line, name string) []string {
	cells := []string{safeCell(name)}
	for _, n := range []int64{l.Notices, l.Delivered, l.First, l.InMinute, l.InHour, l.InDay, l.Dead, l.Cancelled, l.Replaced, l.Later,
		l.LaterDelivered} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}

	for _, d := range []time.Duration{l.Median, l.P99} {
		cell := ""
		if l.Timed > 0 {
			cell = strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
		}

		cells = append(cells, cell)
	}

	return cells
}
