package store

import "context"

// Stranded reports which keys lie in a former shard, also in one that holds nothing as far
// as is known: who knows nothing of the shards, as an old copy of deploy/schedule.lua, may
// have written there since. What it has written is found and moved soon, see
// [Store.Drained]; [Store.Where] does not wait for that.
func (s *Store) Stranded(ctx context.Context, ks []string) ([]bool, error) {
	for {
		now := s.space.Now()
		found := make([]bool, len(ks))
		if now.First() == 0 {
			return found, nil
		}
		lies, err := s.LiesIn(ctx, now, ks, func(int) bool { return true })
		if err != nil {
			return nil, err
		}
		for i := range lies {
			found[i] = true
		}
		if s.space.First() == now.First() {
			return found, nil
		}
	}
}
