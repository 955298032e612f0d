package move

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

// ErrSkew says that the clocks of the two sides are too far apart.
var ErrSkew = errors.New("the clocks of the two sides are too far apart")

// clocks compares those of two sides: each due time comes early or late by as much as
// they are apart.
type clocks struct {
	a, b *wire.Conn
	most time.Duration
}

// reading is how far clocks are ahead of this machine's, from the one that is least to
// the one that is most, and how wrong that may be.
type reading struct{ least, most, unsure time.Duration }

// check is an error if any two clocks of the two sides are too far apart. What a slow
// answer makes doubtful is measured again, and the quickest answers count.
func (c *clocks) check(ctx context.Context) (skew time.Duration, err error) {
	for _, tries := range []int{1, 8} {
		var x, y reading
		var xerr, yerr error
		var both sync.WaitGroup
		both.Go(func() { x, xerr = read(ctx, c.a, tries) })
		both.Go(func() { y, yerr = read(ctx, c.b, tries) })
		both.Wait()
		if err := errors.Join(xerr, yerr); err != nil {
			return 0, err
		}
		skew = y.most - x.least
		if other := y.least - x.most; other.Abs() > skew.Abs() {
			skew = other
		}
		if skew.Abs() <= c.most {
			return skew, nil
		}
		err = fmt.Errorf("%w: that of the new side is %s ahead of the old one's (± %s), more than --max-skew %s, and each due time would "+
			"come early or late by that: set the clocks of both machines right (NTP)", ErrSkew, skew.Round(time.Millisecond),
			(x.unsure + y.unsure).Round(time.Millisecond), c.most)
	}
	return skew, err
}

// read asks each master of a side for its time, some times each.
func read(ctx context.Context, c *wire.Conn, tries int) (r reading, err error) {
	var mu sync.Mutex
	first := true
	one := func(ctx context.Context, m redis.Cmdable) error {
		var off, unsure time.Duration
		for i := range tries {
			from := time.Now()
			now, err := m.Time(ctx).Result()
			took := time.Since(from)
			if err != nil {
				return wire.Wrap("time", err)
			}
			if i == 0 || took/2 < unsure {
				off, unsure = now.Sub(from.Add(took/2)), took/2
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if first {
			r, first = reading{off, off, unsure}, false
		}
		r = reading{min(r.least, off), max(r.most, off), max(r.unsure, unsure)}
		return nil
	}
	if c.Masters == nil {
		return r, one(ctx, c.UniversalClient)
	}
	err = c.Masters(ctx, func(ctx context.Context, m *redis.Client) error { return one(ctx, m) })
	return r, err
}
