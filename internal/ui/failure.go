package ui

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/wire"
)

// failure is an error that the visitor is told as it stands.
type failure struct {
	status int
	text   string
}

func (f failure) Error() string { return f.text }

// retryPage is after how many seconds a page that is not available is loaded again.
const retryPage = 5

// fail answers with a page that tells of err.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, v Visitor, err error) {
	if errors.Is(err, errSignIn) {
		p.sendToSignIn(w, r)
		return
	}
	f := p.failure(r.Context(), err)
	if at := wire.NodeOf(err); at != "" && v.All() && errors.Is(err, wire.ErrUnavailable) {
		f.text = "Redis node " + at + ": " + f.text
	}
	page := view{Template: "failure", Title: http.StatusText(f.status), Visitor: v, Bare: v.session == nil && !p.o.Sessions.Open(), Data: f.text}
	if f.status == http.StatusServiceUnavailable {
		// Whoever it is will come back: the pages of the navigation check that again.
		page.Bare = page.Bare && len(r.CookiesNamed(cookieName)) == 0
		if reads(r) {
			page.Retry = retryPage
		}
	}
	if err := p.render(w, r, f.status, page); err != nil {
		p.log.Error("a page could not be rendered", zap.String("path", r.URL.Path), zap.Error(err))
		http.Error(w, f.text, f.status)
	}
}

// failure turns an error into what the visitor is told.
func (p *Pages) failure(ctx context.Context, err error) failure {
	var f failure
	if errors.As(err, &f) {
		return f
	}
	if problem := api.Explain(err); problem != nil {
		return failure{problem.Status, problem.Detail}
	}
	if ctx.Err() == nil {
		p.log.Error("a page failed", zap.Error(err))
	}
	return failure{http.StatusInternalServerError, "Internal error; the log of the service has the cause."}
}
