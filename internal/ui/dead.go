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

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// group is dead letters of one route: all, of one cause, or of one cause and host.
type group struct {
	Route, Prefix string
	notice.Cause
	Host     string
	AnyCause bool
	AnyHost  bool
}

// values returns the query of the group's page.
func (g group) values() url.Values {
	out := url.Values{"route": {g.Route}}
	if !g.AnyCause {
		out.Set("reason", string(g.Reason))
	}

	if g.Status > 0 {
		out.Set("status", strconv.Itoa(g.Status))
	}

	if !g.AnyHost {
		out.Set("host", g.Host)
	}

	return out
}

// has reports whether the group has a dead letter that goes to a host.
func (g group) has(f *store.Found, host string) bool {
	return g.of(f.Cause()) && (g.AnyHost || host == g.Host)
}

// of reports whether the group includes a cause.
func (g group) of(c notice.Cause) bool {
	return g.AnyCause || c.Reason == g.Reason && (g.Status == 0 || c.Status == g.Status)
}

// why returns the cause of the group as the visitor sees it.
func (v Visitor) why(g group) text {
	switch {
	case g.AnyCause:
		return nil
	case g.Status > 0:
		return answerText(g.Status, g.Reason)
	}
	return v.reason(g.Reason)
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
	Answer       text   // the status of the last response
	Sample       string // its beginning
	Path, Search string

	first, last time.Time
}

type deadPage struct {
	Route  string
	Routes []string
	Groups []groupRow
	// Causes reports whether the groups are by cause, with all dead letters. Other pages group by host too, and inspect
	// dead letters one by one.
	Causes    bool
	Redrive   string // the path to redrive all of Route; empty without the right
	CountedAt stamp  // of the causes
	// Counted reports whether Looked and Total may be shown: they include no notices of other clients.
	Counted bool
	Looked  int
	Total   int64
	Away    text   // the unavailable part of Redis
	Ends    []text // routes whose dead letters are removed soon
	Next    string
	Begin   string
}

// maxGroups limits the groups on a page: there may be as many hosts as notices.
const maxGroups = 200

// showDead serves the dead letters by reason and host.
func (p *Pages) showDead(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s := filter{Route: strings.TrimSpace(r.URL.Query().Get("route")), State: notice.Dead}
	q, wrong, err := p.query(r.Context(), s, v)
	if err != nil || wrong != nil {
		return cmp.Or(err, error(failure{http.StatusUnprocessableEntity, wrong}))
	}

	page := deadPage{Route: s.Route, Routes: p.routesMet(v)}
	if v.ownsAll(q.Routes) && !v.Linked() {
		if err := p.countCauses(r.Context(), q, v, &page); err != nil {
			return err
		}
		return p.render(w, r, http.StatusOK, view{Title: say("Dead letters"), Visitor: v, Content: deadContent(page, false)})
	}

	place := bound("dead", s.Route, v)
	if q.Cursor, err = p.opened(r, place); err != nil {
		return err
	}

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

	page.Away, page.Groups = v.away(got.missing), p.rowsOf(by)
	next, err := p.seal(r, got.cursor, place)
	if err != nil {
		return err
	}

	if next != "" {
		page.Next = Root + "dead?" + url.Values{"route": {s.Route}, "cursor": {next}}.Encode()
		if page.Counted {
			page.Total = p.sampler.Current(r.Context()).Total(q)
		}
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Dead letters"), Visitor: v, Content: deadContent(page, v.Linked())})
}

// countCauses fills the page with all dead letters by cause.
func (p *Pages) countCauses(ctx context.Context, q store.Query, v Visitor, page *deadPage) error {
	count, err := p.o.Engine.DeadCauses(ctx, time.Time{})
	if err != nil {
		return err
	}

	page.Causes, page.Counted, page.CountedAt, page.Away = true, true, p.stamp(count.At), v.away(count.Missing)
	for _, g := range count.Groups {
		if !slices.Contains(q.Routes, g.Prefix) {
			continue
		}

		row := groupRow{group: group{Route: p.routeName(g.Prefix), Prefix: g.Prefix, Cause: g.Cause, AnyHost: true}, Count: int(g.Count),
			First: p.stamp(g.First), Last: p.stamp(g.Last)}
		row.Why, row.Path = v.why(row.group), Root+"dead/group?"+row.values().Encode()
		page.Groups, page.Total = append(page.Groups, row), page.Total+g.Count
	}

	page.Ends = p.deadEnds(q.Routes, count.Groups)
	if page.Route != "" && page.Total > 0 && v.May(auth.Operate) {
		page.Redrive = Root + "dead/group?" + group{Route: page.Route, AnyCause: true, AnyHost: true}.values().Encode()
	}

	return nil
}

// deadEnds announces the removal of dead letters of routes.
func (p *Pages) deadEnds(prefixes []string, groups []store.DeadGroup) (list []text) {
	for _, prefix := range prefixes {
		rt := p.o.Routes.Prefix(prefix)
		if rt == nil {
			continue
		}

		of := store.DeadCount{Groups: slices.DeleteFunc(slices.Clone(groups), func(g store.DeadGroup) bool { return g.Prefix != prefix })}
		limit := store.DeadLimit{Retention: rt.DeadRetention, Keep: rt.DeadKeep}
		count, first := of.Sum()
		if at := limit.Ages(first, p.o.Engine.Now()); !at.IsZero() {
			list = append(list, say("Dead letters of **%s** are removed %s after their death, the first %s.", rt.Name, rt.DeadRetention,
				p.stamp(at)))
		}

		if limit.Fills(count) {
			list = append(list, say("**%s** has %s of at most %s dead letters. Above that the oldest are removed.", rt.Name, count, rt.DeadKeep))
		}
	}

	return list
}

func (p *Pages) count(by map[group]*groupRow, f *store.Found, v Visitor) {
	g := group{Route: p.routeFor(f.Route, v), Prefix: f.Route, Cause: notice.Cause{Reason: f.Reason}, Host: p.hostOf(f)}
	p.countIn(by, g, f, v)
}

// countIn counts a dead letter in a group.
func (p *Pages) countIn(by map[group]*groupRow, g group, f *store.Found, v Visitor) {
	row := by[g]
	if row == nil {
		row = &groupRow{group: g, Why: v.why(g), first: f.SettledAt, last: f.SettledAt}
		by[g] = row
	}

	row.Count++
	if f.SettledAt.Before(row.first) {
		row.first = f.SettledAt
	}

	if !f.SettledAt.Before(row.last) {
		row.last = f.SettledAt
		if n := len(f.Attempts); n > 0 {
			row.Answer, row.Sample = nil, p.view(f).AnswerText(f.Attempts[n-1].Response)
			if status := f.Attempts[n-1].Status; status > 0 {
				row.Answer = plain("HTTP " + number(status))
			}
		}
	}
}

// rowsOf returns the counted groups, the largest first.
func (p *Pages) rowsOf(by map[group]*groupRow) (rows []groupRow) {
	for _, row := range by {
		row.First, row.Last = p.stamp(row.first), p.stamp(row.last)
		row.Path = Root + "dead/group?" + row.values().Encode()
		rows = append(rows, *row)
	}

	slices.SortFunc(rows, func(a, b groupRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host))
	})
	return rows
}

// deadStep is the maximum number of dead letters of one call.
const deadStep = 500

// found is the part of a listing that was read.
type found struct {
	looked  int
	cursor  string      // empty at the end
	missing []wire.Lost // the skipped nodes
}

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
	g := group{Route: get("route"), Cause: notice.Cause{Reason: notice.Reason(get("reason"))}, Host: get("host")}
	g.Status, _ = strconv.Atoi(get("status"))
	g.AnyCause, g.AnyHost = !r.Form.Has("reason"), !r.Form.Has("host")
	q, wrong, err := p.query(r.Context(), filter{Route: g.Route, State: notice.Dead, Reason: g.Reason, Host: g.Host}, v)
	if q.Status = g.Status; q.Status != 0 && notice.CauseOf(g.Code()) != g.Cause {
		err = failure{http.StatusNotFound, say("There is no such group of dead letters.")}
	}

	if err == nil && (wrong != nil || g.Route == "" || len(q.Routes) != 1) {
		err = failure{http.StatusNotFound, say("There is no such group of dead letters.")}
	}

	if err != nil {
		return g, q, nil, err
	}

	g.Prefix = q.Routes[0]
	return g, q, func(f *store.Found) bool { return g.has(f, p.hostOf(f)) }, nil
}

type groupPage struct {
	group
	Count    int
	Why      text // its reason
	All      bool // Count is all of them
	Away     text
	Rows     []noticeRow
	Paces    []pace
	CSRF     string
	May      bool
	Download string
	Search   string
	Cursor   string // continues a change
	Rate     string // of the change that is continued
	// Lost reports whether some of the inspected notices are masked in the download, so that the download
	// cannot restore them.
	Lost bool
	// Hosts are the receivers among the dead letters that were inspected, if the group is not of one host.
	Hosts []groupRow
	// Some reports whether not all dead letters were inspected for Hosts.
	Some bool
}

// spread is a duration over which a redrive can be spread.
type spread struct {
	Value string
	Text  text
}

var spreads = []spread{{"0s", say("at once")}, {"1m", say("over a minute")}, {"10m", say("over 10 minutes")}, {"1h", say("over an hour")},
	{"6h", say("over 6 hours")}, {"24h", say("over a day")}}

// mostHosts is the maximum number of receivers in the table of a group.
const mostHosts = 50

// shownHosts returns the receivers with most dead letters.
func (d groupPage) shownHosts() []groupRow { return d.Hosts[:min(len(d.Hosts), mostHosts)] }

// groupSamples is how many notices of a group its page lists.
const groupSamples = 10

// showGroup serves a group: the count, some notices and the actions.
func (p *Pages) showGroup(w http.ResponseWriter, r *http.Request, v Visitor) error {
	g, q, fits, err := p.groupOf(r, v)
	if err != nil {
		return err
	}

	page := groupPage{group: g, Why: v.why(g), CSRF: v.CSRF, May: v.May(auth.Operate),
		Cursor: r.FormValue("cursor"), Download: Root + "dead/download?" + g.values().Encode(),
		Search: noticesPath("route", g.Route, "state", "dead", "reason", string(g.Reason), "host", g.Host)}
	by := map[group]*groupRow{}
	sealed, err := p.continues(r, g.bound(v))
	if err != nil {
		return err
	}

	_, q.Cursor = recounted(sealed)
	got := p.amendDead(r.Context(), v, store.Bulk{Query: q, Op: store.Redrive, DryRun: true, Fits: func(f *store.Found) bool {
		if !fits(f) {
			return false
		}

		page.Lost = page.Lost || !p.o.Mask.None() && p.snapshotOf(f).Masked
		if g.AnyHost {
			of := group{Route: g.Route, Prefix: g.Prefix, Cause: f.Cause(), Host: p.hostOf(f)}
			p.countIn(by, of, f, v)
		}

		if len(page.Rows) < groupSamples {
			page.Rows = append(page.Rows, p.noticeRow(f, v))
		}

		return true
	}}, 2*searchTime)
	if got.failed != nil {
		return got.failed
	}

	page.Count, page.Away, page.Hosts = got.matched, v.away(got.left), p.rowsOf(by)
	page.All = got.cursor == "" && page.Away == nil
	if page.Some = !page.All; page.Some && g.AnyHost && !v.Linked() && v.Owns(g.Prefix) {
		if err := p.countAll(r.Context(), &page); err != nil {
			return err
		}
	}

	page.Lost = page.Lost || !page.All && !p.o.Mask.None() // the rest is unknown
	page.Paces, page.Rate = paces(page.Count, page.All), r.FormValue("rate")

	title := say("%s, %s", g.Route, page.Why)
	if g.AnyCause {
		title = say("%s, all dead letters", g.Route)
	}

	return p.render(w, r, http.StatusOK, view{Title: title, Section: say("Dead letters"), Visitor: v,
		Content: groupContent(page)})
}

// countAll replaces the count of a page that has not inspected all dead letters of its group.
func (p *Pages) countAll(ctx context.Context, page *groupPage) error {
	count, err := p.o.Engine.DeadCauses(ctx, time.Time{})
	if err != nil {
		return err
	}

	all := 0
	for _, g := range count.Groups {
		if g.Prefix == page.Prefix && page.of(g.Cause) {
			all += int(g.Count)
		}
	}

	page.Count, page.All = max(all, page.Count), len(count.Missing) == 0 && page.Away == nil
	return nil
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

		rate, err := rateOf(r.FormValue("rate"))
		if err != nil {
			return err
		}

		sealed, err := p.continues(r, g.bound(v))
		if err != nil {
			return err
		}

		var before int
		change := store.Bulk{Query: q, Op: op, Fits: fits}
		before, change.Cursor = recounted(sealed)
		if rate > 0 {
			change.Delay = func(n int) time.Duration { return store.Paced(before+n, rate) }
		}

		got := p.amendDead(lasting(r), v, change, changeTime)
		detail := plural(got.done, "dead letter") + g.detail()
		if detail += got.without(); rate > 0 {
			detail += ", at " + api.RateText(rate)
		}

		if err := p.noteDead(r, v, audit.Entry{Action: action, Route: g.Route, Prefix: cmp.Or(q.Prefix, g.Prefix), Detail: detail},
			got); err != nil {
			return err
		}

		path, query, err := groupChange{g, got, said, op == store.Purge, before}.after(p, r, v)
		if err != nil {
			return err
		}

		return back(w, path, query)
	}
}

// detail describes the group for the audit.
func (g group) detail() (s string) {
	if !g.AnyCause {
		s = ", " + cmp.Or(g.Cause.String(), "no reason")
	}

	if !g.AnyHost {
		s = fmt.Sprintf("%s of host %s", s, cmp.Or(g.Host, "none"))
	}

	return s
}

// amended is the result of a change, or of a count, of many dead letters.
type amended struct {
	matched, done int
	left          []wire.Lost // nodes that were skipped
	cursor        string      // continues the change, if the time was over before the end
	job           string      // the id of the change
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
		x.cursor, x.failed, x.job = got.Cursor, err, cmp.Or(got.Job, x.job)
		if b.Cursor = got.Cursor; err != nil || b.Cursor == "" || time.Now().After(end) {
			break
		}
	}

	if !b.DryRun {
		p.sampler.Changed()
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
