package engine

import (
	"context"
	"errors"

	"notifier/internal/history"
	"notifier/internal/keys"
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
	}
	if err != nil {
		return done, err
	}
	done.Rows, err = e.o.History.DB.Erase(ctx, x, now)
	return done, err
}

func (e *Engine) eraseKey(ctx context.Context, key string, done *history.Erased) error {
	f, err := e.Find(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.forget(ctx, f.Route, []string{key}, done)
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
