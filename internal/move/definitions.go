package move

import (
	"context"
	"fmt"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// MoveDefinitions implements [Source].
func (s Redis) MoveDefinitions(ctx context.Context, place int) error {
	return store.NewRecurrences(s.Store).Leave(ctx, place)
}

// Definitions of recurring notices in a migration. The states of the sides decide which side has ticks: the old one while it is open
// or leaving, neither while both refuse calls, and then the new one. In between all definitions are copied. Those of the old side are
// deleted when the new side has opened. A migration that is reversed before that leaves them where they are.

// copyDefinitions copies the definitions to the new side, while both sides refuse calls.
func (m *migrator) copyDefinitions(ctx context.Context) error {
	copied := 0
	err := m.eachDefined(ctx, func(p keys.Partition, list []store.Defined) error {
		copied += len(list)
		return m.step("define", func() error {
			return store.NewRecurrences(m.to.Store).Take(ctx, p.Prefix, m.sides[1], true, list)
		})
	})
	if err == nil && copied > 0 {
		m.Progress.Say("copied " + notice.Count(copied, "definition") + " of recurring notices, those of deleted ones included")
	}

	return err
}

// dropDefinitions deletes the definitions of the old side. The new side has them, or later ones.
func (m *migrator) dropDefinitions(ctx context.Context) error {
	return m.eachDefined(ctx, func(p keys.Partition, list []store.Defined) error {
		return m.step("undefine", func() error {
			if err := store.NewRecurrences(m.to.Store).Take(ctx, p.Prefix, m.sides[1], false, list); err != nil {
				return err
			}
			return store.NewRecurrences(m.from.Store).Drop(ctx, p, m.sides[0], list)
		})
	})
}

// eachDefined calls do with each page of definitions of the old side.
func (m *migrator) eachDefined(ctx context.Context, do func(p keys.Partition, list []store.Defined) error) error {
	if err := m.prefixes(ctx); err != nil {
		return err
	}

	all := store.NewRecurrences(m.from.Store)
	for _, prefix := range m.from.Prefixes() {
		for place := m.from.Space().First(); place < m.from.Space().Places(); place++ {
			p := keys.Partition{Prefix: prefix, Shard: place}
			if err := pages(func(cursor uint64) (uint64, error) {
				list, next, err := all.Stored(ctx, p, cursor)
				if err != nil || len(list) == 0 {
					return next, err
				}

				return next, do(p, list)
			}); err != nil {
				return err
			}
		}
	}

	return nil
}

// newSideUndefined returns ErrRefused if the new side has definitions of recurring notices.
func (m *migrator) newSideUndefined(ctx context.Context) error {
	list, _, err := store.NewRecurrences(m.to.Store).List(ctx, m.to.Prefixes(), "", "", 1)
	if err != nil || len(list) == 0 {
		return err
	}

	return fmt.Errorf("%w: %s already has recurring notices in this namespace, such as %s: delete them with notifier recur delete, or "+
		"migrate to an empty namespace", ErrRefused, m.Names[1], list[0].Key)
}
