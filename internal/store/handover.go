package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

// The hand-over to history. Where a shard's layout says that there is a history,
// each script that ends notices appends what has ended to the shard's list of
// endings, in the same step: the record as it was at the end, and when. Whoever
// brings that to the database reads the list from its beginning, and what the
// database has confirmed is taken off it: see package history.
//
// The layout says so to every instance, also to those that have no history
// themselves: its state changes, so their next script is refused by the guard
// and they learn it. What they end is in the list like everything else.

//go:embed lua/ship.lua
var shipSource string

//go:embed lua/shed.lua
var shedSource string

var (
	// Neither is guarded: what they take off a list is told by its text, or not
	// needed by anybody any more.
	shipScript = wire.NewScript("ship", shipSource, false).Anywhere()
	shedScript = wire.NewScript("shed", shedSource, false).Anywhere()
)

// handedOver tells of settles that have ended something.
func (s *Store) handedOver(shard int, list []Settlement) {
	if s.o.OnEnded == nil || !s.HandsOver() {
		return
	}
	n := 0
	for i := range list {
		if list[i].Ending == EndDelivered || list[i].Ending == EndDead {
			n++
		}
	}
	if n > 0 {
		s.o.OnEnded(shard, n)
	}
}

// The ways a notice ends, as handover.lua writes them.
const (
	handDelivered    = "d"
	handDead         = "x"
	handCancelled    = "c"
	handCancelledToo = "C" // after it had died
	handReplaced     = "r"
	handReplacedToo  = "R"
)

// Ended is one ending of a notice on its way to history.
type Ended struct {
	*notice.Notice
	Outcome notice.Ending
	// Number counts the endings of the notice, from 1: a dead letter that was
	// redriven ends again, as does one that was cancelled or replaced.
	Number int
	At     time.Time // by Redis's clock, in µs
	// Host is the one that the route calls; empty where each notice brings its
	// own, or none is called, or whoever ended it did not know.
	Host string
}

// ErrEnded is what ReadEnded's errors wrap.
var ErrEnded = errors.New("not an ending")

// ReadEnded reads an entry of a list of endings.
func ReadEnded(text string) (Ended, error) {
	parts := strings.SplitN(text, " ", 6)
	if len(parts) != 6 {
		return Ended{}, fmt.Errorf("%w: %d parts", ErrEnded, len(parts))
	}
	us, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || us <= 0 {
		return Ended{}, fmt.Errorf("%w: %q is no time", ErrEnded, parts[1])
	}
	e := Ended{At: time.UnixMicro(us).UTC(), Host: strings.TrimPrefix(parts[3], "-")}
	route, key, record := parts[2], parts[4], parts[5]
	if e.Notice, err = notice.Decode(key, route, record); err != nil {
		e.Notice = notice.Unread(key, route, record)
	}
	e.Number = e.Endings + 1
	switch parts[0] {
	case handDelivered:
		e.Outcome = notice.EndDelivered
	case handDead:
		e.Outcome = notice.EndDead
	case handCancelled, handCancelledToo:
		e.Outcome = notice.EndCancelled
	case handReplaced, handReplacedToo:
		e.Outcome = notice.EndReplaced
	default:
		return Ended{}, fmt.Errorf("%w: %q is no outcome", ErrEnded, parts[0])
	}
	if parts[0] == handCancelledToo || parts[0] == handReplacedToo {
		e.Number++
	}
	return e, nil
}

// Held answers Hold.
type Held struct {
	// Ours: this caller holds what has ended, and nobody else brings it.
	Ours bool
	// Forgotten: what was confirmed is off the list.
	Forgotten bool
	Left      int64 // endings that are not confirmed
	Lost      int64 // endings that the bound has dropped, since ever
}

// Confirmed is what history has: so many from the list's beginning, the last of
// them as it was read.
type Confirmed struct {
	N    int
	Last string
}

// Hold holds the endings of a shard for one who brings them to history, for a
// while or, with zero, no longer; and takes off the list what is confirmed. It
// may be repeated.
func (s *Store) Hold(ctx context.Context, shard int, who Lease, done Confirmed) (Held, error) {
	v, err := s.w.Do(ctx, shipScript, []string{s.space.Ended(shard), s.space.History(shard)},
		[]any{who.Token, who.For.Milliseconds(), done.N, done.Last}).Int64Slice()
	if err != nil {
		return Held{}, s.w.Fail(shipScript.Op, err)
	}
	if len(v) != 4 {
		return Held{}, fmt.Errorf("ship: %d answers", len(v))
	}
	return Held{Ours: v[0] == 1, Forgotten: v[1] == 1, Left: v[2], Lost: v[3]}, nil
}

// Endings reads n entries of a shard's list from a place on.
func (s *Store) Endings(ctx context.Context, shard, from, n int) ([]string, error) {
	list, err := s.c.LRange(ctx, s.space.Ended(shard), int64(from), int64(from+n-1)).Result()
	if err != nil {
		return nil, s.w.Fail("endings", err)
	}
	return list, nil
}

// shedStep bounds one call of shed.lua.
const shedStep = 10_000

// Shed forgets up to n of the oldest endings of a shard, and counts them as
// lost.
func (s *Store) Shed(ctx context.Context, shard, n int) (shed int, err error) {
	for shed < n {
		step := min(n-shed, shedStep)
		gone, err := s.w.Do(ctx, shedScript, []string{s.space.Ended(shard), s.space.History(shard)}, []any{step}).Int()
		if err != nil {
			return shed, s.w.Fail(shedScript.Op, err)
		}
		shed += gone
		if gone < step {
			break
		}
	}
	return shed, nil
}

// Memory is what the Redis that has a shard uses, and may use (zero = all there
// is), in bytes.
func (s *Store) Memory(ctx context.Context, shard int) (used, most int64, err error) {
	c := s.c
	if cluster, ok := c.(*redis.ClusterClient); ok {
		if c, err = cluster.MasterForKey(ctx, s.space.Ended(shard)); err != nil {
			return 0, 0, s.w.Fail("info", err)
		}
	}
	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return 0, 0, s.w.Fail("info", err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			used, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory":
			most, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return used, most, nil
}

// Backlog says of a shard how many endings are not confirmed, the oldest of them
// (empty = none), and how many the bound has dropped since ever.
func (s *Store) Backlog(ctx context.Context, shard int) (left int64, oldest string, lost int64, err error) {
	p := s.c.Pipeline()
	n, first, dropped := p.LLen(ctx, s.space.Ended(shard)), p.LIndex(ctx, s.space.Ended(shard), 0), p.HGet(ctx, s.space.History(shard), "lost")
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, "", 0, s.w.Fail("backlog", err)
	}
	lost, _ = dropped.Int64()
	return n.Val(), first.Val(), lost, nil
}

// Waiting says of each shard how many endings are not confirmed.
func (s *Store) Waiting(ctx context.Context) ([]int64, error) {
	p := s.c.Pipeline()
	lens := make([]*redis.IntCmd, s.space.Places())
	for shard := range lens {
		lens[shard] = p.LLen(ctx, s.space.Ended(shard))
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, s.w.Fail("backlog", err)
	}
	out := make([]int64, len(lens))
	for i, n := range lens {
		out[i] = n.Val()
	}
	return out, nil
}
