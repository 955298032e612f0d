package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/store"
	"notifier/internal/timespec"
)

type noticePage struct {
	Key, ID, Route, Host, URL, Audience, Method string
	State                                       notice.State
	Headline                                    string
	Level                                       level
	Due, Made, Settled                          stamp
	Reason                                      string
	Made1, Max                                  int
	Earlier                                     int // attempts that are kept no more
	Steps                                       []step
	Body                                        shownBody
	Headers                                     []notice.Header
	Signed                                      []sign.Recipe
	SignPer                                     string // of the schemes with secrets; empty = none
	CSRF                                        string
	May, MayCancel, MayFire, MayRedrive         bool
	MayTest                                     bool
	History                                     bool       // there is one to ask what ended under the key
	Ended                                       bool       // it is from the history
	Older                                       bool       // and is not the last one there
	Now                                         bool       // and there may be one that is kept
	Endings                                     []endedRow // there, the latest first
}

// step is a point of the time line.
type step struct {
	Coming  bool
	Level   level
	Title   string
	At      stamp
	Detail  string
	Answer  string
	Attempt int
}

// find is a notice that the visitor may see; all else is answered as if it did not
// exist.
func (p *Pages) find(r *http.Request, v Visitor) (store.Found, error) {
	key := r.PathValue("key")
	gone := failure{http.StatusNotFound, "No notice is kept under this key: it was never scheduled, or has ended longer ago than notices are kept."}
	if !keys.Valid(key) || !v.Covers(key) {
		return store.Found{}, gone
	}
	f, err := p.o.Engine.Find(r.Context(), key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !v.Sees(&f, p.hostOf(&f)) {
		return store.Found{}, gone
	}
	return f, err
}

// showNotice serves one notice: what was, what is, what comes, what to press.
// What Redis keeps no more, and with ?ended what ended under the key, is from the history.
func (p *Pages) showNotice(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if r.URL.Query().Has("ended") {
		return p.showEnded(w, r, v, failure{http.StatusNotFound, "The history has nothing that ended under this key."})
	}
	f, err := p.find(r, v)
	var gone failure
	if errors.As(err, &gone) {
		return p.showEnded(w, r, v, err)
	}
	if err != nil {
		return err
	}
	return p.render(w, r, http.StatusOK, view{Template: "notice", Title: f.Key, Section: "Notices", Visitor: v, Live: liveNoticePages + f.Key, Data: p.noticePage(&f, v)})
}

func (p *Pages) noticePage(f *store.Found, v Visitor) noticePage {
	rt, content := p.o.Routes.Prefix(f.Route), p.view(f)
	out := noticePage{Key: f.Key, ID: f.ID(), Route: p.routeName(f.Route), Host: p.hostOf(f), URL: address(content), Audience: content.Text(f.Audience),
		Method: cmp.Or(f.Method, http.MethodPost), State: f.State, Due: p.stamp(f.Due), Made: p.stamp(f.Made.Time()), Settled: p.stamp(f.SettledAt),
		Reason: string(f.Reason), Made1: f.AttemptsMade, Max: 1 + f.Redriven + len(f.Ladder), Earlier: f.AttemptsMade - len(f.Attempts),
		Body: p.body(f), Headers: headers(f.Headers, content), CSRF: v.CSRF, May: v.May(access.Produce), History: p.o.History != nil}
	if f.Ladder == nil && rt != nil {
		out.Max += len(rt.Ladder)
	}
	out.Level, out.Headline = p.headline(f)
	out.Steps = p.steps(f, rt, content)
	if rt != nil {
		signing := rt.Signing()
		if out.Signed = signing.Recipes(); signing.HMAC() {
			out.SignPer = string(signing.Per)
		}
	}
	if out.May {
		out.MayCancel = f.State == notice.Scheduled || f.State == notice.Claimed || f.State == notice.Dead
		out.MayFire = f.State == notice.Scheduled
	}
	if v.May(access.Operate) {
		out.MayRedrive = f.State == notice.Dead
		out.MayTest = p.o.Probe != nil && rt != nil && (rt.Target.Kind == route.KindFixed || rt.Target.Kind == route.KindNotice && f.URL != "")
	}
	return out
}

// headline answers "did we tell them, and when do we try again?" in a sentence.
func (p *Pages) headline(f *store.Found) (level, string) {
	now := p.now()
	tried := plural(f.AttemptsMade, "attempt")
	switch f.State {
	case notice.Delivered:
		return fine, fmt.Sprintf("Delivered %s, by attempt %d.", ago(now, f.SettledAt), f.AttemptsMade)
	case notice.Cancelled:
		return mind, fmt.Sprintf("Cancelled %s, after %s.", ago(now, f.SettledAt), tried)
	case notice.Dead:
		return wrong, fmt.Sprintf("Dead since %s (%s), after %s. Redrive to retry.", rough(now.Sub(f.SettledAt)), cmp.Or(string(f.Reason), "no reason is known"), tried)
	case notice.State(notice.EndReplaced):
		return mind, fmt.Sprintf("Replaced %s, after %s: another notice took its key.", ago(now, f.SettledAt), tried)
	case notice.Claimed:
		if f.AwaitsReport {
			return mind, "Handed to its consumer. Waiting for the report."
		}
		return mind, fmt.Sprintf("Attempt %d is in flight.", f.NextAttempt())
	}
	late := now.Sub(f.Due)
	next := f.NextAttemptAt()
	switch {
	case next.After(f.Due) && next.After(now):
		return mind, fmt.Sprintf("Postponed: attempt %d was due %s and comes %s.", f.NextAttempt(), ago(now, f.Due), ago(now, next))
	case late > lateFrom:
		return wrong, fmt.Sprintf("Overdue for %s: attempt %d was due then.", rough(late), f.NextAttempt())
	case f.AttemptsMade > 0:
		return mind, fmt.Sprintf("Not delivered yet, after %s. The next one is %s.", tried, ago(now, f.Due))
	}
	return fine, fmt.Sprintf("Due %s.", ago(now, f.Due))
}

// maxComing is how many coming attempts are shown.
const maxComing = 12

func (p *Pages) steps(f *store.Found, rt *route.Route, content *mask.View) []step {
	out := []step{{Title: "Scheduled", At: p.stamp(f.Made.Time()), Level: fine}}
	for _, a := range f.Attempts {
		s := step{Title: fmt.Sprintf("Attempt %d", a.Number), At: p.stamp(a.At), Attempt: a.Number, Detail: lastWord(a), Answer: answer(a.Response, content), Level: fine}
		if a.Reason != "" {
			s.Level = mind
		}
		if f.Redriven > 0 && a.Number == f.Redriven+1 {
			out = append(out, step{Title: "Redriven, ladder restarted", Level: fine})
		}
		out = append(out, s)
	}
	switch f.State {
	case notice.Delivered:
		return append(out, step{Title: "Delivered", At: p.stamp(f.SettledAt), Level: fine})
	case notice.Cancelled:
		return append(out, step{Title: "Cancelled", At: p.stamp(f.SettledAt), Level: mind})
	case notice.State(notice.EndReplaced):
		return append(out, step{Title: "Replaced by another notice", At: p.stamp(f.SettledAt), Level: mind})
	case notice.Dead:
		return append(out, step{Title: "Dead: " + cmp.Or(string(f.Reason), "no reason is known"), At: p.stamp(f.SettledAt), Level: wrong})
	}
	return append(out, p.comingSteps(f, rt)...)
}

func (p *Pages) comingSteps(f *store.Found, rt *route.Route) []step {
	var ladder notice.Ladder
	if rt != nil {
		ladder = rt.Ladder
	}
	at, n := f.Due, f.NextAttempt()
	if f.State == notice.Scheduled {
		at = f.NextAttemptAt()
	}
	first := step{Coming: true, Title: fmt.Sprintf("Attempt %d", n), At: p.stamp(at), Attempt: n}
	if f.State == notice.Claimed {
		first.Title += " is under way"
	}
	out := []step{first}
	if at.Before(p.now()) {
		at = p.now()
	}
	for len(out) < maxComing {
		wait, more := f.StepAfter(n, ladder)
		if !more {
			return append(out, step{Coming: true, Title: "Dead letter, unless one of them is acknowledged"})
		}
		at, n = at.Add(wait), n+1
		out = append(out, step{Coming: true, Title: fmt.Sprintf("Attempt %d, if attempt %d fails", n, n-1), At: p.stamp(at), Attempt: n, Detail: notice.Short(wait) + " after the one before"})
	}
	return append(out, step{Coming: true, Title: "and so on, to the end of the ladder"})
}

// amend makes a change of one notice of what an engine's call does.
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
		if err != nil || c.Done {
			p.note(r, v, audit.Entry{Action: action, Key: f.Key}, err)
		}
		if err != nil {
			return err
		}
		return back(w, Root+"notices/"+f.Key, url.Values{"said": {word}})
	}
}

func (p *Pages) changeNotices() {
	e := p.o.Engine
	p.change(access.Produce, "POST /ui/notices/{key}/cancel", p.amend(audit.Cancel, "cancelled", func(r *http.Request, key string) (store.Change, error) { return e.Cancel(lasting(r), key) }))
	p.change(access.Produce, "POST /ui/notices/{key}/fire", p.amend(audit.Fire, "fired", func(r *http.Request, key string) (store.Change, error) { return e.Fire(lasting(r), key) }))
	p.change(access.Operate, "POST /ui/notices/{key}/redrive", p.amend(audit.Redrive, "redriven", func(r *http.Request, key string) (store.Change, error) { return e.Redrive(lasting(r), key) }))
	p.change(access.Produce, "POST /ui/notices/{key}/reschedule", p.amend(audit.Reschedule, "rescheduled", func(r *http.Request, key string) (store.Change, error) {
		due, err := p.instant(strings.TrimSpace(r.FormValue("due")), Visitor{Zone: zoneOf(r)}, timespec.Next)
		if err != nil {
			return store.Change{}, failure{http.StatusUnprocessableEntity, "That time is not understood: " + err.Error() + "; or +15m. Nothing was changed."}
		}
		if due.IsZero() || due.After(p.now().Add(notice.MaxHorizon)) {
			return store.Change{}, failure{http.StatusUnprocessableEntity, "That time is not understood, or too far away; want " + timespec.Want + ", or +15m. Nothing was changed."}
		}
		return e.Reschedule(lasting(r), key, due.Truncate(time.Millisecond), 0)
	}))
}
