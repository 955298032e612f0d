package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/session"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The calls of the API. Each finds the route of its key and does the rest in
// one script. Where timers are adopted, that of the key is looked at first: a
// call that comes after a client's SET means what was set.

// answerLimit is how long a call for one notice waits for its node of a cluster: a node
// that is silent for longer is away, and calls are refused at once.
const answerLimit = time.Second

// bounded ends with the caller, and in a cluster when its node has had the time to answer
// and to confirm.
func (e *Engine) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.o.Conn.Nodes == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerLimit+e.o.Confirm.Wait())
}

// Schedule stores one notice; see schedule.Scheduler.
func (e *Engine) Schedule(ctx context.Context, r store.Request) (store.Reply, error) {
	if err := e.known(ctx); err != nil {
		return store.Reply{}, err
	}
	if err := e.adopter.Follow(ctx, r.Key); err != nil {
		return store.Reply{}, err
	}
	return e.schedule.Schedule(ctx, r)
}

// ScheduleMany stores notices, with one reply each.
func (e *Engine) ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply {
	refuse := func(err error) []store.Reply {
		out := make([]store.Reply, len(rs))
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	if err := e.known(ctx); err != nil {
		return refuse(err)
	}
	if !e.adopter.Adopts() {
		return e.schedule.Many(ctx, rs)
	}
	ks := make([]string, len(rs))
	for i := range rs {
		ks[i] = rs[i].Key
	}
	failed := e.adopter.FollowEach(ctx, ks)
	if len(failed) == 0 {
		return e.schedule.Many(ctx, rs)
	}
	out, fit := make([]store.Reply, len(rs)), make([]store.Request, 0, len(rs))
	for i := range rs {
		if out[i].Err = failed[rs[i].Key]; out[i].Err == nil {
			fit = append(fit, rs[i])
		}
	}
	if len(fit) > 0 {
		replies := e.schedule.Many(ctx, fit)
		for i := range out {
			if out[i].Err == nil {
				out[i], replies = replies[0], replies[1:]
			}
		}
	}
	return out
}

// route finds the route of a key; every call on one notice begins with it.
func (e *Engine) route(ctx context.Context, key string) (*route.Route, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	r := e.o.Routes.Match(key)
	if r == nil {
		return nil, fmt.Errorf("%s: %w", key, store.ErrUnrouted)
	}
	return r, nil
}

// prefix is where a key's notice is looked for first: that of its route, or ""
// where no route covers the key; a notice may be kept all the same.
func (e *Engine) prefix(ctx context.Context, key string) (*route.Route, string, error) {
	r, err := e.route(ctx, key)
	switch {
	case errors.Is(err, store.ErrUnrouted):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	return r, r.Prefix, nil
}

// Find reads one notice.
func (e *Engine) Find(ctx context.Context, key string) (store.Found, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	_, prefix, err := e.prefix(ctx, key)
	if err != nil {
		return store.Found{}, err
	}
	return e.store.Find(ctx, prefix, key)
}

func (e *Engine) amend(ctx context.Context, key string, op store.Amendment, when store.When) (store.Change, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, prefix, err := e.prefix(ctx, key)
	if err != nil {
		return store.Change{}, err
	}
	if err := e.adopter.Follow(ctx, key); err != nil {
		return store.Change{}, err
	}
	c, err := e.store.Amend(ctx, prefix, key, op, when)
	if (err == nil || errors.Is(err, wire.ErrUnconfirmed)) && c.Done && op != store.Cancel && !c.Due.After(time.Now()) && c.Route == prefix && r != nil {
		e.dispatch.Hint(r, key)
	}
	return c, err
}

// ClientNumber is the number that stands for a client in records. A schedule call does not
// fail without it.
func (e *Engine) ClientNumber(ctx context.Context, name string) int {
	if e.known(ctx) != nil { // and the call itself is refused
		return 0
	}
	n, err := e.store.ClientNumber(ctx, name)
	if err != nil {
		e.o.Logger.Warn("cannot read the number of a client, its notices name the last known one or none", zap.String("client", name), zap.Int("number", n), zap.Error(err))
	}
	return n
}

// ClientName is the name of the client with a number, or # and the number.
func (e *Engine) ClientName(ctx context.Context, number int) string {
	return e.store.ClientName(ctx, number)
}

// Cancel ends a notice undelivered.
func (e *Engine) Cancel(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Cancel, store.When{})
}

// Fire makes a scheduled notice due now.
func (e *Engine) Fire(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Fire, store.When{})
}

// Redrive schedules a dead letter again, for now, its ladder from the start.
func (e *Engine) Redrive(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Redrive, store.When{})
}

// Reschedule moves a scheduled notice.
func (e *Engine) Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return e.amend(ctx, key, store.Reschedule, store.When{Due: due, Delay: delay})
}

// Report takes a consumer's report; see dispatch.Reports.
func (e *Engine) Report(ctx context.Context, key string, v notice.Report) (store.Change, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, err := e.route(ctx, key)
	if err != nil {
		return store.Change{}, err
	}
	return e.reports.Take(ctx, r, key, v)
}

// Unrouted are the prefixes that Redis knows and that no route has.
func (e *Engine) Unrouted(ctx context.Context) ([]string, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(e.store.Prefixes()), func(p string) bool { return e.o.Routes.Prefix(p) != nil }), nil
}

// List reads a page.
func (e *Engine) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := e.known(ctx); err != nil {
		return store.Page{}, err
	}
	return e.store.List(ctx, q)
}

// RedriveAll makes one bounded step of a bulk redrive.
func (e *Engine) RedriveAll(ctx context.Context, q store.Query, dryRun bool) (store.Redriven, error) {
	if err := e.known(ctx); err != nil {
		return store.Redriven{}, err
	}
	return e.store.RedriveAll(ctx, q, dryRun)
}

// Pause stops claims of a route on every instance.
func (e *Engine) Pause(ctx context.Context, prefix string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.store.Pause(ctx, prefix)
}

// Resume undoes Pause. What fell due meanwhile is worked off as the route's
// slots and rate allow.
func (e *Engine) Resume(ctx context.Context, prefix string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.store.Resume(ctx, prefix)
}

// Audit keeps an entry of what somebody did.
func (e *Engine) Audit(ctx context.Context, entry audit.Entry) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.trail().Audit(ctx, entry)
}

// Audited reads entries, the newest first.
func (e *Engine) Audited(ctx context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.trail().Audited(ctx, r, limit)
}

// sessions are those in Redis.
func (e *Engine) sessions() *session.Store { return &session.Store{Wire: e.store.Wire()} }

// BeginSession implements session.Register, as the following methods do.
func (e *Engine) BeginSession(ctx context.Context, client, link, id string, during time.Duration) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().BeginSession(ctx, client, link, id, during)
}

// EndSession ends a session.
func (e *Engine) EndSession(ctx context.Context, client, link, id string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().EndSession(ctx, client, link, id)
}

// SessionStands reports whether a session, and the link it came from, are good.
func (e *Engine) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	if err := e.known(ctx); err != nil {
		return false, err
	}
	return e.sessions().SessionStands(ctx, client, link, id)
}

// KeepLink notes a link.
func (e *Engine) KeepLink(ctx context.Context, id, text string, during time.Duration) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().KeepLink(ctx, id, text, during)
}

// Link is what was noted of a link.
func (e *Engine) Link(ctx context.Context, id string) (string, error) {
	if err := e.known(ctx); err != nil {
		return "", err
	}
	return e.sessions().Link(ctx, id)
}

// DropLink forgets a link.
func (e *Engine) DropLink(ctx context.Context, id string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().DropLink(ctx, id)
}

// Counts says what Redis holds of each route, and under each prefix that the
// configuration has no more, if it holds anything; in a cluster without the nodes
// that are missing.
func (e *Engine) Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error) {
	if err := e.known(ctx); err != nil {
		return nil, nil, err
	}
	prefixes := slices.Clone(e.store.Prefixes())
	for _, r := range e.o.Routes.All() {
		if !slices.Contains(prefixes, r.Prefix) {
			prefixes = append(prefixes, r.Prefix)
		}
	}
	slices.Sort(prefixes)
	counts, missing, err := e.store.Counts(ctx, prefixes)
	if err != nil {
		return nil, missing, err
	}
	return slices.DeleteFunc(counts, func(c store.Counts) bool {
		return e.o.Routes.Prefix(c.Prefix) == nil && c.Pending+c.Dead+c.Settled == 0
	}), missing, nil
}

// Stats says what this instance did since it began.
func (e *Engine) Stats() []api.RouteStats {
	if !e.isOpen() {
		return nil
	}
	var out []api.RouteStats
	for _, r := range e.o.Routes.All() {
		s := e.o.Metrics.Stats(r.Name)
		out = append(out, api.RouteStats{Prefix: r.Prefix, InFlight: e.dispatch.InFlight(r.Prefix), Outcomes: s.Outcomes,
			LatenessP50: s.LatenessP50, LatenessP99: s.LatenessP99})
	}
	return out
}

// Gauges is what a scrape asks for.
func (e *Engine) Gauges(ctx context.Context) (metrics.Gauges, error) {
	counts, missing, err := e.Counts(ctx)
	if err != nil {
		return metrics.Gauges{}, err
	}
	h, err := e.historyGauges(ctx, missing)
	if err != nil {
		return metrics.Gauges{}, err
	}
	fctx, cancel := context.WithTimeout(ctx, time.Second)
	list, unknown := e.Instances(fctx) // in a cluster its node may not answer, and the others do
	cancel()
	postponed, failing := fleet.Waiting(list), e.receivers.failingLong(ctx)

	g := metrics.Gauges{History: h, Orphaned: e.janitor.Orphans(), EventsFlowing: e.listener.Alive() > 0 && e.events.Load()}
	for _, l := range missing {
		g.Missing += len(l.Shards)
	}
	for _, c := range counts {
		r := e.o.Routes.Prefix(c.Prefix)
		if r == nil {
			continue // counted as orphaned
		}
		waiting := int64(postponed[c.Prefix])
		switch {
		case unknown != nil:
			waiting = -1
		case c.Paused:
			waiting += c.Overdue
		}
		g.Routes = append(g.Routes, metrics.RouteGauges{Route: r.Name, Pending: c.Pending, Overdue: c.Overdue, Dead: c.Dead,
			Settled: c.Settled, RepeatWindow: c.RepeatWindow, RepeatSetting: e.store.RepeatWindow(), InFlight: int64(e.dispatch.InFlight(c.Prefix)), Paused: c.Paused, Waiting: waiting,
			HostsWaiting: e.waiting(r), ReceiversFailing: failing(r.Prefix)})
	}
	return g, nil
}

// restoreAtOnce is how many notices one script puts back.
const restoreAtOnce = 128

// Restore puts notices back, each under the route that its key has today.
func (e *Engine) Restore(ctx context.Context, letters []store.Letter) []store.Reply {
	letters = e.numbered(ctx, letters)
	out := make([]store.Reply, len(letters))
	by := map[keys.Partition][]int{}
	var ks []string
	for i, l := range letters {
		r, err := e.route(ctx, l.Key)
		if out[i].Err = err; err != nil {
			continue
		}
		p := e.store.Space().Partition(r.Prefix, l.Key)
		by[p] = append(by[p], i)
		ks = append(ks, l.Key)
	}
	failed := e.adopter.FollowEach(ctx, ks)
	for p, all := range by {
		var refused error // once a shard has refused, so has the rest of it
		all = slices.DeleteFunc(all, func(i int) bool {
			out[i].Err = failed[letters[i].Key]
			return out[i].Err != nil
		})
		for some := range slices.Chunk(all, restoreAtOnce) {
			list := make([]store.Letter, len(some))
			for j, i := range some {
				list[j] = letters[i]
			}
			var replies []store.Reply
			if refused == nil {
				replies, refused = e.store.Restore(ctx, p, list)
			}
			for j, i := range some {
				if refused != nil {
					out[i].Err = refused
				} else {
					out[i] = replies[j]
				}
			}
		}
	}
	return out
}
