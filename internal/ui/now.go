package ui

import (
	"net/http"
	"time"

	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// nowPage is the first page: problems, routes, charts and instances.
type nowPage struct {
	Visitor Visitor
	// the times of the samples
	CountsAt, ComingAt, InstancesAt stamp

	Stale   text // why the figures are outdated
	Away    text // the unavailable part of Redis
	Missing text
	Living  int
	Matters []matter
	Calm    text // the text without problems
	Unread  bool // parts that problems are found in were not read yet
	// Empty: Redis has no notices of the visitor. First is the call for the first one.
	Empty bool
	First firstCall
	Cards []card
	// Above mostCards, routes are rows: those with problems, and the others.
	Many              bool
	Troubled, Healthy []card
	Sorting           sorting
	Counted           bool // the counts on cards were read at least once
	Shared            int  // routes that also carry notices of other clients and are not counted
	Heat              chart
	Coming            chart
	Instances         []instanceRow // nil for a visitor with a prefix
	Listed            bool          // instances were read at least once
	Answered          time.Duration
	Findings          []findingRow
	Examined          bool
	All               bool
}

// card is the summary of a route.
type card struct {
	Name, Prefix     string
	Target           text
	Configured       bool
	Paused           bool
	Pending, Overdue int64
	Waiting          int64
	Dead             int64
	InFlight         int
	Rate             perSecond
	P50, P99         text
	Late             lateness
	Fails            bool // a receiver fails
	NextDue          stamp
	Spark            string
	Level            level
	CSRF             string
	May              bool // the visitor may pause and resume it
}

// level is a severity. Pages show it by words and signs, and by colours as well.
type level string

const (
	fine  level = "ok"
	mind  level = "warn"
	wrong level = "bad"
)

func rank(l level) int {
	return map[level]int{fine: 0, mind: 1, wrong: 2}[l]
}

type instanceRow struct {
	Label, ID, Version string
	State              fleet.State
	Alive, Self        bool
	Seen, Started      stamp
	InFlight           int
	Tells              bool
	Differs            []string
}

// showNow serves the first page.
func (p *Pages) showNow(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if v.All() {
		p.sampler.Examiner.Ask()
	}

	page := p.nowOf(p.sampler.Read(r.Context(), true), v)
	if page.Empty {
		page.First = p.firstCall(r, v)
	}

	page.arrange(sortingOf(Root, r.URL.Query()))
	return p.render(w, r, http.StatusOK, view{Title: say("nav|Now"), Visitor: v, Live: "now" + page.Sorting.query(),
		Content: nowContent(page)})
}

// mostCards is the number of routes that have cards. More routes are rows of a table.
const mostCards = 6

// recent is the number of minutes of the lateness on cards.
const recent = 5

func (p *Pages) nowOf(b *problems.Board, v Visitor) nowPage {
	now := b.At
	out := nowPage{Visitor: v, All: v.All()}
	out.Empty = empty(b, p, v)
	out.Stale, out.Away = p.stale(b, v), v.away(wire.Together(b.Missing, b.Hidden))
	list, shared := problems.RoutesOf(b, p.o.Routes, v.caller())
	out.Shared, out.Counted, out.Listed = shared, !b.CountsAt.IsZero(), b.Instances != nil
	var prefixes []string
	coming := make([]int64, problems.Spans)
	for _, c := range list {
		prefixes = append(prefixes, c.Prefix)
		for i, n := range b.Forecast[c.Prefix] {
			coming[i] += n
		}

		out.Cards = append(out.Cards, p.card(b, c, v))
	}

	out.Heat = heatMap(b.Hour(prefixes, now), now.Truncate(time.Minute))
	out.CountsAt, out.ComingAt = p.stamp(b.CountsAt), p.stamp(b.ForecastAt)
	out.Coming = comingHour(coming, b.ForecastAt)
	if b.MinutesAt.IsZero() {
		out.Heat.Summary = say("Not read yet.")
	}

	if b.ForecastAt.IsZero() {
		out.Coming.Summary = say("Not read yet.")
	}

	for _, i := range b.Instances {
		if i.State != fleet.Unresponsive {
			out.Living++
		}
	}

	out.Missing = silent(b, v)
	if v.All() {
		out.Instances, out.InstancesAt = p.instanceRows(b), p.stamp(b.InstancesAt)
		out.Answered = b.Answered
		out.Findings, out.Examined = p.troubles()
	}

	out.Matters = p.matters(b, v)
	out.Unread = len(problems.Missing(p.sampler, b, v.caller())) > 0
	if len(out.Matters) == 0 && out.Stale == nil && !out.Unread {
		out.Calm = p.calm(b, v)
	}

	return out
}

func (p *Pages) card(b *problems.Board, c store.Counts, v Visitor) card {
	w := b.Work(c.Prefix, recent, b.At)
	k := card{Name: c.Prefix, Prefix: c.Prefix, Paused: c.Paused, Pending: c.Pending, Overdue: c.Overdue, Waiting: b.Waiting(c),
		Dead: c.Dead, InFlight: b.InFlight(c.Prefix), Rate: perSecond(b.Rate(c.Prefix, b.At)), P50: plain("–"), P99: plain("–"),
		NextDue: stampFrom(b.CountsAt, c.NextDue), Level: fine, CSRF: v.CSRF}
	if w.Late.Count() > 0 {
		k.Late = lateness{w.Late.Quantile(0.5), w.Late.Quantile(0.99)}
		k.P50, k.P99 = plain(w.Late.Quantile(0.5)), plain(w.Late.Quantile(0.99))
	}

	if rt := p.o.Routes.Prefix(c.Prefix); rt != nil {
		k.Name, k.Configured, k.Target, k.May = rt.Name, true, targetText(rt), v.May(auth.Operate)
	}

	k.Fails = b.Fails(c.Prefix)
	var made []int64
	for _, m := range b.Hour([]string{c.Prefix}, b.At) {
		made = append(made, m.Attempts())
	}

	k.Spark = sparkline(made)
	switch {
	case problems.Late(b, c):
		k.Level = wrong
	case c.Paused || !k.Configured || w.Outcomes[notice.OutcomeDead] > 0:
		k.Level = mind
	}

	return k
}

// targetText returns the target of a route. Of an address it returns the host only, since the rest may
// contain secrets.
func targetText(rt *route.Route) text {
	switch rt.Target.Kind {
	case route.KindFixed:
		return plain(rt.Target.URL.Hostname())
	case route.KindNotice:
		return say("each notice's url")
	case route.KindList:
		return say("list `%s`", rt.Target.Key)
	case route.KindStream:
		return say("stream `%s`", rt.Target.Key)
	}
	return say("log")
}

func (p *Pages) instanceRows(b *problems.Board) []instanceRow {
	own := map[string]string{}
	for _, rt := range p.o.Routes.All() {
		own[rt.Name] = rt.Digest()
	}

	out := make([]instanceRow, len(b.Instances))
	for i, x := range b.Instances {
		out[i] = instanceRow{Label: x.Label, ID: x.ID, Version: x.Version, State: x.State, Alive: x.State == fleet.Alive, Self: x.Self,
			Seen: stampFrom(b.InstancesAt, x.Seen), Started: stampFrom(b.InstancesAt, x.Started),
			Tells: x.Tells && !x.Figures.Cut, Differs: x.Differences(own)}
		for _, f := range x.Figures.Routes {
			out[i].InFlight += f.InFlight
		}
	}

	return out
}
