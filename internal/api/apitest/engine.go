// Package apitest holds an engine in memory for tests of the API and of what
// speaks to it. It keeps the semantics of the real one and delivers nothing:
// tests move notices on with its methods.
package apitest

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"notifier/internal/api"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Engine is an [api.Engine] in memory.
type Engine struct {
	table *route.Table

	mu      sync.Mutex
	kept    map[string]*store.Found
	paused  map[string]bool
	fail    error
	changes int // successful writes, so that a test can tell that there was none
	ready   api.Readiness
}

// New is an empty engine.
func New(table *route.Table) *Engine {
	return &Engine{table: table, kept: map[string]*store.Found{}, paused: map[string]bool{}, ready: api.Readiness{Ready: true}}
}

// Fail makes every call fail with err until it is called with nil.
func (e *Engine) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

// SetReady sets what Ready answers.
func (e *Engine) SetReady(r api.Readiness) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = r
}

// Changes counts the writes that changed something.
func (e *Engine) Changes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes
}

// Len is the number of notices kept.
func (e *Engine) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.kept)
}

// Move puts a notice into a state, as a delivery would.
func (e *Engine) Move(key string, to notice.State, reason notice.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.kept[key]
	f.State, f.Reason = to, reason
	switch to {
	case notice.Delivered, notice.Dead:
		f.Add(notice.Attempt{N: f.Used + 1, At: now(), Duration: 12 * time.Millisecond, Status: 200, Reason: reason, Response: "ok"})
		f.SettledAt = now()
	case notice.Cancelled:
		f.SettledAt = now()
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func (e *Engine) copy(f *store.Found) store.Found {
	n := *f.Notice
	n.Attempts = slices.Clone(n.Attempts)
	return store.Found{Notice: &n, State: f.State, SettledAt: f.SettledAt}
}

// Schedule keeps one notice.
func (e *Engine) Schedule(_ context.Context, r store.Request) (store.Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply := e.schedule(r)
	return reply, reply.Err
}

// ScheduleMany keeps many.
func (e *Engine) ScheduleMany(_ context.Context, rs []store.Request) []store.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]store.Reply, len(rs))
	for i, r := range rs {
		out[i] = e.schedule(r)
	}
	return out
}

func (e *Engine) schedule(r store.Request) store.Reply {
	if e.fail != nil {
		return store.Reply{Err: e.fail}
	}
	rt := e.table.Match(r.Key)
	if rt == nil {
		return store.Reply{Err: store.ErrUnrouted}
	}
	old := e.kept[r.Key]
	if old != nil && r.OnDuplicate != store.Replace {
		reply := store.Reply{Found: e.copy(old)}
		if r.OnDuplicate != store.Keep {
			reply.Differs = r.Content.Diff(&old.Content)
		}
		return reply
	}
	due := r.Due
	if due.IsZero() {
		due = now().Add(r.Delay)
	}
	f := &store.Found{Notice: &notice.Notice{Key: r.Key, Route: rt.Prefix, Made: now(), Due: due, Content: r.Content}, State: notice.Scheduled}
	e.kept[r.Key] = f
	e.changes++
	return store.Reply{Found: e.copy(f), Created: true, Replaced: old != nil}
}

// Find reads a notice.
func (e *Engine) Find(_ context.Context, key string) (store.Found, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.kept[key]
	switch {
	case e.fail != nil:
		return store.Found{}, e.fail
	case f == nil:
		return store.Found{}, store.ErrNotFound
	}
	return e.copy(f), nil
}

func (e *Engine) change(key string, from []notice.State, do func(*store.Found)) (store.Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.kept[key]
	switch {
	case e.fail != nil:
		return store.Change{}, e.fail
	case f == nil:
		return store.Change{}, store.ErrNotFound
	}
	c := store.Change{Before: f.State, InFlight: f.State == notice.Claimed}
	if c.Done = slices.Contains(from, f.State); c.Done {
		do(f)
		e.changes++
	}
	c.Found = e.copy(f)
	return c, nil
}

// Cancel cancels.
func (e *Engine) Cancel(_ context.Context, key string) (store.Change, error) {
	return e.change(key, []notice.State{notice.Scheduled, notice.Claimed, notice.Dead}, func(f *store.Found) {
		f.State, f.SettledAt = notice.Cancelled, now()
	})
}

// Fire makes due.
func (e *Engine) Fire(_ context.Context, key string) (store.Change, error) {
	return e.change(key, []notice.State{notice.Scheduled}, func(f *store.Found) { f.Due = now() })
}

// Redrive schedules a dead letter again.
func (e *Engine) Redrive(_ context.Context, key string) (store.Change, error) {
	return e.change(key, []notice.State{notice.Dead}, revive)
}

func revive(f *store.Found) {
	f.State, f.Reason, f.Redriven, f.Due, f.SettledAt = notice.Scheduled, "", f.Used, now(), time.Time{}
}

// Reschedule gives another due time.
func (e *Engine) Reschedule(_ context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return e.change(key, []notice.State{notice.Scheduled}, func(f *store.Found) {
		if f.Due = due; due.IsZero() {
			f.Due = now().Add(delay)
		}
	})
}

// Report ends a consumer's attempt.
func (e *Engine) Report(_ context.Context, key string, attempt int, v store.Verdict) (store.Change, error) {
	e.mu.Lock()
	if f := e.kept[key]; e.fail == nil && f != nil && f.Coming() != attempt {
		defer e.mu.Unlock()
		return store.Change{Found: e.copy(f), Before: f.State}, nil
	}
	e.mu.Unlock()
	return e.change(key, []notice.State{notice.Claimed}, func(f *store.Found) {
		if v.Outcome != notice.OutcomeDeferred {
			f.Add(notice.Attempt{N: attempt, At: now(), Reason: v.Reason, Response: v.Response})
		}
		switch v.Outcome {
		case notice.OutcomeDelivered:
			f.State, f.SettledAt = notice.Delivered, now()
		case notice.OutcomeDead:
			f.State, f.Reason, f.SettledAt = notice.Dead, v.Reason, now()
		default:
			f.State, f.Due = notice.Scheduled, now().Add(v.After)
		}
	})
}

// matching lists the keys that fit q, in order, from behind its cursor.
func (e *Engine) matching(q store.Query) ([]string, error) {
	after := ""
	if q.Cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || !keys.Valid(string(raw)) {
			return nil, store.ErrCursor
		}
		after = string(raw)
	}
	var out []string
	for key, f := range e.kept {
		at := f.Due
		if !f.SettledAt.IsZero() {
			at = f.SettledAt
		}
		if (q.State == "" || f.State == q.State) && keys.HasPrefix(key, q.Prefix) && slices.Contains(q.Routes, f.Route) && key > after &&
			(q.Reason == "" || f.Reason == q.Reason) && (q.Since.IsZero() || !at.Before(q.Since)) && (q.Until.IsZero() || at.Before(q.Until)) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out, nil
}

func cut(all []string, limit int) (page []string, cursor string) {
	if len(all) <= limit {
		return all, ""
	}
	return all[:limit], base64.RawURLEncoding.EncodeToString([]byte(all[limit-1]))
}

// List lists.
func (e *Engine) List(_ context.Context, q store.Query) (store.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return store.Page{}, e.fail
	}
	all, err := e.matching(q)
	if err != nil {
		return store.Page{}, err
	}
	var p store.Page
	all, p.Cursor = cut(all, q.Limit)
	for _, key := range all {
		p.Items = append(p.Items, e.copy(e.kept[key]))
	}
	return p, nil
}

// redriveStep is small so that tests see more than one.
const redriveStep = 2

// RedriveAll makes one step.
func (e *Engine) RedriveAll(_ context.Context, q store.Query, dryRun bool) (store.Redriven, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return store.Redriven{}, e.fail
	}
	all, err := e.matching(q)
	if err != nil {
		return store.Redriven{}, err
	}
	var r store.Redriven
	all, r.Cursor = cut(all, redriveStep)
	for _, key := range all {
		r.Matched++
		if !dryRun {
			revive(e.kept[key])
			e.changes++
			r.Redriven++
		}
	}
	return r, nil
}

// Pause pauses.
func (e *Engine) Pause(_ context.Context, prefix string) error { return e.setPaused(prefix, true) }

// Resume resumes.
func (e *Engine) Resume(_ context.Context, prefix string) error { return e.setPaused(prefix, false) }

func (e *Engine) setPaused(prefix string, paused bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	if e.table.Prefix(prefix) == nil {
		return errors.New("apitest: no such prefix: " + prefix)
	}
	e.paused[prefix] = paused
	e.changes++
	return nil
}

// Counts counts.
func (e *Engine) Counts(context.Context) ([]store.Counts, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	var out []store.Counts
	for _, r := range e.table.All() {
		c := store.Counts{Prefix: r.Prefix, Paused: e.paused[r.Prefix]}
		for _, f := range e.kept {
			if f.Route != r.Prefix {
				continue
			}
			switch f.State {
			case notice.Claimed:
				c.Claimed++
				c.Pending++
			case notice.Scheduled:
				c.Pending++
				if c.NextDue.IsZero() || f.Due.Before(c.NextDue) {
					c.NextDue = f.Due
				}
			case notice.Dead:
				c.Dead++
			default:
				c.Settled++
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Stats tells something of each route.
func (e *Engine) Stats() []api.RouteStats {
	var out []api.RouteStats
	for _, r := range e.table.All() {
		out = append(out, api.RouteStats{Prefix: r.Prefix, Outcomes: map[notice.Outcome]int64{notice.OutcomeDelivered: 1},
			LatenessP50: 500 * time.Microsecond, LatenessP99: 1500 * time.Microsecond})
	}
	return out
}

// Ready answers what SetReady said.
func (e *Engine) Ready(context.Context) api.Readiness {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

// All yields a copy of each notice by its key.
func (e *Engine) All() map[string]store.Found {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]store.Found, len(e.kept))
	for key, f := range e.kept {
		out[key] = e.copy(f)
	}
	return out
}
