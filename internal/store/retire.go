package store

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// Retirement removes dead letters that are too old or too many: they become cancelled, as by a purge, but without another
// entry of the history. So they are readable for the retention of settled notices, and a repeated schedule call is
// recognised.
//
// If there is a history, only dead letters whose entries have left the outboxes are removed, and none once entries were
// dropped, because it is not known which dead letters then have no row.
type Retirement struct{ s *Store }

// NewRetirement returns the Retirement of a store.
func NewRetirement(s *Store) Retirement { return Retirement{s} }

// DeadLimit is how long, and how many, dead letters of a route are kept. Zero = no limit. Each shard keeps an equal part of
// the number. An old shard keeps all until a reshard has moved them: a part of the new shards' number would be too few.
type DeadLimit struct {
	Retention time.Duration
	Keep      int64
}

// Removal of dead letters is announced a day before the first one is too old, if they are kept for two days or more, and
// from 80 % of the number.
const announced = 24 * time.Hour

// Ages returns when the first of a route's dead letters is removed because of its age; zero = not within a day. first is the
// time of its death, zero without one.
func (l DeadLimit) Ages(first, now time.Time) (at time.Time) {
	if l.Retention < 2*announced || first.IsZero() || first.Add(l.Retention-announced).After(now) {
		return at
	}
	return first.Add(l.Retention)
}

// Fills reports whether the number of a route's dead letters is near its limit.
func (l DeadLimit) Fills(count int64) bool { return l.Keep > 0 && count*5 >= l.Keep*4 }

// Handed is which dead letters the history has.
type Handed struct {
	Before time.Time // those that died before this time; zero = all
	Lost   int64     // number of entries that were dropped: if any, no dead letter may be removed
}

// Handed reads which dead letters the history has. Without a history it returns the zero Handed. It reads the outboxes of all
// shards, since a reshard moves dead letters, but no entries of outboxes.
func (r Retirement) Handed(ctx context.Context) (h Handed, err error) {
	if !r.s.Layout.HandsOver() {
		return h, nil
	}

	p := r.s.w.Redis.Pipeline()
	var first, lost []*redis.StringCmd
	for shard := range r.s.space.Places() {
		first = append(first, p.LIndex(ctx, r.s.space.Ended(shard), 0))
		lost = append(lost, p.HGet(ctx, r.s.space.History(shard), "lost"))
	}

	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return h, r.s.w.Fail("backlog", err)
	}

	for shard := range first {
		n, _ := lost[shard].Int64()
		h.Lost += n
		text := first[shard].Val()
		if text == "" {
			continue
		}

		at := time.UnixMicro(1) // of an entry that cannot be read: no dead letter is removed before it has left
		if parts := strings.SplitN(text, " ", 3); len(parts) == 3 {
			if us, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
				at = time.UnixMicro(us)
			}
		}

		if h.Before.IsZero() || at.Before(h.Before) {
			h.Before = at
		}
	}

	return h, nil
}

// Retire removes at most [MaxRetired] dead letters of a partition that are beyond its limit, the oldest first. more reports
// whether others may be.
func (r Retirement) Retire(ctx context.Context, at keys.Partition, limit DeadLimit, h Handed) (retired int, more bool, err error) {
	if h.Lost > 0 {
		return 0, false, nil
	}

	p := r.s.w.Redis.Pipeline()
	clock, count := p.Time(ctx), p.ZCard(ctx, r.s.space.Dead(at))
	oldest := p.ZRangeWithScores(ctx, r.s.space.Dead(at), 0, MaxRetired-1)
	if _, err := p.Exec(ctx); err != nil {
		return 0, false, r.s.w.Fail("amend", err)
	}

	over := int64(0)
	if limit.Keep > 0 && !r.s.Layout.isOldShard(at.Shard) {
		shards := int64(r.s.space.Now().Shards)
		over = count.Val() - (limit.Keep+shards-1)/shards
	}

	var list []amended
	var last int64
	for i, z := range oldest.Val() {
		ms := int64(math.Floor(z.Score))
		died := time.UnixMilli(ms)
		old := limit.Retention > 0 && clock.Val().Sub(died) > limit.Retention
		if !old && int64(i) >= over || !h.Before.IsZero() && !died.Before(h.Before.Truncate(time.Millisecond)) {
			break // the others died later
		}

		key, _ := z.Member.(string)
		list, last = append(list, amended{key: key}), ms
	}

	if len(list) == 0 {
		return 0, false, nil
	}

	for i := range list { // a letter that is redriven and dies again meanwhile stays
		list[i].was = strconv.FormatInt(last, 10)
	}

	changes, err := r.s.amend(ctx, at, retire, list)
	for _, c := range changes {
		if c.Done {
			retired++
		}
	}

	return retired, len(list) == MaxRetired && retired > 0, err
}

// MaxRetired is the maximum number of dead letters that one call of Retire removes.
const MaxRetired = amendAtOnce
