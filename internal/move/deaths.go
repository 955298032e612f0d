package move

import (
	"context"

	"notifier/internal/wire"
)

// deathsAtOnce is the maximum number of entries in one step.
const deathsAtOnce = 100

// deaths moves the entries of the old side's outboxes of hooks to the new side, which schedules their notices. A kill
// between the two steps leaves entries on both sides. They have one id, and so one notice.
func (m *migrator) deaths(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		for {
			texts, err := m.from.Store.Deaths(ctx, place, 0, deathsAtOnce)
			if err != nil {
				return err
			}
			if len(texts) == 0 {
				break
			}

			shard := m.to.Space().Now().First()
			if err := m.step("deaths", func() error { return m.to.addDeaths(ctx, shard, texts) }); err != nil {
				return err
			}
			if err := m.step("deaths", func() error { return m.from.Store.ForgetDeaths(ctx, place, texts) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDeaths appends entries to the outbox of hooks of a shard.
func (s Redis) addDeaths(ctx context.Context, shard int, texts []string) error {
	return s.Wire().Wrapped("deaths", s.Wire().Redis.RPush(ctx, s.Space().Deaths(shard), wire.Texts(texts)...).Err())
}
