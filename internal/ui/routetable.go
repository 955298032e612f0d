package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
)

// sorting is how the rows of a table are sorted. The heads of its columns are links, so that sorting needs no script.
type sorting struct {
	Path    string
	By      string // a column; empty = the order of the page
	Reverse bool
}

func sortingOf(path string, q url.Values) sorting {
	by, reverse := strings.CutPrefix(q.Get("sort"), "-")
	return sorting{path, by, reverse}
}

// query returns the query of the page, with its question mark.
func (s sorting) query() string {
	switch {
	case s.By == "":
		return ""
	case s.Reverse:
		return "?" + url.Values{"sort": {"-" + s.By}}.Encode()
	}
	return "?" + url.Values{"sort": {s.By}}.Encode()
}

// link returns the address of the page sorted by a column, and the other way round if it is.
func (s sorting) link(column string) string {
	to := sorting{s.Path, column, s.By == column && !s.Reverse}
	return to.Path + to.query() + "#routes"
}

// aria returns the value of aria-sort of a column. Numbers begin with the greatest, texts with the first.
func (s sorting) aria(c tableColumn) string {
	switch {
	case s.By != c.Name:
		return ""
	case s.Reverse == c.Number:
		return "ascending"
	}
	return "descending"
}

// tableColumn is a sortable column.
type tableColumn struct {
	Name   string
	Title  text
	Number bool
}

// routeColumns are the columns of the routes on the first page.
var routeColumns = []tableColumn{{"route", say("Route"), false}, {"pending", say("Pending"), true}, {"due", say("Next due"), false},
	{"overdue", say("Overdue"), true}, {"deferred", say("Deferred"), true}, {"flight", say("In flight"), true}, {"dead", say("Dead"), true},
	{"p50", say("Lateness p50"), true}, {"p99", say("Lateness p99"), true}, {"rate", say("Attempt rate"), true}}

// configColumns are the columns of the page of routes.
var configColumns = []tableColumn{{"route", say("Route"), false}, {"prefix", say("Prefix"), false}, {"target", say("Target"), false},
	{"ladder", say("Ladder"), true}, {"timeout", say("Timeout"), true}, {"concurrency", say("Concurrency"), true},
	{"host", say("Concurrency per host"), true}, {"limit", say("Rate limit"), true}, {"flight", say("In flight"), true},
	{"rate", say("Attempt rate"), true}}

// sorted sorts rows by the value of the column for each, and then by name.
func sorted[T any](rows []T, s sorting, value func(T, string) (number float64, text string), name func(T) string) {
	slices.SortStableFunc(rows, func(a, b T) int {
		n, t := value(a, s.By)
		m, u := value(b, s.By)
		order := cmp.Or(cmp.Compare(m, n), cmp.Compare(t, u))
		if s.Reverse {
			order = -order
		}

		return cmp.Or(order, cmp.Compare(name(a), name(b)))
	})
}

// arrange makes a table of the routes if they are more than mostCards: those with problems, and the others, which are folded.
func (d *nowPage) arrange(s sorting) {
	if d.Sorting = s; len(d.Cards) <= mostCards {
		return
	}

	d.Many = true
	rows := slices.Clone(d.Cards)
	slices.SortStableFunc(rows, func(a, b card) int {
		return cmp.Or(rank(b.Level)-rank(a.Level), cmp.Compare(b.Overdue, a.Overdue), cmp.Compare(b.Dead, a.Dead))
	})
	if s.By != "" {
		sorted(rows, s, card.sortValue, func(c card) string { return c.Name })
	}

	for _, c := range rows {
		if c.Level == fine && c.Dead == 0 && c.Overdue == 0 && !c.Fails {
			d.Healthy = append(d.Healthy, c)
		} else {
			d.Troubled = append(d.Troubled, c)
		}
	}
}

// sortValue returns the value of a column: a number, or a text.
func (c card) sortValue(column string) (number float64, text string) {
	switch column {
	case "pending":
		return float64(c.Pending), ""
	case "due":
		return 0, cmp.Or(c.NextDue.Stamp, "~") // routes without one are last
	case "overdue":
		return float64(c.Overdue), ""
	case "deferred":
		return float64(c.Waiting), ""
	case "flight":
		return float64(c.InFlight), ""
	case "dead":
		return float64(c.Dead), ""
	case "p50":
		return c.Late[0].Seconds(), ""
	case "p99":
		return c.Late[1].Seconds(), ""
	case "rate":
		return float64(c.Rate), ""
	}
	return 0, c.Name
}

// routesPage is the page of routes: sections, or a table if they are many, and then the section of the route that was chosen.
type routesPage struct {
	Rows     []routeRow
	Table    []routeRow
	Sorting  sorting
	Recorded []recordedRow
}

// arrange makes a table of the routes if they are more than mostCards.
func (d *routesPage) arrange(q url.Values) {
	if d.Sorting = sortingOf(Root+"routes", q); len(d.Rows) <= mostCards {
		return
	}

	d.Table = slices.Clone(d.Rows)
	if d.Sorting.By != "" {
		sorted(d.Table, d.Sorting, routeRow.sortValue, func(r routeRow) string { return r.Name })
	}

	d.Rows = slices.DeleteFunc(d.Rows, func(r routeRow) bool { return r.Name != q.Get("route") })
}

// path returns the address of the page with the section of a route.
func (d *routesPage) path(route string) string {
	q := url.Values{"route": {route}}
	if s := d.Sorting; s.By != "" {
		q.Set("sort", map[bool]string{true: "-"}[s.Reverse]+s.By)
	}

	return Root + "routes?" + q.Encode() + "#" + url.PathEscape("r-"+route)
}

// sortValue returns the value of a column: a number, or a text. No limit is above all limits.
func (r routeRow) sortValue(column string) (number float64, text string) {
	limit := func(n float64) float64 {
		if n == 0 {
			return 1e18
		}
		return n
	}
	switch column {
	case "prefix":
		return 0, r.Prefix
	case "target":
		return 0, english.plain(r.Target)
	case "ladder":
		return r.Span.Seconds(), ""
	case "timeout":
		return r.Timeout.Seconds(), ""
	case "concurrency":
		return limit(float64(r.Slots)), ""
	case "host":
		return limit(float64(r.HostSlots)), ""
	case "limit":
		return limit(r.PerSecond), ""
	case "flight":
		return float64(r.InFlight), ""
	case "rate":
		return float64(r.Now), ""
	}

	return 0, r.Name
}

// lateness is the p50 and p99 of the lateness of a route.
type lateness [2]time.Duration
