package move

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// mostMissing is the maximum number of missing notices that are named.
const mostMissing = 20

// count counts the notices of both sides, and moves none.
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

func counts(ctx context.Context, s Redis) ([]Count, error) {
	list, missing, err := s.Store.Counts(ctx, s.Prefixes())
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

// compare looks up each notice that has left the old side on the new side, and counts those that are missing. It also
// counts the notices of both sides.
func (m *migrator) compare(ctx context.Context) (err error) {
	if m.keepsNone, err = m.to.keepsNone(ctx); err != nil {
		return err
	}
	if err := m.from.eachMark(ctx, func(place int, was map[string]string) error { return m.compareMarked(ctx, place, was) }); err != nil {
		return err
	}

	// Links may have been revoked, and entries added to the audit, since the first copy.
	if err := errors.Join(m.links(ctx), m.trail(ctx)); err != nil {
		return err
	}

	if m.done.Old, err = counts(ctx, m.from); err != nil {
		return err
	}
	if m.done.New, err = counts(ctx, m.to); err != nil {
		return err
	}

	m.done.Outbox, err = history.Outbox{Wire: m.from.Wire()}.Length(ctx)
	return err
}

// compareClosed is compare while the new side refuses calls, which may end any notice later. It keeps the marks. It does nothing unless
// the new side keeps no finalized notices: otherwise compare finds what calls have ended.
func (m *migrator) compareClosed(ctx context.Context) (err error) {
	if m.keepsNone, err = m.to.keepsNone(ctx); err != nil || !m.keepsNone {
		return err
	}

	return m.from.eachMark(ctx, func(_ int, was map[string]string) error {
		return m.eachMissing(ctx, was, func(some, missing []string, now time.Time) error {
			m.found(some, missing, was, now)
			return nil
		})
	})
}

// compareMarked looks for marked notices of the old side on the new side, and removes their marks.
func (m *migrator) compareMarked(ctx context.Context, place int, was map[string]string) error {
	m.done.Checked += len(was)
	return m.eachMissing(ctx, was, func(some, missing []string, now time.Time) error {
		return m.unmarkFound(ctx, place, m.found(some, missing, was, now))
	})
}

// eachMissing calls f with marked notices of the old side, and those of them that are not on the new side.
func (m *migrator) eachMissing(ctx context.Context, was map[string]string, f func(some, missing []string, now time.Time) error) error {
	now, err := m.to.Wire().Now(ctx)
	if err != nil {
		return err
	}

	ks := slices.Collect(maps.Keys(was))
	for shard, list := range byShard(m.to.Space(), ks) {
		for some := range slices.Chunk(list, store.MaxMoving) {
			missing, err := m.to.missing(ctx, shard, some)
			if err != nil {
				return err
			}
			if err := f(some, missing, now); err != nil {
				return err
			}
		}
	}

	return nil
}

// found returns the keys of some notices without the missing ones that should be on the new side. It
// counts those. A notice that was finalized when it left, or has become due since, is not missing: the new side may have
// delivered it and then deleted it after its retention. One that keeps none may have deleted any notice since it accepts calls, and
// before that a dead letter, of which its routes may keep fewer.
func (m *migrator) found(some, missing []string, was map[string]string, now time.Time) []string {
	found := slices.DeleteFunc(some, func(k string) bool { return slices.Contains(missing, k) })
	for _, k := range missing {
		due, err := strconv.ParseFloat(was[k], 64)
		ended := was[k] != "dead" && (err != nil || due <= float64(now.UnixMilli()))
		if ended || m.keepsNone && (m.done.Open || was[k] == "dead") {
			found = append(found, k) // finalized and trimmed
			continue
		}

		if m.done.MissingN++; len(m.done.Missing) < mostMissing {
			m.done.Missing = append(m.done.Missing, k)
		}
	}

	return found
}

// unmarkFound removes the marks of notices that were found on the new side.
func (m *migrator) unmarkFound(ctx context.Context, place int, found []string) error {
	// The old side may be full, and cannot store which notices have moved then. If an instance receives
	// an expired event very late, it may take the event for that of a plain timer.
	if err := m.from.crossed(ctx, place, found); err != nil && !errors.Is(err, wire.ErrFull) {
		return err
	}
	return m.step("compared", func() error { return m.from.unmark(ctx, m.sides[0], place, found) })
}
