package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/store"
)

// begin brings both sides into the states from which notices move: see the package's
// table. It refuses where another migration has not ended on either side.
func (m *migrator) begin(ctx context.Context) (err error) {
	for i, s := range m.stores() {
		if m.homes[i], err = s.Home(ctx); err != nil {
			return err
		}
		if err := s.Spread(ctx); err != nil {
			return err
		}
		m.sides[i] = s.Side()
	}
	if m.homes[0] == m.homes[1] {
		return fmt.Errorf("%w: both addresses lead to the same Redis and namespace, or the new side is a copy of the old one (%s has "+
			"the same home)",
			ErrRefused, m.to.Space().Meta())
	}
	if left, err := m.from.Drained(ctx, nil); err != nil || left > 0 {
		n := m.from.Space().Now().Shards
		return errors.Join(err,
			refusedIf(left > 0, fmt.Sprintf("the old side's last reshard is not over: notices are left in %s, claimed, awaiting a report, or not "+
				"moved yet. "+
				"Report those, run notifier reshard --to %d until it leaves none, and then this again", formerShards(left), n)))
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

// stores are those of both sides.
func (m *migrator) stores() [2]*store.Store { return [2]*store.Store{m.from, m.to} }

// set changes the state of a side, unless another mover has changed it.
func (m *migrator) set(ctx context.Context, side int, state layout.SideState, fields ...any) error {
	return m.step(string(state), func() error { return m.change(ctx, side, state, fields...) })
}

func (m *migrator) change(ctx context.Context, side int, state layout.SideState, fields ...any) (err error) {
	next := layout.Side{State: state, ID: m.id, Other: m.homes[1-side]}
	m.sides[side], err = m.stores()[side].SetSide(ctx, m.sides[side], next, fields...)
	return err
}

// fence gives both sides a new epoch. A mover that was stopped, and goes on when this one
// has taken its place, knows the old one, and changes nothing any more.
func (m *migrator) fence(ctx context.Context) error {
	for i, s := range m.stores() {
		now := m.sides[i]
		if now.State == layout.SideOpen {
			continue // it gets one when it leaves this state
		}
		if err := m.step("fence", func() (err error) {
			m.sides[i], err = s.SetSide(ctx, now, now)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// choose finds the id of the migration: that of one that goes the same way, or a new one.
func (m *migrator) choose(ctx context.Context) error {
	a, b := m.sides[0], m.sides[1]
	back := b.Other == m.homes[0] // the new side knows the old one
	going := a.State == layout.SideLeaving || a.State == layout.SideLeft
	switch {
	case going && a.Other != m.homes[1]:
		return refusedIf(true, "the old side's notices move, or have moved, to another Redis than "+m.Names[1]+
			": give the address of that one, or bring them back first")
	case a.State == layout.SideComing && a.Other != m.homes[1]:
		return refusedIf(true, "notices are being moved to "+m.Names[0]+" from another Redis: run that to its end first")
	case b.State != layout.SideOpen && !back:
		if b.State == layout.SideLeft || b.State == layout.SideLeaving {
			return refusedIf(true, m.Names[1]+" is being left, or was, for another Redis")
		}
		return refusedIf(true, "notices come to "+m.Names[1]+" from another Redis: run that to its end first")
	}
	if a.State == layout.SideOpened && a.Other != m.homes[1] {
		for place := range m.from.Space().Places() {
			if was, _, err := m.from.Elsewhere(ctx, place, 0, 1); err != nil || len(was) > 0 {
				return errors.Join(err, refusedIf(len(was) > 0, "some notices of the last migration to "+m.Names[0]+
					" have not come yet: run that one again first"))
			}
		}
	}
	switch m.id = rand.Text(); {
	case b.State == layout.SideComing, b.State == layout.SideOpened:
		m.id = b.ID
	case going && b.State == layout.SideOpen && a.ID == b.ID:
		m.id = a.ID
	}
	if b.State != layout.SideOpen || a.State == layout.SideComing || going && back {
		return nil // they know each other
	}
	for place := range m.to.Space().Places() {
		n, err := m.to.Records(ctx, place)
		if err != nil || n > 0 {
			return errors.Join(err, refusedIf(n > 0, m.Names[1]+" keeps notices of its own under this namespace: migrate to an empty one"))
		}
	}
	return nil
}

// returns reports whether the new side need not be opened: it takes calls, or it is the one
// that was closed last and has a mark of each notice of the other side. So it is where a
// migration the other way is turned round before that has opened its new side.
func (m *migrator) returns() bool {
	a, b := m.sides[0].State, m.sides[1].State
	switch b {
	case layout.SideLeaving, layout.SideOpened:
		return true
	case layout.SideOpen:
		return a == layout.SideComing || a == layout.SideLeft
	case layout.SideLeft:
		return a == layout.SideComing
	}
	return false
}

// comeBack has the new side take calls, but for those about notices that are marked as
// being on the old one, and closes the old one. The marks stay as they are.
func (m *migrator) comeBack(ctx context.Context) error {
	if m.sides[1].State == layout.SideOpen && m.sides[1].ID != m.id { // it was never left, so its marks are of an earlier migration
		if err := m.forget(ctx, 1); err != nil {
			return err
		}
		if err := m.announce(ctx, 0); err != nil {
			return err
		}
	}
	if err := m.uncross(ctx, 1); err != nil {
		return err
	}
	if m.sides[1].State != layout.SideOpened && m.sides[1].ID != m.id {
		if err := m.set(ctx, 1, layout.SideOpened); err != nil {
			return err
		}
		m.Say(m.Names[1] + " is open: it takes all calls but those about notices that are still on the other side, which are answered " +
			"with 503 moved")
	}
	if m.sides[0].State == layout.SideComing {
		if err := m.forget(ctx, 0); err != nil { // it takes no calls, so no call reads its marks
			return err
		}
	}
	if a := m.sides[0]; a.State != layout.SideLeft || a.ID != m.id {
		if err := m.set(ctx, 0, layout.SideLeft); err != nil {
			return err
		}
	}
	return m.finishBack(ctx)
}

// setOut closes the new side until the old one has been left.
func (m *migrator) setOut(ctx context.Context) error {
	if b := m.sides[1]; b.State != layout.SideComing || b.ID != m.id {
		// Before the new side can write: the history belongs to the identity.
		identity, err := m.from.Identity(ctx)
		if err != nil {
			return err
		}
		came := fmt.Sprintf("%d %d", time.Now().UnixMilli(), m.from.Space().Now().Shards)
		if err := m.set(ctx, 1, layout.SideComing, "came", came, "id", identity); err != nil {
			return err
		}
		m.Say(m.Names[1] + " is coming: its instances deliver, and answer calls that schedule or change notices with 503 moved until " +
			"all is there")
	}
	// It takes no calls now, so no call reads its marks.
	if err := m.forget(ctx, 1); err != nil {
		return err
	}
	if err := m.finishBack(ctx); err != nil {
		return err
	}
	if err := m.settings(ctx); err != nil {
		return err
	}
	if err := m.able(ctx, m.to, true); err != nil {
		return err
	}
	switch a := m.sides[0]; {
	case a.State == layout.SideLeaving && a.ID == m.id, a.State == layout.SideLeft && a.ID == m.id:
		return nil
	case a.State == layout.SideLeft, a.State == layout.SideComing: // it takes no calls
		return m.set(ctx, 0, layout.SideLeft)
	case a.State == layout.SideOpen, a.Other != m.homes[1]:
		// Its marks are of an earlier migration. All notices of the new side were plain timers.
		if err := m.forget(ctx, 0); err != nil {
			return err
		}
		if err := m.announce(ctx, 1); err != nil {
			return err
		}
	}
	m.Say(m.Names[0] + " is being left: calls about notices that have moved are answered with 503 moved there, all others as before")
	return m.set(ctx, 0, layout.SideLeaving)
}

// finishBack brings in the batches of a migration the other way.
func (m *migrator) finishBack(ctx context.Context) error {
	for place := range m.to.Space().Places() {
		if err := m.step("finish", func() error { return m.to.FinishLeaving(ctx, m.from, place) }); err != nil {
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
	return eachElsewhere(ctx, s, func(place int, was map[string]string) error {
		return m.step("forget", func() error { return s.Unmark(ctx, m.sides[side], place, slices.Collect(maps.Keys(was))) })
	})
}

// uncross has a side forget which notices have crossed to the other one, before it takes calls
// or notices again.
func (m *migrator) uncross(ctx context.Context, side int) error {
	s := m.stores()[side]
	for place := range s.Space().Places() {
		if err := s.Uncross(ctx, place); err != nil {
			return err
		}
	}
	return nil
}

// announce marks, on the other side, the notices that a side has.
func (m *migrator) announce(ctx context.Context, side int) error {
	s, other := m.stores()[side], m.stores()[1-side]
	for _, prefix := range s.Prefixes() {
		for place := range s.Space().Places() {
			p := keys.Partition{Prefix: prefix, Shard: place}
			for cursor := uint64(0); ; {
				ks, next, err := s.Kept(ctx, p, cursor, scanned)
				if err != nil {
					return err
				}
				by := map[int][]string{}
				for _, k := range ks {
					shard := other.Space().Shard(k)
					by[shard] = append(by[shard], k)
				}
				for shard, some := range by {
					if err := m.step("announce", func() error { return other.Mark(ctx, m.sides[1-side], shard, some) }); err != nil {
						return err
					}
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
	}
	return nil
}
