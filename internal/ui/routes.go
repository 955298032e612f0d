package ui

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// routeRow is what the configuration of a route came to, without secrets and
// without the address of a fixed target, which may hold some.
type routeRow struct {
	Name, Prefix, Target, Ladder, Summary string
	Jitter, Ack, Timeout, Signed          string
	Concurrency, HostConcurrency, Rate    string
	More                                  []string
	Paused, May, Shared                   bool
	CSRF                                  string
}

func (p *Pages) showRoutes(w http.ResponseWriter, r *http.Request, v Visitor) error {
	b := p.sampler.current(r.Context())
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
		row.Shared = !v.Owns(rt.Prefix)
		row.Paused, row.May, row.CSRF = paused[rt.Prefix], !row.Shared && v.May(access.Operate), v.CSRF
		rows = append(rows, row)
	}
	return p.render(w, r, http.StatusOK, view{Template: "routes", Title: "Routes", Visitor: v, Data: rows})
}

func rowOf(rt *route.Route) routeRow {
	many := func(n int) string {
		if n == 0 {
			return "unlimited"
		}
		return number(n)
	}
	row := routeRow{Name: rt.Name, Prefix: rt.Prefix, Target: targetText(rt), Ladder: rt.Ladder.String(), Summary: rt.Ladder.Summary(), Ack: rt.Acknowledgement(),
		Timeout: notice.Short(rt.Timeout), Signed: "no", Concurrency: many(rt.Concurrency), HostConcurrency: many(rt.HostConcurrency), Rate: "unlimited"}
	if rt.Jitter > 0 {
		row.Jitter = "± " + strconv.FormatFloat(rt.Jitter*100, 'f', -1, 64) + " %"
	}
	if rt.Rate > 0 {
		row.Rate = perSecond(rt.Rate)
	}
	if signing := rt.Signing(); len(signing.Schemes) > 0 {
		row.Signed = strings.TrimPrefix(rt.SignedText(), "signed ")
		if signing.HMAC() {
			row.Signed += ", with " + plural(len(rt.Secrets), "secret")
		}
	}
	for _, m := range []struct {
		is   bool
		text string
	}{
		{rt.Adopt, "takes over plain timers"}, {rt.HTTPSOnly, "https only"}, {rt.Proxy != nil, "by a proxy"}, {rt.CertFile != "", "with a certificate of its own"},
		{rt.CAFile != "", "trusts certificates of its own"}, {rt.Method != "" && rt.Method != http.MethodPost, "by " + rt.Method},
		{len(rt.Headers) > 0, plural(len(rt.Headers), "header") + " of its own"},
	} {
		if m.is {
			row.More = append(row.More, m.text)
		}
	}
	return row
}

// switchRoute pauses or resumes. Only who sees all of a route may do it.
func (p *Pages) switchRoute(paused bool) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		rt := p.o.Routes.Name(r.PathValue("name"))
		if rt == nil || !v.Meets(rt.Prefix) {
			return failure{http.StatusNotFound, "There is no such route."}
		}
		if !v.Owns(rt.Prefix) {
			return failure{http.StatusForbidden, "This route carries notices of others too; it is not yours to pause or resume."}
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
		p.sampler.changed.Store(true)
		return back(w, Root+"routes", url.Values{"said": {said}})
	}
}
