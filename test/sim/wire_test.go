package sim

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// fate is what becomes of a call.
type fate int

const (
	arrives     fate = iota
	requestLost      // it never reaches Redis
	replyLost        // Redis carries it out, and nobody hears of it
)

func (f fate) String() string {
	return [...]string{"", ", but the request is lost", ", but the reply is lost"}[f]
}

// mutation is one wrong line in a script.
type mutation struct {
	name, old, new string
}

// wire stands between the store and Redis: it loses requests and replies, and
// changes a line of a script that passes.
type wire struct {
	mutation mutation

	mu      sync.Mutex
	next    fate
	changed bool // the line was found
}

// lose decides about the next script.
func (w *wire) lose(f fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = f
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// unknown is Redis's answer to a digest that it does not know: it makes the store
// send the text.
type unknown struct{}

func (unknown) Error() string { return "NOSCRIPT no matching script" }
func (unknown) RedisError()   {}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		name := cmd.Name()
		if name != "evalsha" && name != "eval" {
			return next(ctx, cmd)
		}
		if w.mutation.old != "" && ctx.Value(unchanged{}) == nil {
			if name == "evalsha" {
				cmd.SetErr(unknown{})
				return unknown{}
			}
			text, _ := args[1].(string)
			if strings.Contains(text, w.mutation.old) {
				args[1] = strings.Replace(text, w.mutation.old, w.mutation.new, 1)
				w.mu.Lock()
				w.changed = true
				w.mu.Unlock()
			}
		}
		w.mu.Lock()
		f := w.next
		w.mu.Unlock()
		if own, ok := ctx.Value(fateOf{}).(*fate); ok {
			f = *own
		}
		if f == requestLost {
			w.lose(arrives)
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		err := next(ctx, cmd)
		if f == replyLost && !redis.HasErrorPrefix(err, "NOSCRIPT") && !redis.HasErrorPrefix(err, "LAYOUT") {
			w.lose(arrives)
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}

// unchanged marks the context of what is not the store's.
type unchanged struct{}

// fateOf marks the context of a call that has a fate of its own.
type fateOf struct{}

func fateIn(ctx context.Context) fate {
	f, _ := ctx.Value(fateOf{}).(*fate)
	return *f
}
