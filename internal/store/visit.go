package store

import (
	"context"
	"errors"
)

// Changes of many notices while a reshard moves them. A mover takes a batch of notices out of an old shard, and stores
// it in another shard in a second step. Between the steps no shard has them.

// Visit calls do with pages of all notices that match q, in the order of [Store.List]. Unlike List, it includes all
// notices that a reshard moves during the visit; do may get some of them twice. A notice that changes its state may be
// left out. An unreachable node is an error.
func (s *Store) Visit(ctx context.Context, q Query, do func([]Found) error) error {
	q.moving = true
	for range maxMoves {
		first := s.space.First()
		err := s.visit(ctx, q, do)
		if err == nil {
			err = s.knownEverywhere(ctx)
		}

		// After another reshard, notices may have moved to shards that the listing did not read.
		if s.space.First() == first || err != nil && !errors.Is(err, ErrCursor) {
			return err
		}
	}

	return s.w.Fail(pageScript.Op, ErrReplaced)
}

// visit is Visit while no further reshard begins.
func (s *Store) visit(ctx context.Context, q Query, do func([]Found) error) error {
	// An older batch may be on its way to an old shard.
	if err := s.finishMoves(ctx); err != nil {
		return err
	}

	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Missing) > 0 {
			return page.Missing[0].Err
		}
		if err := do(page.Items); err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// finishMoves completes the batches that are on their way from old shards.
func (s *Store) finishMoves(ctx context.Context) error {
	for _, place := range s.Layout.OldShards() {
		if err := s.Layout.Finish(ctx, place); err != nil {
			return err
		}
	}
	return nil
}

// knownEverywhere reads the layout if that of any shard has changed. Movers take nothing out of a shard before they
// have written the new layout to it.
func (s *Store) knownEverywhere(ctx context.Context) error {
	for place := range s.space.Places() {
		if err := s.Layout.known(ctx, place); err != nil {
			return err
		}
	}
	return nil
}

// Reach calls do with the shard of notices and their keys, once for each shard. do returns the keys that the shard does
// not have. Reach calls do again for those of them that a reshard has moved since Reach looked for them.
func (s *Store) Reach(ctx context.Context, ks []string, do func(shard int, ks []string) (absent []string, err error)) error {
	for range maxMoves {
		since := s.Sight()
		shards, err := s.Where(ctx, ks)
		if err != nil {
			return err
		}

		by := map[int][]string{}
		for i, k := range ks {
			by[shards[i]] = append(by[shards[i]], k)
		}

		ks = nil
		for shard, some := range by {
			absent, err := do(shard, some)
			if err != nil {
				return err
			}

			if s.Layout.mayMove(since, shard) {
				ks = append(ks, absent...)
			}
		}

		if len(ks) == 0 {
			return nil
		}
	}

	return s.w.Fail(locateScript.Op, ErrReplaced)
}
