package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// The outbox. If the layout of a shard says that the service has a history, a script that finalizes
// notices appends an entry for each to the shard's outbox, in the same step, unless the outcome comes
// from the history. An entry holds the outcome, the time, and the record at that time. Package
// history writes the entries to its database.
//
// The layout is the same for all instances, including those without a history: after a change the
// guard refuses their next script, and they read the layout.

// The outcomes, as handover.lua writes them.
const (
	outcomeDelivered     = "d"
	outcomeDead          = "x"
	outcomeCancelled     = "c"
	outcomeCancelledDead = "C" // of a dead letter
	outcomeReplaced      = "r"
	outcomeReplacedDead  = "R"
)

// Entry is an entry of an outbox: a finalized notice.
type Entry struct {
	*notice.Notice
	Outcome notice.Ending
	// Number counts how often the notice was finalized, from 1. A dead letter that is redriven,
	// cancelled or replaced is finalized again.
	Number int
	At     time.Time // by Redis's clock, in µs
	// Host is the host that the route calls. It is empty if each notice has its own host, no host
	// is called, or the instance did not know the host.
	Host string
}

// ErrEntry is wrapped by the errors of ReadEntry.
var ErrEntry = errors.New("not an entry of an outbox")

// ReadEntry parses an entry of an outbox.
func ReadEntry(text string) (Entry, error) {
	parts := strings.SplitN(text, " ", 6)
	if len(parts) != 6 {
		return Entry{}, fmt.Errorf("%w: %d parts", ErrEntry, len(parts))
	}

	us, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || us <= 0 {
		return Entry{}, fmt.Errorf("%w: %q is not a time", ErrEntry, parts[1])
	}

	e := Entry{At: time.UnixMicro(us).UTC(), Host: strings.TrimPrefix(parts[3], "-")}
	route, key, record := parts[2], parts[4], parts[5]
	if e.Notice, err = notice.Decode(key, route, record); err != nil {
		e.Notice = notice.Unread(key, route, record)
	}

	e.Number = e.Endings + 1

	switch parts[0] {
	case outcomeDelivered:
		e.Outcome = notice.EndDelivered
	case outcomeDead:
		e.Outcome = notice.EndDead
	case outcomeCancelled:
		e.Outcome = notice.EndCancelled
	case outcomeCancelledDead:
		e.Outcome, e.Number = notice.EndCancelled, e.Number+1
	case outcomeReplaced:
		e.Outcome = notice.EndReplaced
	case outcomeReplacedDead:
		e.Outcome, e.Number = notice.EndReplaced, e.Number+1
	default:
		return Entry{}, fmt.Errorf("%w: %q is not an outcome", ErrEntry, parts[0])
	}

	return e, nil
}

// handover returns the arguments of handover.lua for a partition whose shadow is the first key.
func (s *Layout) handover(v *LayoutView, shadow string) string {
	if v.history <= 0 {
		return ""
	}

	host := ""
	if s.o.Host != nil {
		host = s.o.Host(keys.ShadowPrefix(shadow))
	}

	if host == "" || strings.ContainsAny(host, " \n") {
		host = "-"
	}

	return strconv.Itoa(v.history) + " " + host
}

// HandsOver reports whether finalized notices are added to the outbox, as far as this Layout knows.
func (s *Layout) HandsOver() bool {
	v := s.view.Load()
	return v != nil && v.history > 0
}

// historyGone is the time without a relayed entry after which an instance without a history
// concludes that no instance has one.
const historyGone = 24 * time.Hour

// EndHistory stops the outboxes of all shards if this instance has no history and no instance has relayed an entry
// for a day. An outbox buffers finalized notices for the history database. ended reports whether any was stopped.
func (s *Layout) EndHistory(ctx context.Context) (ended bool, err error) {
	v := s.view.Load()
	if s.o.History > 0 || v == nil {
		return false, nil
	}

	shards, err := s.handing(ctx)
	if err != nil || len(shards) == 0 {
		return false, err
	}

	// Each call checks all shards, because an earlier call may have been interrupted.
	for shard := range s.space.Places() {
		name := s.space.History(shard)
		p := s.c.Pipeline()
		clock, seen := p.Time(ctx), p.HGet(ctx, name, "seen")
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return false, s.w.Fail("history", err)
		}

		last, err := seen.Int64()
		if err != nil { // no entry was relayed yet: the day begins
			if err := s.c.HSetNX(ctx, name, "seen", clock.Val().UnixMilli()).Err(); err != nil {
				return false, s.w.Fail("history", err)
			}
			return false, nil
		}

		if clock.Val().Sub(time.UnixMilli(last)) < historyGone {
			return false, nil
		}
	}

	for _, shard := range shards {
		if _, err := s.register(ctx, s.space.Base(shard), v.members, "0"); err != nil {
			return false, err
		}
	}

	return true, nil
}

// handing returns the shards with an active outbox.
func (s *Layout) handing(ctx context.Context) (list []int, err error) {
	p := s.c.Pipeline()
	says := make([]*redis.StringCmd, s.space.Places())
	for shard := range says {
		says[shard] = p.HGet(ctx, s.space.Layout(shard), "history")
	}

	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, s.w.Fail("history", err)
	}

	for shard, x := range says {
		if x.Val() != "" && x.Val() != "0" {
			list = append(list, shard)
		}
	}

	return list, nil
}
