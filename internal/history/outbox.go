package history

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

var (
	//go:embed lua/ship.lua
	shipSource string
	//go:embed lua/shed.lua
	shedSource string

	// Neither needs the guard: they remove entries by their text, or entries that are lost
	// in any case.
	shipScript = wire.NewScript("ship", shipSource, false).Anywhere()
	shedScript = wire.NewScript("shed", shedSource, false).Anywhere()
)

// Outbox reads and shortens the outboxes of all shards: lists of finalized notices that are
// not in the history yet. Scripts that finalize notices append to them (layout.Outbox).
type Outbox struct{ Wire *wire.Client }

// Holder names a relay, and how long it holds an outbox; zero ends its hold.
type Holder struct {
	Token string
	For   time.Duration
}

// Held is the reply to Hold.
type Held struct {
	// Ours: the caller holds the outbox, so no other instance writes its entries.
	Ours bool
	// Removed: the confirmed entries were removed.
	Removed bool
	Left    int64 // entries that are not confirmed
	Lost    int64 // entries that were ever dropped because of the bound
}

// Confirmed says which entries are in the database: the first N, of which Last is the last.
type Confirmed struct {
	N    int
	Last string
}

// Hold holds a shard's outbox for a relay, or ends its hold, and removes confirmed entries.
// It may be repeated.
func (o Outbox) Hold(ctx context.Context, shard int, who Holder, done Confirmed) (Held, error) {
	space := o.Wire.Space
	v, err := o.Wire.Do(ctx, shipScript, []string{space.Ended(shard), space.History(shard)},
		[]any{who.Token, who.For.Milliseconds(), done.N, done.Last}).Int64Slice()
	if err != nil {
		return Held{}, o.Wire.Fail(shipScript.Op, err)
	}
	if len(v) != 4 {
		return Held{}, wire.BadReply("ship", "%d answers", len(v))
	}

	return Held{Ours: v[0] == 1, Removed: v[1] == 1, Left: v[2], Lost: v[3]}, nil
}

// Entries reads n entries of a shard's outbox, beginning with entry number from.
func (o Outbox) Entries(ctx context.Context, shard, from, n int) ([]string, error) {
	list, err := o.Wire.Redis.LRange(ctx, o.Wire.Space.Ended(shard), int64(from), int64(from+n-1)).Result()
	return list, o.Wire.Wrapped("endings", err)
}

// shedStep bounds one call of shed.lua.
const shedStep = 10_000

// Shed drops up to n of the oldest entries of a shard, and counts them as lost.
func (o Outbox) Shed(ctx context.Context, shard, n int) (shed int, err error) {
	names := []string{o.Wire.Space.Ended(shard), o.Wire.Space.History(shard)}
	for shed < n {
		step := min(n-shed, shedStep)
		dropped, err := o.Wire.Int(ctx, shedScript, names, []any{step})
		if err != nil {
			return shed, err
		}

		shed += dropped
		if dropped < step {
			break
		}
	}

	return shed, nil
}

// Memory returns how many bytes the Redis of a shard uses, and its maxmemory; 0 = unlimited.
func (o Outbox) Memory(ctx context.Context, shard int) (used, most int64, err error) {
	c, err := o.Wire.HolderOf(ctx, o.Wire.Space.Ended(shard))
	if err != nil {
		return 0, 0, o.Wire.Fail("info", err)
	}

	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return 0, 0, o.Wire.Fail("info", err)
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

// Backlog returns how many entries of a shard are not confirmed, the oldest of them ("" if
// there are none), and how many were ever dropped because of the bound.
func (o Outbox) Backlog(ctx context.Context, shard int) (left int64, oldest string, lost int64, err error) {
	list, info := o.Wire.Space.Ended(shard), o.Wire.Space.History(shard)
	p := o.Wire.Redis.Pipeline()
	n, first, dropped := p.LLen(ctx, list), p.LIndex(ctx, list, 0), p.HGet(ctx, info, "lost")
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, "", 0, o.Wire.Fail("backlog", err)
	}

	lost, _ = dropped.Int64()
	return n.Val(), first.Val(), lost, nil
}

// Now returns the time of Redis's clock.
func (o Outbox) Now(ctx context.Context) (time.Time, error) { return o.Wire.Now(ctx) }

// Lengths returns how many entries of each shard are not confirmed.
func (o Outbox) Lengths(ctx context.Context) ([]int64, error) {
	p := o.Wire.Redis.Pipeline()
	lens := make([]*redis.IntCmd, o.Wire.Space.Places())
	for shard := range lens {
		lens[shard] = p.LLen(ctx, o.Wire.Space.Ended(shard))
	}

	if _, err := p.Exec(ctx); err != nil {
		return nil, o.Wire.Fail("backlog", err)
	}

	out := make([]int64, len(lens))
	for i, n := range lens {
		out[i] = n.Val()
	}

	return out, nil
}

// Length returns how many entries of all shards are not confirmed.
func (o Outbox) Length(ctx context.Context) (n int64, err error) {
	all, err := o.Lengths(ctx)
	for _, some := range all {
		n += some
	}

	return n, err
}
