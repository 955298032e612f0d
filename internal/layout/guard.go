package layout

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// tries is how often a script that the guard refuses is sent: other instances may register prefixes
// at the same time.
const tries = 5

// Guarded implements [wire.Guard]. It reads the layout first if it is unknown or has changed.
func (s *Layout) Guarded(ctx context.Context, sc *wire.Script, ks []string, args []any) *redis.Cmd {
	return s.Knowing(ctx, string(keys.ShardOf(ks[0])), func(v *View) *redis.Cmd { return s.Send(ctx, v, sc, ks, args) })
}

// Knowing calls do with the known layout, and again with the new one if the guard refuses the
// script. base is the key prefix of the shard.
func (s *Layout) Knowing(ctx context.Context, base string, do func(v *View) *redis.Cmd) *redis.Cmd {
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

// Send sends a guarded script in the form that matches the known layout.
func (s *Layout) Send(ctx context.Context, v *View, sc *wire.Script, ks []string, args []any) *redis.Cmd {
	ks = s.ready(v, sc, ks, args)
	return s.w.Send(ctx, sc, v.forms[sc], ks, args)
}

// ready adds the keys and arguments of the guard to those of a script.
func (s *Layout) ready(v *View, sc *wire.Script, ks []string, args []any) []string {
	if at := sc.Outbox(); at > 0 {
		args[at] = s.handover(v, ks[0])
	}
	return append(ks[:len(ks):len(ks)], keys.ShardOf(ks[0]).Layout())
}

// SendAll is Send for several calls to one node, in one round trip. The caller must send a call
// again if the guard refuses it or the node does not know its script.
func (s *Layout) SendAll(ctx context.Context, v *View, sc *wire.Script, calls []wire.Call) []*redis.Cmd {
	for i := range calls {
		calls[i].Keys = s.ready(v, sc, calls[i].Keys, calls[i].Args)
	}
	return s.w.SendAll(ctx, sc, v.forms[sc], calls)
}
