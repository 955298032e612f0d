package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The calls of the API. A call on one notice finds the route of its key, and usually does the rest in
// one script. If timers are adopted, most calls that schedule or change a notice adopt the key's timer
// first, so that a call after a client's SET acts on that SET.

// answerLimit is how long a call on one notice waits for its cluster node. A node that does not
// answer for longer counts as unreachable, and calls for it are refused at once.
const answerLimit = time.Second

// bounded returns a context that ends with the caller's, and in a cluster also when the node has
// had its time to answer and confirm.
func (e *Engine) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.o.Conn.Nodes == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerLimit+e.o.Confirm.Wait())
}

// Schedule stores a notice; see intake.Scheduler.
func (e *Engine) Schedule(ctx context.Context, r store.Request) (store.Reply, error) {
	if err := e.known(ctx); err != nil {
		return store.Reply{}, err
	}
	if err := e.adopter.Follow(ctx, r.Key); err != nil {
		return store.Reply{}, err
	}

	out, err := e.schedule.Schedule(ctx, r)
	if out.Created { // a new notice is not parked
		return out, err
	}

	many := []store.Reply{out}
	e.addWaits(ctx, many)
	return many[0], err
}

// Check returns the faults of a request; see intake.Scheduler.
func (e *Engine) Check(r *store.Request) []intake.Fault { return e.schedule.Check(r) }

// ScheduleMany stores notices and returns one reply for each.
func (e *Engine) ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply {
	out := e.scheduleMany(ctx, rs)
	e.addWaits(ctx, out)
	return out
}

// addWaits adds to each reply whether its notice is parked, and which notice it waits for. The schedule calls have
// succeeded already: if Redis does not answer here, a parked notice is shown as postponed.
func (e *Engine) addWaits(ctx context.Context, replies []store.Reply) {
	var found []*store.Found
	for i := range replies {
		if r := &replies[i]; r.Err == nil && !r.Created {
			found = append(found, &r.Found)
		}
	}

	_ = e.store.AddWaits(ctx, found...)
}

func (e *Engine) scheduleMany(ctx context.Context, rs []store.Request) []store.Reply {
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

// route returns the route of a key. Every call on one notice begins with it.
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

// prefix returns the route of a key and its prefix. Without a route the prefix is empty, but Redis
// may still hold a notice of the key.
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

// Find returns a notice.
func (e *Engine) Find(ctx context.Context, key string) (store.Found, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	_, prefix, err := e.prefix(ctx, key)
	if err != nil {
		return store.Found{}, err
	}

	f, err := e.store.Find(ctx, prefix, key)
	if err == nil {
		err = e.store.AddWaits(ctx, &f)
	}

	return f, err
}

func (e *Engine) amend(ctx context.Context, key string, op store.Amendment, when store.When) (store.Change, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	_, prefix, err := e.prefix(ctx, key)
	if err != nil {
		return store.Change{}, err
	}
	if err := e.adopter.Follow(ctx, key); err != nil {
		return store.Change{}, err
	}

	c, err := e.store.Amend(ctx, prefix, key, op, when)
	if (err == nil || errors.Is(err, wire.ErrUnconfirmed)) && c.Done && op != store.Cancel && !c.Due.After(e.Now()) {
		e.hint(&c.Found)
	}

	if err == nil && c.Notice != nil {
		_ = e.store.AddWaits(ctx, &c.Found) // the change is done: without an answer the notice is shown as postponed
	}

	return c, err
}

// ClientNumber returns the number of a client in records. A schedule call does not fail without it.
func (e *Engine) ClientNumber(ctx context.Context, name string) int {
	if e.known(ctx) != nil { // the call itself is refused
		return 0
	}

	n, err := e.store.Clients.Number(ctx, name)
	if err != nil {
		e.o.Logger.Warn("cannot read the number of a client, its notices name the last known one or none", zap.String("client", name),
			zap.Int("number", n), zap.Error(err))
	}

	return n
}

// ClientName returns the name of the client with a number, or # and the number if it is unknown.
func (e *Engine) ClientName(ctx context.Context, number int) string {
	return e.store.Clients.Name(ctx, number)
}

// Key returns the service's key from Redis.
func (e *Engine) Key(ctx context.Context) ([]byte, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.store.Layout.Key(ctx)
}

// Cancel cancels a notice.
func (e *Engine) Cancel(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Cancel, store.When{})
}

// Fire makes a scheduled notice due now.
func (e *Engine) Fire(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Fire, store.When{})
}

// Redrive schedules a dead letter again, due now, with its ladder from the start. x changes when it expires; a notice that has expired
// needs that.
func (e *Engine) Redrive(ctx context.Context, key string, x notice.Expiry) (store.Change, error) {
	return e.amend(ctx, key, store.Redrive, store.When{Expires: x})
}

// Reschedule changes the due time of a scheduled notice.
func (e *Engine) Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	when := store.When{Due: due, Delay: delay}
	if field, err := when.Check(e.Now()); err != nil {
		return store.Change{}, fmt.Errorf("%s: %w", field, err)
	}

	return e.amend(ctx, key, store.Reschedule, when)
}

// Report processes a consumer's report; see dispatch.Reports.
func (e *Engine) Report(ctx context.Context, key string, v notice.Report) (store.Change, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, err := e.route(ctx, key)
	if err != nil {
		return store.Change{}, err
	}

	return e.reports.Take(ctx, r, key, v)
}

// Unrouted returns the prefixes in Redis that no configured route has. Prefixes that are recorded for workers are among them.
func (e *Engine) Unrouted(ctx context.Context) ([]string, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(e.store.Layout.Prefixes()), func(p string) bool { return e.o.Routes.Configured(p) != nil }), nil
}

// List returns a page of notices.
func (e *Engine) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := e.known(ctx); err != nil {
		return store.Page{}, err
	}
	return e.store.List(ctx, q)
}

// AmendAll makes one bounded step of a bulk change.
func (e *Engine) AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error) {
	if err := e.known(ctx); err != nil {
		return store.Amends{}, err
	}

	if !b.DryRun {
		defer e.dead.forget()
	}

	return e.store.AmendAll(ctx, b)
}

// Pause stops the claims of a route on every instance.
func (e *Engine) Pause(ctx context.Context, prefix string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.store.Layout.Pause(ctx, prefix)
}

// Resume ends a Pause. Notices that fell due during it are handled as the route's slots and rate
// allow.
func (e *Engine) Resume(ctx context.Context, prefix string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.store.Layout.Resume(ctx, prefix)
}

// Audit stores an audit entry.
func (e *Engine) Audit(ctx context.Context, entry audit.Entry) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.trail().Audit(ctx, entry)
}

// Audited returns audit entries, newest first.
func (e *Engine) Audited(ctx context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.trail().Audited(ctx, r, limit)
}

// sessions returns the store of sessions in Redis.
func (e *Engine) sessions() *auth.SessionStore { return &auth.SessionStore{Wire: e.store.Wire()} }

// BeginSession starts a session. It implements auth.Register, as do the following methods.
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

// SessionStands reports whether a session, and the link that started it, are valid.
func (e *Engine) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	if err := e.known(ctx); err != nil {
		return false, err
	}
	return e.sessions().SessionStands(ctx, client, link, id)
}

// KeepLink stores a link of a client, or returns *auth.LinksFull.
func (e *Engine) KeepLink(ctx context.Context, client, id, text string, during time.Duration) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().KeepLink(ctx, auth.StoredLink{Client: client, ID: id, Text: text, During: during}, e.share(auth.MaxLinks))
}

// Link returns the text stored with a link.
func (e *Engine) Link(ctx context.Context, id string) (string, error) {
	if err := e.known(ctx); err != nil {
		return "", err
	}
	return e.sessions().Link(ctx, id)
}

// CountResend counts a resend by a visitor of a link.
func (e *Engine) CountResend(ctx context.Context, link string) (time.Duration, error) {
	if err := e.known(ctx); err != nil {
		return 0, err
	}
	return e.sessions().CountResend(ctx, link)
}

// DropLink deletes a link.
func (e *Engine) DropLink(ctx context.Context, client, id string) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.sessions().DropLink(ctx, client, id)
}

// Counts returns the number of notices of each route, and of each prefix with notices that no route
// covers. In a cluster, missing lists the nodes whose counts are not included.
func (e *Engine) Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error) {
	if err := e.known(ctx); err != nil {
		return nil, nil, err
	}

	counts, missing, err := e.store.Counts(ctx, e.prefixes())
	if err != nil {
		return nil, missing, err
	}

	return slices.DeleteFunc(counts, func(c store.Counts) bool {
		return e.o.Routes.Prefix(c.Prefix) == nil && c.Pending+c.Dead+c.Settled == 0
	}), missing, nil
}

// Stats returns the statistics of this instance since its start.
func (e *Engine) Stats() []fleet.RouteStats {
	if !e.isOpen() {
		return nil
	}

	var out []fleet.RouteStats
	for _, r := range e.o.Routes.All() {
		s := e.o.Metrics.Totals(r.Name)
		out = append(out, fleet.RouteStats{Prefix: r.Prefix, InFlight: e.dispatch.InFlight(r.Prefix), Outcomes: s.Outcomes,
			LatenessP50: s.LatenessP50, LatenessP99: s.LatenessP99})
	}

	return out
}

// Gauges returns the values of a scrape.
func (e *Engine) Gauges(ctx context.Context) (fleet.Gauges, error) {
	counts, missing, err := e.Counts(ctx)
	if err != nil {
		return fleet.Gauges{}, err
	}

	h, err := e.historyGauges(ctx, missing)
	if err != nil {
		return fleet.Gauges{}, err
	}

	hooks, err := e.hookBacklog(ctx, missing)
	if err != nil {
		return fleet.Gauges{}, err
	}

	fctx, cancel := context.WithTimeout(ctx, time.Second)
	list, unknown := e.Instances(fctx) // in a cluster only the heartbeats' node may be unreachable
	unhandled := e.unhandled(fctx, counts)
	cancel()
	postponed, failing := fleet.Waiting(list), e.receivers.failingLong(ctx)

	g := fleet.Gauges{History: h, HookBacklog: hooks, Orphaned: e.janitor.Orphans(), Unhandled: unhandled,
		EventsFlowing: e.listener.Alive() > 0 && e.events.Load()}
	for _, l := range missing {
		g.Missing += len(l.Shards)
	}

	for _, c := range counts {
		r := e.o.Routes.Prefix(c.Prefix)
		if r == nil {
			continue // counted as orphaned
		}

		waiting, longest := int64(-1), time.Duration(-1)
		if unknown == nil {
			waiting = int64(postponed[c.Prefix]) + c.Waiting()
		}

		if c.Ordered {
			longest = c.LongestWait
		}

		g.Routes = append(g.Routes, fleet.RouteGauges{Route: r.Name, Pending: c.Pending, Overdue: c.Overdue, Due: c.Due[:],
			Dead:    c.Dead,
			Settled: c.Settled, RepeatWindow: c.RepeatWindow, RepeatSetting: e.store.RepeatWindow(),
			InFlight: int64(e.dispatch.InFlight(c.Prefix)), Paused: c.Paused, Waiting: waiting, LongestWait: longest, HostsWaiting: e.waiting(r),
			ReceiversFailing: failing(r.Prefix)})
	}

	e.sealGauges(ctx, &g, counts)
	return g, nil
}

// restoreAtOnce is the maximum number of notices in one script call of Restore.
const restoreAtOnce = 128

// Restore schedules exported notices again, each under the current route of its key.
func (e *Engine) Restore(ctx context.Context, letters []store.Letter) []store.Reply {
	return store.SealedAnew(e.numbered(ctx, letters), func(l *store.Letter) string { return l.Key },
		func(key string) { e.vault.Forget(e.store.Space().Shard(key)) },
		func(some []store.Letter) []store.Reply { return e.restore(ctx, some) })
}

// restore is Restore without the repetition for lost data keys.
func (e *Engine) restore(ctx context.Context, letters []store.Letter) []store.Reply {
	letters = slices.Clone(letters)
	out := make([]store.Reply, len(letters))
	by, ks := e.toRestore(ctx, letters, out)
	failed := e.adopter.FollowEach(ctx, ks)
	for p, all := range by {
		var refused error // after a refusal of the shard, all its other notices are refused
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

// toRestore seals notices that are to be restored, and returns their indexes by partition, and their keys. Refused ones get their errors
// in out.
func (e *Engine) toRestore(ctx context.Context, letters []store.Letter, out []store.Reply) (by map[keys.Partition][]int, ks []string) {
	by = map[keys.Partition][]int{}
	for i, l := range letters {
		r, err := e.route(ctx, l.Key)
		if out[i].Err = err; err != nil {
			continue
		}

		p := e.store.Space().Partition(r.Prefix, l.Key)
		if letters[i], out[i].Err = e.sealedLetter(ctx, r, p.Shard, l); out[i].Err != nil {
			continue
		}

		by[p] = append(by[p], i)
		ks = append(ks, l.Key)
	}

	return by, ks
}
