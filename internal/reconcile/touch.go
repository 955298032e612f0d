package reconcile

import (
	"context"
	"slices"

	"notifier/internal/store"
)

// touch reads the timers of due notices. Redis deletes an expired timer when it is read, and sends the event that makes
// an instance claim the notice. touch reads only as many timers as there are probably free slots, and requests a sweep,
// which needs no events, for the other notices. early is true if some timers are not due yet by Redis's clock.
func (s *Sweeper) touch(ctx context.Context, due []store.Timer) (early bool, err error) {
	if !s.flowing() { // no events arrive
		if len(due) > 0 {
			s.o.Dispatch.Sweep(s.o.Partition)
		}

		return false, nil
	}

	names, first := s.touchable(due)
	if len(names) < len(due) {
		// The events of the others would find no room, so their notices need not wait for the grace.
		s.o.Dispatch.SweepDue(s.o.Partition)
	}

	if len(first) > 0 {
		s.o.Dispatch.HintFirst(s.o.Partition, first)
	}

	if len(names) == 0 {
		return false, nil
	}

	s.o.Events.Touched(ctx, names)
	got, err := s.touchAll(ctx, names)
	if err != nil {
		return false, err
	}

	if got.Missed > 0 {
		// The timers' node does not answer, and this partition's node does.
		s.o.Dispatch.SweepDue(s.o.Partition)
	}

	if got.Left > 0 {
		for _, k := range names {
			delete(s.touched, k)
		}
	}

	return got.Left > 0, nil
}

// touchable returns the keys of the timers to touch, and the first attempts for which there is no room. It records all as touched.
func (s *Sweeper) touchable(due []store.Timer) (names, first []string) {
	// More events than free slots would be dropped. The other instances are assumed to have as many free slots as
	// this one.
	room := s.o.Dispatch.Room(s.o.Partition)
	if n := s.o.Assignment.Alive(); n > 1 {
		room = n * max(room, minTouched)
	}

	names = make([]string, 0, min(len(due), room))
	for _, repeated := range []bool{false, true} {
		for _, t := range due {
			switch {
			case t.Repeated != repeated:
			case !t.NoTimer && len(names) < room:
				names = append(names, t.Key)
			case !t.NoTimer && !repeated:
				first = append(first, t.Key)
			}
		}
	}

	for _, t := range due {
		s.touched[t.Key] = ""
	}

	return names, first
}

// touchAll touches timers. Notices that are due together are touched in groups of Assignment.Group,
// each for one instance, which then claims and settles the group in one call each.
func (s *Sweeper) touchAll(ctx context.Context, names []string) (store.Touched, error) {
	size := 1
	if len(names) > 1 {
		size = s.o.Assignment.Group(s.o.Partition)
	}

	if size <= 1 {
		return s.o.Store.Touch(ctx, names)
	}

	var list []store.TouchGroup
	for group := range slices.Chunk(names, size) {
		owner := s.o.Assignment.Owner(s.o.Partition, group[0])
		for _, k := range group {
			s.touched[k] = owner
		}

		list = append(list, store.TouchGroup{For: owner, Keys: group})
	}

	left, err := s.o.Store.TouchGroups(ctx, s.o.Partition.Prefix, list)
	return store.Touched{Left: left}, err
}
