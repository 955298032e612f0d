package ui

import (
	"net/http"
	"net/url"
	"strings"

	"notifier/internal/audit"
	"notifier/internal/keys"
)

const auditLimit = 100

type auditPage struct {
	Prefix  string
	Entries []auditRow
	Next    string
	Wrong   text
}

type auditRow struct {
	audit.Entry
	When stamp
}

// showAudit serves the audit, latest entry first.
func (p *Pages) showAudit(w http.ResponseWriter, r *http.Request, v Visitor) error {
	q := r.URL.Query()
	page := auditPage{Prefix: strings.TrimSpace(q.Get("prefix"))}
	query := audit.Query{Limit: auditLimit, Prefix: strings.TrimSuffix(page.Prefix, ":")}
	if query.Prefix != "" && keys.CheckPrefix(query.Prefix) != nil && !keys.Valid(query.Prefix) {
		page.Wrong = say("Not a key or prefix: use app, app:module, app:module:type or app:module:type:id.")
		return p.render(w, r, http.StatusOK, view{Title: say("Audit"), Visitor: v, Content: auditContent(page)})
	}

	place := []byte("audit\n" + v.Client + "\n" + v.scope() + "\n" + page.Prefix)
	var err error
	if query.Before, err = p.opened(r, place); err != nil {
		return err
	}

	got, err := p.trail.Read(r.Context(), v.caller(), query)
	if err != nil {
		return err
	}

	for _, e := range got.Entries {
		page.Entries = append(page.Entries, auditRow{e, p.stamp(e.At)})
	}

	next, err := p.seal(r, got.Next, place)
	if err != nil {
		return err
	}

	if next != "" {
		page.Next = Root + "audit?" + url.Values{"prefix": {page.Prefix}, "cursor": {next}}.Encode()
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Audit"), Visitor: v, Content: auditContent(page)})
}

// resultLevel is the level of an action's result.
func resultLevel(r audit.Result) level {
	if r == audit.Done {
		return fine
	}
	return wrong
}
