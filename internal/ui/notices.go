package ui

import (
	"errors"
	"net/http"

	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/store"
)

type noticesPage struct {
	search
	Routes  []string
	States  []notice.State
	Reasons []choice
	Asked   bool   // the form was sent
	Narrow  string // the only host within the scope
	Live    liveList
	// Archive reports whether there is a history. Past are its entries if it was searched; Ask is the
	// address of the same search with the history.
	Archive bool
	Past    pastList
	Ask     string
}

// liveList are the notices of a search in Redis.
type liveList struct {
	Rows    []noticeRow
	Wrong   text // why nothing was searched
	Counted bool // Looked and Total may be shown: no notice of others is among them
	Looked  int
	Total   int64
	Stopped string // the key at which a search for a webhook-id stopped
	Away    text   // the unavailable part of Redis
	Next    string // the address of the next page
	Full    bool   // Next is another page, not the rest of a search
	First   string // the address without a cursor, on further pages
}

// noticeRow is a notice in a list.
type noticeRow struct {
	Key, Route, Host string
	State            notice.State
	When             stamp
	Event            text // the meaning of When
	Attempts         string
	Last             text
}

// showNotices serves the search with a list of Redis and a list of the history, each with its own cursor
// and error.
func (p *Pages) showNotices(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s := searchOf(r.URL.Query())
	if full, changed := p.resolved(s, v); changed {
		return back(w, Root+"notices?"+full.values().Encode(), nil)
	}

	if s.exact() && v.Covers(s.Text) {
		to, err := p.exactly(r, s, v)
		switch {
		case to != "":
			return back(w, to, nil)
		case err != nil && !s.History:
			return err
		}
	}

	page := noticesPage{search: s, Routes: p.routesMet(v), States: notice.States, Reasons: v.reasons(), Asked: len(r.URL.Query()) > 0,
		Narrow: v.Host, Archive: p.o.History != nil}
	var err error
	if page.Live, err = p.live(r, s, v); err != nil {
		var bad failure
		if !s.History || errors.As(err, &bad) {
			return err
		}

		page.Live.Wrong = p.failure(r.Context(), err).text
	}

	ask := s
	ask.History = true
	page.Ask = Root + "notices?" + ask.values().Encode() + "#history"
	if page.Archive && s.History {
		if page.Past, err = p.past(r, "notices", s, v); err != nil {
			return err
		}
		page.Archive = page.Live.Wrong == nil || page.Past.Wrong.String() != page.Live.Wrong.String() // one message for the same fault
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Notices"), Visitor: v, Content: noticesContent(page)})
}

// routesMet returns the routes with notices that the visitor may see, for a search.
func (p *Pages) routesMet(v Visitor) (names []string) {
	for _, rt := range p.o.Routes.All() {
		if v.Meets(rt.Prefix) {
			names = append(names, p.routeFor(rt.Prefix, v))
		}
	}
	return names
}

// exactly returns the address of the notice with a whole key; empty if there is none.
func (p *Pages) exactly(r *http.Request, s search, v Visitor) (string, error) {
	f, err := p.o.Engine.Find(r.Context(), s.Text)
	if err == nil && v.Sees(&f, p.hostOf(&f)) && (s.ID == "" || f.ID() == s.ID) {
		return Root + "notices/" + s.Text, nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}

	rows, err := p.endings(r.Context(), s.Text, s.ID, v)
	switch {
	case len(rows) == 0:
		return "", err
	case s.ID != "":
		return entryPath(&rows[0]), nil
	}

	return Root + "notices/" + s.Text, nil
}

// live searches Redis.
func (p *Pages) live(r *http.Request, s search, v Visitor) (list liveList, err error) {
	q, wrong, err := p.query(r.Context(), s, v)
	if list.Wrong = wrong; err != nil || wrong != nil {
		return list, err
	}

	place := bound("notices", s, v)
	if q.Cursor, err = p.opened(r, place); err != nil {
		return list, err
	}

	got, err := p.run(r.Context(), q, v, searchPage, s.ID)
	if err != nil {
		return list, err
	}

	for i := range got.items {
		list.Rows = append(list.Rows, p.noticeRow(&got.items[i], v))
	}

	if list.Counted = v.ownsAll(q.Routes); list.Counted {
		list.Looked, list.Total = got.looked, p.sampler.Current(r.Context()).Total(q)
	}

	list.Away = v.away(got.missing)
	list.Full = len(got.items) >= searchPage
	if s.ID != "" && got.cursor != "" {
		list.Stopped = got.last
	}

	next, err := p.seal(r, got.cursor, place)
	if err != nil {
		return list, err
	}

	if q.Cursor != "" {
		list.First = onward(r, s, "cursor", "")
	}

	if next != "" {
		list.Next = onward(r, s, "cursor", next)
	}

	return list, nil
}

// cursors are the parameters of the two lists of a search.
var cursors = []string{"cursor", "past"}

// onward returns the address of a search with another cursor of one list. The other list keeps its cursor.
func onward(r *http.Request, s search, name, cursor string) string {
	values := s.values()
	for _, c := range cursors {
		if text := r.URL.Query().Get(c); text != "" && c != name {
			values.Set(c, text)
		}
	}

	if cursor != "" {
		values.Set(name, cursor)
	}

	return r.URL.Path + "?" + values.Encode()
}

func (p *Pages) noticeRow(f *store.Found, v Visitor) noticeRow {
	row := noticeRow{Key: f.Key, Route: p.routeFor(f.Route, v), Host: p.hostOf(f), State: f.State, Attempts: number(f.AttemptsMade)}
	row.When, row.Event = p.stamp(f.Due), say("due")
	switch {
	case !f.SettledAt.IsZero():
		row.When, row.Event = p.stamp(f.SettledAt), say("ended")
	case f.State == notice.Claimed:
		row.Event = say("due")
	case f.Due.Before(p.now().Add(-problems.LateFrom)):
		row.Event = say("overdue since")
	}

	if n := len(f.Attempts); n > 0 {
		row.Last = v.result(f.Attempts[n-1])
	}

	if f.State == notice.Dead && f.Reason != "" && lastReason(f) != f.Reason {
		row.Last = v.reason(f.Reason)
	}

	return row
}

// lastReason returns why the last attempt failed.
func lastReason(f *store.Found) notice.Reason {
	if n := len(f.Attempts); n > 0 {
		return f.Attempts[n-1].Reason
	}
	return ""
}
