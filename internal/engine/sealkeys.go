package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/vault"
)

// sealCountEvery is how often the keys of sealed notices are counted. A count takes at most one part of sealCountShare of the time.
const (
	sealCountEvery = time.Minute
	sealCountShare = 20
)

// sealed is what an instance knows about sealed notices.
type sealed struct {
	routes bool                           // it has routes that seal their notices
	again  chan struct{}                  // wakes recallForgotten
	count  atomic.Pointer[map[string]int] // keys of sealed notices by service key; nil = unknown
}

// tendSeals counts the keys of sealed notices, and deletes unused ones, until ctx ends.
func (e *Engine) tendSeals(ctx context.Context) error {
	if !e.sealed.routes {
		return nil
	}

	var g errgroup.Group
	g.Go(func() error { return e.countSealKeys(ctx) })
	g.Go(func() error { return e.cleanSealKeys(ctx) })
	g.Go(func() error { return e.keepForgotten(ctx) })
	return g.Wait()
}

// Unused keys are deleted about once a day, by one instance: sealCleanTry is how often each one tries.
const sealCleanEvery, sealCleanTry = 23 * time.Hour, time.Hour

// sealRenewAfter is how long the data key of a route or audience seals new texts.
const sealRenewAfter = 30 * 24 * time.Hour

func (e *Engine) cleanSealKeys(ctx context.Context) error {
	for e.o.SealKeep > 0 && pace.Wait(ctx, rand.N(sealCleanTry)+time.Minute) {
		n, err := e.cleanSealKeysOnce(ctx)
		if err != nil {
			e.o.Logger.Warn("cannot delete unused keys of sealed notices, trying again within an hour", zap.Error(err))
		} else if n > 0 {
			e.o.Logger.Info("deleted unused keys of sealed notices", zap.Int("keys", n))
		}
	}

	return nil
}

// cleanSealKeysOnce deletes the unused keys, unless an instance has done so in the last sealCleanEvery.
func (e *Engine) cleanSealKeysOnce(ctx context.Context) (deleted int, err error) {
	w := e.store.Wire()
	name := w.Space.SealsCleaned()
	if err := w.Redis.SetArgs(ctx, name, e.Self(), redis.SetArgs{Mode: "NX", TTL: sealCleanEvery}).Err(); err != nil {
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return 0, w.Wrapped("seal", err)
	}

	// All shards may have prefixes that this instance does not know yet.
	if err = e.store.Layout.Learn(ctx); err == nil {
		c := vault.Cleaner{Vault: e.vault, Prefixes: e.store.Layout.Prefixes, Renew: sealRenewAfter,
			Keep: max(e.o.SealKeep, e.store.RepeatWindow()+24*time.Hour)}
		deleted, err = c.Clean(ctx)
	}

	if err != nil {
		err = errors.Join(err, w.Redis.Del(context.WithoutCancel(ctx), name).Err())
	}

	return deleted, err
}

// countSealKeys counts the keys of sealed notices until ctx ends.
func (e *Engine) countSealKeys(ctx context.Context) error {
	for {
		began := time.Now()
		if under, err := vault.Count(ctx, e.store.Wire()); err == nil {
			e.sealed.count.Store(&under)
		} else {
			e.sealed.count.Store(nil) // the error is counted as one of the operation seal
		}

		if !pace.Wait(ctx, max(sealCountEvery, sealCountShare*time.Since(began))) {
			return nil
		}
	}
}

// sealGauges adds the gauges of sealed notices.
func (e *Engine) sealGauges(ctx context.Context, g *fleet.Gauges, counts []store.Counts) {
	if under := e.sealed.count.Load(); under != nil {
		g.SealKeys = *under
	}

	names, prefixes := e.missingSealKeys(ctx)
	if g.SealedWaiting = -1; e.sealed.routes || len(names) > 0 {
		g.SealedWaiting = overdue(counts, prefixes)
	}
}

// overdue returns the number of overdue notices under some prefixes.
func overdue(counts []store.Counts, prefixes []string) (n int64) {
	for _, c := range counts {
		if slices.Contains(prefixes, c.Prefix) {
			n += c.Overdue
		}
	}

	return n
}

// missingSealKeys returns the names of the service keys that due notices need and no running instance has, and the prefixes of their
// routes.
func (e *Engine) missingSealKeys(ctx context.Context) (names, prefixes []string) {
	missing := e.dispatch.MissingKeys()
	if len(missing) == 0 {
		return nil, nil
	}

	own, others, err := e.runningSealKeys(ctx)
	if err != nil {
		return nil, nil
	}

	// A key of the same name that does not open the notices here does not open them elsewhere.
	there := namesOf(slices.DeleteFunc(others, func(id string) bool { return slices.Contains(own, id) }))
	lost := map[string]bool{}
	for prefix, list := range missing {
		list = slices.DeleteFunc(list, func(name string) bool { return there[name] })
		if len(list) > 0 {
			prefixes = append(prefixes, prefix)
		}

		for _, name := range list {
			lost[name] = true
		}
	}

	slices.Sort(prefixes)
	return slices.Sorted(maps.Keys(lost)), prefixes
}

// runningSealKeys returns the ids of the service keys of this instance, and of all others that are running.
func (e *Engine) runningSealKeys(ctx context.Context) (own, others []string, err error) {
	if e.o.SealKeys != nil {
		own = e.o.SealKeys.IDs()
	}

	lists, err := e.peersSealKeys(ctx)
	return own, slices.Concat(lists...), err
}

// namesOf returns the names of service keys.
func namesOf(ids []string) map[string]bool {
	names := map[string]bool{}
	for _, id := range ids {
		names[seal.NameOf(id)] = true
	}

	return names
}

// unopened returns the conditions that no running instance has a service key: one of keys that due notices need, and one of others.
func (e *Engine) unopened(ctx context.Context) []fleet.Condition {
	names, prefixes := e.missingSealKeys(ctx)
	idle := e.withoutServiceKey(ctx, names)
	if len(names) == 0 {
		return idle
	}

	wait := "their notices wait"
	if counts, _, err := e.Counts(ctx); err == nil {
		wait = notice.Count(overdue(counts, prefixes), "notice") + " overdue"
	}

	return append(idle, fleet.Condition{Urgent: true, Reason: fmt.Sprintf("no running instance has the service key %s of sealed notices "+
		"under %s: %s, no attempt is used; add the key to NOTIFIER_SEAL_KEYS", strings.Join(names, ", "), strings.Join(prefixes, ", "), wait)})
}

// withoutServiceKey returns the condition that keys in Redis are encrypted with service keys that no running instance has, and that no due
// notice needs now. Entries of lists and streams need them, and notices that are not due yet. reported are the names of other conditions.
func (e *Engine) withoutServiceKey(ctx context.Context, reported []string) []fleet.Condition {
	under := e.sealed.count.Load()
	if under == nil {
		return nil
	}

	own, others, err := e.runningSealKeys(ctx)
	if err != nil {
		return nil
	}

	n, there := 0, namesOf(slices.Concat(own, others))
	var names []string
	for _, name := range slices.Sorted(maps.Keys(*under)) {
		if !there[name] && !slices.Contains(reported, name) {
			names, n = append(names, name), n+(*under)[name]
		}
	}

	if len(names) == 0 {
		return nil
	}

	return []fleet.Condition{{Reason: fmt.Sprintf("no running instance has the service key %s, so %s of sealed notices cannot be decrypted; "+
		"add the service key to NOTIFIER_SEAL_KEYS", strings.Join(names, ", "), notice.Count(n, "key"))}}
}
