package fleet

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxMinutes bounds how many entries one call of Minutes returns.
const maxMinutes = 2000

// MinuteEntry is a stored entry of the stream of minutes.
type MinuteEntry struct {
	ID   string // stream id, in order of time
	Text string
}

// AddMinute stores the minute of an instance and trims entries older than keep.
func (s *Store) AddMinute(ctx context.Context, text string, keep time.Duration) error {
	now, err := s.w.Now(ctx)
	if err != nil {
		return err
	}

	err = s.w.Redis.XAdd(ctx, &redis.XAddArgs{Stream: s.w.Space.FleetMinutes(),
		MinID: strconv.FormatInt(now.Add(-keep).UnixMilli(), 10), Approx: true, Values: []any{"minute", text}}).Err()
	if err != nil {
		return s.w.Fail("minute", err)
	}

	return nil
}

// Minutes returns the stored minutes after the entry with the id behind. If behind is empty, it
// returns those stored since a time.
func (s *Store) Minutes(ctx context.Context, behind string, since time.Time) ([]MinuteEntry, error) {
	from := strconv.FormatInt(since.UnixMilli(), 10)
	if behind != "" {
		from = "(" + behind
	}

	var v []redis.XMessage
	if err := s.w.At(ctx, s.w.Space.FleetMinutes(), func(ctx context.Context) (err error) {
		v, err = s.w.Redis.XRangeN(ctx, s.w.Space.FleetMinutes(), from, "+", maxMinutes).Result()
		return s.w.Wrapped("minutes", err)
	}); err != nil {
		return nil, err
	}

	out := make([]MinuteEntry, len(v))
	for i, m := range v {
		out[i].ID = m.ID
		out[i].Text, _ = m.Values["minute"].(string)
	}

	return out, nil
}
