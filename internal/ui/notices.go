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
	Rows    []noticeRow
	Wrong   string
	Asked   bool   // something was searched for
	Narrow  string // the host that all he sees goes to
	Counted bool   // Looked and Total may be told: no notice of others is among them
	Looked  int
	Total   int64
	Away    string // what the page is without
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

// showNotices serves the search.
func (p *Pages) showNotices(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s := searchOf(r.URL.Query())
	if full, changed := p.resolved(s, v); changed {
		return back(w, Root+"notices?"+full.values().Encode(), nil)
	}
	page := noticesPage{search: s, States: notice.States, Reasons: deathReasons, Asked: len(r.URL.Query()) > 0, Narrow: v.Host}
	for _, rt := range p.o.Routes.All() {
		if v.Meets(rt.Prefix) {
			page.Routes = append(page.Routes, rt.Name)
		}
	}
	if s.exact() && v.Covers(s.Text) {
		f, err := p.o.Engine.Find(r.Context(), s.Text)
		if err == nil && v.Sees(&f, p.hostOf(&f)) {
			return back(w, Root+"notices/"+s.Text, nil)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if rows, err := p.endings(r.Context(), s.Text, v); err != nil {
			return err
		} else if len(rows) > 0 {
			return back(w, Root+"notices/"+s.Text, nil)
		}
	}
	q, wrong, err := p.query(r.Context(), s, v)
	if err != nil {
		return err
	}
	if page.Wrong = wrong; wrong != "" {
		return p.render(w, r, http.StatusOK, view{Template: "notices", Title: "Notices", Visitor: v, Data: page})
	}
	place := bound("notices", s, v)
	if q.Cursor, err = p.opened(r, place); err != nil {
		return err
	}
	got, err := p.run(r.Context(), q, v, searchPage)
	if err != nil {
		return err
	}
	for i := range got.items {
		page.Rows = append(page.Rows, p.noticeRow(&got.items[i]))
	}
	if page.Counted = v.ownsAll(q.Routes); page.Counted {
		page.Looked, page.Total = got.looked, p.sampler.current(r.Context()).total(q)
	}
	page.Away = v.away(got.missing)
	page.Full = len(got.items) >= searchPage
	next, err := p.seal(r, got.cursor, place)
	if err != nil {
		return err
	}
	values := s.values()
	if q.Cursor != "" {
		page.First = Root + "notices?" + values.Encode()
	}
	if next != "" {
		values.Set("cursor", next)
		page.Next = Root + "notices?" + values.Encode()
	}
	return p.render(w, r, http.StatusOK, view{Template: "notices", Title: "Notices", Visitor: v, Data: page})
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
