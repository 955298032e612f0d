package store

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

// Do sends a guarded script. The first key is the shard's. It reads the layout first if it is unknown or has changed.
func (s *Layout) Do(ctx context.Context, sc *wire.Script, ks []string, args []any) *redis.Cmd {
	return s.Call(ctx, sc, string(keys.ShardOf(ks[0])), func(*LayoutView) ([]string, []any, error) { return ks, args, nil })
}

// Parts is [Layout.Do] for a script whose reply has at least n parts. With [wire.ErrUnconfirmed] it returns the reply, too.
func (s *Layout) Parts(ctx context.Context, sc *wire.Script, n int, ks []string, args []any) ([]any, error) {
	return s.w.PartsOf(sc.Op, n, s.Do(ctx, sc, ks, args))
}

// Taking is a call of a script that takes notices from under a prefix, to deliver or to move them.
type Taking struct {
	Prefix string
	Keys   []string
	Args   []any
}

// Take is [Layout.Parts] for such a script. It returns [ErrForWorkers] if only workers may take the notices.
func (s *Layout) Take(ctx context.Context, sc *wire.Script, n int, t Taking) ([]any, error) {
	cmd := s.Call(ctx, sc, string(keys.ShardOf(t.Keys[0])), func(v *LayoutView) ([]string, []any, error) {
		if v.foreign[t.Prefix] {
			return nil, nil, ErrForWorkers
		}
		return t.Keys, t.Args, nil
	})
	return s.w.PartsOf(sc.Op, n, cmd)
}

// Prepare returns the keys and arguments of a script for the known layout. Nothing is sent if it
// returns an error.
type Prepare func(v *LayoutView) (ks []string, args []any, err error)

// Call sends a guarded script. If the guard refuses it, or prepare returns [ErrOutdated], Call reads
// the layout and tries again. base is the key prefix of the shard.
func (s *Layout) Call(ctx context.Context, sc *wire.Script, base string, prepare Prepare) *redis.Cmd {
	for try := 1; ; try++ {
		v := s.view.Load()
		if v != nil {
			var cmd *redis.Cmd
			if ks, args, err := prepare(v); err != nil {
				cmd = unsent(ctx, err)
			} else {
				cmd = s.w.Send(ctx, sc, v.forms[sc], s.ready(v, sc, ks, args), args)
			}

			again := wire.Refused(cmd.Err()) || errors.Is(cmd.Err(), wire.ErrMoved) && !s.still(ctx, base, v)
			if try == tries || !again {
				return cmd
			}
		}

		if err := s.learn(ctx, base, v); err != nil {
			return unsent(ctx, err)
		}
	}
}

// unsent returns the command of a call that is not sent.
func unsent(ctx context.Context, err error) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(err)
	return cmd
}

// ready adds the keys and arguments of the guard to those of a script.
func (s *Layout) ready(v *LayoutView, sc *wire.Script, ks []string, args []any) []string {
	if at := sc.Outbox(); at > 0 {
		args[at] = s.handover(v, ks[0])
	}
	return append(ks[:len(ks):len(ks)], keys.ShardOf(ks[0]).Layout())
}

// sendAll sends several calls of a script to one node, in one round trip. The caller must send a call
// again if the guard refuses it or the node does not know its script.
func (s *Layout) sendAll(ctx context.Context, v *LayoutView, sc *wire.Script, calls []wire.Call) []*redis.Cmd {
	for i := range calls {
		calls[i].Keys = s.ready(v, sc, calls[i].Keys, calls[i].Args)
	}
	return s.w.SendAll(ctx, sc, v.forms[sc], calls)
}
