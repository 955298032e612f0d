package ui

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

type noticesPage struct {
	search
	Routes  []string
	States  []notice.State
	Reasons []notice.Reason
	Asked   bool   // something was searched for
	Narrow  string // the host that all he sees goes to
	Live    liveList
	// Archive: there is a history. Past are its entries, if it was searched; Ask is the address of
	// the same search with the history.
	Archive bool
	Past    pastList
	Ask     string
}

// liveList are the notices that a search found in Redis.
type liveList struct {
	Rows    []noticeRow
	Wrong   string // why nothing was searched
	Counted bool   // Looked and Total may be shown: no notice of others is among them
	Looked  int
	Total   int64
	Stopped string // the key at which a search for a webhook-id stopped
	Away    string // what the list is without
	Next    string // the address of what follows
	Full    bool   // what follows is another page, not the rest of a search
	First   string // the address without a cursor, on further pages
}

// noticeRow is a notice in a list.
type noticeRow struct {
	Key, Route, Host string
	State            notice.State
	When             stamp
	Event            string // what is or was at When
	Attempts         string
	Last             string
}

// showNotices serves the search: one list of what Redis has, and one of what the history has, each
// with its cursor and its error.
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

	page := noticesPage{search: s, Routes: p.routesMet(v), States: notice.States, Reasons: deathReasons, Asked: len(r.URL.Query()) > 0, Narrow: v.Host,
		Archive: p.o.History != nil}
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
		page.Archive = page.Live.Wrong == "" || page.Past.Wrong != page.Live.Wrong // one message for the same fault
	}
	return p.render(w, r, http.StatusOK, view{Template: "notices", Title: "Notices", Visitor: v, Data: page})
}

// routesMet are the names of the routes that carry notices which the visitor may see.
func (p *Pages) routesMet(v Visitor) (names []string) {
	for _, rt := range p.o.Routes.All() {
		if v.Meets(rt.Prefix) {
			names = append(names, rt.Name)
		}
	}
	return names
}

// exactly is the address of the notice that a search names by its whole key; empty if there is none.
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
	if list.Wrong = wrong; err != nil || wrong != "" {
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
		list.Rows = append(list.Rows, p.noticeRow(&got.items[i]))
	}
	if list.Counted = v.ownsAll(q.Routes); list.Counted {
		list.Looked, list.Total = got.looked, p.sampler.current(r.Context()).total(q)
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

// onward is the address of a search with another cursor of one of its lists. The other list stays
// where it is.
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

// deathReasons are those that a notice can die of.
var deathReasons = func() []notice.Reason {
	var out []notice.Reason
	for _, r := range notice.Reasons {
		switch r {
		case notice.ReasonLocked, notice.ReasonBusy, notice.ReasonRate, notice.ReasonBreaker, notice.ReasonHeaders, notice.ReasonShutdown, notice.ReasonLease:
		default:
			out = append(out, r)
		}
	}
	return out
}()

func (p *Pages) noticeRow(f *store.Found) noticeRow {
	row := noticeRow{Key: f.Key, Route: p.routeName(f.Route), Host: p.hostOf(f), State: f.State, Attempts: number(f.AttemptsMade)}
	row.When, row.Event = p.stamp(f.Due), "due"
	switch {
	case !f.SettledAt.IsZero():
		row.When, row.Event = p.stamp(f.SettledAt), map[notice.State]string{notice.Delivered: "delivered", notice.Cancelled: "cancelled", notice.Dead: "died"}[f.State]
	case f.State == notice.Claimed:
		row.Event = "in flight, was due"
	case f.Due.Before(p.now().Add(-lateFrom)):
		row.Event = "was due"
	}
	if n := len(f.Attempts); n > 0 {
		row.Last = lastWord(f.Attempts[n-1])
	}
	if f.State == notice.Dead {
		row.Last = cmp.Or(string(f.Reason), row.Last)
	}
	return row
}

// lastWord is the result of an attempt, in a few words: "timed out after 5s", "500 status_5xx in 12ms".
func lastWord(a notice.Attempt) string {
	took := rough(a.Duration.Round(100 * time.Microsecond))
	if a.Reason == notice.ReasonTimeout && a.Status == 0 && a.Duration > 0 {
		return "timed out after " + took
	}
	var words []string
	if a.Status > 0 {
		words = append(words, number(a.Status))
	}
	words = append(words, cmp.Or(string(a.Reason), "delivered"))
	if a.Duration > 0 {
		words = append(words, "in "+took)
	}
	return strings.Join(words, " ")
}
