package ui

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// failure is an error that a page shows to the visitor.
type failure struct {
	status int
	text   text
}

func (f failure) Error() string { return f.text.String() }

// both is two sentences.
func both(first, second text) text { return say("%s %s", first, second) }

// retryPage is after how many seconds a page that is not available is loaded again.
const retryPage = 5

// fail answers with a page that shows err.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, v Visitor, err error) {
	if errors.Is(err, errSignIn) {
		p.sendToSignIn(w, r)
		return
	}

	f := p.failure(r.Context(), err)
	if at := wire.NodeOf(err); at != "" && v.All() && errors.Is(err, wire.ErrUnavailable) {
		f.text = say("Redis node `%s`: %s", at, f.text)
	}

	page := view{Title: statusText(f.status), Visitor: v, Bare: v.session == nil && !p.o.Sessions.Open()}
	if f.status == http.StatusServiceUnavailable {
		// The cookie could not be checked. The pages of the navigation check it again.
		page.Bare = page.Bare && len(r.CookiesNamed(cookieName)) == 0
		if reads(r) {
			page.Retry = retryPage
		}
	}

	page.Content = failureContent(f.text, page.Retry)
	if err := p.render(w, r, f.status, page); err != nil {
		p.log.Error("cannot render a page", zap.String("path", r.URL.Path), zap.Error(err))
		http.Error(w, languageOf(r).plain(f.text), f.status)
	}
}

// knownErrors are the texts of the engine's errors. The API has its own, in English.
var knownErrors = []struct {
	err  error
	text text
}{
	{wire.ErrKeyUnreadable, say("The key of the service cannot be read at the moment. Try again.")},
	{store.ErrNotFound, say("No such notice is kept.")},
	{wire.ErrUnconfirmed, say("The change is stored, but not confirmed to be durable. Try again: nothing is done twice.")},
	{wire.ErrNotSynced, say("Redis does not sync to disk before it answers, as this service requires. Nothing was changed.")},
	{wire.ErrFull, say("Redis has reached `maxmemory`. Nothing was changed.")},
	{store.ErrLayout, say("The data in Redis belong to other settings. Nothing is read or written. The log names the difference.")},
	{wire.ErrNotBegun, say("Redis has not answered since this instance started. Nothing was changed. Try again.")},
	{wire.ErrMoved, say("Notices are being moved to another Redis. Nothing was changed. Try again.")},
	{wire.ErrUnavailable, say("Redis is unavailable. Try again.")},
	{wire.ErrLogin, say("Redis rejects the user or the password of this service. Run `notifier doctor`.")},
	{wire.ErrRights, say("The Redis user of this service lacks a permission. Run `notifier doctor`.")},
	{fleet.ErrForeign, say("The heartbeats cannot be read: another program may use their keys. Run `notifier doctor`.")},
	{store.ErrExpires, say("The notice would have expired by then. Nothing was changed.")},
	{store.ErrUnrouted, say("No route covers the key.")},
}

// failure returns the page for an error.
func (p *Pages) failure(ctx context.Context, err error) failure {
	var f failure
	if errors.As(err, &f) {
		return f
	}

	if at := vault.ForgottenAt(err); !at.IsZero() {
		return failure{http.StatusGone, say("Its audience or id was forgotten on %s. Nothing was changed.", p.stamp(at).UTC)}
	}

	if problem := api.Explain(err); problem != nil {
		for _, known := range knownErrors {
			if errors.Is(err, known.err) {
				return failure{problem.Status, known.text}
			}
		}
		return failure{problem.Status, plain(problem.Detail)}
	}

	if ctx.Err() == nil {
		p.log.Error("a page failed", zap.Error(err))
	}

	return failure{http.StatusInternalServerError, say("Internal error. The log of the service has the cause.")}
}

// timeFault is the text for a time that cannot be read.
func timeFault(err error) text {
	var bad *notice.TimeError
	switch {
	case !errors.As(err, &bad):
		return say("Not a time: use 14:00, yesterday 14:00, 2026-11-22 09:30, now, -1h or +15m.")
	case len(bad.Times) > 1:
		return say("The clocks of %s show %s twice: write %s or %s.", bad.Zone, bad.Text, bad.Times[0], bad.Times[1])
	case bad.Zone != "":
		return say("The clocks of %s skip %s: they are set forward.", bad.Zone, bad.Text)
	}

	return say("`%s` is not a time: use 14:00, yesterday 14:00, 2026-11-22 09:30, now, -1h or +15m.", bad.Text)
}
