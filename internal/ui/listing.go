package ui

import (
	"context"
	"net/http"
	"slices"
	"time"

	"notifier/internal/notice"
	"notifier/internal/search"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// searchTime is the time in which a page reads notices one by one.
const searchTime = 700 * time.Millisecond

// filter selects the notices of a page that is no search. Empty fields select all.
type filter struct {
	Route        string // a name or a prefix
	State        notice.State
	Reason       notice.Reason // of dead letters
	Host         string
	Since, Until string // times as they were typed
}

// searches returns the scope of the visitor's searches.
func (v Visitor) searches() search.Scope {
	return search.Scope{Caller: v.caller(), Host: v.Host, Audience: v.Audience}
}

// query returns the query of the store for a filter. The text describes a fault of the filter. Without a fault, a query
// without routes matches nothing.
func (p *Pages) query(ctx context.Context, f filter, v Visitor) (store.Query, text, error) {
	q, wrong := p.searchFor(f, v)
	if wrong != nil {
		return store.Query{}, wrong, nil
	}

	sq, err := p.searcher.Select(ctx, q, v.searches())
	return sq, nil, err
}

// searchFor returns the search for a filter; wrong describes a fault of the filter.
func (p *Pages) searchFor(f filter, v Visitor) (q search.Query, wrong text) {
	q = search.Query{Route: f.Route, State: string(f.State), Reason: f.Reason}
	var err error
	if q.Host, err = notice.Host(f.Host); err != nil && f.Host != "" {
		return q, say("Not a host: use a name such as shop.example.")
	}
	if f.Reason != "" && !slices.Contains(notice.Reasons, f.Reason) {
		return q, say("There is no such reason.")
	}
	if q.Since, err = p.instant(f.Since, v, notice.TakeLast); err != nil {
		return q, timeFault(err)
	}
	if q.Until, err = p.instant(f.Until, v, notice.TakeLast); err != nil {
		return q, timeFault(err)
	}

	return q, nil
}

// instant reads a time in the visitor's zone. An empty text is the zero time.
func (p *Pages) instant(s string, v Visitor, side notice.TimeSide) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return notice.ParseInstant(s, p.now().In(v.zone()), side)
}

// hostOf returns the host of a notice; empty without one.
func (p *Pages) hostOf(f *store.Found) string { return p.searcher.HostOf(f.Notice) }

// bound returns the context to which a cursor is sealed. A cursor names keys that the visitor may not see, so it is valid
// for one scope and search only.
func bound(page, search string, v Visitor) []byte {
	return []byte(page + "\n" + v.scope() + "\n" + search)
}

func (p *Pages) seal(r *http.Request, cursor string, bound []byte) (string, error) {
	return p.o.Keys.Seal(r.Context(), wire.ForCursors, cursor, bound)
}

// opened returns the cursor of a request.
func (p *Pages) opened(r *http.Request, bound []byte) (string, error) {
	return p.openedAs(r, "cursor", bound)
}

// openedAs returns the cursor of a request in a parameter.
func (p *Pages) openedAs(r *http.Request, name string, bound []byte) (string, error) {
	return p.unseal(r, r.URL.Query().Get(name), bound)
}

func (p *Pages) unseal(r *http.Request, text string, bound []byte) (string, error) {
	cursor, err := p.o.Keys.Open(r.Context(), wire.ForCursors, text, bound)
	if err != nil {
		return "", failure{http.StatusBadRequest, say("This link continues a search of another visitor or service. Start the search again.")}
	}

	return cursor, nil
}
