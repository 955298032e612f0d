package receivers

import (
	"context"
	"time"

	"notifier/internal/pace"
)

const (
	// scanRate is how many notices a second a count reads at most.
	scanRate = 2000
	// scanEvery is the least time between two counts of a route.
	scanEvery = 30 * time.Second
)

// Waiter is a pending notice: the receiver that it waits for, when its next attempt is, and
// whether an attempt of it has failed.
type Waiter struct {
	Receiver string
	Next     time.Time
	Failed   bool
}

// Notices reads the pending notices of a route.
type Notices interface {
	// Pending returns the notices after a cursor, how many records were read, and the cursor of
	// the next call, empty after the last one.
	Pending(ctx context.Context, prefix, cursor string) (list []Waiter, read int, next string, err error)
}

// Scanner counts how many notices wait for the receivers that fail.
type Scanner struct {
	Store   *HealthStore
	Notices Notices
	next    map[string]time.Time // when a route may be counted again
}

// Scan counts the notices of those of the routes that have failing receivers. It reads at most
// 2,000 notices a second, and counts a route every 30 s at most.
func (s *Scanner) Scan(ctx context.Context, routes []RouteHealth) error {
	if s.next == nil {
		s.next = map[string]time.Time{}
	}

	for i := range routes {
		r := &routes[i]
		if r.Failing(s.Store.Wire.Clock.Now()) == 0 || time.Now().Before(s.next[r.Prefix]) {
			continue
		}

		c, err := s.count(ctx, r)
		if err != nil {
			return err
		}

		s.next[r.Prefix] = time.Now().Add(scanEvery)
		if err := s.Store.setWaiting(ctx, r.Prefix, c); err != nil {
			return err
		}
	}

	return nil
}

func (s *Scanner) count(ctx context.Context, r *RouteHealth) (counted, error) {
	c := counted{Receivers: map[string]waiting{}}
	for i := range r.Receivers {
		if r.Receivers[i].Failing() {
			c.Receivers[r.Receivers[i].Name] = waiting{}
		}
	}

	for cursor := ""; ; {
		began := time.Now()
		list, read, next, err := s.Notices.Pending(ctx, r.Prefix, cursor)
		if err != nil {
			return c, err
		}

		for _, w := range list {
			c.add(w, s.Store.Wire.Clock.Now())
		}

		c.At = s.Store.Wire.Clock.Now().UnixMilli()
		// Also after the last page, because the next route follows at once.
		if !pace.Wait(ctx, time.Duration(read)*time.Second/scanRate-time.Since(began)) {
			return c, ctx.Err()
		}
		if cursor = next; cursor == "" {
			return c, nil
		}
	}
}

func (c *counted) add(w Waiter, now time.Time) {
	sum, ok := c.Receivers[w.Receiver]
	if !ok || !w.Failed && w.Next.After(now) {
		return
	}

	sum.N++
	if at := w.Next.UnixMilli(); sum.Next == 0 || at < sum.Next {
		sum.Next = at
	}

	c.Receivers[w.Receiver] = sum
}
