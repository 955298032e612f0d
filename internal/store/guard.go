package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// tries is how often a script is sent that is refused by the guard: other
// prefixes may become known while this instance learns of some.
const tries = 5

// Guarded implements [wire.Guard]: it learns the layout first if it is not known, or not
// what the script found.
func (s *Store) Guarded(ctx context.Context, sc *wire.Script, keys []string, args []any) *redis.Cmd {
	return s.knowing(ctx, wire.Base(keys[0]), func(v *view) *redis.Cmd { return s.send(ctx, v, sc, keys, args) })
}

// knowing calls do with what is known of the layout, again if the guard says
// that it has changed; base is the shard's.
func (s *Store) knowing(ctx context.Context, base string, do func(v *view) *redis.Cmd) *redis.Cmd {
	for try := 1; ; try++ {
		v := s.view.Load()
		if v != nil {
			cmd := do(v)
			again := wire.Refused(cmd.Err()) || errors.Is(cmd.Err(), wire.ErrMoved) && !s.still(ctx, base, v)
			if try == tries || !again {
				return cmd
			}
		}
		if err := s.learn(ctx, base, v); err != nil {
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(err)
			return cmd
		}
	}
}

// send sends a guarded script in the form that fits what is known.
func (s *Store) send(ctx context.Context, v *view, sc *wire.Script, keys []string, args []any) *redis.Cmd {
	keys = s.ready(v, sc, keys, args)
	return s.w.Send(ctx, sc, v.forms[sc], keys, args)
}

// ready completes what a guarded script takes.
func (s *Store) ready(v *view, sc *wire.Script, keys []string, args []any) []string {
	if at := sc.Outbox(); at > 0 {
		args[at] = s.handover(v, keys[0])
	}
	return append(keys[:len(keys):len(keys)], wire.Base(keys[0])+"layout")
}

// keysOf are the keys that most scripts begin with.
func (s *Store) keysOf(p keys.Partition) []string {
	return []string{s.space.Shadow(p), s.space.Records(p), s.space.Dead(p), s.space.Settled(p)}
}

func wakeInfo(p keys.Partition) string { return strconv.Itoa(p.Shard) + " " + p.Prefix }

func micros(v any) time.Time {
	us, _ := v.(int64)
	return time.UnixMicro(us).UTC()
}
