package store

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/look.lua
var lookSource string

var lookScript = newScript("look", lookSource, false)

// Timer is a notice key and when it needs attention.
type Timer struct {
	Key string
	At  time.Time
	// Bare: it has no Redis timer; touching it does nothing.
	Bare bool
}

// View is what Look sees of one route and shard.
type View struct {
	Now     time.Time // by Redis
	Overdue int64
	Near    []Timer // in order of At
	// Cut: there may be more within the look ahead than was returned.
	Cut bool
}

// Look reads what is due and what will be within ahead, at most n keys.
func (s *Store) Look(ctx context.Context, prefix string, shard int, grace, ahead time.Duration, n int) (View, error) {
	v, err := s.run(ctx, lookScript, []string{s.space.Shadow(shard, prefix)}, []any{grace.Milliseconds(), ahead.Milliseconds(), n})
	if err != nil {
		return View{}, err
	}
	w := View{Now: micros(v[0])}
	w.Overdue, _ = v[1].(int64)
	w.Near = make([]Timer, 0, (len(v)-2)/2)
	for i := 2; i+1 < len(v); i += 2 {
		key, _ := v[i].(string)
		text, _ := v[i+1].(string)
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		ms := int64(f)
		w.Near = append(w.Near, Timer{Key: key, At: time.UnixMilli(ms).UTC(), Bare: f != float64(ms)})
	}
	w.Cut = len(w.Near) >= n
	return w, nil
}

// Touch accesses timers, so that Redis expires those that are due on the spot
// and sends their events. It returns how many are still there: not due yet by
// Redis's clock.
func (s *Store) Touch(ctx context.Context, ks []string) (int, error) {
	if !s.o.Cluster {
		n, err := s.c.Exists(ctx, ks...).Result()
		if err != nil {
			return 0, s.fail("touch", err)
		}
		return int(n), nil
	}
	cmds, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range ks {
			p.Exists(ctx, k)
		}
		return nil
	})
	if err != nil {
		return 0, s.fail("touch", err)
	}
	left := 0
	for _, c := range cmds {
		if n, ok := c.(*redis.IntCmd); ok {
			left += int(n.Val())
		}
	}
	return left, nil
}
