package jobs

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/replay.lua
var replaySource string

var replayScript = wire.NewScript("replay", store.WithParts(replaySource), true).Confirmed()

// maxItems is how many items one call of the script takes.
const maxItems = 100

// progressFor is how long Redis keeps the progress of a replay: longer than the history
// keeps the replay.
const progressFor = 90 * 24 * time.Hour

// ReplayStore is the Sender of a Replayer: it schedules the notices of a replay.
type ReplayStore struct{ *store.Store }

var _ Sender = ReplayStore{}

// Part names a replay's part in a shard.
type Part struct {
	Mark   string // names the replay in Redis
	Shard  int
	NewIDs bool // each notice gets a new webhook-id
}

// Item is one notice of a replay.
type Item struct {
	Number int64
	// Notice is the notice to schedule. Route is the prefix of its route, and Made is unchanged. If
	// it is nil, the item is not sent, and is counted as Result.
	*notice.Notice
	Result string
	Delay  time.Duration
}

// Answer is the reply for an item.
type Answer struct {
	// Result is Sent, or the reason why the item was not scheduled. It is empty if a call
	// before has done the item.
	Result string
	Due    time.Time
}

// Replay schedules the notices of items for another delivery, and returns one Answer for each item. r is the part of a
// replay in one shard. The items must belong to r and be sorted by Number, their position in the replay. An item that
// an earlier call has processed is skipped, so a call may be repeated. With the error ErrUnconfirmed, the answers hold,
// but replicas or disk have not confirmed the write as configured.
func (s ReplayStore) Replay(ctx context.Context, r Part, items []Item) ([]Answer, error) {
	since, given := s.Sight(), items
	items, err := s.fromOldShards(ctx, items)
	if err != nil {
		return nil, err // also an unconfirmed move, without answers: nothing was scheduled
	}

	prefixes, v, err := s.run(ctx, r, items, since)
	if errors.Is(err, store.ErrLost) {
		return s.Replay(ctx, r, given) // nothing was done
	}
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}

	if len(prefixes) > 0 { // else no item was sent
		v = s.Foreign(prefixes[0], v)
	}

	if len(v) != len(items)+1 {
		return nil, wire.BadReply("replay", "%d answers to %d items", len(v)-1, len(items))
	}

	if err != nil {
		s.Unconfirmed(replayScript.Op, len(items), err)
	}

	out, timers := answers(v, items)
	for _, p := range prefixes {
		s.Timers.Set(ctx, p, timers[p], wire.Micros(v[0]))
	}

	return out, err
}

// run runs the script, and returns the prefixes of its groups and its reply.
func (s ReplayStore) run(ctx context.Context, r Part, items []Item, since store.Sight) (prefixes []string, v []any, err error) {
	// Whole, because the notice that it would replace may be on the other side of a migration.
	v, err = s.Wire().List(replayScript.Op, s.Change(ctx, replayScript, store.Call{Shard: r.Shard, Creates: true, Since: since, Whole: true,
		Prepare: func(view *store.LayoutView) ([]string, []any) {
			prefixes = groups(view, items)
			return s.args(prefixes, r, items)
		}}))
	return prefixes, v, err
}

// answers reads the reply of the script, and which timers are to be set, by prefix.
func answers(v []any, items []Item) ([]Answer, map[string][]store.NewTimer) {
	out, timers := make([]Answer, len(items)), map[string][]store.NewTimer{}
	for i := range items {
		switch a := v[i+1].(type) {
		case string:
			out[i].Result = a
		case int64:
			if a < 0 || items[i].Notice == nil {
				continue
			}

			out[i] = Answer{Result: Sent, Due: time.UnixMilli(a).UTC()}
			prefix := items[i].Route
			timers[prefix] = append(timers[prefix], store.NewTimer{Key: items[i].Key, Due: a, Attempt: items[i].NextAttempt()})
		}
	}

	return out, timers
}

// groups returns the prefixes under which a notice of the items may be stored.
func groups(v *store.LayoutView, items []Item) (prefixes []string) {
	add := func(p string) {
		if !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	for i := range items {
		if items[i].Notice != nil {
			add(items[i].Route)
		}
	}

	for _, p := range prefixes {
		for _, other := range v.Beside(p) {
			add(other)
		}
	}

	return prefixes
}

// args returns the script's keys and arguments.
func (s ReplayStore) args(prefixes []string, r Part, items []Item) (ks []string, list []any) {
	add := func(values ...string) {
		for _, x := range values {
			list = append(list, x)
		}
	}
	newIDs := "0"
	if r.NewIDs {
		newIDs = "1"
	}

	add(s.Space().Wake(), strconv.Itoa(r.Shard), newIDs, strconv.FormatInt(progressFor.Milliseconds(), 10), strconv.Itoa(len(prefixes)))

	ks = []string{s.Space().Replay(r.Shard, r.Mark)}
	for _, p := range prefixes {
		ks = append(ks, s.Space().States(keys.Partition{Prefix: p, Shard: r.Shard})...)
		add(p, s.Timers.Mode(p))
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

	return ks, list
}

// fromOldShards moves the finalized notices of items to the new shards, where the replay script checks them. An item
// whose notice is pending in an old shard must not be sent: in the copy that is returned, its Notice is nil and its
// Result is Pending.
func (s ReplayStore) fromOldShards(ctx context.Context, items []Item) ([]Item, error) {
	list := make([]*notice.Notice, len(items))
	for i := range items {
		list[i] = items[i].Notice
	}

	pending, err := s.BringFinalized(ctx, replayScript.Op, list)
	if err != nil || len(pending) == 0 {
		return items, err
	}

	items = slices.Clone(items)
	for _, i := range pending {
		items[i].Notice, items[i].Result = nil, Pending
	}

	return items, nil
}

// ReplayCounts returns how many items of a replay have which result so far, in all shards. Items
// whose result Redis has lost are not counted.
func (s ReplayStore) ReplayCounts(ctx context.Context, mark string) (map[string]int64, error) {
	p := s.Wire().Redis.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, s.Space().Places())
	for shard := range cmds {
		cmds[shard] = p.HGetAll(ctx, s.Space().Replay(shard, mark))
	}

	if _, err := p.Exec(ctx); err != nil {
		return nil, s.Wire().Fail(replayScript.Op, err)
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
