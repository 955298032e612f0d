package move

import (
	"context"

	"notifier/internal/store"
	"notifier/internal/vault"
)

// The keys of sealed notices in a migration. They are copied before notices leave, before each pass, and once more while both sides
// refuse calls, so that the new side opens each notice that arrives. In a reshard they need no move: package vault finds them in the old
// places.

// seals copies the keys of sealed notices, and the marks of forgotten subjects, to the new side.
func (m *migrator) seals(ctx context.Context) error {
	return m.step("seals", func() error { return vault.Copy(ctx, m.from.Wire(), m.to.Wire()) })
}

// dropSeals deletes the keys of sealed notices on the old side. A forget on the new side does not reach them. They stay while the old
// side has notices, or finalized ones for its history.
func (m *migrator) dropSeals(ctx context.Context) error {
	if m.sides[1].State != store.SideOpen || m.done.Outbox > 0 {
		return nil
	}

	return m.step("unseal", func() error {
		w := m.from.Wire()
		for place := range w.Space.Places() {
			if err := w.Redis.Unlink(ctx, w.Space.Seals(place)).Err(); err != nil {
				return w.Fail("seal", err)
			}
		}

		return nil
	})
}
