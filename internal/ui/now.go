package ui

import (
	"net/http"
	"time"

	"notifier/internal/access"
	"notifier/internal/fleet"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// nowPage is how everything stands that a visitor may see.
type nowPage struct {
	Visitor   Visitor
	Taken     stamp  // when the figures were
	Stale     string // why they are not of this moment
	Away      string // what they are without
	Missing   []string
	Living    int
	Matters   []matter
	Calm      string // what is said where nothing is the matter
	Cards     []card
	Shared    int // routes that carry notices of others too, and are not counted here
	Heat      chart
	Coming    chart
	ComingAt  stamp
	Instances []instanceRow // nil for who does not see all
	Answered  string
	Findings  []findingRow
	Examined  bool
	All       bool
}

// card is a route at a glance.
type card struct {
	Name, Prefix, Target string
	Configured           bool
	Paused               bool
	Pending, Overdue     int64
	Waiting              int64
	Dead                 int64
	InFlight             int
	Rate                 string
	P50, P99             string
	NextDue              stamp
	Spark                string
	Level                level
	CSRF                 string
	May                  bool // the visitor may pause and resume it
}

// level is how bad something is; it is said in words and signs, and in colours
// besides.
type level string

const (
	fine  level = "ok"
	mind  level = "warn"
	wrong level = "bad"
)

type instanceRow struct {
	Label, ID, Version, State string
	Self                      bool
	Seen, Started             stamp
	InFlight                  int
	Tells                     bool
	Differs                   []string
}

// showNow serves the first page: how everything stands.
func (p *Pages) showNow(w http.ResponseWriter, r *http.Request, v Visitor) error {
	return p.render(w, r, http.StatusOK, view{Template: "now", Title: "Now", Visitor: v, Live: "now", Data: p.nowOf(p.sampler.current(r.Context()), v)})
}

// recent is how far back lateness on the cards goes.
const recent = 5

// work adds up what was done under a prefix: in the running minutes of all
// instances, and in the last n that are over.
func (b *board) work(prefix string, n int, now time.Time) metrics.Work {
	sum := metrics.Work{}
	for _, i := range b.Instances {
		sum.Add(i.Figures.Routes[prefix].Work)
	}
	for m := now.Unix()/60 - int64(n); m < now.Unix()/60; m++ {
		sum.Add(b.Minutes[m][prefix])
	}
	return sum
}

// hour is what was done under the prefixes in each of the last minutes, the running
// one last.
func (b *board) hour(prefixes []string, now time.Time) []metrics.Work {
	out := make([]metrics.Work, spans)
	for i := range out {
		m := now.Unix()/60 - int64(spans-1-i)
		for _, prefix := range prefixes {
			out[i].Add(b.Minutes[m][prefix])
			if i == spans-1 {
				out[i].Add(b.work(prefix, 0, now))
			}
		}
	}
	return out
}

// rate is how many attempts a second were made under a prefix in the last minute or
// two.
func (b *board) rate(prefix string, now time.Time) float64 {
	since := now.Truncate(time.Minute).Add(-time.Minute)
	return float64(b.work(prefix, 1, now).Attempts()) / now.Sub(since).Seconds()
}

// waiting is how many due notices of a route wait because instances have postponed them,
// or because the route is paused.
func (b *board) waiting(c store.Counts) (n int64) {
	for _, i := range b.Instances {
		for _, w := range i.Figures.Routes[c.Prefix].Waiting {
			n += int64(w)
		}
	}
	if c.Paused {
		n += c.Overdue
	}
	return n
}

func (b *board) inFlight(prefix string) int {
	n := 0
	for _, i := range b.Instances {
		n += i.Figures.Routes[prefix].InFlight
	}
	return n
}

// routesOf are the routes whose figures a visitor may see, in the order of the
// configuration, and then the prefixes that have none; shared is how many he sees
// only a part of.
func (p *Pages) routesOf(b *board, v Visitor) (list []store.Counts, shared int) {
	by := map[string]store.Counts{}
	for _, c := range b.Counts {
		by[c.Prefix] = c
	}
	for _, rt := range p.o.Routes.All() {
		c := by[rt.Prefix]
		c.Prefix = rt.Prefix
		delete(by, rt.Prefix)
		if v.Owns(rt.Prefix) {
			list = append(list, c)
		} else if v.Meets(rt.Prefix) {
			shared++
		}
	}
	for _, c := range b.Counts {
		if _, left := by[c.Prefix]; left && v.Owns(c.Prefix) {
			list = append(list, c)
		}
	}
	return list, shared
}

func (p *Pages) nowOf(b *board, v Visitor) nowPage {
	now := b.At
	out := nowPage{Visitor: v, Taken: p.stamp(now), All: v.All()}
	out.Stale, out.Away = p.stale(b, v), v.away(wire.Together(b.Missing, b.Hidden))
	list, shared := p.routesOf(b, v)
	out.Shared = shared
	var prefixes []string
	coming := make([]int64, spans)
	for _, c := range list {
		prefixes = append(prefixes, c.Prefix)
		for i, n := range b.Forecast[c.Prefix] {
			coming[i] += n
		}
		out.Cards = append(out.Cards, p.card(b, c, v))
	}
	out.Heat = heatMap(b.hour(prefixes, now), now.Truncate(time.Minute))
	out.ComingAt = p.stamp(b.ForecastAt)
	out.Coming = comingHour(coming, b.ForecastAt)
	for _, i := range b.Instances {
		if i.State != fleet.Silent {
			out.Living++
		}
		if !i.Tells || i.Figures.Cut {
			out.Missing = append(out.Missing, i.Label)
		}
	}
	if v.All() {
		out.Instances = p.instanceRows(b)
		out.Answered = rough(b.Answered)
		out.Findings, out.Examined = p.examiner.troubles()
	}
	out.Matters = p.matters(b, list, v)
	if len(out.Matters) == 0 && out.Stale == "" {
		out.Calm = p.calm(b)
	}
	return out
}

func (p *Pages) card(b *board, c store.Counts, v Visitor) card {
	w := b.work(c.Prefix, recent, b.At)
	k := card{Name: c.Prefix, Prefix: c.Prefix, Paused: c.Paused, Pending: c.Pending, Overdue: c.Overdue, Waiting: b.waiting(c), Dead: c.Dead, InFlight: b.inFlight(c.Prefix),
		Rate: perSecond(b.rate(c.Prefix, b.At)), P50: "–", P99: "–", NextDue: p.stamp(c.NextDue), Level: fine, CSRF: v.CSRF}
	if w.Late.Count() > 0 {
		k.P50, k.P99 = rough(w.Late.Quantile(0.5)), rough(w.Late.Quantile(0.99))
	}
	if rt := p.o.Routes.Prefix(c.Prefix); rt != nil {
		k.Name, k.Configured, k.Target, k.May = rt.Name, true, targetText(rt), v.May(access.Operate)
	}
	var made []int64
	for _, m := range b.hour([]string{c.Prefix}, b.At) {
		made = append(made, m.Attempts())
	}
	k.Spark = sparkline(made)
	switch {
	case p.lateBy(b, c) >= lateFrom:
		k.Level = wrong
	case c.Paused || !k.Configured || w.Outcomes[notice.OutcomeDead] > 0:
		k.Level = mind
	}
	return k
}

// targetText says where a route's notices go; an address is shown by its host, for
// the rest of it may hold secrets.
func targetText(rt *route.Route) string {
	switch rt.Target.Kind {
	case route.KindFixed:
		return rt.Target.URL.Hostname()
	case route.KindNotice:
		return "each notice's url"
	case route.KindList, route.KindStream:
		return string(rt.Target.Kind) + " " + rt.Target.Key
	}
	return string(rt.Target.Kind)
}

func (p *Pages) instanceRows(b *board) []instanceRow {
	own := map[string]string{}
	for _, rt := range p.o.Routes.All() {
		own[rt.Name] = rt.Digest()
	}
	out := make([]instanceRow, len(b.Instances))
	for i, x := range b.Instances {
		out[i] = instanceRow{Label: x.Label, ID: x.ID, Version: x.Version, State: string(x.State), Self: x.Self, Seen: p.stamp(x.Seen),
			Started: p.stamp(x.Started), Tells: x.Tells && !x.Figures.Cut, Differs: fleet.Differences(own, x.Routes)}
		for _, f := range x.Figures.Routes {
			out[i].InFlight += f.InFlight
		}
	}
	return out
}
