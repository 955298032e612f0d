package move

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// mostMissing is how many of those that are missing are named.
const mostMissing = 20

// count is what a dry run says.
func (m *migrator) count(ctx context.Context) (Migrated, error) {
	var err error
	if m.done.Old, err = counts(ctx, m.from); err != nil {
		return m.done, err
	}
	n, err := m.To.Exists(ctx, keys.Space{Namespace: m.Namespace}.Meta()).Result()
	if err != nil {
		return m.done, wire.Wrap("the new side", err)
	}
	if n == 0 {
		return m.done, nil
	}
	if m.to, err = m.open(ctx, m.To, m.Shards); err != nil {
		return m.done, err
	}
	m.done.New, err = counts(ctx, m.to)
	return m.done, err
}

func counts(ctx context.Context, s *store.Store) ([]Count, error) {
	list, missing, err := s.Counts(ctx, s.Prefixes())
	if err == nil && len(missing) > 0 {
		err = missing[0].Err
	}
	out := []Count{}
	for _, c := range list {
		if c.Pending+c.Dead+c.Settled > 0 || c.Paused {
			out = append(out, Count{c.Prefix, c.Pending, c.Dead, c.Settled, c.Paused})
		}
	}
	return out, err
}

// compare looks for each notice that has left on the new side, and counts what both hold.
// One that was pending and has been due since may have ended there and be kept no longer,
// and so may one that had ended when it left: these need not be there.
func (m *migrator) compare(ctx context.Context) error {
	if err := eachElsewhere(ctx, m.from, func(place int, was map[string]string) error { return m.look(ctx, place, was) }); err != nil {
		return err
	}
	// Links may have been revoked meanwhile.
	err := errors.Join(m.links(ctx), m.trail(ctx))
	if err != nil {
		return err
	}
	if m.done.Old, err = counts(ctx, m.from); err != nil {
		return err
	}
	if m.done.New, err = counts(ctx, m.to); err != nil {
		return err
	}
	m.done.Endings, err = m.from.Unshipped(ctx)
	return err
}

// look looks for some, and forgets in the end that they have left.
func (m *migrator) look(ctx context.Context, place int, was map[string]string) error {
	by := map[int][]string{}
	for k := range was {
		shard := m.to.Space().Shard(k)
		by[shard] = append(by[shard], k)
	}
	now, err := m.to.Now(ctx)
	if err != nil {
		return err
	}
	for shard, all := range by {
		for some := range slices.Chunk(all, layout.MaxMoving) {
			absent, err := m.to.Absent(ctx, shard, some)
			if err != nil {
				return err
			}
			m.done.Checked += len(some)
			found := slices.DeleteFunc(some, func(k string) bool { return slices.Contains(absent, k) })
			for _, k := range absent {
				due, err := strconv.ParseFloat(was[k], 64)
				if was[k] != "dead" && (err != nil || due <= float64(now.UnixMilli())) {
					found = append(found, k) // it has ended
					continue
				}
				if m.done.MissingN++; len(m.done.Missing) < mostMissing {
					m.done.Missing = append(m.done.Missing, k)
				}
			}
			// A full Redis may be left too. It cannot note which notices have moved: an event that
			// an instance receives very late may then be taken for one of a notice without a record.
			if err := m.from.Cross(ctx, place, found); err != nil && !errors.Is(err, wire.ErrFull) {
				return err
			}
			if err := m.step("compared", func() error { return m.from.Unmark(ctx, m.sides[0], place, found) }); err != nil {
				return err
			}
		}
	}
	return nil
}
