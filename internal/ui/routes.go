package ui

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/store"
)

// routeRow is the effective configuration of a route, without secrets and without the address of a fixed
// target, which may contain secrets.
type routeRow struct {
	Name, Prefix, Ladder, Jitter       string
	Expires                            text // nil = never
	Ack                                text
	Target, Summary, Signed            text
	Timeout                            time.Duration
	Concurrency, HostConcurrency, Rate text
	Hook                               text // of dead letters; nil = none
	More                               []text
	Paused, May, Shared                bool
	ForWorkers                         bool          // its prefix is recorded, so it delivers nothing
	Span                               time.Duration // of the ladder
	Slots, HostSlots, InFlight         int
	PerSecond                          float64 // the rate limit
	Now                                perSecond
	CSRF                               string
}

func (p *Pages) showRoutes(w http.ResponseWriter, r *http.Request, v Visitor) error {
	b := p.sampler.Current(r.Context())
	paused := map[string]bool{}
	for _, c := range b.Counts {
		paused[c.Prefix] = c.Paused
	}

	var rows []routeRow
	for _, rt := range p.o.Routes.All() {
		if !v.Meets(rt.Prefix) {
			continue
		}

		row := rowOf(rt)
		row.Hook = p.hookText(rt, v)
		row.Shared = !v.Owns(rt.Prefix)
		row.Span, row.Slots, row.HostSlots, row.PerSecond = rt.Ladder.Total(), rt.Concurrency, rt.HostConcurrency, rt.Rate
		if !row.Shared {
			row.InFlight, row.Now = b.InFlight(rt.Prefix), perSecond(b.Rate(rt.Prefix, b.At))
		}

		row.ForWorkers = p.o.Routes.Prefix(rt.Prefix).Recorded
		row.Paused, row.May, row.CSRF = paused[rt.Prefix], !row.Shared && v.May(auth.Operate), v.CSRF
		rows = append(rows, row)
	}

	page := routesPage{Rows: rows, Recorded: recordedRows(b, v)}
	page.arrange(r.URL.Query())
	return p.render(w, r, http.StatusOK, view{Title: say("Routes"), Visitor: v, Content: routesContent(page)})
}

// recordedRow is a prefix that is recorded for workers.
type recordedRow struct {
	Prefix           string
	By               text
	Idle             bool // no worker handles it
	Pending, Overdue int64
}

// recordedRows returns the recorded prefixes that a visitor owns.
func recordedRows(b *problems.Board, v Visitor) (rows []recordedRow) {
	counts := map[string]store.Counts{}
	for _, c := range b.Counts {
		counts[c.Prefix] = c
	}

	for _, x := range b.Recorded {
		if !v.Owns(x.Prefix) {
			continue
		}

		row := recordedRow{Prefix: x.Prefix, By: say("%s worker(s)", x.Workers), Idle: x.Workers == 0, Pending: counts[x.Prefix].Pending,
			Overdue: counts[x.Prefix].Overdue}
		switch {
		case x.Workers < 0:
			row.By = say("number unknown")
		case x.Workers == 0 && x.Handled.IsZero():
			row.By = say("nobody")
		case x.Workers == 0:
			row.By = say("nobody since %s", stampFrom(b.At, x.Handled))
		}

		rows = append(rows, row)
	}

	return rows
}

func rowOf(rt *route.Route) routeRow {
	many := func(n int) text {
		if n == 0 {
			return say("unlimited")
		}
		return plain(n)
	}
	row := routeRow{Name: rt.Name, Prefix: rt.Prefix, Target: targetText(rt), Ladder: rt.Ladder.String(), Summary: say("no retry"),
		Ack: given(rt.Acknowledgement()), Timeout: rt.Timeout, Signed: say("none"), Concurrency: many(rt.Concurrency),
		HostConcurrency: many(rt.HostConcurrency), Rate: say("unlimited")}
	if n := len(rt.Ladder); n > 0 {
		row.Summary = say("%s retr(y|ies) over %s", n, rt.Ladder.Total())
	}

	if rt.Jitter > 0 {
		row.Jitter = "± " + strconv.FormatFloat(rt.Jitter*100, 'f', -1, 64) + " %"
	}

	if rt.Expires > 0 {
		row.Expires = say("expires after %s", rt.Expires)
	}

	if rt.Rate > 0 {
		row.Rate = plain(perSecond(rt.Rate))
	}

	if schemes := rt.SignedBy(); len(schemes) > 0 {
		row.Signed = say("`%s`", schemes)
		if rt.Signing().Shared() {
			secrets := len(rt.Secrets)
			if rt.TextKey.Reveal() != "" {
				secrets++
			}

			row.Signed = say("`%s` · one key per %s · %s secret(s)", schemes, stateText(rt.Signing().Per), secrets)
		}
	}

	for _, m := range []struct {
		is   bool
		text text
	}{
		{len(rt.OnStatus) > 0, say("on status `%s`", rt.OnStatus.String())},
		{rt.PauseAfter > 0, say("receivers paused after %s of failures", rt.PauseAfter)},
		{rt.DeadRetention > 0, say("dead letters removed after %s", rt.DeadRetention)},
		{rt.DeadKeep > 0, say("at most %s dead letters", rt.DeadKeep)},
		{rt.Adopt, say("adopts plain timers")}, {rt.HTTPSOnly, say("https only")}, {rt.Proxy != nil, say("proxy")},
		{rt.CertFile != "", say("client certificate")}, {rt.CAFile != "", say("custom CA")},
		{rt.Method != "" && rt.Method != http.MethodPost, say("method %s", rt.Method)},
		{len(rt.Headers) > 0, say("%s custom header(s)", len(rt.Headers))},
	} {
		if m.is {
			row.More = append(row.More, m.text)
		}
	}

	return row
}

// hookText describes the dead-letter hook of a route; nil if it has none. Routes that the visitor may not see have no
// name.
func (p *Pages) hookText(rt *route.Route, v Visitor) text {
	if rt.OnDead == nil {
		return nil
	}

	to := say("another route")
	if v.Meets(rt.OnDead.Prefix) {
		to = say("route `%s`", rt.OnDead.Name)
	}

	list := []text{say("`ON_DEAD`: each dead letter")}
	if rt.OnDeadBody > 0 {
		list[0] = say("`ON_DEAD`: each dead letter, with its body")
	}

	if rt.OnDown > 0 {
		list = append(list, say("`ON_DOWN`: receivers that fail for %s", rt.OnDown))
	}

	if f := rt.OnDead.Robot; f != nil {
		list = append(list, say("as messages for `%s`, one for each reason in ten minutes", string(f.Format)))
	}

	return say("%s, to %s", plain(list), to)
}

// switchRoute pauses or resumes a route. The visitor must see all of it.
func (p *Pages) switchRoute(paused bool) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		rt := p.o.Routes.Name(r.PathValue("name"))
		if rt == nil || !v.Meets(rt.Prefix) {
			return failure{http.StatusNotFound, say("There is no such route.")}
		}
		if !v.Owns(rt.Prefix) {
			return failure{http.StatusForbidden, say("This route also carries notices of other clients. You may not pause or resume it.")}
		}

		do, action, said := p.o.Engine.Resume, audit.Resume, "resumed"
		if paused {
			do, action, said = p.o.Engine.Pause, audit.Pause, "paused"
		}

		err := do(lasting(r), rt.Prefix)
		p.note(r, v, audit.Entry{Action: action, Route: rt.Name, Prefix: rt.Prefix}, err)
		if err != nil {
			return err
		}

		p.sampler.Changed()
		return back(w, Root+"routes", url.Values{"said": {said}})
	}
}
