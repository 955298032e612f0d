package ui

import (
	"net/http"
	"net/url"

	"notifier/internal/access"
	"notifier/internal/notice"
)

type historyPage struct {
	search
	Routes   []string
	Outcomes []notice.Ending
	Reasons  []choice
	Asked    bool
	Past     pastList
	// Replay is the address of the form of a replay with the same window; empty without the right to
	// replay.
	Replay string
}

// showHistory serves the search of the history.
func (p *Pages) showHistory(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.History == nil {
		return errNoHistory
	}

	s := searchOf(r.URL.Query())
	s.History = false // it is searched anyway
	if full, changed := p.resolved(s, v); changed {
		return back(w, Root+"history?"+full.values().Encode(), nil)
	}

	page := historyPage{search: s, Routes: p.routesMet(v), Outcomes: notice.Endings, Reasons: v.reasons(), Asked: len(r.URL.Query()) > 0}
	var err error
	if page.Past, err = p.past(r, "history", s, v); err != nil {
		return err
	}

	if v.May(access.Operate) && p.o.Replays != nil {
		page.Replay = replayForm(p, s)
	}

	return p.render(w, r, http.StatusOK, view{Title: say("History"), Visitor: v, Content: historyContent(page)})
}

// errNoHistory is the failure of pages that need a history.
var errNoHistory = failure{http.StatusNotFound, say("This instance has no history: `NOTIFIER_HISTORY_URL` is not set.")}

// replayForm returns the address of the form of a replay with the window of a search.
func replayForm(p *Pages, s search) string {
	values := url.Values{}
	prefix := ""
	for _, rt := range p.o.Routes.All() {
		if rt.Name == s.Route {
			prefix = rt.Prefix
		}
	}

	for name, value := range map[string]string{"since": s.Since, "until": s.Until, "host": s.Host, "prefix": prefix} {
		if value != "" {
			values.Set(name, value)
		}
	}

	if o := notice.Ending(s.State); o == notice.EndDead || o == notice.EndDelivered {
		values.Set("outcome", s.State)
	}

	return Root + "replays/new?" + values.Encode()
}
