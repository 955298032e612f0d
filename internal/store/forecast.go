package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/forecast.lua
var forecastSource string

var forecastScript = wire.NewScript("forecast", forecastSource, false).Anywhere()

// forecastFew is how many notices of a partition are read one by one; of more the
// spans are counted, which costs a command each.
const forecastFew = 1000

// Forecast counts how many notices under a prefix fall due in each of n spans from
// a time on, in a cluster without those of the nodes that are missing.
func (s *Store) Forecast(ctx context.Context, prefix string, from time.Time, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error) {
	out, r := make([]int64, n), s.w.NewRound()
	for shard := range s.space.Places() {
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
			v, err := s.w.Run(ctx, forecastScript, []string{s.space.Shadow(keys.Partition{Prefix: prefix, Shard: shard})},
				[]any{from.UnixMilli(), span.Milliseconds(), n, forecastFew})
			if err == nil && len(v) != n {
				err = fmt.Errorf("forecast: %d answers for %d spans", len(v), n)
			}
			for i := range v {
				if err == nil {
					count, _ := v[i].(int64)
					out[i] += count
				}
			}
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	if missing, err = r.Missing(ctx); err != nil {
		return nil, missing, err
	}
	return out, missing, nil
}
