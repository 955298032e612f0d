package engine

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// countFor is how long a dry run of a redirect reads notices.
const countFor = 5 * time.Second

func (e *Engine) jobStore() jobs.Store {
	return jobs.Store{Store: e.store}
}

// newRedirect checks a rule and returns its redirect.
func (e *Engine) newRedirect(ctx context.Context, rule jobs.Rule, client string) (r jobs.Job, err error) {
	if err := e.known(ctx); err != nil {
		return r, err
	}
	if err := e.checkRule(&rule); err != nil {
		return r, err
	}

	return jobs.Job{Kind: jobs.KindRedirect, Client: client, Rule: rule}, nil
}

// begun returns a job that begins now.
func (e *Engine) begun(ctx context.Context, r jobs.Job) (jobs.Job, error) {
	if err := e.known(ctx); err != nil {
		return r, err
	}

	now, err := e.store.Wire().Now(ctx)
	r.ID, r.State, r.Made, r.Changed = jobs.NewID(r.Kind), jobs.Running, now, now
	return r, err
}

// PlanJob counts the notices that a job would change now.
func (e *Engine) PlanJob(ctx context.Context, r jobs.Job) (plan jobs.JobPlan, err error) {
	if r, err = e.begun(ctx, r); err != nil {
		return plan, err
	}
	return jobs.PlanJob(ctx, e.jobStore(), e.o.Routes, &r, countFor)
}

// MakeJob starts a job.
func (e *Engine) MakeJob(ctx context.Context, r jobs.Job) (jobs.Job, error) {
	r, err := e.begun(ctx, r)
	if err != nil {
		return r, err
	}
	if err := e.store.Whole(); err != nil {
		return r, fmt.Errorf("%s: %w", r.Kind, err)
	}
	if err := e.jobStore().Add(ctx, &r, e.share(jobs.MaxJobs)); err != nil {
		return r, err
	}

	e.redirects.Wake()
	if r.Redirects() {
		// The redirect has begun: without all answers the count is too small.
		_ = e.jobStore().CountClaimed(ctx, e.o.Routes, &r)
	}

	return r, nil
}

// checkRule returns an error that wraps notice.ErrInvalid if no route takes the new address.
func (e *Engine) checkRule(rule *jobs.Rule) error {
	err := fmt.Errorf("%w: prefix: no route under it has the target notice", notice.ErrInvalid)
	for _, r := range e.o.Routes.All() {
		if r.Target.Kind != route.KindNotice || !keys.Overlap(r.Prefix, rule.Prefix) {
			continue
		}
		if err = r.CheckAddress(&notice.Content{URL: rule.To}); err == nil {
			return nil
		}
	}

	return err
}

// PlanRedirect counts the notices that a redirect would change now.
func (e *Engine) PlanRedirect(ctx context.Context, rule jobs.Rule) (jobs.JobPlan, error) {
	r, err := e.newRedirect(ctx, rule, "")
	if err != nil {
		return jobs.JobPlan{}, err
	}

	return e.PlanJob(ctx, r)
}

// MakeRedirect starts a redirect.
func (e *Engine) MakeRedirect(ctx context.Context, rule jobs.Rule, client string) (jobs.Job, error) {
	r, err := e.newRedirect(ctx, rule, client)
	if err != nil {
		return r, err
	}

	return e.MakeJob(ctx, r)
}

// Redirects returns all redirects and other jobs, latest first.
func (e *Engine) Redirects(ctx context.Context) ([]jobs.Job, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}

	list, err := e.jobStore().List(ctx)
	if err != nil {
		return nil, err
	}

	for i := range list {
		if err := e.countRedirect(ctx, &list[i]); err != nil {
			return nil, err
		}
	}

	return list, nil
}

// countRedirect adds the notices that a redirect has changed by now.
func (e *Engine) countRedirect(ctx context.Context, r *jobs.Job) error {
	if r.State == jobs.Done || r.State == jobs.Failed || r.ID == "" {
		return nil
	}
	return e.jobStore().Count(ctx, r)
}

// ReadRedirect returns a redirect or another job; its ID is empty if there is none.
func (e *Engine) ReadRedirect(ctx context.Context, id string) (jobs.Job, error) {
	if err := e.known(ctx); err != nil {
		return jobs.Job{}, err
	}

	r, err := e.jobStore().Read(ctx, id)
	if err == nil {
		err = e.countRedirect(ctx, &r)
	}

	return r, err
}

// StopRedirect stops a running redirect; ok is false if it was not running.
func (e *Engine) StopRedirect(ctx context.Context, id string) (jobs.Job, bool, error) {
	return e.turnRedirect(ctx, id, jobs.Running, jobs.Stopped)
}

// ResumeRedirect continues a stopped redirect; ok is false if it was not stopped.
func (e *Engine) ResumeRedirect(ctx context.Context, id string) (jobs.Job, bool, error) {
	return e.turnRedirect(ctx, id, jobs.Stopped, jobs.Running)
}

func (e *Engine) turnRedirect(ctx context.Context, id, from, to string) (r jobs.Job, ok bool, err error) {
	if err := e.known(ctx); err != nil {
		return r, false, err
	}

	now, err := e.store.Wire().Now(ctx)
	if err != nil {
		return r, false, err
	}

	r, ok, err = e.jobStore().Turn(ctx, id, from, to, now)
	if err == nil {
		err = e.countRedirect(ctx, &r)
	}

	if ok && to == jobs.Running {
		e.redirects.Wake()
	}

	return r, ok, err
}
