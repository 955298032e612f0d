package layout

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Whether what ends is handed over to history stands in each shard's layout: see package
// history.

//go:embed lua/handover.lua
var handoverSource string

// Outbox is the prelude of scripts that end notices: see [wire.Script.Ends].
var Outbox = wire.Prelude(handoverSource)

// handover is what handover.lua takes for a partition whose shadow is the first key.
func (s *Layout) handover(v *View, shadow string) string {
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

// HandsOver reports whether what ends is handed over to history, as far as this
// Store knows.
func (s *Layout) HandsOver() bool {
	v := s.view.Load()
	return v != nil && v.history > 0
}

// historyGone is how long nobody may have brought endings to history until an
// instance that has none takes it that there is none any more.
const historyGone = 24 * time.Hour

// EndHistory stops the hand-over of a Store that has no history itself, if
// nobody has brought anything to one for a day. It goes by what each shard says:
// who did this before may have been killed between two shards.
func (s *Layout) EndHistory(ctx context.Context) (ended bool, err error) {
	v := s.view.Load()
	if s.o.History > 0 || v == nil {
		return false, nil
	}
	shards, err := s.handing(ctx)
	if err != nil || len(shards) == 0 {
		return false, err
	}
	for shard := range s.space.Places() {
		name := s.space.History(shard)
		p := s.c.Pipeline()
		clock, seen := p.Time(ctx), p.HGet(ctx, name, "seen")
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return false, s.w.Fail("history", err)
		}
		last, err := seen.Int64()
		if err != nil { // nobody has yet: the day begins
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
		if _, err := s.register(ctx, s.space.Base(shard), v.Prefixes, "0"); err != nil {
			return false, err
		}
	}
	return true, nil
}

// handing are the shards in which what ends is handed over.
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
