package move

import (
	"context"

	"notifier/internal/receivers"
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

// causes moves the causes of messages for teams to the new side. Its instances send the next messages, because the old side refuses
// them. Call it after deaths: instances of the old side remove an entry from its outbox after they have added it to a cause.
func (m *migrator) causes(ctx context.Context) error {
	from, to := receivers.HealthStore{Wire: m.from.Wire()}, receivers.HealthStore{Wire: m.to.Wire()}
	return m.step("causes", func() error { return from.MoveCauses(ctx, &to, m.from.Prefixes()) })
}

// addDeaths appends entries to the outbox of hooks of a shard.
func (s Redis) addDeaths(ctx context.Context, shard int, texts []string) error {
	return s.Wire().Wrapped("deaths", s.Wire().Redis.RPush(ctx, s.Space().Deaths(shard), wire.Texts(texts)...).Err())
}
