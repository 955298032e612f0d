package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"notifier/internal/notice"
)

// Group is what the lines of a report are for.
type Group string

// The groups.
const (
	ByReceiver Group = "receiver" // the called host
	ByRoute    Group = "route"
	ByType     Group = "type" // app:module:type of the key
)

// Groups lists the groups.
var Groups = []Group{ByReceiver, ByRoute, ByType}

var groupColumns = map[Group]string{ByReceiver: "host", ByRoute: "route", ByType: "app || ':' || module || ':' || type"}

func (g Group) of(c *cell) string {
	switch g {
	case ByRoute:
		return c.route
	case ByType:
		return c.app + ":" + c.module + ":" + c.typ
	}
	return c.host
}

// ReportQuery selects the entries of a report.
type ReportQuery struct {
	// Client is the name of the caller, whose reports at a time are limited.
	Client string
	// Prefix is app, app:module or app:module:type; empty = all.
	Prefix       string
	Since, Until time.Time // by the time of the entry; Until is exclusive
	By           Group
	Limit        int // of the lines
}

// Report counts the notices that were finalized within a window. Its quantiles have an error of at most 5 %, or 1 ms.
type Report struct {
	Total  Line
	Lines  []Line // most notices first
	Groups int    // number of groups, also of those without a line
	// Counting is set until all entries of before the table history_hours are counted: numbers are too low.
	Counting bool
	// KeptSince is not zero if the retention has deleted entries of the window from before that time.
	KeptSince time.Time
}

// Line has the numbers of a group. A notice counts by its first ending, and further endings, after a redrive or a resend,
// count apart. The latency is from the start of the first kept attempt to the delivery.
type Line struct {
	Name                      string
	Notices, Delivered        int64
	First                     int64 // delivered at the first attempt
	InMinute, InHour, InDay   int64 // delivered with at most this latency
	Dead, Cancelled, Replaced int64
	Later, LaterDelivered     int64 // further endings
	Timed                     int64 // delivered with a known latency
	Median, P99               time.Duration
	bins                      map[int]int64
}

// Share returns n in percent of the notices that were delivered or died, because cancelled and replaced ones say nothing about
// deliveries. It returns none if there are no such notices.
func Share(n, delivered, dead int64, none string) string {
	if delivered+dead == 0 {
		return none
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(delivered+dead))
}

// add adds a number of entries.
func (l *Line) add(what int, n int64) {
	if what <= whatLater {
		l.Later += n
		if what == whatLater {
			l.LaterDelivered += n
		}

		return
	}

	l.Notices += n
	switch what {
	case whatDead:
		l.Dead += n
		return
	case whatCancelled:
		l.Cancelled += n
		return
	case whatReplaced:
		l.Replaced += n
		return
	}

	l.Delivered += n
	if what >= whatFirst {
		l.First += n
		what -= whatFirst
	}

	if what > 0 && what <= len(edges) {
		if l.bins == nil {
			l.bins = map[int]int64{}
		}

		l.bins[what] += n
	}
}

// finish computes the numbers that depend on the latency.
func (l *Line) finish() {
	bins := make([]int, 0, len(l.bins))
	for bin, n := range l.bins {
		bins = append(bins, bin)
		l.Timed += n
		for _, x := range []struct {
			to *int64
			in int64
		}{{&l.InMinute, minute}, {&l.InHour, hour}, {&l.InDay, day}} {
			if edges[bin-1] <= x.in {
				*x.to += n
			}
		}
	}

	slices.Sort(bins)
	l.Median, l.P99 = l.quantile(bins, 50), l.quantile(bins, 99)
	l.bins = nil
}

// quantile returns the latency that a percentage of the deliveries do not exceed.
func (l *Line) quantile(bins []int, percent int64) time.Duration {
	rank := (l.Timed*percent + 99) / 100
	for _, bin := range bins {
		if rank -= l.bins[bin]; rank <= 0 {
			return latencyOf(bin)
		}
	}

	return 0
}

// mostGroups is the maximum number of groups of a report.
const mostGroups = 100_000

// MonthReport counts the notices of a window. Whole hours are read from the table history_hours. The rest of an hour at either
// end, in a time zone whose offset is not in whole hours, is counted from its entries. It returns ErrBusy if the
// maximum number of searches without an index is running.
func (d *DB) MonthReport(ctx context.Context, q ReportQuery) (*Report, error) {
	if !d.texts.begin(q.Client) {
		return nil, ErrBusy
	}

	defer d.texts.end(q.Client)
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()

	r, err := d.report(ctx, q)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: more than %s; ask for a prefix, or by route", ErrSlow, notice.Short(reportTimeout))
	}
	if errors.Is(err, ErrSlow) {
		return nil, err
	}

	return r, d.wrap("report", err)
}

// reportTimeout is the time limit of a report.
const reportTimeout = 30 * time.Second

func (d *DB) report(ctx context.Context, q ReportQuery) (*Report, error) {
	r := &Report{}
	since, err := d.countedSince(ctx, d.searches)
	if err != nil {
		return nil, err
	}

	if since.IsZero() || since.After(q.Since) {
		r.Counting = true
	}

	if d.o.Retention > 0 {
		whole := 24 * time.Hour // PostgreSQL deletes days
		if d.sqlite {
			whole = time.Hour
		}

		if kept := time.Now().Add(-d.o.Retention).UTC().Truncate(whole); kept.After(q.Since) {
			r.KeptSince = kept
		}
	}

	lines, err := d.lines(ctx, q)
	if err != nil {
		return nil, err
	}

	for _, l := range lines {
		r.Total.join(l)
		l.finish()
		r.Lines = append(r.Lines, *l)
	}

	r.Total.finish()
	r.Groups = len(r.Lines)
	slices.SortFunc(r.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Notices, a.Notices), cmp.Compare(b.Later, a.Later), cmp.Compare(a.Name, b.Name))
	})
	r.Lines = r.Lines[:min(len(r.Lines), q.Limit)]
	return r, nil
}

// join adds the numbers of a line that is not finished.
func (l *Line) join(x *Line) {
	l.Notices += x.Notices
	l.Delivered += x.Delivered
	l.First += x.First
	l.Dead += x.Dead
	l.Cancelled += x.Cancelled
	l.Replaced += x.Replaced
	l.Later += x.Later
	l.LaterDelivered += x.LaterDelivered
	if l.bins == nil {
		l.bins = map[int]int64{}
	}

	for bin, n := range x.bins {
		l.bins[bin] += n
	}
}

// lines returns the line of each group.
func (d *DB) lines(ctx context.Context, q ReportQuery) (map[string]*Line, error) {
	lines := map[string]*Line{}
	add := func(name string, what int, n int64) error {
		l := lines[name]
		if l == nil {
			if len(lines) == mostGroups {
				return fmt.Errorf("%w: more than %d groups; ask for a prefix, or by route", ErrSlow, mostGroups)
			}

			l = &Line{Name: name}
			lines[name] = l
		}

		l.add(what, n)
		return nil
	}
	from := q.Since.Add(time.Hour - 1).Truncate(time.Hour)
	to := notice.Later(q.Until.Truncate(time.Hour), from)
	ends := cells{}
	for _, w := range []ReportQuery{{Prefix: q.Prefix, Since: q.Since, Until: notice.Earlier(from, q.Until)},
		{Prefix: q.Prefix, Since: to, Until: q.Until}} {
		if err := d.countRows(ctx, d.searches, ends, w); err != nil {
			return nil, err
		}
	}

	for x, n := range ends {
		if err := add(q.By.of(&x), x.what, n); err != nil {
			return nil, err
		}
	}

	c := &conditions{d: d}
	c.restrict(Query{Prefix: q.Prefix})
	c.add("hour >= "+at, d.time(from))
	c.add("hour < "+at, d.time(to))
	rows, err := d.searches.QueryContext(ctx, "SELECT "+groupColumns[q.By]+", what, CAST(sum(n) AS bigint) FROM history_hours"+c.where()+
		" GROUP BY 1, 2", c.args...)
	if err != nil {
		return nil, err
	}

	defer rows.Close()

	for rows.Next() {
		var name string
		var what int
		var n int64
		if err := rows.Scan(&name, &what, &n); err != nil {
			return nil, err
		}
		if err := add(name, what, n); err != nil {
			return nil, err
		}
	}

	return lines, rows.Err()
}

// Month returns the window of a month such as 2026-11 in a time zone.
func Month(text string, zone *time.Location) (since, until time.Time, err error) {
	since, err = time.ParseInLocation("2006-01", text, zone)
	if err != nil || since.Year() < 2000 {
		return since, until, errors.New("want a month such as 2026-11, or this")
	}

	return since, since.AddDate(0, 1, 0), nil
}
