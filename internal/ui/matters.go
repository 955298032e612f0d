package ui

import (
	"context"

	"notifier/internal/auth"
	"notifier/internal/problems"
)

// matter is a problem as the first page shows it.
type matter struct {
	Level  level
	Title  text
	Why    text
	Quoted string // a text in English, of doctor or of the log
	Facts  []text
	Links  []link
	Resume string // the name of a route that can be resumed from here
	CSRF   string
}

type link struct {
	Path string
	Text text
}

// severities are the levels of problems.
var severities = map[problems.Severity]level{problems.Warning: mind, problems.Error: wrong}

// matters returns the problems within the visitor's scope, worst first.
func (p *Pages) matters(b *problems.Board, v Visitor) (out []matter) {
	found, _ := p.sampler.Examiner.Troubles()
	for _, x := range problems.Find(problems.Options{Board: b, Routes: p.o.Routes, Reader: v.caller(), Findings: found,
		Explain: func(err error) problems.Text { return problems.Text(p.failure(context.Background(), err).text) }}) {
		m := matter{Level: severities[x.Severity], Title: text(x.Title), Why: text(x.Why), Quoted: x.Quoted, CSRF: v.CSRF}
		for _, f := range x.Facts {
			m.Facts = append(m.Facts, text(f))
		}

		for _, l := range x.Links {
			m.Links = append(m.Links, link{l.Path, text(l.Text)})
		}

		if x.Resume && v.May(auth.Operate) {
			m.Resume = x.Route
		}

		out = append(out, m)
	}

	return out
}

// routeName returns the name of the route of a prefix, or the prefix.
func (p *Pages) routeName(prefix string) string {
	return p.o.Routes.NameOf(prefix)
}

// routeFor returns the route of a prefix as a visitor sees it: visitors with a portal link see the prefix.
func (p *Pages) routeFor(prefix string, v Visitor) string {
	if v.Linked() {
		return prefix
	}
	return p.routeName(prefix)
}
