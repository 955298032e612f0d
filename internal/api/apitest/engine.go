package apitest

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Engine is an [api.Engine] in memory.
type Engine struct {
	table *route.Table

	mu       sync.Mutex
	kept     map[string]*store.Found
	trimmed  map[string]notice.Tombstone
	paused   map[string]bool
	fail     error
	missing  []wire.Lost
	audited  []audit.Entry
	answer   string // of receivers
	clients  []string
	register register
	changes  int // successful writes, so that a test can tell that there was none
	ready    api.Readiness
	figures  []byte
	others   []fleet.Instance
	minutes  []fleet.Minute
}

// New is an empty engine.
func New(table *route.Table) *Engine {
	return &Engine{table: table, kept: map[string]*store.Found{}, trimmed: map[string]notice.Tombstone{}, paused: map[string]bool{}, register: register{map[string]bool{}, map[string]string{}}, ready: api.Readiness{Ready: true}, answer: "ok"}
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

// Answers sets what receivers answer from now on; it is ok at first.
func (e *Engine) Answers(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = text
}

// Move puts a notice into a state, as a delivery would.
func (e *Engine) Move(key string, to notice.State, reason notice.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.kept[key]
	f.State, f.Reason = to, reason
	switch to {
	case notice.Delivered, notice.Dead:
		f.Add(notice.Attempt{Number: f.AttemptsMade + 1, At: now(), Duration: 12 * time.Millisecond, Status: 200, Reason: reason, Response: e.answer})
		f.SettledAt = now()
	case notice.Cancelled:
		f.SettledAt = now()
	}
}

// Hand hands a notice to a consumer, whose report is awaited, and returns its
// id.
func (e *Engine) Hand(key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.kept[key]
	f.State, f.AwaitsReport = notice.Claimed, true
	f.Add(notice.Attempt{Number: f.AttemptsMade + 1, At: now()})
	return f.ID()
}

// Trim forgets a notice but for its tombstone.
func (e *Engine) Trim(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trimmed[key] = e.kept[key].Tombstone()
	delete(e.kept, key)
}

// when is the instant that a call names: the past is now.
func when(now, due time.Time, delay time.Duration) time.Time {
	if due.IsZero() {
		return now.Add(delay)
	}
	if due.Before(now) {
		return now
	}
	return due
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
	if t, ok := e.trimmed[r.Key]; ok && old == nil && r.OnDuplicate != store.Replace {
		reply := store.Reply{Found: store.Found{Notice: &notice.Notice{Key: r.Key, Route: rt.Prefix, Made: t.Made}, State: notice.Settled}}
		if r.OnDuplicate != store.Keep && !t.Same(&r.Content) {
			reply.Differs = []string{"content"}
		}
		return reply
	}
	made := now()
	due := when(made, r.Due, r.Delay)
	f := &store.Found{Notice: &notice.Notice{Key: r.Key, Route: rt.Prefix, Made: notice.MadeAt(made), Due: due, Content: r.Content, Client: r.Client}, State: notice.Scheduled}
	e.kept[r.Key] = f
	e.changes++
	return store.Reply{Found: e.copy(f), Created: true, Replaced: old != nil}
}

// Restore puts notices back.
func (e *Engine) Restore(_ context.Context, letters []store.Letter) []store.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]store.Reply, len(letters))
	for i, l := range letters {
		rt, old := e.table.Match(l.Key), e.kept[l.Key]
		same, pending := old != nil && old.Made == l.Made, l.Died.IsZero()
		switch {
		case e.fail != nil:
			out[i].Err = e.fail
		case rt == nil:
			out[i].Err = store.ErrUnrouted
		case same && (pending || old.State == notice.Dead), pending && old != nil && len(l.Content.Diff(&old.Content)) == 0:
			out[i].Found = e.copy(old)
		case old != nil && !(same && old.State == notice.Cancelled):
			out[i] = store.Reply{Found: e.copy(old), Err: store.ErrTaken}
		case pending:
			n := *l.Notice
			n.Route = rt.Prefix
			if n.Due.Before(now()) {
				n.Due = now()
			}
			e.kept[l.Key] = &store.Found{Notice: &n, State: notice.Scheduled}
			e.changes++
			out[i] = store.Reply{Found: e.copy(e.kept[l.Key]), Created: true}
		default:
			n := *l.Notice
			n.Route = rt.Prefix
			e.kept[l.Key] = &store.Found{Notice: &n, State: notice.Dead, SettledAt: l.Died}
			e.changes++
			out[i] = store.Reply{Found: e.copy(e.kept[l.Key]), Created: true}
		}
	}
	return out
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
	f.State, f.Reason, f.Redriven, f.Due, f.SettledAt = notice.Scheduled, "", f.AttemptsMade, now(), time.Time{}
}

// Reschedule gives another due time.
func (e *Engine) Reschedule(_ context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return e.change(key, []notice.State{notice.Scheduled}, func(f *store.Found) {
		f.Due = when(now(), due, delay)
	})
}

// Report ends a consumer's attempt, by the real engine's rules.
func (e *Engine) Report(ctx context.Context, key string, v notice.Report) (store.Change, error) {
	r := e.table.Match(key)
	if r == nil {
		return store.Change{}, store.ErrUnrouted
	}
	reports := dispatch.Reports{Store: reportStore{e}, Notices: e, Logger: zap.NewNop()}
	return reports.Take(ctx, r, key, v)
}

// reportStore is the engine as what reports write to.
type reportStore struct{ e *Engine }

// Settle ends attempts whose reports were awaited.
func (s reportStore) Settle(_ context.Context, _ keys.Partition, list []store.Settlement) ([]store.Settled, error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	out := make([]store.Settled, len(list))
	for i, t := range list {
		f := s.e.kept[t.Claim.Key]
		if out[i].Stale = f == nil || !f.AwaitsReport || f.ID() != t.Claim.ID(); !out[i].Stale {
			s.e.end(f, t)
		}
	}
	return out, s.e.fail
}

// Reopen undoes deliveries.
func (s reportStore) Reopen(_ context.Context, was store.Found, t store.Settlement) (store.Change, error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	f := s.e.kept[was.Key]
	c := store.Change{Before: f.State, Done: f.State == notice.Delivered && f.ID() == was.ID()}
	if c.Done {
		s.e.end(f, t)
	}
	c.Found = s.e.copy(f)
	return c, s.e.fail
}

func (e *Engine) end(f *store.Found, t store.Settlement) {
	f.Notice, f.SettledAt = t.Claim.Notice, now()
	switch t.Ending {
	case store.EndDelivered:
		f.State = notice.Delivered
	case store.EndDead:
		f.State = notice.Dead
	default:
		f.State, f.Due, f.SettledAt = notice.Scheduled, now().Add(t.After), time.Time{}
	}
	e.changes++
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
		if (q.State == "" || f.State == q.State) && keys.HasPrefix(key, q.Prefix) && strings.HasPrefix(key, q.Begins) && strings.Contains(key, q.Contains) && slices.Contains(q.Routes, f.Route) && key > after &&
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

// Drop forgets a notice, as a Redis that lost its data.
func (e *Engine) Drop(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kept, key)
}

// Leave keeps a notice under a prefix that no route has, as one whose route was
// taken out of the configuration.
func (e *Engine) Leave(prefix, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Millisecond)
	e.kept[key] = &store.Found{Notice: &notice.Notice{Key: key, Route: prefix, Made: notice.MadeAt(now), Due: now}, State: notice.Scheduled}
}

// Unrouted are the prefixes of notices that no route has.
func (e *Engine) Unrouted(context.Context) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, f := range e.kept {
		if e.table.Prefix(f.Route) == nil && !slices.Contains(out, f.Route) {
			out = append(out, f.Route)
		}
	}
	slices.Sort(out)
	return out, e.fail
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
	if q.Cursor == "" { // all are looked at for the first page, whosever they are
		for _, f := range e.kept {
			if slices.Contains(q.Routes, f.Route) && (q.State == "" || f.State == q.State) {
				p.Looked++
			}
		}
	}
	all, p.Cursor = cut(all, q.Limit)
	p.Missing = e.missing
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
	r := store.Redriven{Missing: e.missing}
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
func (e *Engine) Counts(context.Context) ([]store.Counts, []wire.Lost, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, nil, e.fail
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
				c.Pending++
			case notice.Scheduled:
				c.Pending++
				if !f.Due.After(now()) {
					c.Overdue++
				}
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
	return out, e.missing, nil
}

// Stats says of each route that nothing was done yet: nothing is delivered here.
func (e *Engine) Stats() []api.RouteStats {
	var out []api.RouteStats
	for _, r := range e.table.All() {
		out = append(out, api.RouteStats{Prefix: r.Prefix, Outcomes: map[notice.Outcome]int64{}})
	}
	return out
}

// Ready answers what SetReady said.
func (e *Engine) Ready(context.Context) api.Readiness {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

// Instances lists this one, and those that Tell names.
func (e *Engine) Instances(context.Context) ([]fleet.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	now := time.Now().UTC()
	own := fleet.Instance{ID: self, State: fleet.Living, Seen: now, Figures: e.told(),
		About: fleet.About{Label: "test", Version: "test", Started: now, Takeover: 3000, Limits: "fleet"}}
	return append([]fleet.Instance{own}, e.others...), nil
}

const self = "testtesttest"

// Self is the id of the only instance.
func (e *Engine) Self() string { return self }

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
