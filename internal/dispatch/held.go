package dispatch

import (
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// leastHeld is how long other causes must have held a notice for the record to say so.
// A shorter time counts as that of the cause that follows.
const leastHeld = time.Second

// span is a time in which nothing of a partition could be claimed, by this process's
// clock. From is zero if it had begun before this process looked; until is zero while
// it lasts, or if there was none.
type span struct {
	from, until time.Time
	lasts       bool
}

// begin notes that claims have stopped.
func (s *span) begin(from time.Time) {
	if !s.lasts {
		*s = span{from: from, lasts: true}
	}
}

// end notes that claims go on.
func (s *span) end(now time.Time) {
	if s.lasts {
		s.until, s.lasts = now, false
	}
}

// waits adds up how long each cause has held a claimed notice from its due time until now,
// by Redis's clock: the times in the record; then the cause of the last postponement, until
// the postponement ended; then pauses of its route and failed claims. The rest has no cause.
func (q *routeQueue) waits(j job, now time.Time) notice.Waits {
	c := j.claim
	w := c.Waits.Since(c.Due)
	w.Add(c.Held, earlier(c.Attention, now))
	q.mu.Lock()
	l := q.shards.at(c.Shard)
	paused, failed := l.pausedFor, l.failedFor
	q.mu.Unlock()
	// Redis's clock and this process's differ.
	ahead := j.now.Sub(j.at)
	paused.add(&w, notice.HeldPaused, ahead, now)
	failed.add(&w, notice.HeldRedis, ahead, now)
	w.Add(notice.HeldNone, now)
	return w
}

// add adds the part of s that comes after w.Until.
func (s *span) add(w *notice.Waits, cause notice.Held, ahead time.Duration, now time.Time) {
	if s.until.IsZero() {
		return
	}
	until := earlier(s.until.Add(ahead), now)
	if !until.After(w.Until) {
		return
	}
	if !s.from.IsZero() {
		w.Add(notice.HeldNone, s.from.Add(ahead))
	}
	w.Add(cause, until)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// heldBy is the cause of a postponement of c with reason r.
func heldBy(c *store.Claim, r notice.Reason) notice.Held {
	if h := notice.HeldBy(r); h != notice.HeldNone {
		return h
	}
	return c.Held
}

// note writes w into the notice and returns true, if causes other than now have held the
// notice for leastHeld or longer since its record was written. Otherwise that time will
// count for now.
func note(n *notice.Notice, now notice.Held, w notice.Waits) bool {
	before := n.Waits.Since(n.Due)
	others := w.Until.Sub(before.Until) - (w.For[now.Index()] - before.For[now.Index()])
	if others < leastHeld {
		return false
	}
	n.Waits = w
	return true
}
