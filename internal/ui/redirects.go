package ui

import (
	"net/http"
	"net/url"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/problems"
)

// redirectRow is a redirect or another job with its progress.
type redirectRow struct {
	Kind                       string
	ID, Path, Client           string
	From                       string // empty = all addresses of Host
	To, Prefix, Audience, Host string
	State                      string
	Level                      level
	Reason                     string
	Redirected                 int64
	InFlight, Claimed, Refused int64
	Seen, Total                int64
	Changed                    stamp
	MayStop, MayResume         bool
	CSRF                       string
}

// redirectsOf returns the redirects, and the other jobs, of notices that the visitor may see.
func (p *Pages) redirectsOf(b *problems.Board, v Visitor) (rows, others []redirectRow) {
	levels := map[string]level{jobs.Done: fine, jobs.Failed: wrong}
	for i := range b.Redirects {
		r := &b.Redirects[i]
		if !v.Owns(r.Prefix) {
			continue
		}

		row := redirectRow{ID: r.ID, Kind: r.Kind,
			Path: redirectPath(r.ID), Client: r.Client, From: p.base(r.From), To: p.base(r.To), Prefix: r.Prefix,
			Audience: r.Audience, Host: r.Host, State: r.State, Level: mind, Reason: r.Reason, Redirected: r.Redirected,
			InFlight: r.InFlight, Claimed: r.Claimed, Refused: r.Refused, Seen: min(r.Seen, r.Total), Total: r.Total,
			Changed: stampFrom(b.RedirectsAt, r.Changed), CSRF: v.CSRF}
		if level, over := levels[r.State]; over {
			row.Level = level
		}

		row.MayStop = v.May(auth.Operate) && r.State == jobs.Running
		row.MayResume = v.May(auth.Operate) && r.State == jobs.Stopped
		if r.Redirects() {
			rows = append(rows, row)
		} else {
			others = append(others, row)
		}
	}

	return rows, others
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
	p.change(auth.Operate, "POST /ui/redirects/{redirect}/stop", p.switchRedirect(true))
	p.change(auth.Operate, "POST /ui/redirects/{redirect}/resume", p.switchRedirect(false))
}

// switchRedirect stops or resumes a redirect.
func (p *Pages) switchRedirect(stop bool) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		x, err := p.o.Engine.ReadRedirect(r.Context(), r.PathValue("redirect"))
		if err != nil {
			return err
		}
		if x.ID == "" || !v.Owns(x.Prefix) {
			return failure{http.StatusNotFound, say("There is no such job. The last 100 are kept, each for at most 30 days after it ends.")}
		}

		do, action, said := p.o.Engine.ResumeRedirect, audit.RedirectGoOn, "redirect-resumed"
		if !x.Redirects() {
			action, said = audit.JobResume, "job-resumed"
		}

		if stop {
			do, action, said = p.o.Engine.StopRedirect, audit.RedirectStop, "redirect-stopped"
			if !x.Redirects() {
				action, said = audit.JobStop, "job-stopped"
			}
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
