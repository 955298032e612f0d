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

// A search reads in bounded steps, none of which takes Redis more than a few
// milliseconds, until it has a page full or its time is over. Then it says how far
// it came and where it goes on.
const (
	searchTime = 700 * time.Millisecond
	searchPage = 50
	stepItems  = 200 // notices a step brings at most
	// mostByID is how many notices one search for a webhook-id, which no index of Redis has, reads.
	mostByID = 10_000
)

// search is what is asked for, as it stands in the address.
type search struct {
	Text  string // a key, what it begins with, or without a colon a part of one
	ID    string // a webhook-id
	Route string
	State string
	Since string
	Until string
	Host  string
	// Reason is of dead letters.
	Reason string
	// History: the history is searched too.
	History bool
}

func searchOf(q url.Values) search {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	s := search{Text: get("q"), ID: get("id"), Route: get("route"), State: get("state"), Since: get("since"), Until: get("until"), Host: get("host"),
		Reason: get("reason"), History: get("history") != ""}
	if s.ID == "" && notice.IsID(s.Text) {
		s.ID, s.Text = s.Text, ""
	}
	return s
}

// values are its address; what is empty is left out.
func (s search) values() url.Values {
	v := url.Values{}
	asked := ""
	if s.History {
		asked = "1"
	}
	for _, p := range [][2]string{{"q", s.Text}, {"id", s.ID}, {"route", s.Route}, {"state", s.State}, {"since", s.Since}, {"until", s.Until}, {"host", s.Host},
		{"reason", s.Reason}, {"history", asked}} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}
	return v
}

// instant reads a time of a search or a form: now, so long before or after now, or what package
// timespec reads in the visitor's zone.
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

// relative reports whether a time is told from now on.
func relative(s string) bool {
	return s == "now" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+")
}

// resolved is the search with its times in full, so that its address stays the same search for
// everybody; false if it is so already, or a time cannot be read.
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

// query makes of a search what the store is asked for. The text says what is wrong
// with it; none means that nothing can fit if the query has no routes.
func (p *Pages) query(ctx context.Context, s search, v Visitor) (store.Query, string, error) {
	q := store.Query{Prefix: v.Prefix, State: notice.State(s.State), Reason: notice.Reason(s.Reason)}
	if s.State != "" && !slices.Contains(notice.States, q.State) {
		return q, "There is no such state.", nil
	}
	if s.Reason != "" {
		if !slices.Contains(notice.Reasons, q.Reason) {
			return q, "There is no such reason.", nil
		}
		q.State = cmp.Or(q.State, notice.Dead)
		if q.State != notice.Dead {
			return q, "Only dead letters have a reason; choose the state dead.", nil
		}
	}
	wrong := ""
	if q.Since, q.Until, q.Host, wrong = p.common(s, v); wrong != "" {
		return q, wrong, nil
	}
	if strings.Contains(s.Text, ":") {
		q.Begins = s.Text
	} else {
		q.Contains = s.Text
	}
	if s.ID != "" && s.Route == "" && q.Begins == "" {
		return q, "Redis has no index of webhook-ids: choose a route or add the beginning of the key.", nil
	}
	var err error
	q.Routes, err = p.chosen(ctx, s, q, v)
	for _, prefix := range q.Routes {
		if rt := p.o.Routes.Prefix(prefix); rt != nil && rt.Target.URL != nil && q.Host != "" && p.fixedHost(prefix) == q.Host {
			q.Host = "" // all notices of that route go there, and none says so
		}
	}
	return q, "", err
}

// common reads the parts of a search that mean the same for Redis and the history; wrong says what
// is wrong with them.
func (p *Pages) common(s search, v Visitor) (since, until time.Time, host, wrong string) {
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{s.Since, &since}, {s.Until, &until}} {
		at, err := p.instant(t.text, v, timespec.Last)
		if err != nil {
			return since, until, "", "A time is not understood: " + err.Error() + "; or now, -1h, +15m."
		}
		*t.to = at
	}
	if host = cmp.Or(v.Host, s.Host); host != "" {
		name, err := notice.Host(host)
		if err != nil {
			return since, until, "", "That is no host; want its name alone, such as shop.example."
		}
		host = name
	}
	switch {
	case strings.Trim(s.Text, keyCharacters) != "":
		wrong = "No key holds such a character: keys are letters, digits, '_', '.', '~' and '-', in four parts with ':' between them."
	case s.ID != "" && !notice.IsID(s.ID):
		wrong = "That is no webhook-id: want msg_ and 26 hexadecimal digits."
	}
	return since, until, host, wrong
}

const keyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~-:"

// chosen are the prefixes in which something may fit.
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

// mayCall reports whether notices under a prefix may go to a host.
func (p *Pages) mayCall(prefix, host string) bool {
	rt := p.o.Routes.Prefix(prefix)
	if rt == nil {
		return true
	}
	fixed := p.fixedHost(prefix)
	return fixed == host || fixed == "" && rt.Target.Kind == "notice"
}

// fixedHost is the host of a route whose target is one address.
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

// hostOf is the host that a notice goes to; empty if it goes to none.
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

// found is what a search came to.
type found struct {
	items  []store.Found
	looked int
	last   string // the key of the last of them that the visitor may see
	cursor string // empty = all was looked at
	// missing are the nodes that were passed over.
	missing []wire.Lost
}

// run searches from a cursor on until want are found, or its time is over. If id is not empty,
// only notices of that webhook-id are found, and mostByID are read.
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
			return out, nil // there is one at most
		}
		q.Cursor, out.cursor = page.Cursor, page.Cursor
		if page.Cursor == "" || len(out.items) >= want || time.Now().After(end) || id != "" && out.looked >= mostByID {
			break
		}
	}
	return out, nil
}

// pick adds the notices of a step that match.
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

// total is about how many notices a search has to look at, from the figures.
func (b *board) total(q store.Query) int64 {
	n := int64(0)
	for _, c := range b.Counts {
		if !slices.Contains(q.Routes, c.Prefix) {
			continue
		}
		switch q.State {
		case notice.Scheduled, notice.Claimed:
			n += c.Pending
		case notice.Dead:
			n += c.Dead
		case notice.Delivered, notice.Cancelled:
			n += c.Settled
		default:
			n += c.Pending + c.Dead + c.Settled
		}
	}
	return n
}

// cursors seals where a listing goes on: it names keys that the visitor may not be
// allowed to see, and is good for his scope and his search only.
func bound(page string, s search, v Visitor) []byte {
	return []byte(page + "\n" + v.scope() + "\n" + s.values().Encode())
}

func (p *Pages) seal(r *http.Request, cursor string, bound []byte) (string, error) {
	return p.o.Keys.Seal(r.Context(), keyring.Cursors, cursor, bound)
}

// opened is the cursor of a request.
func (p *Pages) opened(r *http.Request, bound []byte) (string, error) {
	return p.openedAs(r, "cursor", bound)
}

// openedAs is the cursor of a request in a parameter.
func (p *Pages) openedAs(r *http.Request, name string, bound []byte) (string, error) {
	cursor, err := p.o.Keys.Open(r.Context(), keyring.Cursors, r.URL.Query().Get(name), bound)
	if err != nil {
		return "", failure{http.StatusBadRequest, "This link goes on with a search that was begun by somebody else, or with another service; begin it again."}
	}
	return cursor, nil
}

// exact reports whether a search is for one notice by its key.
func (s search) exact() bool { return keys.Valid(s.Text) }
