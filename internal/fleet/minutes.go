package fleet

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxMinutes bounds how many entries Minutes brings at once.
const maxMinutes = 2000

// MinuteEntry is what an instance has told of a minute.
type MinuteEntry struct {
	ID   string // of the entry, in order of time
	Text string
}

// AddMinute keeps what an instance tells of a minute, for as long as keep; what is
// older goes by the way.
func (s *Store) AddMinute(ctx context.Context, text string, keep time.Duration) error {
	err := s.w.Redis.XAdd(ctx, &redis.XAddArgs{Stream: s.w.Space.FleetMinutes(), MinID: strconv.FormatInt(time.Now().Add(-keep).UnixMilli(), 10), Approx: true,
		Values: []any{"minute", text}}).Err()
	if err != nil {
		return s.w.Fail("minute", err)
	}
	return nil
}

// Minutes reads what instances have told of minutes behind an entry's ID, or
// since a time if there is none.
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
