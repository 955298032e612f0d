package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/sign"
	"notifier/internal/store"
)

type noticePage struct {
	Key, ID, Route, Host, URL, Audience, Method string
	ScheduledURL                                string // as scheduled, if it was changed since
	URLSealed                                   bool   // URL lacks its query
	State                                       notice.State
	Headline                                    text
	Level                                       level
	Head                                        string // the notice that this one waits for, if the visitor may see it
	Due, Made, Settled, Expires, Tick           stamp
	Expired                                     bool // it cannot be sent again without a new expiry
	Reason                                      text
	Made1, Max                                  int
	Earlier                                     int // attempts that are no longer recorded
	Steps                                       []step
	Body                                        shownBody
	Headers                                     []notice.Header
	Signed                                      []sign.Recipe
	SignPer                                     string // of the schemes with secrets; empty without any
	CSRF                                        string
	Linked                                      bool // the visitor has a portal link
	May, MayCancel, MayFire, MayRedrive         bool
	MayTest, MayResend                          bool
	Ending                                      int        // names, with ID, the notice to resend
	History                                     bool       // the history can be searched for the key
	Ended                                       bool       // the notice is from the history
	Older                                       bool       // the history has a later one
	Now                                         bool       // Redis may have a current notice
	FoundBy                                     string     // the order number that led to the notice
	Endings                                     []endedRow // in the history, latest first
}

// find returns a notice that the visitor may see. All other notices are answered as if they did not exist.
func (p *Pages) find(r *http.Request, v Visitor) (store.Found, error) {
	key := r.PathValue("key")
	gone := failure{http.StatusNotFound, say("No notice is kept under this key: it was never scheduled, was erased, or its retention is " +
		"over.")}
	if !keys.Valid(key) || !v.Covers(key) {
		return store.Found{}, gone
	}

	f, err := p.o.Engine.Find(r.Context(), key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !v.Sees(&f, p.hostOf(&f)) {
		return store.Found{}, gone
	}

	if err == nil && p.reveal(r.Context(), v, &f) {
		p.noteOpened(r, v, audit.Entry{Key: key})
	}

	return f, err
}

// showNotice serves one notice: state, timeline and actions. If Redis does not have it, or with ?ended,
// the page shows the finalized notice of the history.
func (p *Pages) showNotice(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if r.URL.Query().Has("ended") {
		return p.showEnded(w, r, v, failure{http.StatusNotFound, say("The history has no finalized notice of this key.")})
	}

	f, err := p.find(r, v)
	var gone failure
	if errors.As(err, &gone) {
		return p.showEnded(w, r, v, err)
	}
	if err != nil {
		return err
	}

	page := p.noticePage(&f, p.chronicle(r.Context(), &f, v), v)
	p.addHead(r.Context(), &page, &f, v)
	page.FoundBy = p.foundBy(r.URL.Query())
	return p.render(w, r, http.StatusOK, view{Title: plain(f.Key), Section: say("Notices"), Visitor: v,
		Live: liveNoticePages + f.Key, Content: noticeContent(page)})
}

func (p *Pages) noticePage(f *store.Found, c chronicle, v Visitor) noticePage {
	rt, content := p.o.Routes.Prefix(f.Route), p.view(f)
	out := noticePage{Key: f.Key, ID: f.ID(), Route: p.routeFor(f.Route, v), Host: p.hostOf(f), URL: address(content),
		Audience: content.Text(f.Audience), Method: cmp.Or(f.Method, http.MethodPost), State: f.State, Due: p.stamp(f.Due),
		Made: p.stamp(f.Made.Time()), Settled: p.stamp(f.SettledAt), Made1: f.AttemptsMade, Max: rt.MaxAttempts(f.Notice),
		Earlier: f.AttemptsMade - len(f.Attempts), Body: p.body(f), Headers: headers(f.Headers, content), CSRF: v.CSRF, Linked: v.Linked(),
		May: v.May(auth.Produce), History: p.o.History != nil, Ending: f.Ending()}
	out.ScheduledURL, out.URLSealed = p.scheduledAddress(f), f.URLSealed
	out.Expires, out.Expired, out.Tick = p.stamp(f.Expires), f.Expired(p.now()), p.stamp(f.Tick)
	if f.Reason != "" {
		out.Reason = v.deathReason(f)
	}

	out.Level, out.Headline = p.headline(f, v)
	out.Steps = p.steps(f, c, content, v)
	if unsettled(f.State) {
		out.Steps = append(out.Steps, p.comingSteps(f, rt)...)
	}

	if rt != nil {
		signing := rt.Signing()
		if out.Signed = signing.Recipes(); signing.Shared() {
			out.SignPer = string(signing.Per)
		}
	}

	if out.May {
		out.MayCancel = f.State == notice.Scheduled || f.State == notice.Claimed || f.State == notice.Dead
		out.MayFire = f.State == notice.Scheduled
	}

	if v.May(auth.Operate) {
		out.MayRedrive = f.State == notice.Dead
		out.MayTest = p.o.Tests.Tests(f)
	}

	if v.mayResend() {
		out.MayResend = resendable(f)
		out.May = out.May || out.MayResend
	}

	return out
}

// ofAttempts returns "2 of 10", or "2" if there is no last one, or it is not known.
func ofAttempts(n, most int) text {
	if most == 0 {
		return plain(n)
	}
	return say("%s of %s", n, most)
}

// addHead makes the headline of a parked notice, with the notice that it waits for if the visitor may see that one.
func (p *Pages) addHead(ctx context.Context, page *noticePage, f *store.Found, v Visitor) {
	if !f.Waits {
		return
	}

	page.Level, page.Headline = mind, say("Waiting for another notice of its sequence.")
	if f.WaitsFor == "" || !v.Covers(f.WaitsFor) {
		return
	}

	head, err := p.o.Engine.Find(ctx, f.WaitsFor)
	if err != nil || !v.Sees(&head, p.hostOf(&head)) {
		return // it may just have ended
	}

	page.Head = head.Key
	n, most := head.NextAttempt(), p.o.Routes.Prefix(head.Route).MaxAttempts(head.Notice)
	switch next := head.NextAttemptAt(); {
	case head.State == notice.Claimed:
		page.Headline = say("Waiting for another notice of its sequence (attempt %s, in flight):", ofAttempts(n, most))
	case head.State == notice.Scheduled && !next.IsZero():
		page.Headline = say("Waiting for another notice of its sequence (attempt %s, %s):", ofAttempts(n, most), fromNow(p.now(), next))
	default:
		page.Headline = say("Waiting for another notice of its sequence:")
	}
}

// headline returns the state of a notice in one sentence.
func (p *Pages) headline(f *store.Found, v Visitor) (level, text) {
	now, tried := p.now(), f.AttemptsMade
	switch f.State {
	case notice.Lost:
		return wrong, say("Lost: Redis has only the record of this notice, and nothing delivers it. Schedule it again.")
	case notice.Delivered:
		return fine, say("Delivered %s, by attempt %s.", fromNow(now, f.SettledAt), tried)
	case notice.Cancelled:
		return mind, say("Cancelled %s, after %s attempt(s).", fromNow(now, f.SettledAt), tried)
	case notice.Dead:
		return wrong, say("Died %s (%s), after %s attempt(s). Redrive to retry.", fromNow(now, f.SettledAt), v.deathReason(f), tried)
	case notice.State(notice.EndReplaced):
		return mind, say("Replaced %s by another notice of the key, after %s attempt(s).", fromNow(now, f.SettledAt), tried)
	case notice.Claimed:
		if f.AwaitsReport {
			return mind, say("Handed to the consumer. Waiting for its report.")
		}
		return mind, say("Attempt %s is in flight.", f.NextAttempt())
	}

	late := now.Sub(f.Due)
	next := f.NextAttemptAt()
	switch {
	case f.Reason == notice.ReasonMissing:
		return wrong, say("The record of this notice is missing in Redis. The notice becomes a dead letter %s.", fromNow(now, next))
	case f.HeldLocal(now) >= time.Hour:
		return wrong, say("Not attempted for %s: the machine of the service lacks a resource. Attempt %s was due %s.",
			f.HeldLocal(now).Round(time.Minute), f.NextAttempt(), fromNow(now, f.Due))
	case next.After(f.Due) && next.After(now):
		return mind, say("Postponed: attempt %s was due %s. It starts %s.", f.NextAttempt(), fromNow(now, f.Due), fromNow(now, next))
	case late > problems.LateFrom:
		return wrong, say("Overdue: attempt %s was due %s.", f.NextAttempt(), fromNow(now, f.Due))
	case f.AttemptsMade > 0:
		return mind, pendingAgain(f, tried, fromNow(now, f.Due))
	}

	return fine, say("Due %s.", fromNow(now, f.Due))
}

// amend serves a change of one notice.
func (p *Pages) amend(action audit.Action, said string, do func(r *http.Request, key string) (store.Change, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		f, err := p.find(r, v)
		if err != nil {
			return err
		}

		c, err := do(r, f.Key)
		var bad failure
		if errors.As(err, &bad) {
			return err
		}

		word := said
		switch {
		case err == nil && !c.Done:
			word = "unchanged"
		case err == nil && c.InFlight && action == audit.Cancel:
			word = "in-flight"
		}

		if e, ok := api.Changed(action, f.Key, &c, err); ok {
			p.note(r, v, e, err)
		}

		if err != nil {
			return err
		}

		return back(w, Root+"notices/"+f.Key, url.Values{"said": {word}})
	}
}

// expiryOf reads when a notice that is sent again expires.
func expiryOf(r *http.Request) (x notice.Expiry, err error) {
	if s := strings.TrimSpace(r.FormValue("expires")); s != "" {
		x.After, err = notice.ParseDuration(s)
		if err != nil || x.After < time.Second || x.After > notice.MaxHorizon {
			return x, failure{http.StatusUnprocessableEntity, say("Not a duration such as 10m. Nothing was changed.")}
		}
	}

	return x, nil
}

func (p *Pages) changeNotices() {
	e := p.o.Engine
	p.change(auth.Produce, "POST /ui/notices/{key}/cancel", p.amend(audit.Cancel, "cancelled",
		func(r *http.Request, key string) (store.Change, error) { return e.Cancel(lasting(r), key) }))
	p.change(auth.Produce, "POST /ui/notices/{key}/fire", p.amend(audit.Fire, "fired",
		func(r *http.Request, key string) (store.Change, error) { return e.Fire(lasting(r), key) }))
	p.change(auth.Operate, "POST /ui/notices/{key}/redrive", p.amend(audit.Redrive, "redriven",
		func(r *http.Request, key string) (store.Change, error) {
			x, err := expiryOf(r)
			if err != nil {
				return store.Change{}, err
			}

			return e.Redrive(lasting(r), key, x)
		}))
	p.change(auth.Operate, resendPattern, p.resend)
	p.change(auth.Produce, "POST /ui/notices/{key}/reschedule", p.amend(audit.Reschedule, "rescheduled",
		func(r *http.Request, key string) (store.Change, error) {
			due, err := p.instant(strings.TrimSpace(r.FormValue("due")), Visitor{Zone: zoneOf(r)}, notice.TakeNext)
			if err != nil {
				return store.Change{}, failure{http.StatusUnprocessableEntity, both(timeFault(err), say("Nothing was changed."))}
			}

			if _, err := (store.When{Due: due}).Check(p.now()); err != nil || due.IsZero() {
				return store.Change{}, failure{http.StatusUnprocessableEntity, say("No due time, or a time too far in the future. Nothing was " +
					"changed.")}
			}

			return e.Reschedule(lasting(r), key, due.Truncate(time.Millisecond), 0)
		}))
}
