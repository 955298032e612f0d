package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/store"
)

// Notices finds notices and the hosts that they call.
type Notices interface {
	Find(ctx context.Context, key string) (store.Found, error)
	// Host returns the host that the route of a prefix calls; empty if each notice has its own.
	Host(prefix string) string
}

// EraserOptions configures an Eraser.
type EraserOptions struct {
	Store   *store.Store
	DB      *history.DB
	Notices Notices
	Logger  *zap.Logger
}

// Eraser erases notices.
type Eraser struct {
	o     EraserOptions
	redis EraseStore
	// pageSize is the maximum number of notices that one step of an erasure reads.
	pageSize int
}

// NewEraser returns an Eraser.
func NewEraser(o EraserOptions) *Eraser {
	return &Eraser{o: o, redis: EraseStore{o.Store}, pageSize: 500}
}

func (e *Eraser) outbox() history.Outbox { return history.Outbox{Wire: e.o.Store.Wire()} }

// Erase deletes the notices of a key or host that are finalized by now, from the database and from
// Redis except its outboxes. Pending notices stay. It may be repeated after an error.
func (e *Eraser) Erase(ctx context.Context, x history.Erasure) (done history.Erased, err error) {
	now, err := e.o.Store.Wire().Now(ctx)
	if err != nil {
		return done, err
	}
	if err := e.o.DB.Refuse(ctx, x, now); err != nil {
		return done, err
	}

	if err := e.eraseRedis(ctx, x, now, &done); err != nil {
		return done, err
	}

	home, empty := e.emptyOutboxes(ctx)
	if done.Rows, err = e.o.DB.Erase(ctx, x, now); err != nil {
		return done, err
	}

	if empty && done.Rows == 0 && done.Redis == 0 {
		err = e.o.DB.Unrefuse(ctx, x, now, home)
	}

	return done, err
}

// eraseRedis deletes notices and tombstones in Redis.
func (e *Eraser) eraseRedis(ctx context.Context, x history.Erasure, now time.Time, done *history.Erased) error {
	if x.Key != "" {
		return e.eraseKey(ctx, x.Key, done)
	}

	if err := e.eraseHost(ctx, x.Host, done); err != nil {
		return err
	}

	return e.deleteTombstones(ctx, x.Host, now)
}

// emptyOutboxes reports whether no finalized notice of this Redis, identified by home, waits in an
// outbox. During a migration the outboxes of the other Redis are not known.
func (e *Eraser) emptyOutboxes(ctx context.Context) (home string, empty bool) {
	home, err := e.o.Store.Layout.Home(ctx)
	if err != nil || e.o.Store.Whole() != nil {
		return home, false
	}

	n, err := e.outbox().Length(ctx)
	return home, err == nil && n == 0
}

// erasuresEvery is how often records of erasures are dropped.
const erasuresEvery = 10 * time.Minute

// Tend drops, until ctx ends, records of erasures that no outbox needs any more.
func (e *Eraser) Tend(ctx context.Context) {
	for {
		if err := e.PassOutboxes(ctx); err != nil && ctx.Err() == nil {
			e.o.Logger.Debug("cannot drop old erasures from the history, retrying", zap.Error(err))
		}
		if !pace.Wait(ctx, erasuresEvery+rand.N(erasuresEvery/10)) {
			return
		}
	}
}

// PassOutboxes deletes records of erasures that are no longer needed. Such a record keeps erased notices out of the
// database while they may still be in an outbox, the list in Redis of finalized notices on their way to the database.
// To determine this, PassOutboxes first stores the time of the oldest notice in the outboxes of this Redis. During a
// migration to another Redis, no record is deleted.
func (e *Eraser) PassOutboxes(ctx context.Context) error {
	home, err := e.o.Store.Layout.Home(ctx)
	if err != nil {
		return err
	}

	passed, empty, err := e.oldestEnded(ctx)
	if err != nil {
		return err
	}

	db := e.o.DB
	if e.o.Store.Left() && empty {
		return db.LeaveOutbox(ctx, home)
	}
	// During a migration, the other Redis may not have stored its time yet.
	if err := db.PassOutbox(ctx, home, passed); err != nil || e.o.Store.Whole() != nil {
		return err
	}

	return db.ForgetErasures(ctx) // those older than the oldest notice in any outbox
}

// oldestEnded returns the end of the oldest notice in the outboxes; the current time if they are
// empty.
func (e *Eraser) oldestEnded(ctx context.Context) (at time.Time, empty bool, err error) {
	if at, err = e.o.Store.Wire().Now(ctx); err != nil {
		return at, false, err
	}

	empty = true
	for place := range e.o.Store.Space().Places() {
		left, oldest, _, err := e.outbox().Backlog(ctx, place)
		if err != nil {
			return at, false, err
		}
		if left == 0 {
			continue
		}

		empty = false
		first, err := store.ReadEntry(oldest)
		if err != nil {
			return at, false, err // the relay drops the entry soon
		}

		if first.At.Before(at) {
			at = first.At
		}
	}

	return at, empty, nil
}

func (e *Eraser) eraseKey(ctx context.Context, key string, done *history.Erased) error {
	f, err := e.o.Notices.Find(ctx, key)
	switch {
	case err == nil:
		err = e.delete(ctx, f.Route, []string{key}, done)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}

	if err != nil {
		return err
	}

	// Last, because a trim may have replaced the notice by a tombstone in the meantime.
	_, err = e.redis.DeleteTombstones(ctx, []string{key})
	return err
}

// eraseHost deletes the settled and dead notices of a host. Pending ones stay.
func (e *Eraser) eraseHost(ctx context.Context, host string, done *history.Erased) error {
	for _, state := range []notice.State{notice.Dead, notice.Delivered, notice.Cancelled} {
		q := store.Query{Routes: e.o.Store.Layout.Prefixes(), State: state, Limit: e.pageSize}
		if err := e.o.Store.Visit(ctx, q, func(items []store.Found) error { return e.erasePage(ctx, items, host, done) }); err != nil {
			return err
		}
	}
	return nil
}

// erasePage deletes the notices of a page that call a host.
func (e *Eraser) erasePage(ctx context.Context, items []store.Found, host string, done *history.Erased) error {
	by := map[string][]string{}
	for i := range items {
		if f := &items[i]; e.hostOf(f.Notice) == host {
			by[f.Route] = append(by[f.Route], f.Key)
		}
	}

	for prefix, ks := range by {
		if err := e.delete(ctx, prefix, ks, done); err != nil {
			return err
		}
	}

	return nil
}

// deleteTombstones deletes the tombstones of a host's notices. A tombstone does not contain the host, so
// the keys come from the database.
func (e *Eraser) deleteTombstones(ctx context.Context, host string, now time.Time) error {
	q := history.Query{Host: host, Since: now.Add(-2 * e.o.Store.RepeatWindow()), Limit: e.pageSize}
	for {
		page, err := e.o.DB.Find(ctx, q)
		if err != nil {
			return err
		}

		ks := make([]string, len(page.Rows))
		for i := range page.Rows {
			ks[i] = page.Rows[i].Key
		}

		if _, err := e.redis.DeleteTombstones(ctx, ks); err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// hostOf returns the host that a notice calls.
func (e *Eraser) hostOf(n *notice.Notice) string {
	if n.URL == "" {
		return e.o.Notices.Host(n.Route)
	}
	return history.HostOf(n.URL)
}

// delete deletes the finalized notices of keys under one prefix.
func (e *Eraser) delete(ctx context.Context, prefix string, ks []string, done *history.Erased) error {
	return e.o.Store.Reach(ctx, ks, func(shard int, some []string) ([]string, error) {
		d, err := e.redis.Delete(ctx, keys.Partition{Prefix: prefix, Shard: shard}, some)
		done.Redis += d.Deleted
		done.Pending += d.Pending
		return d.Absent, err
	})
}
