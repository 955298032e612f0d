package move

import (
	"context"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// Redis reads and writes the notices of one Redis for a move to its current shards or to another
// Redis. Its scripts run under the guard of package store.
type Redis struct {
	*store.Layout
	Store *store.Store
}

// On returns the Redis of a store.
func On(s *store.Store) Redis { return Redis{s.Layout, s} }

var (
	_ Source      = Redis{}
	_ Destination = Redis{}
)

// kind selects notices of a partition.
type kind string

const (
	settled kind = "settled"
	dead    kind = "dead"
	all     kind = "all"
)

// scan reads a page of the keys of notices of a kind. The first cursor is 0. The returned cursor is
// the next one, and 0 after the last page.
func (s Redis) scan(ctx context.Context, p keys.Partition, of kind, cursor uint64, n int64) (ks []string, next uint64, err error) {
	name := s.Space().Settled(p)
	switch of {
	case all:
		return s.ScanKeys(ctx, p, cursor, n)
	case dead:
		name = s.Space().Dead(p)
	}

	pairs, next, err := s.Wire().Redis.ZScan(ctx, name, cursor, "", n).Result()
	if err != nil {
		return nil, 0, s.Wire().Fail("kept", err)
	}

	for i := 0; i < len(pairs); i += 2 {
		ks = append(ks, pairs[i])
	}

	return ks, next, nil
}

// missing returns the keys of which a shard has no notice under any prefix.
func (s Redis) missing(ctx context.Context, shard int, ks []string) (missing []string, err error) {
	if len(ks) == 0 {
		return nil, nil
	}

	under, err := s.Layout.Locate(ctx, shard, s.Prefixes(), ks)
	for i, p := range under {
		if p == "" {
			missing = append(missing, ks[i])
		}
	}

	return missing, err
}

// timerMode returns the mode of timers of the scripts that move notices: store's lua/lib/timer.lua. A timer may be
// an adopted one, whichever route the notice has.
func (s Redis) timerMode() string {
	if s.Wire().Cluster {
		return "0"
	}
	return "2"
}

// pages calls page with cursor 0, and then with each cursor that page returns, until that is 0.
func pages(page func(cursor uint64) (next uint64, err error)) error {
	for cursor := uint64(0); ; {
		next, err := page(cursor)
		if err != nil || next == 0 {
			return err
		}

		cursor = next
	}
}

// eachMark calls f with each page of the marks of all shards; see elsewhere.
func (s Redis) eachMark(ctx context.Context, f func(place int, was map[string]string) error) error {
	for place := range s.Space().Places() {
		if err := pages(func(cursor uint64) (uint64, error) {
			was, next, err := s.elsewhere(ctx, place, cursor, scanned)
			if err != nil {
				return 0, err
			}

			return next, f(place, was)
		}); err != nil {
			return err
		}
	}
	return nil
}

// byShard groups keys by their shard.
func byShard(s keys.Space, ks []string) map[int][]string {
	groups := map[int][]string{}
	for _, k := range ks {
		shard := s.Shard(k)
		groups[shard] = append(groups[shard], k)
	}

	return groups
}
