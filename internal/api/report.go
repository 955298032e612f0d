package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/search"
	"notifier/internal/store"
)

var (
	reportBox = []parameter{
		{"zone", "The IANA time zone of the month; UTC if absent.", "Asia/Shanghai"},
		{"by", "A line for each receiver (the called host), route, or type (app:module:type of the key); receiver if absent.", "receiver"},
		paramPrefix,
	}
	reportParams = append(slices.Clone(reportBox), parameter{"limit", "1 to 1000 lines, 100 if absent.", "100"})
)

const (
	reportPage = 100
	reportMost = 1000
)

// ReportAnswer answers GET /v1/reports/{month}.
type ReportAnswer struct {
	Month     string       `json:"month"`
	Zone      string       `json:"zone"`
	By        string       `json:"by"`
	Since     codec.Stamp  `json:"since" doc:"The start of the month."`
	Until     codec.Stamp  `json:"until" doc:"Its end, exclusive."`
	Total     ReportLine   `json:"total"`
	Items     []ReportLine `json:"items" doc:"Most notices first."`
	Groups    int          `json:"groups" doc:"The number of lines without the limit."`
	Counting  bool         `json:"counting,omitempty" doc:"Entries from before an update are still being counted: the numbers are too low."`
	KeptSince *codec.Stamp `json:"kept_since,omitempty" doc:"The retention has deleted the entries of before this time."`
}

// ReportLine is one line of a report.
type ReportLine struct {
	Name           string   `json:"name" doc:"The host, route or type; empty for the total and for notices without a host."`
	Notices        int64    `json:"notices" doc:"Notices finalized in the month, by their first ending."`
	Delivered      int64    `json:"delivered"`
	FirstAttempt   int64    `json:"first_attempt" doc:"Delivered at the first attempt."`
	WithinMinute   int64    `json:"within_minute" doc:"Delivered within a minute of the start of the first attempt (of the last 20)."`
	WithinHour     int64    `json:"within_hour"`
	WithinDay      int64    `json:"within_day"`
	Dead           int64    `json:"dead"`
	Cancelled      int64    `json:"cancelled"`
	Replaced       int64    `json:"replaced"`
	LaterEndings   int64    `json:"later_endings" doc:"Further endings, after a redrive or a resend. No other number includes them."`
	LaterDelivered int64    `json:"later_delivered" doc:"Deliveries among them."`
	MedianMS       *float64 `json:"median_ms,omitempty" doc:"From the start of the first attempt to the delivery; at most 5 % or 1 ms off."`
	P99MS          *float64 `json:"p99_ms,omitempty" doc:"The latency that 99 % of the deliveries do not exceed."`
}

func reportLine(l *history.Line, name string) ReportLine {
	v := ReportLine{Name: name, Notices: l.Notices, Delivered: l.Delivered, FirstAttempt: l.First, WithinMinute: l.InMinute,
		WithinHour: l.InHour, WithinDay: l.InDay, Dead: l.Dead, Cancelled: l.Cancelled, Replaced: l.Replaced, LaterEndings: l.Later,
		LaterDelivered: l.LaterDelivered}
	if l.Timed > 0 {
		median, p99 := float64(l.Median.Microseconds())/1000, float64(l.P99.Microseconds())/1000
		v.MedianMS, v.P99MS = &median, &p99
	}

	return v
}

// presentMonth names the month that contains the present time.
const presentMonth = "this"

// asked is a report that a caller asked for.
type asked struct {
	history.ReportQuery
	month string
	zone  *time.Location
}

func (a *api) reportAsked(month string, values url.Values, limit int, f *codec.Faults) asked {
	zone := zoneParam(values, f)
	q := asked{month: month, zone: zone}
	if month == presentMonth {
		q.month = a.now().In(zone).Format("2006-01")
	}

	var err error
	if q.Since, q.Until, err = history.Month(q.month, zone); err != nil {
		f.Add("path.month", codec.Clip(q.month, 60), "%s", err)
	}

	q.By = history.Group(cmp.Or(values.Get("by"), string(history.ByReceiver)))
	if !slices.Contains(history.Groups, q.By) {
		f.Add("query.by", codec.Clip(string(q.By), 60), "want receiver, route or type")
	}

	q.Prefix, q.Limit = a.filter(values, f).Prefix, limit
	return q
}

// makeReport returns a report of the notices that the caller may see.
func (a *api) makeReport(r *http.Request, at site, q asked) (*history.Report, error) {
	if a.historian == nil {
		return nil, problem(http.StatusNotFound, "there is no history: NOTIFIER_HISTORY_URL is not set for this instance")
	}

	narrowed := store.Query{Prefix: q.Prefix}
	if !at.narrow(&narrowed) {
		return &history.Report{}, nil
	}

	q.Client, q.Prefix = at.Name, narrowed.Prefix
	report, err := a.historian.MonthReport(r.Context(), q.ReportQuery)
	if err != nil {
		return nil, a.historyProblem(err)
	}

	return report, nil
}

// monthReport serves GET /v1/reports/{month}.
func (a *api) monthReport(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, reportParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.reportAsked(at.param, values, limitUpTo(reportMost, reportPage, values, &f), &f)
	if p := refusal(f); p != nil {
		return p
	}

	report, err := a.makeReport(r, at, q)
	if err != nil {
		return err
	}

	name := search.GroupName(q.By, a.routes)
	out := ReportAnswer{Month: q.month, Zone: q.zone.String(), By: string(q.By), Since: codec.Stamp(q.Since), Until: codec.Stamp(q.Until),
		Total: reportLine(&report.Total, ""), Items: make([]ReportLine, len(report.Lines)), Groups: report.Groups, Counting: report.Counting}
	for i := range report.Lines {
		out.Items[i] = reportLine(&report.Lines[i], name(report.Lines[i].Name))
	}

	if !report.KeptSince.IsZero() {
		kept := codec.Stamp(report.KeptSince)
		out.KeptSince = &kept
	}

	return writeJSON(w, http.StatusOK, out)
}

// reportFile serves GET /v1/reports/{month}/csv.
func (a *api) reportFile(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, reportBox)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.reportAsked(at.param, values, search.MostRows, &f)
	if p := refusal(f); p != nil {
		return p
	}

	report, err := a.makeReport(r, at, q)
	if err != nil {
		return err
	}

	return search.ReportFile{Report: report, Month: q.month, Name: search.GroupName(q.By, a.routes)}.Serve(w)
}
