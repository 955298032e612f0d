package ui

import (
	"net/http"
	"strings"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// pastList are the entries that a search found in the history.
type pastList struct {
	Rows  []pastRow
	Wrong string // why there is no answer
	Next  string // the address of what follows
	First string // the address without a cursor, on further pages
}

// pastRow is an entry of the history.
type pastRow struct {
	Path, Key, Host, Route string
	Outcome                notice.Ending
	At                     stamp
	Attempts               string
	Last                   string
}

// past searches the history for a page. Only a cursor that is not good is an error.
func (p *Pages) past(r *http.Request, page string, s search, v Visitor) (list pastList, err error) {
	q, wrong := p.pastQuery(s, v)
	if list.Wrong = wrong; wrong != "" {
		return list, nil
	}
	place := bound(page+" past", s, v)
	if q.Cursor, err = p.openedAs(r, "past", place); err != nil {
		return list, err
	}
	got, err := p.o.History.Find(r.Context(), q)
	if err != nil {
		list.Wrong = p.historyFailure(r.Context(), err).text
		return list, nil
	}
	for i := range got.Rows {
		x := &got.Rows[i]
		if f := remembered(x); v.Sees(&f, x.Host) {
			list.Rows = append(list.Rows, p.pastRow(x))
		}
	}

	next, err := p.seal(r, got.Cursor, place)
	if err != nil {
		return list, err
	}
	if q.Cursor != "" {
		list.First = onward(r, s, "past", "") + "#history"
	}
	if next != "" {
		list.Next = onward(r, s, "past", next) + "#history"
	}
	return list, nil
}

// pastQuery is the query of the history for a search; wrong describes a fault of the search.
func (p *Pages) pastQuery(s search, v Visitor) (q history.Query, wrong string) {
	q = history.Query{Client: v.Client, ID: s.ID, Prefix: v.Prefix, Reason: notice.Reason(s.Reason), Limit: searchPage}
	if q.Since, q.Until, q.Host, wrong = p.common(s, v); wrong != "" {
		return q, wrong
	}
	switch state := notice.State(s.State); state {
	case "":
	case notice.Scheduled, notice.Claimed:
		return q, "The history has finalized notices only: choose another state."
	default:
		q.Outcomes = []notice.Ending{notice.Ending(state)}
	}
	q.Part = s.Text // a whole key may be the beginning of others
	if s.Route != "" {
		p.withinRoute(&q, s.Route)
	}
	if q.Unindexed() && q.Since.IsZero() {
		return q, "The history needs a window for a part of a key: set From, or begin with app:module:type: and the beginning of the id."
	}
	return q, ""
}

// withinRoute limits a query to the notices of a route, which is given by its name or prefix.
func (p *Pages) withinRoute(q *history.Query, route string) {
	q.Route = route
	for _, rt := range p.o.Routes.All() {
		if rt.Name == route {
			q.Route = rt.Prefix
		}
	}
	if keys.HasPrefix(q.Route, q.Prefix) && strings.Count(q.Route, ":") < 3 {
		q.Prefix = q.Route // which has an index
	}
}

func (p *Pages) pastRow(x *history.Row) pastRow {
	row := pastRow{Path: entryPath(x), Key: x.Key, Host: x.Host, Route: p.routeName(x.Route), Outcome: x.Outcome, At: p.stamp(x.Ended),
		Attempts: number(x.AttemptsMade), Last: string(x.Reason)}
	if n := len(x.Attempts); n > 0 {
		row.Last = lastWord(x.Attempts[n-1])
	}
	if len(x.Damaged) > 0 {
		row.Last = "unreadable: " + strings.Join(x.Damaged, ", ")
	}
	return row
}
