package ui

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"notifier/internal/keyring"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/timespec"
	"notifier/internal/wire"
)

// A search reads in steps of a few milliseconds in Redis, until a page is full or its time is over. Its
// cursor continues it.
const (
	searchTime = 700 * time.Millisecond
	searchPage = 50
	stepItems  = 200 // the maximum of one step
	// mostByID is the maximum number of notices that a search for a webhook-id reads: Redis has no index
	// of webhook-ids.
	mostByID = 10_000
)

// search is the parameters of a search.
type search struct {
	Text  string // a key, its beginning, or without a colon a part of it
	ID    string // a webhook-id
	Route string
	State string
	Since string
	Until string
	Host  string
	// Reason is the reason of dead letters.
	Reason string
	// History reports whether the history is searched too.
	History bool
}

func searchOf(q url.Values) search {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	s := search{Text: get("q"), ID: get("id"), Route: get("route"), State: get("state"), Since: get("since"), Until: get("until"),
		Host: get("host"), Reason: get("reason"), History: get("history") != ""}
	if s.ID == "" && notice.IsID(s.Text) {
		s.ID, s.Text = s.Text, ""
	}

	return s
}

// values returns the query of the search, without empty parameters.
func (s search) values() url.Values {
	v := url.Values{}
	asked := ""
	if s.History {
		asked = "1"
	}

	for _, p := range [][2]string{{"q", s.Text}, {"id", s.ID}, {"route", s.Route}, {"state", s.State}, {"since", s.Since},
		{"until", s.Until}, {"host", s.Host}, {"reason", s.Reason}, {"history", asked}} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}

	return v
}

// instant reads a time: now, a duration before or after now, or a time in the visitor's zone as package
// timespec reads it.
func (p *Pages) instant(s string, v Visitor, side timespec.Side) (time.Time, error) {
	switch {
	case s == "":
		return time.Time{}, nil
	case s == "now":
		return p.now(), nil
	case relative(s):
		d, err := notice.ParseDuration(s[1:])
		if s[0] == '-' {
			d = -d
		}

		return p.now().Add(d), err
	}
	return timespec.Parse(s, p.now().In(v.zone()), side)
}

// relative reports whether a time is relative to now.
func relative(s string) bool {
	return s == "now" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+")
}

// resolved returns the search with its times in full, so that its address is the same search for all
// visitors; false if nothing changed or a time is invalid.
func (p *Pages) resolved(s search, v Visitor) (search, bool) {
	changed := false
	for _, text := range []*string{&s.Since, &s.Until} {
		if *text == "" || relative(*text) {
			continue
		}

		at, err := p.instant(*text, v, timespec.Last)
		if err != nil {
			return s, false
		}

		if full := at.Format(time.RFC3339Nano); full != *text {
			*text, changed = full, true
		}
	}

	return s, changed
}

// query returns the query of the store for a search. The text describes a fault of the search. Without a
// fault, a query without routes matches nothing.
func (p *Pages) query(ctx context.Context, s search, v Visitor) (store.Query, text, error) {
	q := store.Query{Prefix: v.Prefix, State: notice.State(s.State), Reason: notice.Reason(s.Reason)}
	if s.State != "" && !slices.Contains(notice.States, q.State) {
		return q, say("There is no such state."), nil
	}

	if s.Reason != "" {
		if !slices.Contains(notice.Reasons, q.Reason) {
			return q, say("There is no such reason."), nil
		}

		q.State = cmp.Or(q.State, notice.Dead)
		if q.State != notice.Dead {
			return q, say("Only dead letters have a reason: choose the state “dead”."), nil
		}
	}

	var wrong text
	if q.Since, q.Until, q.Host, wrong = p.common(s, v); wrong != nil {
		return q, wrong, nil
	}

	if strings.Contains(s.Text, ":") {
		q.Begins = s.Text
	} else {
		q.Contains = s.Text
	}

	if s.ID != "" && s.Route == "" && q.Begins == "" {
		return q, say("Redis has no index of webhook-ids: choose a route, or add the beginning of the key."), nil
	}

	var err error
	q.Routes, err = p.chosen(ctx, s, q, v)
	for _, prefix := range q.Routes {
		if rt := p.o.Routes.Prefix(prefix); rt != nil && rt.Target.URL != nil && q.Host != "" && p.fixedHost(prefix) == q.Host {
			q.Host = "" // all notices of that route have this host, and none has a url
		}
	}

	return q, nil, err
}

// common reads the parts of a search that Redis and the history share; wrong describes a fault.
func (p *Pages) common(s search, v Visitor) (since, until time.Time, host string, wrong text) {
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{s.Since, &since}, {s.Until, &until}} {
		at, err := p.instant(t.text, v, timespec.Last)
		if err != nil {
			return since, until, "", timeFault(err)
		}

		*t.to = at
	}

	if host = cmp.Or(v.Host, s.Host); host != "" {
		name, err := notice.Host(host)
		if err != nil {
			return since, until, "", say("Not a host: use a name such as shop.example.")
		}

		host = name
	}

	switch {
	case strings.Trim(s.Text, keyCharacters) != "":
		wrong = say("Not a key: a key has four parts of letters, digits, _ . ~ and -, separated by colons.")
	case s.ID != "" && !notice.IsID(s.ID):
		wrong = say("Not a webhook-id: use msg_ and 26 hexadecimal digits.")
	}

	return since, until, host, wrong
}

const keyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~-:"

// chosen returns the prefixes with possible matches.
func (p *Pages) chosen(ctx context.Context, s search, q store.Query, v Visitor) ([]string, error) {
	var all []string
	for _, rt := range p.o.Routes.All() {
		all = append(all, rt.Prefix)
	}

	unrouted, err := p.o.Engine.Unrouted(ctx)
	if err != nil {
		return nil, err
	}

	var out []string
	for _, prefix := range append(all, unrouted...) {
		name := p.routeName(prefix)
		switch {
		case !v.Meets(prefix), s.Route != "" && s.Route != name && s.Route != prefix:
		case q.Begins != "" && !strings.HasPrefix(prefix+":", q.Begins) && !strings.HasPrefix(q.Begins, prefix+":"):
		case q.Host != "" && !p.mayCall(prefix, q.Host):
		default:
			out = append(out, prefix)
		}
	}

	return out, nil
}

// mayCall reports whether notices under a prefix may have a host.
func (p *Pages) mayCall(prefix, host string) bool {
	rt := p.o.Routes.Prefix(prefix)
	if rt == nil {
		return true
	}

	fixed := p.fixedHost(prefix)
	return fixed == host || fixed == "" && rt.Target.Kind == "notice"
}

// fixedHost returns the host of a route with a fixed target.
func (p *Pages) fixedHost(prefix string) string {
	rt := p.o.Routes.Prefix(prefix)
	if rt == nil || rt.Target.URL == nil {
		return ""
	}

	host, err := notice.Host(rt.Target.URL.Hostname())
	if err != nil {
		return ""
	}

	return host
}

// hostOf returns the host of a notice; empty without one.
func (p *Pages) hostOf(f *store.Found) string {
	if f.URL != "" {
		if u, err := url.Parse(f.URL); err == nil {
			if host, err := notice.Host(u.Hostname()); err == nil {
				return host
			}
		}
		return ""
	}
	return p.fixedHost(f.Route)
}

// found is the result of a search.
type found struct {
	items  []store.Found
	looked int
	last   string // the last visible key
	cursor string // empty at the end
	// missing are the skipped nodes.
	missing []wire.Lost
}

// run searches from a cursor until want notices are found or the time is over. With an id it finds the
// notice with that webhook-id, and reads at most mostByID notices.
func (p *Pages) run(ctx context.Context, q store.Query, v Visitor, want int, id string) (found, error) {
	var out found
	host := q.Host
	end := time.Now().Add(searchTime)
	for len(q.Routes) > 0 {
		q.Limit = min(stepItems, want-len(out.items))
		if id != "" {
			q.Limit = min(stepItems, mostByID-out.looked)
		}

		page, err := p.o.Engine.List(ctx, q)
		if err != nil {
			return out, err
		}

		out.looked += page.Looked
		out.missing = wire.Together(out.missing, page.Missing)
		p.pick(&out, page.Items, v, host, id)
		if id != "" && len(out.items) > 0 {
			out.cursor = ""
			return out, nil // at most one notice matches
		}

		q.Cursor, out.cursor = page.Cursor, page.Cursor
		if page.Cursor == "" || len(out.items) >= want || time.Now().After(end) || id != "" && out.looked >= mostByID {
			break
		}
	}

	return out, nil
}

// pick adds the matching notices of a step.
func (p *Pages) pick(out *found, items []store.Found, v Visitor, host, id string) {
	for _, f := range items {
		to := p.hostOf(&f)
		if !v.Sees(&f, to) || host != "" && to != host {
			continue
		}

		if out.last = f.Key; id == "" || f.ID() == id {
			out.items = append(out.items, f)
		}
	}
}

// bound returns the context to which a cursor is sealed. A cursor names keys that the visitor may not see,
// so it is valid for one scope and search only.
func bound(page string, s search, v Visitor) []byte {
	return []byte(page + "\n" + v.scope() + "\n" + s.values().Encode())
}

func (p *Pages) seal(r *http.Request, cursor string, bound []byte) (string, error) {
	return p.o.Keys.Seal(r.Context(), keyring.Cursors, cursor, bound)
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
	cursor, err := p.o.Keys.Open(r.Context(), keyring.Cursors, text, bound)
	if err != nil {
		return "", failure{http.StatusBadRequest, say("This link continues a search of another visitor or service. Start the search again.")}
	}

	return cursor, nil
}

// exact reports whether a search is for one key.
func (s search) exact() bool { return keys.Valid(s.Text) }
