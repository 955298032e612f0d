package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/search"
)

// mostReportRows is the maximum number of rows on the page; the file has all.
const mostReportRows = 200

type reportPage struct {
	Month, Prefix, Zone, CSV string
	By                       history.Group
	Wrong                    text
	Note                     text // why the numbers are not complete
	Rows                     []reportRow
	Left                     int // rows that only the file has
}

type reportRow struct {
	Name                 string
	Total                bool
	Notices, Dead, Later int64
	First, Minute        string
	Hour, Day            string
	Median, P99          text
}

var groupTexts = map[history.Group]text{history.ByReceiver: say("Receiver"), history.ByRoute: say("Route"), history.ByType: say("Type")}

// reportOf returns the query of a request. The page says what is wrong with it.
func (p *Pages) reportOf(r *http.Request, v Visitor) (q history.ReportQuery, page reportPage) {
	get := func(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }
	page = reportPage{Month: cmp.Or(get("month"), p.now().In(v.zone()).Format("2006-01")), Zone: v.zone().String(),
		Prefix: strings.TrimSuffix(get("prefix"), ":"), By: history.Group(cmp.Or(get("by"), string(history.ByReceiver)))}
	q = history.ReportQuery{Client: v.Client, Prefix: cmp.Or(page.Prefix, v.Prefix), By: page.By}
	var err error
	if q.Since, q.Until, err = history.Month(page.Month, v.zone()); err != nil {
		page.Wrong = say("Not a month: use 2026-11.")
	}

	switch {
	case !slices.Contains(history.Groups, page.By):
		page.Wrong = say("Reports are by receiver, route or type.")
	case page.Prefix != "" && keys.CheckPrefix(page.Prefix) != nil:
		page.Wrong = say("Not a prefix: use app, app:module or app:module:type.")
	case page.Prefix != "" && page.Prefix != v.Prefix && !v.Covers(page.Prefix):
		page.Wrong = say("You only see notices under `%s`.", v.Prefix)
	}

	return q, page
}

// showReport serves the report of a month.
func (p *Pages) showReport(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.History == nil {
		return errNoHistory
	}

	q, page := p.reportOf(r, v)
	if page.Wrong == nil {
		q.Limit = mostReportRows
		report, err := p.o.History.MonthReport(r.Context(), q)
		if err != nil {
			return p.historyFailure(r.Context(), err)
		}

		p.fillReport(&page, report)
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Report"), Visitor: v, Content: reportContent(page)})
}

func (p *Pages) fillReport(page *reportPage, r *history.Report) {
	name := search.GroupName(page.By, p.o.Routes)
	for i := range r.Lines {
		page.Rows = append(page.Rows, reportLine(&r.Lines[i], name(r.Lines[i].Name)))
	}

	total := reportLine(&r.Total, "")
	total.Total = true
	page.Rows, page.Left = append(page.Rows, total), r.Groups-len(r.Lines)
	page.CSV = Root + "report.csv?" + url.Values{"month": {page.Month}, "by": {string(page.By)}, "prefix": {page.Prefix}}.Encode()
	switch {
	case r.Counting:
		page.Note = say("Not complete: entries from before an update are still being counted.")
	case !r.KeptSince.IsZero():
		page.Note = say("Not complete: the retention has deleted the entries from before %s.", r.KeptSince.Format(time.DateTime+" UTC"))
	}
}

func reportLine(l *history.Line, name string) reportRow {
	share := func(n int64) string { return history.Share(n, l.Delivered, l.Dead, "–") }
	row := reportRow{Name: name, Notices: l.Notices, Dead: l.Dead, Later: l.Later, First: share(l.First), Minute: share(l.InMinute),
		Hour: share(l.InHour), Day: share(l.InDay), Median: plain("–"), P99: plain("–")}
	if l.Timed > 0 {
		row.Median, row.P99 = plain(l.Median.Round(time.Millisecond)), plain(l.P99.Round(time.Millisecond))
	}

	return row
}

// downloadReport serves the report of a month as CSV.
func (p *Pages) downloadReport(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.History == nil {
		return errNoHistory
	}

	q, page := p.reportOf(r, v)
	if page.Wrong != nil {
		return failure{http.StatusUnprocessableEntity, page.Wrong}
	}

	q.Limit = search.MostRows
	report, err := p.o.History.MonthReport(r.Context(), q)
	if err != nil {
		return p.historyFailure(r.Context(), err)
	}

	return search.ReportFile{Report: report, Month: page.Month, Name: search.GroupName(page.By, p.o.Routes)}.Serve(w)
}
