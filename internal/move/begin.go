package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// begin brings both sides into states in which notices can move; see the table in the package doc. It
// returns ErrRefused if another migration is unfinished on either side.
func (m *migrator) begin(ctx context.Context) (err error) {
	for i, s := range m.stores() {
		if m.homes[i], err = s.Layout.Home(ctx); err != nil {
			return err
		}
		if err := s.Layout.Spread(ctx); err != nil {
			return err
		}

		m.sides[i] = s.Layout.Side()
	}

	if m.homes[0] == m.homes[1] {
		return fmt.Errorf("%w: both addresses are of the same Redis and namespace, or the new side is a copy of the old one (%s has "+
			"the same home)", ErrRefused, m.to.Space().Meta())
	}

	if left, err := m.from.Layout.Drained(ctx, nil); err != nil || left > 0 {
		n := m.from.Space().Now().Shards
		return errors.Join(err,
			refusedIf(left > 0, fmt.Sprintf("the last reshard of the old side is not finished: notices are left in %s because they are claimed, "+
				"await a report, or have not been moved. Report their outcomes, run notifier reshard --to %d until none is left, and run this "+
				"again", notice.Count(left, "old shard"), n)))
	}

	if err := m.choose(ctx); err != nil {
		return err
	}
	if err := m.fence(ctx); err != nil {
		return err
	}
	if m.returns() {
		return m.comeBack(ctx)
	}

	return m.setOut(ctx)
}

// stores returns both sides.
func (m *migrator) stores() [2]Redis { return [2]Redis{m.from, m.to} }

// set changes the state of a side, unless another mover has changed it.
func (m *migrator) set(ctx context.Context, side int, state store.SideState, fields ...any) error {
	return m.step(string(state), func() error { return m.change(ctx, side, state, fields...) })
}

func (m *migrator) change(ctx context.Context, side int, state store.SideState, fields ...any) (err error) {
	next := store.Side{State: state, ID: m.id, Other: m.homes[1-side]}
	m.sides[side], err = m.stores()[side].Layout.SetSide(ctx, m.sides[side], next, fields...)
	return err
}

// fence gives both sides a new epoch. A paused mover that continues knows only the old epoch, so it
// cannot change the sides any more.
func (m *migrator) fence(ctx context.Context) error {
	for i, s := range m.stores() {
		now := m.sides[i]
		if now.State == store.SideOpen {
			continue // its next change of state has a new epoch
		}

		if err := m.step("fence", func() (err error) {
			m.sides[i], err = s.Layout.SetSide(ctx, now, now)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// choose sets the id of the migration: the id of an unfinished one in the same direction, or a new id.
// It returns ErrRefused if notices cannot move between these sides.
func (m *migrator) choose(ctx context.Context) error {
	if err := m.oldSideFree(); err != nil {
		return err
	}
	if err := m.newSideFree(); err != nil {
		return err
	}
	if err := m.arrived(ctx); err != nil {
		return err
	}

	m.id = m.unfinished()
	if m.id == "" {
		m.id = rand.Text()
	}

	a, b := m.sides[0], m.sides[1]
	if b.State != store.SideOpen || a.State == store.SideComing || a.Gives() && b.Other == m.homes[0] {
		return nil // the sides belong to one migration
	}

	return m.newSideEmpty(ctx)
}

// unfinished returns the id of an unfinished migration in the same direction; "" = none.
func (m *migrator) unfinished() string {
	a, b := m.sides[0], m.sides[1]
	switch {
	case b.State == store.SideComing, b.State == store.SideOpened:
		return b.ID
	case a.Gives() && b.State == store.SideOpen && a.ID == b.ID:
		return a.ID
	}

	return ""
}

// oldSideFree returns ErrRefused if the old side takes part in a migration with a third Redis.
func (m *migrator) oldSideFree() error {
	a := m.sides[0]
	switch {
	case a.Other == m.homes[1]:
		return nil
	case a.Gives():
		return refusedIf(true, "the notices of the old side are moving, or have moved, to another Redis than "+m.Names[1]+
			": give the address of that Redis, or move the notices back first")
	case a.State == store.SideComing:
		return refusedIf(true, "notices are being moved to "+m.Names[0]+" from another Redis: finish that migration first")
	}

	return nil
}

// newSideFree returns ErrRefused if the new side takes part in a migration with a third Redis.
func (m *migrator) newSideFree() error {
	b := m.sides[1]
	switch {
	case b.State == store.SideOpen, b.Other == m.homes[0]:
		return nil
	case b.Gives():
		return refusedIf(true, "the notices of "+m.Names[1]+" are moving, or have moved, to another Redis: finish that migration, and "+
			"move the notices back, first")
	}

	return refusedIf(true, "notices are being moved to "+m.Names[1]+" from another Redis: finish that migration first")
}

// arrived returns ErrRefused if notices from a third Redis have not yet arrived on the old side.
func (m *migrator) arrived(ctx context.Context) error {
	if a := m.sides[0]; a.State != store.SideOpened || a.Other == m.homes[1] {
		return nil
	}

	for place := range m.from.Space().Places() {
		was, _, err := m.from.elsewhere(ctx, place, 0, 1)
		if err != nil || len(was) > 0 {
			return errors.Join(err, refusedIf(len(was) > 0, "some notices of the last migration to "+m.Names[0]+
				" have not arrived: run that migration again first"))
		}
	}

	return nil
}

// newSideEmpty returns ErrRefused if the new side has notices.
func (m *migrator) newSideEmpty(ctx context.Context) error {
	for place := range m.to.Space().Places() {
		n, err := m.to.Layout.Records(ctx, place)
		if err != nil || n > 0 {
			return errors.Join(err, refusedIf(n > 0, m.Names[1]+" already has notices in this namespace: migrate to an empty namespace"))
		}
	}

	return m.newSideUndefined(ctx)
}

// returns reports whether the new side of a migration can accept calls at once, before all notices have moved there.
// That is true if it accepts calls now, or was the last to do so, as when a migration is reversed.
func (m *migrator) returns() bool {
	// Such a side has a mark for every notice on the other side, and refuses calls on marked notices.
	a, b := m.sides[0].State, m.sides[1].State
	switch b {
	case store.SideLeaving, store.SideOpened:
		return true
	case store.SideOpen:
		return a == store.SideComing || a == store.SideLeft
	case store.SideLeft:
		return a == store.SideComing
	}

	return false
}

// comeBack opens the new side, except for calls on marked notices, which are on the old side, and
// closes the old side. The marks do not change.
func (m *migrator) comeBack(ctx context.Context) error {
	if err := m.seals(ctx); err != nil {
		return err
	}
	if err := m.openNew(ctx); err != nil {
		return err
	}

	if m.sides[0].State == store.SideComing {
		if err := m.forget(ctx, 0); err != nil { // this side refuses calls, so no call reads its marks
			return err
		}
	}

	if a := m.sides[0]; a.State != store.SideLeft || a.ID != m.id {
		if err := m.set(ctx, 0, store.SideLeft); err != nil {
			return err
		}
	}

	return m.finishBack(ctx)
}

// openNew has the new side accept calls.
func (m *migrator) openNew(ctx context.Context) error {
	b := m.sides[1]
	if b.State == store.SideOpen && b.ID != m.id { // its notices never left, so its marks are of an earlier migration
		if err := m.announceAnew(ctx, 0); err != nil {
			return err
		}
	}

	if err := m.uncross(ctx, 1); err != nil {
		return err
	}
	if b.State == store.SideOpened || b.ID == m.id {
		return nil
	}

	if err := m.set(ctx, 1, store.SideOpened); err != nil {
		return err
	}

	m.Progress.Say(m.Names[1] + " is open: it accepts all calls except those on notices that have not moved yet, which get 503 moved")
	return nil
}

// setOut closes the new side until the notices have moved, and has them leave the old side.
func (m *migrator) setOut(ctx context.Context) error {
	if err := m.closeNew(ctx); err != nil {
		return err
	}
	// The new side refuses calls now, so no call reads its marks.
	if err := m.forget(ctx, 1); err != nil {
		return err
	}
	if err := m.finishBack(ctx); err != nil {
		return err
	}
	if err := m.settings(ctx); err != nil {
		return err
	}
	if err := m.seals(ctx); err != nil {
		return err
	}
	if err := m.able(ctx, m.to, true); err != nil {
		return err
	}

	return m.leave(ctx)
}

// closeNew has the new side refuse calls.
func (m *migrator) closeNew(ctx context.Context) error {
	if b := m.sides[1]; b.State == store.SideComing && b.ID == m.id {
		return nil
	}

	// The history's rows carry the data identity, so it is copied before the new side can write.
	identity, err := m.from.Layout.Identity(ctx)
	if err != nil {
		return err
	}

	now, err := m.to.Wire().Now(ctx)
	if err != nil {
		return err
	}

	fields, err := m.to.Layout.TakeIdentity(ctx, identity)
	if err != nil {
		return err
	}

	came := fmt.Sprintf("%d %d", now.UnixMilli(), m.from.Space().Now().Shards)
	if err := m.set(ctx, 1, store.SideComing, append(fields, "came", came)...); err != nil {
		return err
	}

	m.Progress.Say(m.Names[1] + " is coming: its instances deliver; calls that schedule or change notices get 503 moved until all notices " +
		"have arrived")
	return nil
}

// leave has notices leave the old side. It changes nothing if they leave already.
func (m *migrator) leave(ctx context.Context) error {
	switch a := m.sides[0]; {
	case a.Gives() && a.ID == m.id:
		return nil
	case a.State == store.SideLeft, a.State == store.SideComing: // the old side refuses calls
		return m.set(ctx, 0, store.SideLeft)
	case a.State == store.SideOpen, a.Other != m.homes[1]:
		// The marks of the old side are of an earlier migration. Notices on the new side were plain timers.
		if err := m.announceAnew(ctx, 1); err != nil {
			return err
		}
	}

	m.Progress.Say(m.Names[0] + " is leaving: calls on notices that have moved get 503 moved there; all other calls work as before")
	return m.set(ctx, 0, store.SideLeaving)
}

// announceAnew replaces the marks on the other side by marks of the notices of this side.
func (m *migrator) announceAnew(ctx context.Context, side int) error {
	if err := m.forget(ctx, 1-side); err != nil {
		return err
	}
	return m.announce(ctx, side)
}

// finishBack completes the batches of a migration in the other direction.
func (m *migrator) finishBack(ctx context.Context) error {
	for place := range m.to.Space().Places() {
		if err := m.step("finish", func() error { return m.to.finishFar(ctx, m.from, place) }); err != nil {
			return err
		}
	}
	return nil
}

// forget removes all marks of a side.
func (m *migrator) forget(ctx context.Context, side int) error {
	s := m.stores()[side]
	if err := m.uncross(ctx, side); err != nil {
		return err
	}

	return s.eachMark(ctx, func(place int, was map[string]string) error {
		return m.step("forget", func() error { return s.unmark(ctx, m.sides[side], place, slices.Collect(maps.Keys(was))) })
	})
}

// uncross deletes a side's list of notices that have crossed to the other side, before the side
// accepts calls or notices again.
func (m *migrator) uncross(ctx context.Context, side int) error {
	s := m.stores()[side]
	for place := range s.Space().Places() {
		if err := s.uncross(ctx, place); err != nil {
			return err
		}
	}

	return nil
}

// announce marks the notices of a side on the other side.
func (m *migrator) announce(ctx context.Context, side int) error {
	s := m.stores()[side]
	for _, prefix := range s.Prefixes() {
		for place := range s.Space().Places() {
			p := keys.Partition{Prefix: prefix, Shard: place}
			if err := pages(func(cursor uint64) (uint64, error) {
				ks, next, err := s.ScanKeys(ctx, p, cursor, scanned)
				if err != nil {
					return 0, err
				}

				return next, m.markOn(ctx, 1-side, ks)
			}); err != nil {
				return err
			}
		}
	}

	return nil
}

// markOn marks notices on a side as stored on the other side.
func (m *migrator) markOn(ctx context.Context, side int, ks []string) error {
	s := m.stores()[side]
	for shard, some := range byShard(s.Space(), ks) {
		if err := m.step("announce", func() error { return s.mark(ctx, m.sides[side], shard, some) }); err != nil {
			return err
		}
	}

	return nil
}
