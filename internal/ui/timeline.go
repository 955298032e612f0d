package ui

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/history"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// step is an entry of the timeline.
type step struct {
	Coming  bool
	Level   level
	Title   text
	At      stamp
	Detail  text
	Answer  string
	Attempt int
}

// chronicle has the earlier ends of a notice, from the history, and its changes, from the audit. The notice's record keeps only
// attempts and the last state.
type chronicle struct {
	Ended   []history.Row // its earlier ends
	Changes []audit.Entry
}

// mostChanges is the maximum number of changes on a timeline, the latest ones.
const mostChanges = 50

// changeTitles are the changes of one notice that its timeline shows.
var changeTitles = map[audit.Action]text{
	audit.Cancel: say("Cancelled"), audit.Fire: say("Due time set to now"), audit.Reschedule: say("Due time changed"),
	audit.Readdress: say("Address or headers changed"), audit.Redrive: say("Redriven, ladder restarted"),
	audit.Resend: say("Resent, ladder restarted"), audit.SendTest: say("Test request sent"), audit.Restore: say("Put back from the history"),
}

// chronicle reads what history and audit have about a notice, as far as the visitor may see it. A source that
// cannot be read is left out.
func (p *Pages) chronicle(ctx context.Context, f *store.Found, v Visitor) chronicle {
	var c chronicle
	if f.Endings > 0 {
		rows, err := p.endings(ctx, f.Key, f.ID(), v)
		if err != nil {
			p.log.Debug("cannot read the history, the timeline lacks earlier ends", zap.String("key", f.Key), zap.Error(err))
		}

		c.Ended = slices.DeleteFunc(rows, func(r history.Row) bool { return r.Number > f.Endings })
	}

	if v.Linked() {
		return c
	}

	since := audit.Range{Since: f.Made.Time().Truncate(time.Millisecond)}
	page, err := p.trail.Read(ctx, v.caller(), audit.Query{Range: since, Prefix: f.Key, Limit: mostChanges, Changes: true})
	if err != nil {
		p.log.Debug("cannot read the audit, the timeline lacks changes", zap.String("key", f.Key), zap.Error(err))
	}

	for _, e := range page.Entries {
		if e.Key == f.Key && e.Result == audit.Done && changeTitles[e.Action] != nil {
			c.Changes = append(c.Changes, e)
		}
	}

	return c
}

// by says who made a change, and how.
func by(e *audit.Entry) text {
	switch {
	case e.Client == "" && e.Via == audit.Pages:
		return say("on these pages")
	case e.Client == "":
		return say("through the API")
	case e.Via == audit.Pages:
		return say("by %s, on these pages", e.Client)
	}
	return say("by %s, through the API", e.Client)
}

// moment is a step of the past.
type moment struct {
	step
	place time.Time // sorts the timeline; an end without a known time has that of its attempt
	at    time.Time // is shown; zero = unknown
}

// dated is a step at a time.
func dated(s step, at time.Time) moment { return moment{s, at, at} }

// steps returns the past of a notice: its attempts, ends and changes, earliest first.
func (p *Pages) steps(f *store.Found, c chronicle, content *mask.View, v Visitor) []step {
	made := f.Made.Time()
	list := []moment{{step{Title: say("step|Created"), Level: fine}, made.Truncate(time.Millisecond), made}}
	for _, a := range f.Attempts {
		s := step{Title: say("Attempt %s", a.Number), Attempt: a.Number, Detail: v.result(a), Answer: content.AnswerText(a.Response), Level: fine}
		if a.Reason != "" {
			s.Level = mind
		}

		if list = append(list, dated(s, a.At)); c.endedUnseen(f, &a) {
			list = append(list, unseenEnd(f, &a, v))
		}
	}

	for i := range c.Ended {
		row := remembered(&c.Ended[i])
		list = append(list, dated(endStep(&row, v), row.SettledAt))
	}

	list = append(list, changeSteps(f, c)...)
	if !unsettled(f.State) {
		last := endStep(f, v)
		last.Detail = c.canceller(f)
		end := dated(last, f.SettledAt)
		if f.SettledAt.IsZero() {
			end.place = p.now()
		}

		list = append(list, end)
	}

	return p.sorted(list)
}

// unsettled reports whether the notice in this state has attempts to come.
func unsettled(s notice.State) bool { return s == notice.Scheduled || s == notice.Claimed }

// endedUnseen reports whether a notice without an entry of the history ended with an attempt before the last restart of the
// ladder: it was delivered, or it is the attempt before the restart.
func (c *chronicle) endedUnseen(f *store.Found, a *notice.Attempt) bool {
	if a.Number > f.Redriven || a.Number < f.Redriven && a.Reason != "" {
		return false
	}
	return !slices.ContainsFunc(c.Ended, func(r history.Row) bool { return r.AttemptsMade == a.Number })
}

// unseenEnd is the end of a notice with an attempt, concluded from that attempt. A notice whose expiry was changed may have died later,
// because it had expired: then its record has neither the reason nor the time of its death.
func unseenEnd(f *store.Found, a *notice.Attempt, v Visitor) moment {
	end := a.At.Add(a.Duration)
	switch {
	case a.Reason == "":
		return moment{step{Title: say("Delivered"), Level: fine}, a.At, end}
	case f.FirstExpires > 0 || f.FirstExpires == notice.NoExpiry && f.Endings > 1:
		return moment{step: step{Title: say("Dead"), Level: wrong}, place: a.At}
	}

	return moment{step{Title: say("Dead: %s", v.reason(a.Reason)), Level: wrong}, a.At, end}
}

// endStep is the end of a notice.
func endStep(f *store.Found, v Visitor) step {
	switch f.State {
	case notice.Delivered:
		return step{Title: say("Delivered"), Level: fine}
	case notice.Cancelled:
		return step{Title: say("Cancelled"), Level: mind}
	case notice.State(notice.EndReplaced):
		return step{Title: say("Replaced by another notice"), Level: mind}
	case notice.Lost:
		return step{Title: say("lost"), Level: wrong}
	}
	return step{Title: say("Dead: %s", v.deathReason(f)), Level: wrong}
}

// canceller says who cancelled a cancelled notice, if the audit has it.
func (c *chronicle) canceller(f *store.Found) text {
	i := slices.IndexFunc(c.Changes, func(e audit.Entry) bool { return e.Action == audit.Cancel })
	if f.State != notice.Cancelled || i < 0 {
		return nil
	}

	return by(&c.Changes[i])
}

// changeSteps are the changes of a notice. The last restart of its ladder is one of them even if the audit lacks it.
func changeSteps(f *store.Found, c chronicle) []moment {
	var list []moment
	at := restartedAt(f, c)
	audited := f.Redriven == 0
	for i := range c.Changes {
		e := &c.Changes[i]
		if e.Action == audit.Cancel && f.State == notice.Cancelled {
			continue // its end says who did it
		}

		restart := e.Action == audit.Redrive || e.Action == audit.Resend
		audited = audited || restart && e.At.After(at.Add(-clockError))
		list = append(list, dated(step{Title: changeTitles[e.Action], Detail: by(e), Level: fine}, e.At))
	}

	if !audited {
		list = append(list, moment{step: restartStep(f), place: at})
	}

	return list
}

// clockError is how far the times of attempts, by the clocks of instances, may be ahead of Redis's, which times changes.
const clockError = time.Second

// restartedAt returns the place of the last end before the last restart of the ladder, or the time of creation if that end
// is not kept.
func restartedAt(f *store.Found, c chronicle) time.Time {
	at := f.Made.Time()
	for _, a := range f.Attempts {
		if a.Number == f.Redriven {
			at = a.At
		}
	}

	for i := range c.Ended {
		if end := c.Ended[i].Ended; end.After(at) {
			at = end
		}
	}

	return at
}

// sorted returns the steps by their places, those of one place in their order.
func (p *Pages) sorted(list []moment) []step {
	slices.SortStableFunc(list, func(a, b moment) int { return a.place.Compare(b.place) })
	out := make([]step, len(list))
	for i, m := range list {
		out[i] = m.step
		out[i].At = p.stamp(m.at)
	}

	return out
}

// maxComing is the maximum number of future attempts on the timeline.
const maxComing = 12

// expiry is the step at which a notice expires.
func (p *Pages) expiry(f *store.Found) step {
	return step{Coming: true, Title: say("Dead letter, because it expires"), At: p.stamp(f.Expires)}
}

// comingSteps are the attempts to come.
func (p *Pages) comingSteps(f *store.Found, rt *route.Route) []step {
	var ladder notice.Ladder
	if rt != nil {
		ladder = rt.Ladder
	}

	at, n := f.Due, f.NextAttempt()
	if f.Waits {
		return []step{{Coming: true, Title: say("Attempt %s, when the other notice no longer holds it back", n), Attempt: n}}
	}

	if f.State == notice.Scheduled {
		at = f.NextAttemptAt()
	}

	first := step{Coming: true, Title: say("Attempt %s", n), At: p.stamp(at), Attempt: n}
	if f.State == notice.Claimed {
		first.Title = say("Attempt %s, in flight", n)
	}

	if f.Expired(at) {
		return []step{p.expiry(f)}
	}

	out := []step{first}
	if at.Before(p.now()) {
		at = p.now()
	}

	for len(out) < maxComing {
		wait, more := f.StepAfter(n, ladder)
		if !more {
			return append(out, step{Coming: true, Title: say("Dead letter, unless an attempt is acknowledged")})
		}

		at, n = at.Add(wait), n+1
		if f.Expired(at) {
			return append(out, p.expiry(f))
		}

		out = append(out, step{Coming: true, Title: say("Attempt %s, if attempt %s fails", n, n-1), At: p.stamp(at), Attempt: n,
			Detail: say("%s after the previous attempt", wait)})
	}

	return append(out, step{Coming: true, Title: say("and so on, to the end of the ladder")})
}
