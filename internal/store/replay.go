package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/replay.lua
var replaySource string

var replayScript = wire.NewScript("replay", replaySource, true).Confirmed()

// ReplayBatch is how many items one call of Replay takes.
const ReplayBatch = 100

// replayKept is how long Redis knows how far a replay has got: longer than the
// history knows the replay.
const replayKept = 90 * 24 * time.Hour

// ReplaySent is as what an item is counted whose notice was scheduled.
const ReplaySent = "sent"

// Replay names a replay's part in a shard.
type Replay struct {
	Mark   string // names the replay in Redis
	Shard  int
	NewIDs bool // each notice gets a new webhook-id
}

// ReplayItem is one notice of a replay.
type ReplayItem struct {
	Number int64
	// Notice is as it shall be; its Route is where it goes, its Made is kept.
	// Nil: it does not go, and is counted as Result.
	*notice.Notice
	Result string
	Delay  time.Duration
}

// Replayed answers an item.
type Replayed struct {
	// Result is ReplaySent or why it was not scheduled; empty if the item was done
	// before, by whomever.
	Result string
	Due    time.Time
}

// Replay schedules items of one shard, in the order of their numbers, those that
// are not done yet. It may be repeated, by another instance too: an item is done
// once. After ErrUnconfirmed the answers are there all the same.
func (s *Store) Replay(ctx context.Context, r Replay, items []ReplayItem) ([]Replayed, error) {
	since, given := s.Forgot(), items
	if len(s.Formers()) > 0 {
		var err error
		if items, err = s.replayAmid(ctx, items); err != nil {
			return nil, err
		}
	}
	var prefixes []string
	cmd := s.Knowing(ctx, s.space.Base(r.Shard), func(v *layout.View) *redis.Cmd {
		switch {
		case s.IsOld(v, r.Shard, since):
			return layout.Replaced(ctx)
		case v.Side.Sorts(): // what it would replace may be on the other side
			return layout.Moved(ctx)
		}
		ks, args, all := s.replayArgs(v, r, items)
		prefixes = all
		return s.Send(ctx, v, replayScript, append([]string{s.space.Replay(r.Shard, r.Mark)}, ks...), args)
	})
	if errors.Is(cmd.Err(), layout.ErrReplaced) && s.Forgot() != since {
		return s.Replay(ctx, r, given) // nothing was done
	}
	v, err := s.w.List(replayScript.Op, cmd)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}
	if len(v) != len(items)+1 {
		return nil, fmt.Errorf("replay: %d answers to %d items", len(v)-1, len(items))
	}
	if err != nil {
		s.unconfirmed(replayScript.Op, len(items), err)
	}
	now := wire.Micros(v[0])
	out, timers := make([]Replayed, len(items)), map[string][]timer{}
	for i := range items {
		switch a := v[i+1].(type) {
		case string:
			out[i].Result = a
		case int64:
			if a < 0 || items[i].Notice == nil {
				continue
			}
			out[i] = Replayed{Result: ReplaySent, Due: time.UnixMilli(a).UTC()}
			how := overAll
			if s.adopts(items[i].Route) {
				how = overNothing
			}
			timers[items[i].Route] = append(timers[items[i].Route], timer{items[i].Key, a, items[i].NextAttempt(), how})
		}
	}
	if s.o.Cluster {
		for _, p := range prefixes {
			s.arm(ctx, p, timers[p], now)
		}
	}
	return out, err
}

// replayArgs are the keys of all prefixes under which a notice of the items may
// lie, and the script's arguments.
func (s *Store) replayArgs(v *layout.View, r Replay, items []ReplayItem) (ks []string, list []any, prefixes []string) {
	for i := range items {
		if items[i].Notice != nil && !slices.Contains(prefixes, items[i].Route) {
			prefixes = append(prefixes, items[i].Route)
		}
	}
	for _, p := range prefixes {
		for _, other := range v.Beside(p) {
			if !slices.Contains(prefixes, other) {
				prefixes = append(prefixes, other)
			}
		}
	}
	add := func(values ...string) {
		for _, x := range values {
			list = append(list, x)
		}
	}
	anew := "0"
	if r.NewIDs {
		anew = "1"
	}
	add(s.space.Wake(), strconv.Itoa(r.Shard), anew, strconv.FormatInt(replayKept.Milliseconds(), 10), strconv.Itoa(len(prefixes)))
	for _, p := range prefixes {
		ks = append(ks, s.space.States(keys.Partition{Prefix: p, Shard: r.Shard})...)
		add(p, s.timing(p))
	}
	for i := range items {
		it := &items[i]
		if it.Notice == nil {
			add(strconv.FormatInt(it.Number, 10), "", "0", "", "0", it.Result)
			continue
		}
		ms := (it.Delay.Nanoseconds() + 999_999) / 1_000_000
		add(strconv.FormatInt(it.Number, 10), it.Key, strconv.Itoa(slices.Index(prefixes, it.Route)+1), strconv.FormatInt(int64(it.Made), 10),
			strconv.FormatInt(ms, 10), string(it.AppendTail(nil)))
	}
	return ks, list, prefixes
}

// ReplayCounts says what came of a replay's items so far, by result, all shards
// together. What Redis has lost is not counted.
func (s *Store) ReplayCounts(ctx context.Context, mark string) (map[string]int64, error) {
	p := s.c.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, s.space.Places())
	for shard := range cmds {
		cmds[shard] = p.HGetAll(ctx, s.space.Replay(shard, mark))
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, s.w.Fail(replayScript.Op, err)
	}
	counts := map[string]int64{}
	for _, c := range cmds {
		for result, text := range c.Val() {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && result != "last" {
				counts[result] += n
			}
		}
	}
	return counts, nil
}
