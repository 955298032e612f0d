package receivers

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/release.lua
var releaseSource string

var releaseScript = wire.NewScript("release", store.WithParts(releaseSource), false)

const (
	// stepMost is the maximum number of notices of one step.
	stepMost = 500
	// releaseEvery is the interval of walks while a pause is being released, orphansEvery of those for notices
	// without a pause.
	releaseEvery = 500 * time.Millisecond
	orphansEvery = 30 * time.Second
	// readBy is how long after the end of a pause its entry stays, because an instance may read it late and settle
	// late.
	readBy = 15 * time.Second
	// allEvery is every which walk an instance includes the partitions that others are preferred for.
	allEvery = 10
)

// Mine decides whether this instance is preferred for a partition. *[fleet.Assignment] is one.
type Mine interface{ Tidies(p keys.Partition) bool }

// Walker releases the notices of pauses that have ended. Every instance runs one.
type Walker struct {
	Holds  *Holds
	Layout *store.Layout
	Mine   Mine // may be nil if this is the only instance
	Logger *zap.Logger

	walks   int
	orphans time.Time // when to look for notices without a pause
}

// Run walks until ctx ends, and returns nil.
func (w *Walker) Run(ctx context.Context) error {
	again := pace.Loop{Min: releaseEvery, Max: 10 * time.Second, Logger: w.Logger,
		Failure: "cannot release the notices of resumed receivers, retrying", Recovered: "releasing the notices of resumed receivers again"}
	w.orphans = time.Now().Add(rand.N(orphansEvery))
	for ctx.Err() == nil {
		wait, err := w.turn(ctx)
		switch {
		case err == nil:
			again.Succeed()
		case ctx.Err() == nil:
			wait = again.Fail(err)
		}

		w.wait(ctx, wait)
	}

	return nil
}

// turn walks, and releases notices without a pause when that is due. It returns the time until the next turn.
func (w *Walker) turn(ctx context.Context) (next time.Duration, err error) {
	next, err = w.Walk(ctx)
	if err == nil && !time.Now().Before(w.orphans) {
		if err = w.releaseOrphans(ctx); err == nil { // else the next turn looks again
			w.orphans = time.Now().Add(orphansEvery + rand.N(orphansEvery/4))
		}
	}

	return min(next, time.Until(w.orphans)), err
}

// wait waits for that time, or until the entries change or ctx ends.
func (w *Walker) wait(ctx context.Context, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-w.Holds.changed:
	case <-late.C:
	}
}

// Walk releases the notices of all pauses that have ended, and returns the time until the next walk.
func (w *Walker) Walk(ctx context.Context) (next time.Duration, err error) {
	next = time.Hour
	w.walks++
	pauses := w.Holds.Table().Pauses()
	if len(pauses) == 0 {
		return next, nil
	}

	// This ends the pauses of all instances, so Redis's clock decides, not that of this machine.
	now, err := w.Layout.Wire().Now(ctx)
	if err != nil {
		return next, err
	}

	var ended []*Pause
	var fields []string
	for _, p := range pauses {
		switch {
		case !p.Active(now):
			next, ended, fields = min(next, releaseEvery), append(ended, p), append(fields, p.String())
		case !p.Until.IsZero():
			next = min(next, p.Until.Sub(now))
		}
	}

	// One count of all, so that the many pauses of one client do not delay the release of another's.
	counts, err := w.Holds.Counts(ctx, fields)
	failed := []error{err}
	for i, p := range ended {
		if err == nil || len(counts[i]) > 0 {
			failed = append(failed, w.end(ctx, p, counts[i], now))
		}
	}

	return next, errors.Join(failed...)
}

// end releases the notices of one pause, of which it has some in partitions, and removes its entry once no list has any.
func (w *Walker) end(ctx context.Context, p *Pause, held map[keys.Partition]int64, now time.Time) (err error) {
	if len(held) == 0 {
		if now.Sub(p.ended()) > readBy {
			_, err = w.Layout.SetReceiver(ctx, store.ReceiverChange{Field: p.String(), Expected: p.text})
		}
		return err
	}

	for at := range held {
		if w.walks%allEvery == 0 || w.Mine == nil || w.Mine.Tidies(at) {
			if err := w.release(ctx, at, p); err != nil {
				return err
			}
		}
	}

	return nil
}

// release releases the notices of a pause in a partition, step by step.
func (w *Walker) release(ctx context.Context, at keys.Partition, p *Pause) error {
	space := w.Layout.Space()
	// A pause with a set end has postponed its notices until random times after the end. These times are kept.
	keep := 1
	if p.Resumed {
		keep = 0
	}

	for {
		v, err := w.Layout.Parts(ctx, releaseScript, 0, []string{space.Shadow(at)}, []any{p.String(), p.ended().UnixMilli(),
			p.Over.Milliseconds(), rand.Float64(), keep, stepMost, space.Wake(), at.Wake()})
		if err != nil || len(v) != 2 || v[1] == int64(0) {
			return err
		}
	}
}

// releaseOrphans releases held notices whose pause has no entry.
func (w *Walker) releaseOrphans(ctx context.Context) error {
	t := w.Holds.Table()
	var failed []error
	for shard := range w.Layout.Space().Places() {
		if !w.Holds.IsRead(shard) {
			continue
		}

		var lists []string
		var mine []keys.Partition
		for _, prefix := range w.Layout.Prefixes() {
			at := keys.Partition{Prefix: prefix, Shard: shard}
			if w.Mine == nil || w.Mine.Tidies(at) {
				lists, mine = append(lists, w.Layout.Space().Held(at)), append(mine, at)
			}
		}

		if len(lists) == 0 {
			continue
		}

		some, err := w.Layout.AnyOf(ctx, lists)
		if failed = append(failed, err); !some {
			continue
		}

		for _, at := range mine {
			failed = append(failed, w.orphansOf(ctx, at, t))
		}
	}

	return errors.Join(failed...)
}

func (w *Walker) orphansOf(ctx context.Context, at keys.Partition, t *HoldTable) error {
	list, from := w.Layout.Space().Held(at), "-"
	for range store.MaxReceivers {
		found, err := w.Layout.Wire().Redis.ZRangeByLex(ctx, list, &redis.ZRangeBy{Min: from, Max: "+", Count: 1}).Result()
		if err != nil || len(found) == 0 {
			return w.Layout.Wire().Wrapped("release", err)
		}

		pause, _, _ := strings.Cut(found[0], " ")
		if t.pauses[pause] == nil {
			if err := w.release(ctx, at, orphan(pause)); err != nil {
				return err
			}
		}

		from = "(" + pause + "!"
	}

	return nil
}

// orphan returns a pause that was resumed long ago: its notices are released at once.
func orphan(field string) *Pause {
	p, _ := readEntry(field, "{}")
	if p == nil {
		p = &Pause{}
	}

	p.Resumed, p.At = true, time.UnixMilli(0)
	return p
}

// Counts returns for each pause, named by its field, how many notices it holds in the partitions that can be read and
// hold any.
func (h *Holds) Counts(ctx context.Context, pauses []string) ([]map[keys.Partition]int64, error) {
	out := make([]map[keys.Partition]int64, len(pauses))
	for i := range out {
		out[i] = map[keys.Partition]int64{}
	}

	space, prefixes := h.layout.Space(), h.layout.Prefixes()
	at := map[string]keys.Partition{}
	var names []string
	for shard := range space.Places() {
		for _, prefix := range prefixes {
			p := keys.Partition{Prefix: prefix, Shard: shard}
			names = append(names, space.Held(p))
			at[space.Held(p)] = p
		}
	}

	if len(pauses) == 0 || len(names) == 0 {
		return out, nil
	}

	return out, h.count(ctx, names, at, pauses, out)
}

// countsAtOnce is the maximum number of commands in one pipeline.
const countsAtOnce = 2000

// count adds to out the number of notices of each pause in each of the named lists.
func (h *Holds) count(ctx context.Context, names []string, at map[string]keys.Partition, pauses []string,
	out []map[keys.Partition]int64) error {
	var mu sync.Mutex
	return h.layout.Wire().EachNode(ctx, names, nil, func(ctx context.Context, some []string) error {
		for first := 0; first < len(pauses); first += max(1, countsAtOnce/len(some)) {
			got, err := h.lengths(ctx, some, pauses[first:min(len(pauses), first+max(1, countsAtOnce/len(some)))])
			if err != nil {
				return err
			}

			mu.Lock()
			for i, n := range got {
				if n.Val() > 0 {
					out[first+i/len(some)][at[some[i%len(some)]]] = n.Val()
				}
			}

			mu.Unlock()
		}
		return nil
	})
}

// lengths returns the number of notices of each pause in each list, pause by pause.
func (h *Holds) lengths(ctx context.Context, lists, pauses []string) (got []*redis.IntCmd, err error) {
	w := h.layout.Wire()
	_, err = w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, pause := range pauses {
			for _, list := range lists {
				got = append(got, p.ZLexCount(ctx, list, "["+pause+" ", "("+pause+"!"))
			}
		}
		return nil
	})
	return got, w.Wrapped("held", err)
}
