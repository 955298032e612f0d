package store

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Each shard stores for an ordered route:
//
//	order:<route>      hash: "<position> <key>" of each sequence's head, by order key
//	successors:<route> zset with score 0: "<order key> <position> <key>" of all others
//	positions:<route>  hash: position of each successor, by key
//	waiting:<route>    zset: parked keys by the time their wait began
//	sequence:<route>:<order key>  the marker, "<token> <key>" of a notice in flight that is not the head, for its lease
//	markers:<route>    exists while there may be markers
//
// Only the head is claimed. If it leaves while it is claimed, or another notice takes the first place, a marker is
// written, so that the new head waits. So a notice that is alone costs one field of a hash.
//
// A position has 27 hexadecimal digits: a due time, the generation, and the index in the schedule call. Space
// and ! sort below all characters of keys, so the ranges of two sequences cannot overlap.
//
// The set "ordered" of a shard lists the ordered routes. A member with a final ! means that dead letters of the route
// block their sequences. Scripts use this set, and not the configuration of an instance, so that all instances keep the
// same order.

// Blocks is the end of a member of notifier:ordered that says that dead letters of a prefix hold back
// their successors.
const Blocks = "!"

// AddOrdered makes routes ordered, in notifier:ordered and each shard's copy. A member is a prefix, or a
// prefix and [Blocks].
func (s *Layout) AddOrdered(ctx context.Context, members []string) error {
	if len(members) == 0 {
		return nil
	}

	known := slices.Clone(members)
	if old := s.ordered.Load(); old != nil {
		known = append(known, *old...)
	}

	slices.Sort(known)
	known = slices.Compact(known)
	s.ordered.Store(&known)
	return s.setOrdered(ctx, func(p redis.Pipeliner, set string) { p.SAdd(ctx, set, wire.Texts(members)...) })
}

// removeOrdered removes members of notifier:ordered, and of each shard's copy.
func (s *Layout) removeOrdered(ctx context.Context, members []string) error {
	if len(members) == 0 {
		return nil
	}

	return s.setOrdered(ctx, func(p redis.Pipeliner, set string) { p.SRem(ctx, set, wire.Texts(members)...) })
}

func (s *Layout) setOrdered(ctx context.Context, change func(p redis.Pipeliner, set string)) error {
	if _, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		change(p, s.space.Ordered())
		return nil
	}); err != nil {
		return s.w.Fail("ordered", err)
	}
	return s.eachCopy(ctx, s.space.ShardOrdered, change)
}

// copyOrdered adds the members of notifier:ordered to each shard's copy.
func (s *Layout) copyOrdered(ctx context.Context) error {
	members, err := s.orderedMembers(ctx)
	if err != nil || len(members) == 0 {
		return err
	}

	return s.eachCopy(ctx, s.space.ShardOrdered, func(p redis.Pipeliner, set string) { p.SAdd(ctx, set, wire.Texts(members)...) })
}

// copyNew copies the ordered and the paused routes to a shard that has no layout yet. The instance that
// announced the shard may have died before it copied them. No script uses a shard without a layout.
func (s *Layout) copyNew(ctx context.Context, at keys.ShardKeys) error {
	used, err := s.c.Exists(ctx, at.Layout()).Result()
	if err != nil {
		return s.w.Fail("layout", err)
	}
	if used == 1 {
		return nil
	}

	ordered, err := s.orderedMembers(ctx)
	if err != nil {
		return err
	}

	paused, err := s.c.SMembers(ctx, s.space.Paused()).Result()
	if err != nil {
		return s.w.Fail("paused", err)
	}

	for set, members := range map[string][]string{at.Ordered(): ordered, at.Paused(): paused} {
		if len(members) == 0 {
			continue
		}
		if err := s.c.SAdd(ctx, set, wire.Texts(members)...).Err(); err != nil {
			return s.w.Fail("layout", err)
		}
	}

	return nil
}

// orderedMembers returns the members of notifier:ordered.
func (s *Layout) orderedMembers(ctx context.Context) ([]string, error) {
	members, err := s.c.SMembers(ctx, s.space.Ordered()).Result()
	if err != nil {
		return nil, s.w.Fail("ordered", err)
	}

	s.ordered.Store(&members)
	return members, nil
}

// knownOrdered reports whether a prefix was ordered when this process last read or changed notifier:ordered,
// which the janitor does every 30 s.
func (s *Layout) knownOrdered(prefix string) bool {
	members := s.ordered.Load()
	return members != nil && slices.Contains(*members, prefix)
}

// ForgetOrdered removes routes from notifier:ordered, the set of routes whose notices are delivered one after another,
// and from each shard's copy. wanted are the members that alive instances have configured; they stay. A route that is
// not in wanted stays as long as notices of its sequences are pending; its dead letters leave them.
func (s *Layout) ForgetOrdered(ctx context.Context, wanted []string) error {
	members, err := s.everOrdered(ctx)
	if err != nil {
		return err
	}

	var blocking, plain []string
	for _, m := range members {
		switch {
		case slices.Contains(wanted, m):
		case strings.HasSuffix(m, Blocks):
			blocking = append(blocking, m)
		default:
			plain = append(plain, m)
		}
	}

	// The route stays ordered as long as its other member is there.
	if err := s.removeOrdered(ctx, blocking); err != nil {
		return err
	}

	var gone []string
	for _, prefix := range plain {
		used, err := s.hasSequences(ctx, prefix)
		if err != nil {
			return err
		}

		if !used {
			gone = append(gone, prefix)
		}
	}

	return s.removeOrdered(ctx, gone)
}

// everOrdered returns the members of notifier:ordered and of the shards' copies. Only a copy has a member if its node
// did not answer when that was removed.
func (s *Layout) everOrdered(ctx context.Context) ([]string, error) {
	members, err := s.orderedMembers(ctx)
	if err != nil {
		return nil, err
	}

	var mu sync.Mutex
	var copies []*redis.StringSliceCmd
	if err := s.eachCopy(ctx, s.space.ShardOrdered, func(p redis.Pipeliner, set string) {
		mu.Lock()
		defer mu.Unlock()
		copies = append(copies, p.SMembers(ctx, set))
	}); err != nil {
		return nil, err
	}

	members = slices.Clone(members)
	for _, c := range copies {
		members = append(members, c.Val()...)
	}

	slices.Sort(members)
	return slices.Compact(members), nil
}

// hasSequences reports whether any place has pending notices in sequences of a prefix.
func (s *Layout) hasSequences(ctx context.Context, prefix string) (bool, error) {
	for place := range s.space.Places() {
		used, err := s.unblock(ctx, keys.Partition{Prefix: prefix, Shard: place})
		if used || err != nil {
			return used, err
		}
	}
	return false, nil
}

const (
	// headsAtOnce is about the number of sequences that one call of free.lua checks.
	headsAtOnce = 500
	// maxUnblocks bounds the calls for one partition; the janitor's next round continues.
	maxUnblocks = 1000
)

// unblock removes dead letters that held back their successors from the sequences of a partition, until it finds a
// pending notice. used reports whether it found one, or may not have checked all sequences.
func (s *Layout) unblock(ctx context.Context, p keys.Partition) (used bool, err error) {
	cursor := uint64(0)
	for range maxUnblocks {
		var heads []string
		if heads, cursor, err = s.c.HScan(ctx, s.space.Order(p), cursor, "", headsAtOnce).Result(); err != nil {
			return false, s.w.Fail(freeScript.Op, err)
		}
		if len(heads) == 0 && cursor == 0 {
			return false, nil
		}

		args := []any{s.space.Wake(), p.Wake(), ""}
		for i := 1; i < len(heads); i += 2 {
			_, key, ok := strings.Cut(heads[i], " ")
			if !ok {
				return true, nil // not a position: only a fault can have written it
			}

			args = append(args, key)
		}

		if len(args) == 3 {
			continue
		}

		n, err := s.Do(ctx, freeScript, []string{s.space.Shadow(p)}, args).Int64()
		if err != nil {
			return false, s.w.Fail(freeScript.Op, err)
		}
		if n > 0 {
			return true, nil
		}
	}

	return true, nil
}
