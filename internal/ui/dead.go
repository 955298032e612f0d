package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// group is the dead letters of one route with the same reason and host.
type group struct {
	Route, Prefix string
	Reason        notice.Reason
	Host          string
}

// values returns the query of the group's page.
func (g group) values() url.Values {
	return url.Values{"route": {g.Route}, "reason": {string(g.Reason)}, "host": {g.Host}}
}

// bound is the context to which the cursor of a change of the group is sealed.
func (g group) bound(v Visitor) []byte {
	return []byte("group\n" + v.scope() + "\n" + g.values().Encode())
}

type groupRow struct {
	group
	Why          text // its reason
	Count        int
	First, Last  stamp
	Status       text   // of the last response
	Sample       string // its beginning
	Path, Search string

	first, last time.Time
}

type deadPage struct {
	Route  string
	Routes []string
	Groups []groupRow
	// Counted reports whether Looked and Total may be shown: they include no notices of other clients.
	Counted bool
	Looked  int
	Total   int64
	Away    text // the unavailable part of Redis
	Next    string
	Begin   string
}

// maxGroups limits the groups on a page: there may be as many hosts as notices.
const maxGroups = 200

// showDead serves the dead letters by reason and host.
func (p *Pages) showDead(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s := search{Route: strings.TrimSpace(r.URL.Query().Get("route")), State: string(notice.Dead)}
	q, wrong, err := p.query(r.Context(), s, v)
	if err != nil || wrong != nil {
		return cmp.Or(err, error(failure{http.StatusUnprocessableEntity, wrong}))
	}

	place := bound("dead", s, v)
	if q.Cursor, err = p.opened(r, place); err != nil {
		return err
	}

	page := deadPage{Route: s.Route, Routes: p.routesMet(v)}
	if q.Cursor != "" {
		page.Begin = deadPath(s.Route)
	}

	by := map[group]*groupRow{}
	got, err := p.eachDead(r.Context(), q, v, searchTime, func(list []store.Found) bool {
		for i := range list {
			p.count(by, &list[i], v)
		}
		return len(by) < maxGroups
	})
	if err != nil {
		return err
	}

	if page.Counted = v.ownsAll(q.Routes); page.Counted {
		page.Looked = got.looked
	}

	page.Away = v.away(got.missing)
	for _, row := range by {
		row.First, row.Last = p.stamp(row.first), p.stamp(row.last)
		row.Path = Root + "dead/group?" + row.values().Encode()
		page.Groups = append(page.Groups, *row)
	}

	slices.SortFunc(page.Groups, func(a, b groupRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host))
	})
	next, err := p.seal(r, got.cursor, place)
	if err != nil {
		return err
	}

	if next != "" {
		page.Next = Root + "dead?" + url.Values{"route": {s.Route}, "cursor": {next}}.Encode()
		if page.Counted {
			page.Total = p.sampler.current(r.Context()).total(q)
		}
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Dead letters"), Visitor: v, Content: deadContent(page, v.Linked())})
}

func (p *Pages) count(by map[group]*groupRow, f *store.Found, v Visitor) {
	g := group{p.routeFor(f.Route, v), f.Route, f.Reason, p.hostOf(f)}
	row := by[g]
	if row == nil {
		row = &groupRow{group: g, Why: v.reason(g.Reason), first: f.SettledAt, last: f.SettledAt}
		by[g] = row
	}

	row.Count++
	if f.SettledAt.Before(row.first) {
		row.first = f.SettledAt
	}

	if !f.SettledAt.Before(row.last) {
		row.last = f.SettledAt
		if n := len(f.Attempts); n > 0 {
			row.Status, row.Sample = nil, p.view(f).AnswerText(f.Attempts[n-1].Response)
			if status := f.Attempts[n-1].Status; status > 0 {
				row.Status = plain("HTTP " + number(status))
			}
		}
	}
}

// deadStep is the maximum number of dead letters of one call.
const deadStep = 500

// eachDead calls do with the visible dead letters of a query, in steps, until do returns false or the
// limit is over. The cursor continues the listing. It is empty at the end, also if nodes were missing.
func (p *Pages) eachDead(ctx context.Context, q store.Query, v Visitor, limit time.Duration, do func([]store.Found) bool) (got found,
	err error) {
	q.State, q.Limit = notice.Dead, deadStep
	for end := time.Now().Add(limit); len(q.Routes) > 0; {
		page, err := p.o.Engine.List(ctx, q)
		if err != nil {
			return got, err
		}

		got.looked += page.Looked
		got.missing = wire.Together(got.missing, page.Missing)
		list := slices.DeleteFunc(page.Items, func(f store.Found) bool {
			to := p.hostOf(&f)
			return !v.Sees(&f, to) || q.Host != "" && to != q.Host
		})
		more := do(list)
		if q.Cursor = page.Cursor; q.Cursor == "" || !more || time.Now().After(end) {
			got.cursor = q.Cursor
			return got, nil
		}
	}

	return got, nil
}

// groupOf reads a group from a request. It returns the query of the group, and a function that reports
// whether a notice belongs to the group.
func (p *Pages) groupOf(r *http.Request, v Visitor) (group, store.Query, func(*store.Found) bool, error) {
	get := func(name string) string { return strings.TrimSpace(r.FormValue(name)) }
	g := group{Route: get("route"), Reason: notice.Reason(get("reason")), Host: get("host")}
	q, wrong, err := p.query(r.Context(), search{Route: g.Route, State: string(notice.Dead), Reason: string(g.Reason), Host: g.Host}, v)
	if err == nil && (wrong != nil || g.Route == "" || len(q.Routes) != 1) {
		err = failure{http.StatusNotFound, say("There is no such group of dead letters.")}
	}

	if err != nil {
		return g, q, nil, err
	}

	g.Prefix = q.Routes[0]
	return g, q, func(f *store.Found) bool { return f.Reason == g.Reason && p.hostOf(f) == g.Host }, nil
}

type groupPage struct {
	group
	Count    int
	Why      text // its reason
	All      bool // Count is all of them
	Away     text
	Rows     []noticeRow
	Spreads  []spread
	CSRF     string
	May      bool
	Download string
	Search   string
	Cursor   string // continues a change
	// Lost reports whether some of the inspected notices are masked in the download, so that the download
	// cannot restore them.
	Lost bool
}

// spread is a duration over which a redrive can be spread.
type spread struct {
	Value string
	Text  text
}

var spreads = []spread{{"0s", say("at once")}, {"1m", say("over a minute")}, {"10m", say("over 10 minutes")}, {"1h", say("over an hour")},
	{"6h", say("over 6 hours")}, {"24h", say("over a day")}}

// groupSamples is how many notices of a group its page lists.
const groupSamples = 10

// showGroup serves a group: the count, some notices and the actions.
func (p *Pages) showGroup(w http.ResponseWriter, r *http.Request, v Visitor) error {
	g, q, fits, err := p.groupOf(r, v)
	if err != nil {
		return err
	}

	page := groupPage{group: g, Why: v.reason(g.Reason), Spreads: spreads, CSRF: v.CSRF, May: v.May(access.Operate),
		Cursor: r.FormValue("cursor"), Download: Root + "dead/download?" + g.values().Encode(),
		Search: noticesPath("route", g.Route, "state", "dead", "reason", string(g.Reason), "host", g.Host)}
	if q.Cursor, err = p.continues(r, g.bound(v)); err != nil {
		return err
	}

	got := p.amendDead(r.Context(), v, store.Bulk{Query: q, Op: store.Redrive, DryRun: true, Fits: func(f *store.Found) bool {
		if !fits(f) {
			return false
		}

		page.Lost = page.Lost || !p.o.Mask.None() && p.snapshotOf(f).Masked
		if len(page.Rows) < groupSamples {
			page.Rows = append(page.Rows, p.noticeRow(f, v))
		}

		return true
	}}, 2*searchTime)
	if got.failed != nil {
		return got.failed
	}

	page.Count, page.Away = got.matched, v.away(got.left)
	page.All = got.cursor == "" && page.Away == nil
	page.Lost = page.Lost || !page.All && !p.o.Mask.None() // the rest is unknown

	return p.render(w, r, http.StatusOK, view{Title: say("%s, %s", g.Route, page.Why), Section: say("Dead letters"), Visitor: v,
		Content: groupContent(page)})
}

// changeTime limits the time in which one request changes a group. The page then offers to continue.
const changeTime = 20 * time.Second

// changeGroup changes all dead letters of a group that died before the first request of the change.
func (p *Pages) changeGroup(op store.Amendment, action audit.Action, said string) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		g, q, fits, err := p.groupOf(r, v)
		if err != nil {
			return err
		}
		if op == store.Purge && r.FormValue("sure") != "yes" {
			return failure{http.StatusUnprocessableEntity, say("Confirm that you have a backup or need none. Nothing was purged.")}
		}

		over, known := overOf(r.FormValue("over"))
		if !known {
			return failure{http.StatusUnprocessableEntity, say("Not a time that a redrive can be spread over. Nothing was redriven.")}
		}

		count, _ := strconv.Atoi(r.FormValue("count"))
		count = max(count, 1)
		if q.Cursor, err = p.continues(r, g.bound(v)); err != nil {
			return err
		}

		got := p.amendDead(lasting(r), v, store.Bulk{Query: q, Op: op, Fits: fits, Delay: func(n int) time.Duration {
			return over * time.Duration(n%count) / time.Duration(count)
		}}, changeTime)
		detail := fmt.Sprintf("%s, %s of host %s", plural(got.done, "dead letter"), cmp.Or(string(g.Reason), "no reason"), cmp.Or(g.Host, "none"))
		if detail += got.without(); over > 0 {
			detail += ", spread over " + notice.Short(over)
		}

		if err := p.noteDead(r, v, audit.Entry{Action: action, Route: g.Route, Prefix: cmp.Or(q.Prefix, g.Prefix), Detail: detail},
			got); err != nil {
			return err
		}

		if got.cursor == "" {
			return back(w, Root+"dead", got.saying(said, url.Values{"route": {g.Route}}))
		}

		query := g.values()
		if err := p.continuing(r, query, got.cursor, g.bound(v)); err != nil {
			return err
		}

		return back(w, Root+"dead/group", got.saying(said, query))
	}
}

// amended is the result of a change, or of a count, of many dead letters.
type amended struct {
	matched, done int
	left          []wire.Lost // nodes that were skipped
	cursor        string      // continues the change, if the time was over before the end
	failed        error
}

// amendDead changes the dead letters of a query that the visitor sees, in steps, until the limit is over.
func (p *Pages) amendDead(ctx context.Context, v Visitor, b store.Bulk, limit time.Duration) (x amended) {
	fits, delay := b.Fits, b.Delay
	b.Fits = func(f *store.Found) bool {
		to := p.hostOf(f)
		return v.Sees(f, to) && (b.Host == "" || to == b.Host) && (fits == nil || fits(f))
	}

	if delay != nil {
		b.Delay = func(n int) time.Duration { return delay(x.matched + n) }
	}

	for end := time.Now().Add(limit); len(b.Routes) > 0; {
		got, err := p.o.Engine.AmendAll(ctx, b)
		x.matched, x.done, x.left = x.matched+got.Matched, x.done+got.Changed, wire.Together(x.left, got.Missing)
		x.cursor, x.failed = got.Cursor, err
		if b.Cursor = got.Cursor; err != nil || b.Cursor == "" || time.Now().After(end) {
			break
		}
	}

	if !b.DryRun {
		p.sampler.changed.Store(true)
	}

	return x
}

// continuing adds the cursor of an unfinished change to the query of the page that offers to continue it.
func (p *Pages) continuing(r *http.Request, query url.Values, cursor string, bound []byte) error {
	sealed, err := p.seal(r, cursor, bound)
	query.Set("cursor", sealed)
	return err
}

// continues returns the cursor of the change that a request continues; empty = it begins one.
func (p *Pages) continues(r *http.Request, bound []byte) (string, error) {
	return p.unseal(r, r.FormValue("cursor"), bound)
}

// without lists the skipped nodes for the audit.
func (x amended) without() string {
	if len(x.left) == 0 {
		return ""
	}

	text := ", skipped nodes:"
	for _, l := range x.left {
		text += " " + cmp.Or(l.Node, "unknown")
	}

	return text
}

// saying adds the result to the query of the next page.
func (x amended) saying(said string, query url.Values) url.Values {
	query.Set("said", said)
	query.Set("n", strconv.Itoa(x.done))
	if len(x.left) > 0 {
		query.Set("left", "1")
	}

	return query
}

// noteDead adds a change of dead letters to the audit. It returns the error of a change that did nothing.
func (p *Pages) noteDead(r *http.Request, v Visitor, entry audit.Entry, x amended) error {
	switch {
	case x.done > 0: // the rest may have failed
		p.note(r, v, entry, nil)
	case x.failed != nil:
		p.note(r, v, entry, x.failed)
		return x.failed
	}
	return nil
}

func overOf(s string) (time.Duration, bool) {
	if s == "" {
		return 0, true
	}

	for _, x := range spreads {
		if x.Value == s {
			d, err := notice.ParseDuration(s)
			return d, err == nil
		}
	}

	return 0, false
}
