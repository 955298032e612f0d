package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// resendable reports whether a notice may be resent, as far as its state says.
func resendable(f *store.Found) bool {
	return (f.State == notice.Delivered || f.State == notice.Dead) && f.Raw == nil
}

// resend sends the notice that the page showed once more, from Redis or the history.
func (p *Pages) resend(w http.ResponseWriter, r *http.Request, v Visitor) error {
	key := r.PathValue("key")
	_, err := p.find(r, v)
	var absent failure
	if errors.As(err, &absent) {
		err = p.findEnded(r, v, err)
	}

	if err == nil {
		err = p.withinResends(w, r, v)
	}

	if err != nil {
		return err
	}

	ending, _ := strconv.Atoi(r.FormValue("ending")) // 0 is no ending
	x, err := expiryOf(r)
	if err != nil {
		return err
	}

	c, err := p.o.Engine.Resend(lasting(r), key, r.FormValue("id"), ending, x)
	var refused *jobs.Refusal
	if errors.As(err, &refused) {
		why := whyNotResent(refused)
		if v.Linked() { // the reason may be about a notice that the visitor may not see
			why = say("Its state has changed, or its content is no longer stored.")
		}

		return failure{http.StatusConflict, both(say("The notice is not resent."), why)}
	}

	if entry, ok := api.Changed(audit.Resend, key, &c, err); ok {
		if v.Linked() {
			entry.Detail += ", by link " + v.session.Link
		}

		p.note(r, v, entry, err)
	}

	if err != nil {
		return err
	}

	return back(w, Root+"notices/"+key, url.Values{"said": {"resent"}})
}

// whyNotResent returns the reason of a refused resend.
func whyNotResent(r *jobs.Refusal) text {
	message := strings.ReplaceAll(r.Reason.Text(), "]v", "]s")
	return say(message, r.Args...)
}

// findEnded looks for the notice of a resend in the history. If it is not there, or would be sent to a
// host that the visitor may not see, findEnded returns otherwise.
func (p *Pages) findEnded(r *http.Request, v Visitor, otherwise error) error {
	rows, err := p.endings(r.Context(), r.PathValue("key"), r.FormValue("id"), v)
	if err != nil || len(rows) == 0 {
		return errors.Join(err, otherwise)
	}

	if n, err := jobs.FromRow(p.o.Routes, &rows[0]); err == nil && v.Host != "" {
		if f := (store.Found{Notice: n}); p.hostOf(&f) != v.Host {
			return otherwise
		}
	}

	return nil
}

// withinResends counts the resend of a visitor with a portal link. It returns the failure if the link has
// too many.
func (p *Pages) withinResends(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if !v.Linked() {
		return nil
	}

	wait, err := p.o.Sessions.CountResend(r.Context(), v.session)
	if err != nil || wait <= 0 {
		return err
	}

	setRetryAfter(w, wait)
	return failure{http.StatusTooManyRequests, say("This link may resend %s notices a minute. Try again later.", auth.MaxResends)}
}
