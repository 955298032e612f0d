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

// ErrSkew is returned if the clocks of the two sides differ too much.
var ErrSkew = errors.New("the clocks of the two sides differ too much")

// clocks compares the clocks of two sides. A difference shifts the due times of moved notices.
type clocks struct {
	a, b *wire.Conn
	most time.Duration // the maximum difference
}

// reading is how far the clocks of a side are ahead of this machine's clock: the smallest and the
// largest lead, and the uncertainty of the measurement.
type reading struct{ least, most, unsure time.Duration }

// check returns ErrSkew if a clock of one side and a clock of the other differ too much. Slow answers
// make the result uncertain. So before check fails, it measures again and uses the fastest answers.
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

		err = fmt.Errorf("%w: the clock of the new side is %s ahead (± %s), which exceeds --max-skew %s and would shift all due times: "+
			"synchronize the clocks of both machines (NTP)", ErrSkew, skew.Round(time.Millisecond),
			(x.unsure + y.unsure).Round(time.Millisecond), c.most)
	}
	return skew, err
}

// read measures the clock of each master of a side, with several tries for each.
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
		return r, one(ctx, c.Commander)
	}

	err = c.Masters(ctx, one)
	return r, err
}
