package move

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/marks.lua
var marksSource string

var marksScript = wire.NewScript("marks", marksSource, false)

// crossedFor is how long a side keeps the keys of notices that have moved away. An instance that was
// paused may receive the expired event of their timers that late.
const crossedFor = time.Hour

// mark records in a shard that notices, whose keys are ks, are stored in the other Redis of a migration. This Redis
// then usually refuses calls that create or change them. at is the migration state as the caller has read it. If the
// migration has changed its state since, mark writes nothing and returns an error.
func (s Redis) mark(ctx context.Context, at store.Side, shard int, ks []string) error {
	return s.marks(ctx, at, shard, "+", ks)
}

// unmark removes the marks of notices. It returns the same error as mark.
func (s Redis) unmark(ctx context.Context, at store.Side, shard int, ks []string) error {
	return s.marks(ctx, at, shard, "-", ks)
}

func (s Redis) marks(ctx context.Context, at store.Side, shard int, op string, ks []string) error {
	if len(ks) == 0 {
		return nil
	}

	args := append([]any{op}, wire.Texts(ks)...)
	err := s.Layout.Call(ctx, marksScript, s.Space().Base(shard), func(v *store.LayoutView) ([]string, []any, error) {
		switch {
		case v.Side.Epoch > at.Epoch && v.Side.Sorts():
			return nil, nil, store.ErrOvertaken
		case v.Side.Sorts() != at.Sorts(), at.Sorts() && v.Side != at:
			return nil, nil, store.ErrOutdated
		}

		names := []string{s.Space().Elsewhere(shard)}
		if op == "+" {
			for _, p := range v.CoveringAny(ks) {
				names = append(names, s.Space().Records(keys.Partition{Prefix: p, Shard: shard}))
			}
		}

		return names, args, nil
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

	name, members := s.Space().Crossed(shard), wire.Texts(ks)
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
