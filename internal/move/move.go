package move

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/tracing"
)

// Source is where notices are. *[store.Store] is one, with the former shards of its
// space.
type Source interface {
	// Space names the places; those that notices go to are its shards.
	Space() keys.Space
	// Prefixes are those under which notices may lie.
	Prefixes() []string
	// Kept reads keys of a partition, some at a time.
	Kept(ctx context.Context, p keys.Partition, cursor uint64, n int64) (ks []string, next uint64, err error)
	// MoveOut takes notices out, on their way to a place; layout.ErrMoving says that
	// others are on theirs, which Finish brings in.
	MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (batch layout.Moving, held layout.Staying, err error)
	MoveEnd(ctx context.Context, batch layout.Moving, stay []string) error
	Finish(ctx context.Context, place int) error
	// MoveTombs moves the tombstones of a former shard to the shards of their keys.
	MoveTombs(ctx context.Context, place int) error
	// Drained looks which former shards hold anything, and says how many do.
	Drained(ctx context.Context, only func(place int) bool) (left int, err error)
	// Formers are those.
	Formers() []int
}

// Destination is where they go.
type Destination interface {
	// MoveIn puts a batch in, once, and says which notices are to stay.
	MoveIn(ctx context.Context, batch layout.Moving) (stay []string, err error)
}

// Mover moves notices. Several may be at work at a time, in any processes.
type Mover struct {
	From Source
	To   Destination
	// Only, if not nil, says which former shards are gone through.
	Only func(place int) bool
	// OnMoved, if not nil, hears how many have gone.
	OnMoved func(n int)
	// Tracer makes a span of each batch. Nil: there are none.
	Tracer trace.Tracer
}

// Result is what a pass has come to.
type Result struct {
	Moved int
	// Held are those that stay where they are until their claim ends or they are
	// reported.
	Held layout.Staying
}

func (r *Result) add(held layout.Staying) {
	r.Held.Claimed += held.Claimed
	r.Held.Reported += held.Reported
	r.Held.Soon += held.Soon
	r.Held.Both += held.Both
}

// scanned is how many keys a step reads.
const scanned = 500

// Pass goes once through all former shards that may hold something.
func (m *Mover) Pass(ctx context.Context) (r Result, err error) {
	if _, err := m.From.Drained(ctx, m.Only); err != nil {
		return r, err
	}
	for _, place := range m.From.Formers() {
		if m.Only != nil && !m.Only(place) {
			continue
		}
		if err := m.empty(ctx, place, &r); err != nil {
			return r, err
		}
	}
	_, err = m.From.Drained(ctx, m.Only)
	return r, err
}

// empty goes once through a former shard. Its tombstones go first: they are the older ones.
func (m *Mover) empty(ctx context.Context, place int, r *Result) error {
	if err := m.From.MoveTombs(ctx, place); err != nil {
		return err
	}
	for _, prefix := range m.From.Prefixes() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		for cursor := uint64(0); ; {
			ks, next, err := m.From.Kept(ctx, p, cursor, scanned)
			if err != nil {
				return err
			}
			if err := m.move(ctx, p, ks, r); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// move brings keys of one partition to their shards.
func (m *Mover) move(ctx context.Context, from keys.Partition, ks []string, r *Result) error {
	to := map[int][]string{}
	for _, k := range ks {
		shard := m.From.Space().Shard(k)
		to[shard] = append(to[shard], k)
	}
	for shard, all := range to {
		for some := range slices.Chunk(all, layout.MaxMoving) {
			if err := m.step(ctx, from, shard, some, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// step moves a batch; what its bounds leave behind is moved by the next step.
func (m *Mover) step(ctx context.Context, from keys.Partition, to int, ks []string, r *Result) error {
	for len(ks) > 0 {
		under, span := tracing.Step(ctx, m.Tracer, "move", tracing.Route.String(from.Prefix), tracing.Shard.Int(from.Shard), tracing.Target.Int(to))
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
	if errors.Is(err, layout.ErrMoving) {
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
	if m.OnMoved != nil {
		m.OnMoved(n - len(stay))
	}
	if n+held.All() < len(ks) && len(stay) == 0 {
		return false, nil
	}
	held.Both += len(stay)
	r.add(held)
	return true, nil
}
