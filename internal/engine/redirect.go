package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/redirect"
	"notifier/internal/route"
)

// countFor is how long a dry run of a redirect reads notices.
const countFor = 5 * time.Second

func (e *Engine) redirectStore() redirect.Redis { return redirect.Redis{Store: e.store} }

// newRedirect checks a rule and makes its redirect.
func (e *Engine) newRedirect(ctx context.Context, rule redirect.Rule, client string) (r redirect.Redirect, err error) {
	if err := e.known(ctx); err != nil {
		return r, err
	}
	if err := e.checkRule(&rule); err != nil {
		return r, err
	}

	now, err := e.store.Wire().Now(ctx)
	if err != nil {
		return r, err
	}

	return redirect.Redirect{ID: "rdr_" + strings.ToLower(rand.Text()[:20]), Client: client, Rule: rule, State: redirect.Running, Made: now,
		Changed: now}, nil
}

// checkRule returns an error that wraps notice.ErrInvalid if no route takes the new address.
func (e *Engine) checkRule(rule *redirect.Rule) error {
	err := fmt.Errorf("%w: prefix: no route under it has the target notice", notice.ErrInvalid)
	for _, r := range e.o.Routes.All() {
		if r.Target.Kind != route.KindNotice || !redirect.Overlaps(r.Prefix, rule.Prefix) {
			continue
		}
		if err = r.CheckAddress(&notice.Content{URL: rule.To}); err == nil {
			return nil
		}
	}

	return err
}

// PlanRedirect counts the notices that a redirect would change now.
func (e *Engine) PlanRedirect(ctx context.Context, rule redirect.Rule) (redirect.Plan, error) {
	r, err := e.newRedirect(ctx, rule, "")
	if err != nil {
		return redirect.Plan{}, err
	}

	return redirect.Count(ctx, e.redirectStore(), e.o.Routes, &r, countFor)
}

// MakeRedirect starts a redirect.
func (e *Engine) MakeRedirect(ctx context.Context, rule redirect.Rule, client string) (redirect.Redirect, error) {
	r, err := e.newRedirect(ctx, rule, client)
	if err != nil {
		return r, err
	}
	if err := e.store.Whole(); err != nil {
		return r, fmt.Errorf("redirect: %w", err)
	}
	if err := e.redirectStore().Add(ctx, &r, e.share(redirect.MaxKept)); err != nil {
		return r, err
	}

	e.redirects.Wake()
	// The redirect has begun: without all answers the count is too small.
	_ = e.redirectStore().CountClaimed(ctx, e.o.Routes, &r)
	return r, nil
}

// Redirects returns all redirects, latest first.
func (e *Engine) Redirects(ctx context.Context) ([]redirect.Redirect, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}

	list, err := e.redirectStore().List(ctx)
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
func (e *Engine) countRedirect(ctx context.Context, r *redirect.Redirect) error {
	if r.State == redirect.Done || r.State == redirect.Failed || r.ID == "" {
		return nil
	}
	return e.redirectStore().Count(ctx, r)
}

// ReadRedirect returns a redirect; its ID is empty if there is none.
func (e *Engine) ReadRedirect(ctx context.Context, id string) (redirect.Redirect, error) {
	if err := e.known(ctx); err != nil {
		return redirect.Redirect{}, err
	}

	r, err := e.redirectStore().Read(ctx, id)
	if err == nil {
		err = e.countRedirect(ctx, &r)
	}

	return r, err
}

// StopRedirect stops a running redirect; ok is false if it was not running.
func (e *Engine) StopRedirect(ctx context.Context, id string) (redirect.Redirect, bool, error) {
	return e.turnRedirect(ctx, id, redirect.Running, redirect.Stopped)
}

// ResumeRedirect continues a stopped redirect; ok is false if it was not stopped.
func (e *Engine) ResumeRedirect(ctx context.Context, id string) (redirect.Redirect, bool, error) {
	return e.turnRedirect(ctx, id, redirect.Stopped, redirect.Running)
}

func (e *Engine) turnRedirect(ctx context.Context, id, from, to string) (r redirect.Redirect, ok bool, err error) {
	if err := e.known(ctx); err != nil {
		return r, false, err
	}

	now, err := e.store.Wire().Now(ctx)
	if err != nil {
		return r, false, err
	}

	r, ok, err = e.redirectStore().Turn(ctx, id, from, to, now)
	if err == nil {
		err = e.countRedirect(ctx, &r)
	}

	if ok && to == redirect.Running {
		e.redirects.Wake()
	}

	return r, ok, err
}
