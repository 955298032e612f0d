package dispatch

import (
	"sync"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// leastHeld is the minimum total time of other causes for which the record is rewritten. A shorter
// time is attributed to the following cause.
const leastHeld = time.Second

// span is a period in which this process could claim nothing from a partition, by its own clock. It
// is zero if there was none; from is zero if it began before the process, until while it lasts.
type span struct {
	from, until time.Time
	lasts       bool
}

// begin records the start of the span.
func (s *span) begin(from time.Time) {
	if !s.lasts {
		*s = span{from: from, lasts: true}
	}
}

// end records the end of the span.
func (s *span) end(now time.Time) {
	if s.lasts {
		s.until, s.lasts = now, false
	}
}

// delays are the last pause of a partition, and the last span in which its claims failed. They have their own lock, under
// which no other lock is taken.
type delays struct {
	mu             sync.Mutex
	paused, failed span
}

// setPaused records whether the partition is paused since a time, which is zero if the process began later.
func (d *delays) setPaused(paused bool, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if paused {
		d.paused.begin(since)
	} else {
		d.paused.end(since)
	}
}

// claimFailed records a failed claim call that was sent at a time, and claimed one with a reply.
func (d *delays) claimFailed(sent time.Time) {
	d.mu.Lock()
	d.failed.begin(sent)
	d.mu.Unlock()
}

func (d *delays) claimed(now time.Time) {
	d.mu.Lock()
	d.failed.end(now)
	d.mu.Unlock()
}

// last returns the spans.
func (d *delays) last() (paused, failed span) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paused, d.failed
}

// waits returns how long each cause, such as a pause, has delayed the claimed notice of j from its due time until now.
// now is a time of Redis's clock. Time without a known cause counts as HeldNone.
func (a *attempts) waits(j job, now time.Time) notice.Waits {
	c := j.claim
	w := c.Waits.Since(c.Due)                       // earlier causes
	w.Add(c.Held, notice.Earlier(c.Attention, now)) // the last postponement
	paused, failed := a.shards.at(c.Shard).delays.last()
	// Offset between Redis's clock and this process's.
	ahead := j.now.Sub(j.at)
	paused.add(&w, notice.HeldPaused, ahead, now)
	failed.add(&w, notice.HeldRedis, ahead, now)
	w.Add(notice.HeldNone, now)
	return w
}

// add adds the part of s after w.Until.
func (s *span) add(w *notice.Waits, cause notice.Held, ahead time.Duration, now time.Time) {
	if s.until.IsZero() {
		return
	}

	until := notice.Earlier(s.until.Add(ahead), now)
	if !until.After(w.Until) {
		return
	}

	if !s.from.IsZero() {
		w.Add(notice.HeldNone, s.from.Add(ahead))
	}

	w.Add(cause, until)
}

// heldBy returns the cause of a postponement of c with reason r.
func heldBy(c *store.Claim, r notice.Reason) notice.Held {
	if h := notice.HeldBy(r); h != notice.HeldNone {
		return h
	}
	return c.Held
}

// note writes w into the notice and returns true if causes other than now have delayed the notice
// for leastHeld or longer since its record was written. Otherwise their time is attributed to now.
func note(n *notice.Notice, now notice.Held, w notice.Waits) bool {
	before := n.Waits.Since(n.Due)
	others := w.Until.Sub(before.Until) - (w.For[now.Index()] - before.For[now.Index()])
	if others < leastHeld {
		return false
	}

	n.Waits = w
	return true
}
