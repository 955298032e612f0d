package store

import (
	"context"
	"slices"
	"time"
)

// The gate: where a notice is, and whether a call may change it now.

// Where returns the place of each notice, which for a missing notice is its current shard.
func (s *Store) Where(ctx context.Context, ks []string) ([]int, error) {
	at := make([]int, len(ks))
	for {
		now := s.space.Now()
		for i, k := range ks {
			at[i] = now.Shard(k)
		}

		open := s.Layout.OldShards()
		if len(open) == 0 {
			return at, nil
		}

		old, err := s.Layout.FindInOld(ctx, now, ks, func(place int) bool { return slices.Contains(open, place) })
		if err != nil {
			return nil, err
		}

		for i, place := range old {
			at[i] = place
		}

		if s.space.First() == now.First() {
			return at, nil
		}
	}
}

// Place is Where for one notice.
func (s *Store) Place(ctx context.Context, key string) (int, error) {
	if len(s.Layout.OldShards()) == 0 {
		return s.space.Shard(key), nil
	}

	at, err := s.Where(ctx, []string{key})
	if err != nil {
		return 0, err
	}

	return at[0], nil
}

// CameSince reports whether a migration to this Redis began after a time.
func (s *Store) CameSince(at time.Time) bool {
	came, _ := s.Layout.CameFrom()
	return at.Before(came)
}
