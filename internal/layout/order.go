package layout

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/order.lua
var orderSource string

// Order is Lua code that is added before the scripts that change pending or dead notices. It keeps
// the notices of a sequence in order. A sequence is the notices of an ordered route with the same
// order key ([keys.OrderKey]).
//
// An attempt starts only if no notice of the sequence with an earlier position is pending, and no
// other one is in flight. Otherwise the claim parks its notice: it starts no attempt, takes no
// slot, and sets a due time minutes ahead. A script that removes a notice from the sequence, or
// ends a claim, makes the first remaining notice, the head, due.
//
// Each shard has for an ordered route:
//
//	order:<route>      zset with score 0: "<order key> <position> <key>". The head is the first of a sequence
//	positions:<route>  hash: position by key
//	waiting:<route>    zset: parked keys by the time their wait began
//	sequence:<route>:<order key>  string: "<token> <key>" of the notice in flight, for its lease
//
// A position is first due time, generation and index in the call, in 27 hexadecimal digits. Space
// and ! sort below all characters of keys, so no sequence is within the range of another.
//
// The set ordered of the shard lists the ordered routes. A member with a final ! says that dead
// letters of the route hold back their successors. Scripts follow this set and not the
// configuration of their instance, so that all instances keep the same order.
var Order = wire.Prelude(orderSource)

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
	return s.setOrdered(ctx, func(p redis.Pipeliner, set string) { p.SAdd(ctx, set, texts(members)...) })
}

// removeOrdered removes members of notifier:ordered, and of each shard's copy.
func (s *Layout) removeOrdered(ctx context.Context, members []string) error {
	return s.setOrdered(ctx, func(p redis.Pipeliner, set string) { p.SRem(ctx, set, texts(members)...) })
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

// CopyOrdered adds the members of notifier:ordered to each shard's copy.
func (s *Layout) CopyOrdered(ctx context.Context) error {
	members, err := s.Ordered(ctx)
	if err != nil || len(members) == 0 {
		return err
	}
	return s.eachCopy(ctx, s.space.ShardOrdered, func(p redis.Pipeliner, set string) { p.SAdd(ctx, set, texts(members)...) })
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
	ordered, err := s.Ordered(ctx)
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
		if err := s.c.SAdd(ctx, set, texts(members)...).Err(); err != nil {
			return s.w.Fail("layout", err)
		}
	}
	return nil
}

// Ordered returns the members of notifier:ordered.
func (s *Layout) Ordered(ctx context.Context) ([]string, error) {
	members, err := s.c.SMembers(ctx, s.space.Ordered()).Result()
	if err != nil {
		return nil, s.w.Fail("ordered", err)
	}
	s.ordered.Store(&members)
	return members, nil
}

// KnownOrdered reports whether a prefix was ordered when this process last read or changed notifier:ordered,
// which the janitor does every 30 s.
func (s *Layout) KnownOrdered(prefix string) bool {
	members := s.ordered.Load()
	return members != nil && slices.Contains(*members, prefix)
}

// ForgetOrdered removes the members of notifier:ordered, the set of ordered prefixes, that no alive
// instance has configured. wanted are the members that one has. A prefix stays while a shard has
// sequences of it, so that these run out in order.
func (s *Layout) ForgetOrdered(ctx context.Context, wanted []string) error {
	members, err := s.Ordered(ctx)
	if err != nil {
		return err
	}

	var gone []string
	for _, m := range members {
		if slices.Contains(wanted, m) {
			continue
		}
		if prefix, blocks := strings.CutSuffix(m, Blocks); !blocks {
			used, err := s.hasSequences(ctx, prefix)
			if err != nil {
				return err
			}
			if used {
				continue
			}
		}
		gone = append(gone, m)
	}

	if len(gone) == 0 {
		return nil
	}
	return s.removeOrdered(ctx, gone)
}

// hasSequences reports whether any place has sequences of a prefix.
func (s *Layout) hasSequences(ctx context.Context, prefix string) (bool, error) {
	for place := range s.space.Places() {
		used, err := s.AnyOf(ctx, []string{s.space.Order(keys.Partition{Prefix: prefix, Shard: place})})
		if used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// texts returns strings as arguments of a command.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}
