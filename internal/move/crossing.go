package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// pass moves once all notices of a kind that can leave the old side.
func (m *migrator) pass(ctx context.Context, of kind) (r Result, err error) {
	if err := m.prefixes(ctx); err != nil {
		return r, err
	}
	if err := m.tombstones(ctx); err != nil {
		return r, err
	}

	c := crossing{m.from, m}
	mover := &Mover{From: c, To: c, Counter: &tally{&m.done.Moved, m.total, m.Progress}}
	for _, prefix := range m.from.Prefixes() {
		for place := m.from.Space().First(); place < m.from.Space().Places(); place++ {
			p := keys.Partition{Prefix: prefix, Shard: place}
			if err := pages(func(cursor uint64) (uint64, error) {
				ks, next, err := m.from.scan(ctx, p, of, cursor, scanned)
				if err != nil {
					return 0, err
				}

				return next, mover.move(ctx, p, ks, &r)
			}); err != nil {
				return r, err
			}
		}
	}

	return r, nil
}

// prefixes registers on the new side the prefixes that only the old side has.
func (m *migrator) prefixes(ctx context.Context) error {
	if err := m.from.Layout.Known(ctx); err != nil {
		return err
	}

	have := m.to.Layout.Members()
	for _, p := range m.from.Layout.Members() {
		if !slices.Contains(have, p) {
			next, err := m.open(ctx, m.To, 0, m.from.Layout.Members()...)
			if err != nil {
				return err
			}

			m.to = next
			return nil
		}
	}

	return nil
}

// crossing is the old side as a Source whose notices go to shards of the new side.
type crossing struct {
	Redis
	m *migrator
}

// Space returns the space of the new side, the target of the notices.
func (c crossing) Space() keys.Space { return c.m.to.Space() }

// MoveOut compares the clocks, and exports a batch from the old side.
func (c crossing) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (batch store.Moving, held store.Staying,
	err error) {
	skew, err := c.m.clocks.check(ctx)
	if c.m.done.SkewMS = skew.Milliseconds(); err != nil {
		return batch, held, err
	}

	err = c.m.step("export", func() (err error) {
		batch, held, err = c.export(ctx, way{c.m.to, c.m.sides[0], c.m.near}, from, to, ks)
		if errors.Is(err, wire.ErrFull) {
			err = fmt.Errorf("%w; give it more memory and run this again; until then each side delivers its own notices", err)
		}

		return err
	})
	return batch, held, err
}

// MoveIn imports a batch on the new side.
func (c crossing) MoveIn(ctx context.Context, batch store.Moving) (stay []string, err error) {
	err = c.m.step("import", func() (err error) {
		stay, err = c.m.to.imports(ctx, batch)
		return err
	})
	return stay, err
}

// MoveEnd commits a batch on the old side.
func (c crossing) MoveEnd(ctx context.Context, batch store.Moving, stay []string) error {
	return c.m.step("commit", func() error { return c.Redis.Layout.MoveEnd(ctx, batch, stay) })
}

// Finish completes the batch of another mover.
func (c crossing) Finish(ctx context.Context, place int) error {
	return c.m.step("finish", func() error { return c.finishFar(ctx, c.m.to, place) })
}
