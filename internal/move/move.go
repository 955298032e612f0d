package move

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Source has the notices to move. [Redis] is one: the old shards of its space.
type Source interface {
	// Space names the places. Its current shards are the targets.
	Space() keys.Space
	// Prefixes returns all prefixes that may have notices.
	Prefixes() []string
	// ScanKeys reads a page of the keys of a partition.
	ScanKeys(ctx context.Context, p keys.Partition, cursor uint64, n int64) (ks []string, next uint64, err error)
	// MoveOut exports a batch of notices for a place. The error is store.ErrMoving if another batch
	// is unfinished; Finish completes it.
	MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (batch store.Moving, held store.Staying, err error)
	// MoveEnd commits a batch. The notices in stay return to their sets.
	MoveEnd(ctx context.Context, batch store.Moving, stay []string) error
	Finish(ctx context.Context, place int) error
	// MoveDefinitions moves the definitions of recurring notices of an old shard to the shards of their keys.
	MoveDefinitions(ctx context.Context, place int) error
	// MoveTombs moves the tombstones of an old shard to the shards of their keys.
	MoveTombs(ctx context.Context, place int) error
	// Drained checks the old shards, and returns how many of them hold notices.
	Drained(ctx context.Context, only func(place int) bool) (left int, err error)
	// OldShards returns the old shards that may hold notices.
	OldShards() []int
}

// Destination takes in the moved notices.
type Destination interface {
	// MoveIn imports a batch, once, and returns the keys of notices that are to stay in the source.
	MoveIn(ctx context.Context, batch store.Moving) (stay []string, err error)
}

// Mover moves notices. Several movers may run at a time, in any process.
type Mover struct {
	From Source
	To   Destination
	// Part selects the old shards to empty. If it is nil, all are.
	Part Part
	// Counter, if not nil, counts the moved notices.
	Counter Counter
	// Tracer, if not nil, makes a span of each batch.
	Tracer trace.Tracer
}

// Part selects old shards. *[fleet.Assignment] is one.
type Part interface{ Drains(place int) bool }

// Counter counts moved notices.
type Counter interface{ Add(n int) }

// Result is the result of a pass.
type Result struct {
	Moved int
	// Held counts the notices that stay, by reason.
	Held store.Staying
}

func (r *Result) add(held store.Staying) {
	r.Held.Claimed += held.Claimed
	r.Held.Reported += held.Reported
	r.Held.Soon += held.Soon
	r.Held.Both += held.Both
}

// scanned is the number of keys in a page.
const scanned = 500

// Pass moves once all notices that can leave the old shards.
func (m *Mover) Pass(ctx context.Context) (r Result, err error) {
	var only func(place int) bool
	if m.Part != nil {
		only = m.Part.Drains
	}

	if _, err := m.From.Drained(ctx, only); err != nil {
		return r, err
	}

	for _, place := range m.From.OldShards() {
		if only != nil && !only(place) {
			continue
		}
		if err := m.empty(ctx, place, &r); err != nil {
			return r, err
		}
	}

	_, err = m.From.Drained(ctx, only)
	return r, err
}

// empty moves once all notices that can leave an old shard. Definitions have no ticks until they are moved, and tombstones are of
// earlier notices, so these are moved first.
func (m *Mover) empty(ctx context.Context, place int, r *Result) error {
	if err := m.From.MoveDefinitions(ctx, place); err != nil {
		return err
	}
	if err := m.From.MoveTombs(ctx, place); err != nil {
		return err
	}

	for _, prefix := range m.From.Prefixes() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		if err := pages(func(cursor uint64) (uint64, error) {
			ks, next, err := m.From.ScanKeys(ctx, p, cursor, scanned)
			if err != nil {
				return 0, err
			}

			return next, m.move(ctx, p, ks, r)
		}); err != nil {
			return err
		}
	}

	return nil
}

// move moves the notices of one partition to their shards.
func (m *Mover) move(ctx context.Context, from keys.Partition, ks []string, r *Result) error {
	for shard, list := range byShard(m.From.Space(), ks) {
		for some := range slices.Chunk(list, store.MaxMoving) {
			if err := m.step(ctx, from, shard, some, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// step moves notices to one shard, in as many batches as the bounds of a batch require.
func (m *Mover) step(ctx context.Context, from keys.Partition, to int, ks []string, r *Result) error {
	for len(ks) > 0 {
		under, span := tracing.Step(ctx, m.Tracer, "move", tracing.Route.String(from.Prefix), tracing.Shard.Int(from.Shard),
			tracing.Target.Int(to))

		before := r.Moved
		done, err := m.batch(under, from, to, ks, r)
		if err != nil || r.Moved > before { // the span of a step without a move is dropped
			span.SetAttributes(tracing.Notices.Int(r.Moved - before))
			tracing.End(span, err, "redis")
		}

		if done || err != nil {
			return err
		}
	}
	return nil
}

// batch moves one batch. done reports whether no more of ks can be moved now.
func (m *Mover) batch(ctx context.Context, from keys.Partition, to int, ks []string, r *Result) (done bool, err error) {
	batch, held, err := m.From.MoveOut(ctx, from, to, ks)
	if errors.Is(err, store.ErrMoving) {
		return false, m.From.Finish(ctx, from.Shard)
	}
	if err != nil {
		return false, err
	}

	n := batch.Len()
	if n == 0 {
		r.add(held)
		return true, nil
	}

	stay, err := m.To.MoveIn(ctx, batch)
	if err != nil {
		return false, err
	}
	if err := m.From.MoveEnd(ctx, batch, stay); err != nil {
		return false, err
	}

	r.Moved += n - len(stay)
	if m.Counter != nil {
		m.Counter.Add(n - len(stay))
	}

	if n+held.All() < len(ks) && len(stay) == 0 {
		return false, nil
	}

	held.Both += len(stay)
	r.add(held)
	return true, nil
}
