package ui

import (
	"net/http"
	"strings"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// pastList are the entries of a search in the history.
type pastList struct {
	Rows  []pastRow
	Wrong text   // why there is no answer
	Next  string // the address of the next page
	First string // the address without a cursor, on further pages
}

// pastRow is an entry of the history.
type pastRow struct {
	Path, Key, Host, Route string
	Outcome                notice.Ending
	At                     stamp
	Attempts               string
	Last                   text
}

// past searches the history. Only an invalid cursor is an error.
func (p *Pages) past(r *http.Request, page string, s search, v Visitor) (list pastList, err error) {
	q, wrong := p.pastQuery(s, v)
	if list.Wrong = wrong; wrong != nil {
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
			list.Rows = append(list.Rows, p.pastRow(x, v))
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

// pastQuery returns the query of the history for a search; wrong describes a fault of the search.
func (p *Pages) pastQuery(s search, v Visitor) (q history.Query, wrong text) {
	q = history.Query{Client: v.Client, ID: s.ID, Prefix: v.Prefix, Reason: notice.Reason(s.Reason), Limit: searchPage}
	if q.Since, q.Until, q.Host, wrong = p.common(s, v); wrong != nil {
		return q, wrong
	}

	switch state := notice.State(s.State); state {
	case "":
	case notice.Scheduled, notice.Claimed:
		return q, say("The history has finalized notices only: choose another state.")
	default:
		q.Outcomes = []notice.Ending{notice.Ending(state)}
	}

	q.Part = s.Text // a whole key may be the beginning of others
	if s.Route != "" {
		p.withinRoute(&q, s.Route)
	}

	if q.Unindexed() && q.Since.IsZero() {
		return q, say("For a part of a key, set a start time, or write the key from its beginning up to a part of the id.")
	}

	return q, nil
}

// withinRoute limits a query to the notices of a route, given by name or prefix.
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

func (p *Pages) pastRow(x *history.Row, v Visitor) pastRow {
	row := pastRow{Path: entryPath(x), Key: x.Key, Host: x.Host, Route: p.routeFor(x.Route, v), Outcome: x.Outcome, At: p.stamp(x.Ended),
		Attempts: number(x.AttemptsMade)}
	if x.Reason != "" {
		row.Last = v.reason(x.Reason)
	}

	if n := len(x.Attempts); n > 0 {
		row.Last = v.result(x.Attempts[n-1])
	}

	if len(x.Damaged) > 0 {
		row.Last = say("unreadable: %s", x.Damaged)
	}

	return row
}
