package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// erasePage is how many notices one step of an erasure looks at.
const erasePage = 500

// Erase forgets what has ended under a key, or of a host, until now: in the
// database, in what is on its way there, and in Redis. What is pending stays.
// It may be repeated after an error.
func (e *Engine) Erase(ctx context.Context, x history.Erasure) (done history.Erased, err error) {
	if err := e.known(ctx); err != nil {
		return done, err
	}
	now, err := e.store.Now(ctx)
	if err != nil {
		return done, err
	}
	// First of all nothing more gets in; and what Redis has goes before the rows,
	// so that nothing is found there that could not be found again.
	if err := e.o.History.DB.Refuse(ctx, x, now); err != nil {
		return done, err
	}
	if x.Key != "" {
		err = e.eraseKey(ctx, x.Key, &done)
	} else {
		err = e.eraseHost(ctx, x.Host, &done)
		if err == nil {
			err = e.unburyHost(ctx, x.Host, now)
		}
	}
	if err != nil {
		return done, err
	}
	home, empty := e.emptyOutboxes(ctx)
	if done.Rows, err = e.o.History.DB.Erase(ctx, x, now); err != nil {
		return done, err
	}
	if empty && done.Rows == 0 && done.Redis == 0 {
		err = e.o.History.DB.Unrefuse(ctx, x, now, home)
	}
	return done, err
}

// emptyOutboxes reports whether no finalized notice is on its way from this Redis, which
// home names, to the history. During a migration the other side is not known.
func (e *Engine) emptyOutboxes(ctx context.Context) (home string, empty bool) {
	home, err := e.store.Home(ctx)
	if err != nil || e.store.Side().State != layout.SideOpen {
		return home, false
	}
	n, err := e.store.Unshipped(ctx)
	return home, err == nil && n == 0
}

// erasuresEvery is how often records of erasures are dropped.
const erasuresEvery = 10 * time.Minute

// forgetErasures drops records of erasures that no outbox needs any more, until ctx ends.
func (e *Engine) forgetErasures(ctx context.Context) {
	for {
		if err := e.passOutboxes(ctx); err != nil && ctx.Err() == nil {
			e.o.Logger.Debug("cannot drop old erasures from the history, retrying", zap.Error(err))
		}
		if !alarm.Wait(ctx, erasuresEvery+rand.N(erasuresEvery/10)) {
			return
		}
	}
}

// passOutboxes records how far the outboxes of this Redis are, and drops the erasures that
// all have passed. Only a Redis that no notices come to does that: another one, which they
// come to, may not have recorded its outboxes yet.
func (e *Engine) passOutboxes(ctx context.Context) error {
	home, err := e.store.Home(ctx)
	if err != nil {
		return err
	}
	passed, empty, err := e.oldestEnded(ctx)
	if err != nil {
		return err
	}

	db, side := e.o.History.DB, e.store.Side().State
	if side == layout.SideLeft && empty {
		return db.LeaveOutbox(ctx, home)
	}
	if err := db.PassOutbox(ctx, home, passed); err != nil || side != layout.SideOpen {
		return err
	}
	return db.ForgetErasures(ctx)
}

// oldestEnded is when the oldest notice in the outboxes ended; now if they are empty.
func (e *Engine) oldestEnded(ctx context.Context) (at time.Time, empty bool, err error) {
	if at, err = e.store.Now(ctx); err != nil {
		return at, false, err
	}
	empty = true
	for place := range e.store.Space().Places() {
		left, oldest, _, err := e.store.Backlog(ctx, place)
		if err != nil {
			return at, false, err
		}
		if left == 0 {
			continue
		}
		empty = false
		first, err := store.ReadEnded(oldest)
		if err != nil {
			return at, false, err // the shipper drops the entry soon
		}
		if first.At.Before(at) {
			at = first.At
		}
	}
	return at, empty, nil
}

func (e *Engine) eraseKey(ctx context.Context, key string, done *history.Erased) error {
	f, err := e.Find(ctx, key)
	switch {
	case err == nil:
		err = e.forget(ctx, f.Route, []string{key}, done)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err != nil {
		return err
	}
	// Last, since a trim may have put one in the notice's place meanwhile.
	_, err = e.store.Unbury(ctx, []string{key})
	return err
}

// eraseHost goes through what is settled or dead: what is pending is looked at
// when it has ended.
func (e *Engine) eraseHost(ctx context.Context, host string, done *history.Erased) error {
	for _, state := range []notice.State{notice.Dead, notice.Delivered, notice.Cancelled} {
		q := store.Query{Routes: e.store.Prefixes(), State: state, Limit: erasePage}
		for {
			page, err := e.store.List(ctx, q)
			if err != nil {
				return err
			}
			if len(page.Missing) > 0 {
				return page.Missing[0].Err // what lies there would be left
			}
			by := map[string][]string{}
			for i := range page.Items {
				if f := &page.Items[i]; e.hostOf(f.Notice) == host {
					by[f.Route] = append(by[f.Route], f.Key)
				}
			}
			for prefix, ks := range by {
				if err := e.forget(ctx, prefix, ks, done); err != nil {
					return err
				}
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	return nil
}

// unburyHost deletes the tombstones of a host's notices. A tombstone does not tell its
// host: the rows of the database do.
func (e *Engine) unburyHost(ctx context.Context, host string, now time.Time) error {
	q := history.Query{Host: host, Since: now.Add(-2 * e.store.RepeatWindow()), Limit: erasePage}
	for {
		page, err := e.o.History.DB.Find(ctx, q)
		if err != nil {
			return err
		}
		ks := make([]string, len(page.Rows))
		for i := range page.Rows {
			ks[i] = page.Rows[i].Key
		}
		if _, err := e.store.Unbury(ctx, ks); err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// hostOf is the host that a notice is for.
func (e *Engine) hostOf(n *notice.Notice) string {
	if n.URL == "" {
		return e.host(n.Route)
	}
	return history.HostOf(n.URL)
}

// forget forgets what it can of keys under one prefix.
func (e *Engine) forget(ctx context.Context, prefix string, ks []string, done *history.Erased) error {
	shards, err := e.store.Where(ctx, ks)
	if err != nil {
		return err
	}
	by := map[keys.Partition][]string{}
	for i, k := range ks {
		p := keys.Partition{Prefix: prefix, Shard: shards[i]}
		by[p] = append(by[p], k)
	}
	for p, some := range by {
		gone, pending, err := e.store.Forget(ctx, p, some)
		if err != nil {
			return err
		}
		done.Redis += gone
		done.Pending += pending
	}
	return nil
}
