package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/forecast.lua
var forecastSource string

var forecastScript = wire.NewScript("forecast", forecastSource, false).Anywhere()

// maxMinutes bounds how many entries Minutes brings at once.
const maxMinutes = 2000

// Minute is what an instance has told of a minute.
type Minute struct {
	ID   string // of the entry, in order of time
	Text string
}

// AddMinute keeps what an instance tells of a minute, for as long as keep; what is
// older goes by the way.
func (s *Store) AddMinute(ctx context.Context, text string, keep time.Duration) error {
	err := s.c.XAdd(ctx, &redis.XAddArgs{Stream: s.space.FleetMinutes(), MinID: strconv.FormatInt(time.Now().Add(-keep).UnixMilli(), 10), Approx: true,
		Values: []any{"minute", text}}).Err()
	if err != nil {
		return s.w.Fail("minute", err)
	}
	return nil
}

// Minutes reads what instances have told of minutes behind an entry's ID, or
// since a time if there is none.
func (s *Store) Minutes(ctx context.Context, behind string, since time.Time) ([]Minute, error) {
	from := strconv.FormatInt(since.UnixMilli(), 10)
	if behind != "" {
		from = "(" + behind
	}
	var v []redis.XMessage
	if err := s.w.At(ctx, s.space.FleetMinutes(), func(ctx context.Context) (err error) {
		v, err = s.c.XRangeN(ctx, s.space.FleetMinutes(), from, "+", maxMinutes).Result()
		return s.w.Wrapped("minutes", err)
	}); err != nil {
		return nil, err
	}
	out := make([]Minute, len(v))
	for i, m := range v {
		out[i].ID = m.ID
		out[i].Text, _ = m.Values["minute"].(string)
	}
	return out, nil
}

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
