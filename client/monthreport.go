package client

import (
	"cmp"
	"context"
	"net/url"
	"time"
)

// ReportQuery selects the report of a month.
type ReportQuery struct {
	Month  string // such as 2026-11; the present month if empty
	Zone   string // the IANA time zone of the month; UTC if empty
	By     string // receiver, route or type; receiver if empty
	Prefix string // app, app:module or app:module:type
	Limit  int    // lines, 1 to 1000; 0 = 100
}

func (q ReportQuery) values() url.Values {
	return filled(url.Values{}, map[string]string{"zone": q.Zone, "by": q.By, "prefix": q.Prefix, "limit": counted(q.Limit)})
}

func (q ReportQuery) month() string { return cmp.Or(q.Month, "this") }

// MonthReport is the report of a month.
type MonthReport struct {
	Raw
	Month     string       `json:"month"`
	Zone      string       `json:"zone"`
	By        string       `json:"by"`
	Since     time.Time    `json:"since"`
	Until     time.Time    `json:"until"` // exclusive
	Total     ReportLine   `json:"total"`
	Items     []ReportLine `json:"items"`      // most notices first
	Groups    int          `json:"groups"`     // lines without the limit
	Counting  bool         `json:"counting"`   // entries from before an update are still being counted
	KeptSince time.Time    `json:"kept_since"` // not zero if the retention has deleted entries of before this time
}

// ReportLine has the numbers of a receiver, route or type.
type ReportLine struct {
	Name           string   `json:"name"`
	Notices        int64    `json:"notices"` // by their first ending
	Delivered      int64    `json:"delivered"`
	FirstAttempt   int64    `json:"first_attempt"` // delivered at the first attempt
	WithinMinute   int64    `json:"within_minute"` // delivered within a minute of the start of the first attempt
	WithinHour     int64    `json:"within_hour"`
	WithinDay      int64    `json:"within_day"`
	Dead           int64    `json:"dead"`
	Cancelled      int64    `json:"cancelled"`
	Replaced       int64    `json:"replaced"`
	LaterEndings   int64    `json:"later_endings"` // after a redrive or a resend
	LaterDelivered int64    `json:"later_delivered"`
	MedianMS       *float64 `json:"median_ms"` // from the start of the first attempt to the delivery; nil = unknown
	P99MS          *float64 `json:"p99_ms"`
}

// MonthReport returns the report of a month. A service without a history answers with 404.
func (c *Client) MonthReport(ctx context.Context, q ReportQuery) (*MonthReport, error) {
	r := &MonthReport{}
	return r, c.into(ctx, request{method: "GET", path: []string{"v1", "reports", q.month()}, query: q.values(), idempotent: true}, r)
}

// MonthReportCSV returns the report as CSV, with all lines and the total.
func (c *Client) MonthReportCSV(ctx context.Context, q ReportQuery) ([]byte, error) {
	q.Limit = 0
	_, raw, err := c.do(ctx, request{method: "GET", path: []string{"v1", "reports", q.month(), "csv"}, query: q.values(), idempotent: true})
	return raw, err
}
