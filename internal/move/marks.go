package move

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/wire"
)

//go:embed lua/marks.lua
var marksSource string

var marksScript = wire.NewScript("marks", marksSource, false)

// crossedFor is how long a side keeps the keys of notices that have moved away. An instance that was
// paused may receive the expired event of their timers that late.
const crossedFor = time.Hour

// mark records in a shard that notices have moved to the other side of the migration. This side then refuses calls on
// them. Notices that have a record on this side are skipped.
//
// at is the role of this side as the caller knows it. If another mover has changed the role, mark writes nothing and
// the error wraps ErrUnavailable.
func (s Redis) mark(ctx context.Context, at layout.Side, shard int, ks []string) error {
	return s.marks(ctx, at, shard, "+", ks)
}

// unmark removes the marks of notices. It returns the same error as mark.
func (s Redis) unmark(ctx context.Context, at layout.Side, shard int, ks []string) error {
	return s.marks(ctx, at, shard, "-", ks)
}

func (s Redis) marks(ctx context.Context, at layout.Side, shard int, op string, ks []string) error {
	if len(ks) == 0 {
		return nil
	}

	args := []any{op}
	for _, k := range ks {
		args = append(args, k)
	}
	err := s.Knowing(ctx, s.Space().Base(shard), func(v *layout.View) *redis.Cmd {
		switch {
		case v.Side.Epoch > at.Epoch && v.Side.Sorts():
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(layout.ErrOvertaken)
			return cmd
		case v.Side.Sorts() != at.Sorts(), at.Sorts() && v.Side != at:
			return layout.Outdated(ctx)
		}

		names := []string{s.Space().Elsewhere(shard)}
		if op == "+" {
			for _, p := range v.CoveringAny(ks) {
				names = append(names, s.Space().Records(keys.Partition{Prefix: p, Shard: shard}))
			}
		}
		return s.Send(ctx, v, marksScript, names, args)
	}).Err()
	return s.Wire().Wrapped(marksScript.Op, err)
}

// elsewhere reads a page of the marks of a shard. The value of a mark is the state in which its
// notice left: its score in the shadow, "dead" or "settled". The value is "?" if it is unknown.
func (s Redis) elsewhere(ctx context.Context, shard int, cursor uint64, n int64) (was map[string]string, next uint64, err error) {
	pairs, next, err := s.Wire().Redis.HScan(ctx, s.Space().Elsewhere(shard), cursor, "", n).Result()
	if err != nil {
		return nil, 0, s.Wire().Fail("elsewhere", err)
	}

	was = make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		was[pairs[i]] = pairs[i+1]
	}
	return was, next, nil
}

// crossed stores, for crossedFor, the keys of notices that have moved to the other side. Package adopt ignores expired
// events of stored keys: otherwise it would take their timers for ones that a client has set.
func (s Redis) crossed(ctx context.Context, shard int, ks []string) error {
	if len(ks) == 0 {
		return nil
	}

	name, members := s.Space().Crossed(shard), make([]any, len(ks))
	for i := range ks {
		members[i] = ks[i]
	}
	_, err := s.Wire().Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, name, members...)
		pipe.PExpire(ctx, name, crossedFor)
		return nil
	})
	return s.Wire().Wrapped("cross", err)
}

// uncross deletes the keys that crossed has stored, before this side accepts calls again.
func (s Redis) uncross(ctx context.Context, shard int) error {
	return s.Wire().Wrapped("cross", s.Wire().Redis.Unlink(ctx, s.Space().Crossed(shard)).Err())
}
