package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// HookStore is the outbox of hooks: see package store.
type HookStore interface {
	Deaths(ctx context.Context, shard, from, n int) ([]string, error)
	ForgetDeaths(ctx context.Context, shard int, texts []string) error
	DeadCauses(ctx context.Context, prefixes []string, since time.Time) (store.DeadCount, error)
}

// Scheduler schedules notices.
type Scheduler interface {
	Many(ctx context.Context, reqs []store.Request) []store.Reply
}

// HooksOptions configure [Hooks].
type HooksOptions struct {
	Store    HookStore
	Schedule Scheduler
	Health   HealthStore // may be nil: no notices of receivers that fail
	Causes   CauseStore  // may be nil if no hook sends messages to a team
	Pauses   Pauses      // may be nil: no notices of receivers that are paused by rule
	// Link returns the address of the page about a route's dead letters, or its receivers; empty = unknown. It may be nil.
	Link   func(route string, receivers bool) string
	Routes *route.Table
	// Space has the shards, including old ones.
	Space      keys.Space
	Assignment Trims // may be nil if this is the only instance
	Logger     *zap.Logger
}

// Hooks schedules notices that inform operators about dead letters, and about receivers that fail or answer again. The
// setting ON_DEAD of a route names another route, called the hook, that delivers these notices. Every instance runs one
// Hooks. Normally all of them together schedule one notice for each dead letter.
type Hooks struct {
	o    HooksOptions
	hook string // prefix of a hook; empty = no route has one
}

// NewHooks returns Hooks. Run starts it.
func NewHooks(o HooksOptions) *Hooks {
	if o.Assignment == nil {
		o.Assignment = alone{}
	}

	h := &Hooks{o: o}
	for _, r := range o.Routes.All() {
		if r.OnDead != nil {
			h.hook = r.OnDead.Prefix
			break
		}
	}

	return h
}

const (
	hooksEvery = time.Second // between readings of the outboxes that this instance is preferred for
	hooksAll   = 10          // each such reading of all outboxes, whichever instance is preferred
	hooksBatch = 100         // entries per call
)

// Run schedules the hooks' notices until ctx ends, and returns nil. Without a hook it does nothing.
func (h *Hooks) Run(ctx context.Context) error {
	if h.hook == "" {
		return nil
	}

	again := pace.Loop{Min: hooksEvery, Max: 10 * time.Second, Logger: h.o.Logger,
		Failure:   "cannot schedule the hooks' notices of dead letters, keeping their facts in Redis, retrying",
		Recovered: "scheduling the hooks' notices of dead letters again"}
	wait := time.Duration(0)
	for n := 0; pace.Wait(ctx, wait); n++ {
		err := h.pass(ctx, n%hooksAll == 0)
		switch {
		case err == nil:
			again.Succeed()
			wait = hooksEvery - hooksEvery/8 + rand.N(hooksEvery/4)
		case ctx.Err() == nil:
			wait = again.Fail(err)
		}
	}

	return nil
}

// pass reads the outboxes of the shards that this instance is preferred for, or of all shards.
func (h *Hooks) pass(ctx context.Context, all bool) error {
	var failed []error // an error of one shard does not stop the others
	for shard := range h.o.Space.Places() {
		if all || h.o.Assignment.Tidies(keys.Partition{Prefix: h.hook, Shard: shard}) {
			failed = append(failed, h.drain(ctx, shard))
		}
	}

	return errors.Join(append(failed, h.downs(ctx, all), h.messages(ctx, all))...)
}

// drain schedules the notices of all entries of a shard's outbox. It skips entries that this instance
// cannot schedule.
func (h *Hooks) drain(ctx context.Context, shard int) error {
	for from := 0; ; {
		texts, err := h.o.Store.Deaths(ctx, shard, from, hooksBatch)
		if err != nil || len(texts) == 0 {
			return err
		}

		done, failed := h.schedule(ctx, texts)
		if err := errors.Join(failed, h.o.Store.ForgetDeaths(ctx, shard, done)); err != nil || len(texts) < hooksBatch {
			return err
		}

		from += len(texts) - len(done)
	}
}

// schedule schedules the notices of entries, and returns the entries whose notices are stored.
func (h *Hooks) schedule(ctx context.Context, texts []string) (done []string, err error) {
	var reqs []store.Request
	var of []string
	cs := causes{}
	for _, text := range texts {
		d, wrong := store.ReadDeath(text)
		if wrong != nil {
			err = wrong
			continue
		}

		// The key has the id of the dead letter, so that another instance or a second pass schedules no second notice.
		key := keys.Fill(d.Hook, "dead") + ":" + d.ID
		r := h.o.Routes.Match(key)
		if r == nil || r.Prefix != d.Hook {
			continue // for an instance that has the hook's route
		}

		if r.Robot != nil {
			if wrong := cs.add(&d, text); wrong != nil {
				err = wrong
			}
			continue
		}

		reqs = append(reqs, store.Request{Key: key, OnDuplicate: store.Keep, Content: notice.Content{Body: d.Body()}})
		of = append(of, text)
	}

	done, failed := h.collect(ctx, cs)
	err = errors.Join(err, failed)
	if len(reqs) == 0 {
		return done, err
	}

	for i, r := range h.o.Schedule.Many(ctx, reqs) {
		switch {
		case r.Err == nil:
			done = append(done, of[i])
		case !errors.Is(r.Err, wire.ErrMoved): // a mover takes the entries to the other side
			err = errors.Join(err, r.Err)
		}
	}

	return done, err
}
