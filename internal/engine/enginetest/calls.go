package enginetest

import (
	"context"
	"notifier/internal/receivers"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// The methods of this file are the engine's, with the faults of Fail and Miss.

func done(c store.Change) int { return count(c.Done) }

func created(list []store.Reply) (n int) {
	for i := range list {
		n += count(list[i].Created)
	}
	return n
}

func count(changed bool) int {
	if changed {
		return 1
	}
	return 0
}

// failed are n replies with an error.
func failed(n int, err error) []store.Reply {
	out := make([]store.Reply, n)
	for i := range out {
		out[i].Err = err
	}

	return out
}

// Schedule schedules a notice.
func (e *Engine) Schedule(ctx context.Context, r store.Request) (store.Reply, error) {
	return attempt(e, func() (store.Reply, error) { return e.Engine.Schedule(ctx, r) }, func(r store.Reply) int { return count(r.Created) })
}

// ScheduleMany schedules notices.
func (e *Engine) ScheduleMany(ctx context.Context, list []store.Request) []store.Reply {
	out, err := attempt(e, func() ([]store.Reply, error) { return e.Engine.ScheduleMany(ctx, list), nil }, created)
	if err != nil {
		return failed(len(list), err)
	}

	return out
}

// Restore puts notices back.
func (e *Engine) Restore(ctx context.Context, list []store.Letter) []store.Reply {
	out, err := attempt(e, func() ([]store.Reply, error) { return e.Engine.Restore(ctx, list), nil }, created)
	if err != nil {
		return failed(len(list), err)
	}

	return out
}

// Find reads a notice.
func (e *Engine) Find(ctx context.Context, key string) (store.Found, error) {
	return attempt(e, func() (store.Found, error) { return e.Engine.Find(ctx, key) }, nil)
}

// Cancel cancels a notice.
func (e *Engine) Cancel(ctx context.Context, key string) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Cancel(ctx, key) }, done)
}

// Fire makes a notice due now.
func (e *Engine) Fire(ctx context.Context, key string) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Fire(ctx, key) }, done)
}

// Redrive schedules a dead letter again.
func (e *Engine) Redrive(ctx context.Context, key string, x notice.Expiry) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Redrive(ctx, key, x) }, done)
}

// Resend sends a delivered or dead notice once more.
func (e *Engine) Resend(ctx context.Context, key, id string, ending int, x notice.Expiry) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Resend(ctx, key, id, ending, x) }, done)
}

// Reschedule gives a notice another due time.
func (e *Engine) Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Reschedule(ctx, key, due, delay) }, done)
}

// Readdress gives a notice another url or other headers.
func (e *Engine) Readdress(ctx context.Context, key string, x notice.Address, when *store.When) (c store.Change, was *notice.Notice,
	err error) {
	c, err = attempt(e, func() (c store.Change, err error) {
		c, was, err = e.Engine.Readdress(ctx, key, x, when)
		return c, err
	}, done)
	return c, was, err
}

// Report ends a consumer's attempt.
func (e *Engine) Report(ctx context.Context, key string, v notice.Report) (store.Change, error) {
	return attempt(e, func() (store.Change, error) { return e.Engine.Report(ctx, key, v) }, done)
}

// List reads a page.
func (e *Engine) List(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := attempt(e, func() (store.Page, error) { return e.Engine.List(ctx, q) }, nil)
	p.Missing = e.lost(p.Missing)
	return p, err
}

// AmendAll makes one step of a bulk change.
func (e *Engine) AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error) {
	r, err := attempt(e, func() (store.Amends, error) { return e.Engine.AmendAll(ctx, b) }, func(r store.Amends) int { return r.Changed })
	r.Missing = e.lost(r.Missing)
	return r, err
}

// PauseReceiver pauses a receiver.
func (e *Engine) PauseReceiver(ctx context.Context, client string, r receivers.Receiver, until time.Time, over time.Duration) error {
	return e.turn(1, func() error { return e.Engine.PauseReceiver(ctx, client, r, until, over) })
}

// ResumeReceiver resumes a receiver.
func (e *Engine) ResumeReceiver(ctx context.Context, r receivers.Receiver, over time.Duration) (paused bool, err error) {
	err = e.turn(1, func() (err error) {
		paused, err = e.Engine.ResumeReceiver(ctx, r, over)
		return err
	})
	return paused, err
}

// LimitReceiver limits a host.
func (e *Engine) LimitReceiver(ctx context.Context, client string, l receivers.Limit) error {
	return e.turn(1, func() error { return e.Engine.LimitReceiver(ctx, client, l) })
}

// Holds returns the pauses and limits.
func (e *Engine) Holds(ctx context.Context) (t *receivers.HoldTable, err error) {
	err = e.turn(0, func() (err error) {
		t, err = e.Engine.Holds(ctx)
		return err
	})
	return t, err
}

// Pause pauses a route.
func (e *Engine) Pause(ctx context.Context, prefix string) error {
	return e.turn(1, func() error { return e.Engine.Pause(ctx, prefix) })
}

// Resume resumes a route.
func (e *Engine) Resume(ctx context.Context, prefix string) error {
	return e.turn(1, func() error { return e.Engine.Resume(ctx, prefix) })
}

// Counts counts the notices of each route.
func (e *Engine) Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error) {
	list, err = attempt(e, func() (list []store.Counts, err error) {
		list, missing, err = e.Engine.Counts(ctx)
		return list, err
	}, nil)
	return list, e.lost(missing), err
}

// DeadCauses counts the dead letters by cause.
func (e *Engine) DeadCauses(ctx context.Context, since time.Time) (store.DeadCount, error) {
	out, err := attempt(e, func() (store.DeadCount, error) { return e.Engine.DeadCauses(ctx, since) }, nil)
	out.Missing = e.lost(out.Missing)
	return out, err
}

// Forecast counts the notices that fall due.
func (e *Engine) Forecast(ctx context.Context, prefix string, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error) {
	counts, err = attempt(e, func() (counts []int64, err error) {
		counts, missing, err = e.Engine.Forecast(ctx, prefix, span, n)
		return counts, err
	}, nil)
	return counts, e.lost(missing), err
}

// Minutes reads the work of all instances.
func (e *Engine) Minutes(ctx context.Context, behind string, since time.Time) (list []fleet.Minute, last string, err error) {
	last = behind
	list, err = attempt(e, func() (list []fleet.Minute, err error) {
		list, last, err = e.Engine.Minutes(ctx, behind, since)
		return list, err
	}, nil)
	return list, last, err
}

// Instances lists the instance, with the figures of Tell, and the instances of Tell.
func (e *Engine) Instances(ctx context.Context) ([]fleet.Instance, error) {
	list, err := attempt(e, func() ([]fleet.Instance, error) { return e.Engine.Instances(ctx) }, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.figures != nil {
		for i := range list {
			list[i].Figures = e.figures
		}
		list = append(list, e.others...)
	}

	return list, err
}

// Audit keeps an entry.
func (e *Engine) Audit(ctx context.Context, entry audit.Entry) error {
	return e.turn(0, func() error { return e.Engine.Audit(ctx, entry) })
}

// Audited reads entries.
func (e *Engine) Audited(ctx context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	return attempt(e, func() ([]audit.Entry, error) { return e.Engine.Audited(ctx, r, limit) }, nil)
}

// BeginSession keeps a session.
func (e *Engine) BeginSession(ctx context.Context, client, link, id string, during time.Duration) error {
	return e.turn(0, func() error { return e.Engine.BeginSession(ctx, client, link, id, during) })
}

// EndSession ends a session.
func (e *Engine) EndSession(ctx context.Context, client, link, id string) error {
	return e.turn(0, func() error { return e.Engine.EndSession(ctx, client, link, id) })
}

// SessionStands reports whether a session is good.
func (e *Engine) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	return attempt(e, func() (bool, error) { return e.Engine.SessionStands(ctx, client, link, id) }, nil)
}

// KeepLink keeps a link.
func (e *Engine) KeepLink(ctx context.Context, client, id, text string, during time.Duration) error {
	return e.turn(1, func() error { return e.Engine.KeepLink(ctx, client, id, text, during) })
}

// Link reads a link.
func (e *Engine) Link(ctx context.Context, id string) (string, error) {
	return attempt(e, func() (string, error) { return e.Engine.Link(ctx, id) }, nil)
}

// CountResend counts a resend of a link.
func (e *Engine) CountResend(ctx context.Context, link string) (time.Duration, error) {
	return attempt(e, func() (time.Duration, error) { return e.Engine.CountResend(ctx, link) }, nil)
}

// DropLink ends a link.
func (e *Engine) DropLink(ctx context.Context, client, id string) error {
	return e.turn(0, func() error { return e.Engine.DropLink(ctx, client, id) })
}

// OpenTap opens a tap.
func (e *Engine) OpenTap(ctx context.Context, client, prefix string) (t *tracing.Tap, err error) {
	err = e.turn(0, func() error {
		t, err = e.Engine.OpenTap(ctx, client, prefix)
		return err
	})
	return t, err
}

// MakeRedirect starts a redirect.
func (e *Engine) MakeRedirect(ctx context.Context, rule jobs.Rule, client string) (jobs.Job, error) {
	return attempt(e, func() (jobs.Job, error) { return e.Engine.MakeRedirect(ctx, rule, client) },
		func(jobs.Job) int { return 1 })
}

// PlanRedirect counts the notices of a redirect.
func (e *Engine) PlanRedirect(ctx context.Context, rule jobs.Rule) (jobs.JobPlan, error) {
	return attempt(e, func() (jobs.JobPlan, error) { return e.Engine.PlanRedirect(ctx, rule) }, nil)
}

// MakeJob starts a job.
func (e *Engine) MakeJob(ctx context.Context, r jobs.Job) (jobs.Job, error) {
	return attempt(e, func() (jobs.Job, error) { return e.Engine.MakeJob(ctx, r) }, func(jobs.Job) int { return 1 })
}

// ForgetSubject forgets a subject.
func (e *Engine) ForgetSubject(ctx context.Context, of seal.Subject, client string) (jobs.Forgotten, error) {
	return attempt(e, func() (jobs.Forgotten, error) { return e.Engine.ForgetSubject(ctx, of, client) },
		func(jobs.Forgotten) int { return 1 })
}

// LiftSubject lifts a forgotten subject.
func (e *Engine) LiftSubject(ctx context.Context, of seal.Subject) (bool, error) {
	return attempt(e, func() (bool, error) { return e.Engine.LiftSubject(ctx, of) }, count)
}

// OpenText opens a sealed text.
func (e *Engine) OpenText(ctx context.Context, key, sealed string) (notice.Content, error) {
	return attempt(e, func() (notice.Content, error) { return e.Engine.OpenText(ctx, key, sealed) }, nil)
}

// PlanJob counts the notices of a job.
func (e *Engine) PlanJob(ctx context.Context, r jobs.Job) (jobs.JobPlan, error) {
	return attempt(e, func() (jobs.JobPlan, error) { return e.Engine.PlanJob(ctx, r) }, nil)
}

// Redirects lists the redirects.
func (e *Engine) Redirects(ctx context.Context) ([]jobs.Job, error) {
	return attempt(e, func() ([]jobs.Job, error) { return e.Engine.Redirects(ctx) }, nil)
}

// ReadRedirect reads a redirect.
func (e *Engine) ReadRedirect(ctx context.Context, id string) (jobs.Job, error) {
	return attempt(e, func() (jobs.Job, error) { return e.Engine.ReadRedirect(ctx, id) }, nil)
}

// StopRedirect stops a redirect.
func (e *Engine) StopRedirect(ctx context.Context, id string) (r jobs.Job, ok bool, err error) {
	r, err = attempt(e, func() (r jobs.Job, err error) {
		r, ok, err = e.Engine.StopRedirect(ctx, id)
		return r, err
	}, func(jobs.Job) int { return 1 })
	return r, ok, err
}

// ResumeRedirect continues a redirect.
func (e *Engine) ResumeRedirect(ctx context.Context, id string) (r jobs.Job, ok bool, err error) {
	r, err = attempt(e, func() (r jobs.Job, err error) {
		r, ok, err = e.Engine.ResumeRedirect(ctx, id)
		return r, err
	}, func(jobs.Job) int { return 1 })
	return r, ok, err
}
