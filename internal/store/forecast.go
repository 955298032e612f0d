package store

import (
	"context"
	_ "embed"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/forecast.lua
var forecastSource string

var forecastScript = wire.NewScript("forecast", forecastSource, false).Anywhere()

// forecastFew is the maximum number of notices of a partition that are read one by one. Above it, one
// command counts each span.
const forecastFew = 1000

// ForecastCommands returns how many commands a forecast of n spans takes in each shard, if counts is the last one of the prefix.
func ForecastCommands(counts []int64, n int) int {
	total := int64(0)
	for _, c := range counts {
		total += c
	}

	if counts == nil || total > forecastFew {
		return n + 2
	}

	return 2
}

// Forecast returns how many notices under a prefix are due in each of n consecutive spans after
// from. In a cluster it leaves out unreachable nodes, which missing names.
func (s *Store) Forecast(ctx context.Context, prefix string, from time.Time, span time.Duration, n int) (counts []int64,
	missing []wire.Lost, err error) {
	out, r := make([]int64, n), s.w.NewRound()
	for shard := range s.space.Places() {
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
			v, err := s.w.Run(ctx, forecastScript, []string{s.space.Shadow(keys.Partition{Prefix: prefix, Shard: shard})},
				[]any{from.UnixMilli(), span.Milliseconds(), n, forecastFew})
			if err == nil && len(v) != n {
				err = wire.BadReply("forecast", "%d answers for %d spans", len(v), n)
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
