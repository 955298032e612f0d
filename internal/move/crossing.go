package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// pass goes once through what the old side holds.
func (m *migrator) pass(ctx context.Context, kind store.Kind) (r Result, err error) {
	if err := m.prefixes(ctx); err != nil {
		return r, err
	}
	if err := m.tombstones(ctx); err != nil {
		return r, err
	}
	c := crossing{m.from, m}
	mover := &Mover{From: c, To: c, OnMoved: func(n int) {
		m.done.Moved += n
		m.OnMoved(n, m.total)
	}}
	for _, prefix := range m.from.Prefixes() {
		for place := m.from.Space().First(); place < m.from.Space().Places(); place++ {
			p := keys.Partition{Prefix: prefix, Shard: place}
			for cursor := uint64(0); ; {
				ks, next, err := m.from.KeptOf(ctx, p, kind, cursor, scanned)
				if err != nil {
					return r, err
				}
				if err := mover.move(ctx, p, ks, &r); err != nil {
					return r, err
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
	}
	return r, nil
}

// prefixes gives the new side those that it does not know yet.
func (m *migrator) prefixes(ctx context.Context) error {
	if err := m.from.Known(ctx); err != nil {
		return err
	}
	have := m.to.Prefixes()
	for _, p := range m.from.Prefixes() {
		if !slices.Contains(have, p) {
			next, err := m.open(ctx, m.To, 0, m.from.Prefixes()...)
			if err != nil {
				return err
			}
			m.to = next
			return nil
		}
	}
	return nil
}

// crossing is the old side, whose notices go to shards of the new one.
type crossing struct {
	*store.Store
	m *migrator
}

// Space is that of the new side, where notices go to.
func (c crossing) Space() keys.Space { return c.m.to.Space() }

// MoveOut looks at the clocks before each step.
func (c crossing) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (batch layout.Moving, held layout.Staying,
	err error) {
	skew, err := c.m.clocks.check(ctx)
	if c.m.done.SkewMS = skew.Milliseconds(); err != nil {
		return batch, held, err
	}
	err = c.m.step("out", func() (err error) {
		batch, held, err = c.Store.SendOff(ctx, store.Way{Far: c.m.to, Side: c.m.sides[0], Near: c.m.near}, from, to, ks)
		if errors.Is(err, wire.ErrFull) {
			err = fmt.Errorf("%w; give it memory, and run this again: until then each side delivers what it has", err)
		}
		return err
	})
	return batch, held, err
}

// MoveIn puts a batch in on the new side.
func (c crossing) MoveIn(ctx context.Context, batch layout.Moving) (stay []string, err error) {
	err = c.m.step("in", func() (err error) {
		stay, err = c.m.to.Arrive(ctx, batch)
		return err
	})
	return stay, err
}

// MoveEnd forgets it on the old one.
func (c crossing) MoveEnd(ctx context.Context, batch layout.Moving, stay []string) error {
	return c.m.step("end", func() error { return c.Store.MoveEnd(ctx, batch, stay) })
}

// Finish brings in what another mover has left on its way.
func (c crossing) Finish(ctx context.Context, place int) error {
	return c.m.step("finish", func() error { return c.Store.FinishLeaving(ctx, c.m.to, place) })
}
