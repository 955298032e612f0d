package ui

import (
	"net/http"
	"net/url"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/redirect"
	"notifier/internal/sampler"
)

// redirectRow is a redirect with its progress.
type redirectRow struct {
	ID, Path, Client           string
	From                       string // empty = all addresses of Host
	To, Prefix, Audience, Host string
	State                      string
	Level                      level
	Reason                     string
	Redirected                 int64
	InFlight, Refused          int64
	Seen, Total                int64
	Changed                    stamp
	MayStop, MayResume         bool
	CSRF                       string
}

// redirectsOf returns the redirects of notices that the visitor may see.
func (p *Pages) redirectsOf(b *sampler.Board, v Visitor) (rows []redirectRow) {
	levels := map[string]level{redirect.Done: fine, redirect.Failed: wrong}
	for i := range b.Redirects {
		r := &b.Redirects[i]
		if !v.Owns(r.Prefix) {
			continue
		}

		row := redirectRow{ID: r.ID, Path: redirectPath(r.ID), Client: r.Client, From: p.base(r.From), To: p.base(r.To), Prefix: r.Prefix,
			Audience: r.Audience, Host: r.Host, State: r.State, Level: mind, Reason: r.Reason, Redirected: r.Redirected,
			InFlight: r.InFlight, Refused: r.Refused, Seen: min(r.Seen, r.Total), Total: r.Total,
			Changed: stampFrom(b.RedirectsAt, r.Changed), CSRF: v.CSRF}
		if level, over := levels[r.State]; over {
			row.Level = level
		}

		row.MayStop = v.May(access.Operate) && r.State == redirect.Running
		row.MayResume = v.May(access.Operate) && r.State == redirect.Stopped
		rows = append(rows, row)
	}

	return rows
}

// base returns an address of a redirect without its query; only its host if bodies are hidden.
func (p *Pages) base(address string) string {
	if address != "" && p.o.Mask.All() {
		return history.HostOf(address)
	}
	return notice.PublicAddress(address)
}

// changeRedirects adds the changes of redirects.
func (p *Pages) changeRedirects() {
	p.change(access.Operate, "POST /ui/redirects/{redirect}/stop", p.switchRedirect(true))
	p.change(access.Operate, "POST /ui/redirects/{redirect}/resume", p.switchRedirect(false))
}

// switchRedirect stops or resumes a redirect.
func (p *Pages) switchRedirect(stop bool) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		x, err := p.o.Engine.ReadRedirect(r.Context(), r.PathValue("redirect"))
		if err != nil {
			return err
		}
		if x.ID == "" || !v.Owns(x.Prefix) {
			return failure{http.StatusNotFound, say("There is no such redirect. The last 100 are kept, each for at most 30 days after it ends.")}
		}

		do, action, said := p.o.Engine.ResumeRedirect, audit.RedirectGoOn, "redirect-resumed"
		if stop {
			do, action, said = p.o.Engine.StopRedirect, audit.RedirectStop, "redirect-stopped"
		}

		_, changed, err := do(lasting(r), x.ID)
		if changed || err != nil {
			p.note(r, v, audit.Entry{Action: action, Prefix: x.Prefix, Detail: x.ID}, err)
		}

		if err != nil {
			return err
		}

		if !changed {
			said = "redirect-unchanged"
		}

		p.sampler.Changed()
		return back(w, Root+"receivers", url.Values{"said": {said}})
	}
}
