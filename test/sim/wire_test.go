package sim

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// fate is the outcome of a call: it arrives, or its request or reply is lost.
type fate int

const (
	arrives     fate = iota
	requestLost      // the call never reaches Redis
	replyLost        // Redis executes the call, and the caller gets no reply
)

func (f fate) String() string {
	return [...]string{"", ", but the request is lost", ", but the reply is lost"}[f]
}

// mutation is one wrong line in a script. Where another line would correct the first, it is
// several lines, separated by "¦".
type mutation struct {
	name, old, new string
	kind           kind // of the world that finds it; "" = onePrefix
}

// cable is a hook between the store and Redis. It loses requests and replies, and inserts
// the mutation into a script.
type cable struct {
	mutation mutation

	mu        sync.Mutex
	next      fate
	skip      int      // number of scripts that arrive before next applies
	ran       []string // the first keys of the scripts that Redis has executed since
	changed   bool     // a script contained the line of the mutation
	between   func()   // runs between two scripts of a call
	after     int      // number of scripts before between
	announces bool     // next may apply to the announcement of shards
}

// interrupt runs do once, after a number of scripts, if they come before the next call of
// lose.
func (w *cable) interrupt(after int, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.between, w.after = do, after
}

// interruption returns the function to run before the next script, or nil.
func (w *cable) interruption() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.between == nil {
		return nil
	}
	if w.after > 0 {
		w.after--
		return nil
	}
	do, next, skip, ran := w.between, w.next, w.skip, w.ran
	w.between = nil
	return func() {
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.next, w.skip, w.ran = next, skip, ran
	}
}

// lose sets the fate of the next script.
func (w *cable) lose(f fate) { w.loseAfter(0, f) }

// loseAfter sets the fate of the script after the next n.
func (w *cable) loseAfter(n int, f fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.skip, w.ran, w.between = f, n, nil, nil
}

// lost returns the fate that no script has had yet, and the first key of the last script
// that Redis has executed.
func (w *cable) lost() (left fate, last string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ran) > 0 {
		last = w.ran[len(w.ran)-1]
	}
	return w.next, last
}

// count returns the number of scripts that Redis has executed since the last lose.
func (w *cable) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ran)
}

// hold returns the fate that no script has had yet, and the number of scripts before it.
func (w *cable) hold() (fate, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.skip
}

// sent returns the fate of the script that is being sent.
func (w *cable) sent() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.skip > 0 {
		return arrives
	}
	return w.next
}

// done counts a script that Redis has executed.
func (w *cable) done(f fate, first string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran = append(w.ran, first); w.skip > 0 {
		w.skip--
	}
	if f != arrives {
		w.next = arrives
	}
}

func (w *cable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *cable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// unknown is Redis's error for an unknown digest. It makes the store send the script's text.
type unknown struct{}

func (unknown) Error() string { return "NOSCRIPT no matching script" }
func (unknown) RedisError()   {}

func (w *cable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
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
			olds, news := strings.Split(w.mutation.old, "¦"), strings.Split(w.mutation.new, "¦")
			if strings.Contains(text, olds[0]) {
				for i, old := range olds {
					text = strings.Replace(text, old, news[i], 1)
				}
				args[1] = text
				w.mu.Lock()
				w.changed = true
				w.mu.Unlock()
			}
		}
		if !w.announces && firstKey(args) == space.Meta() {
			// An announcement that a call repeats, because Redis has lost it. The store reads its layout meanwhile, and an
			// interruption that needs the layout would wait for its end.
			return next(ctx, cmd)
		}
		if do := w.interruption(); do != nil {
			do()
		}
		f := w.sent()
		alone, ok := ctx.Value(fateOf{}).(*fate)
		if ok {
			f = *alone
		}
		if f == requestLost {
			w.mu.Lock()
			w.next = arrives
			w.mu.Unlock()
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		err := next(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "LAYOUT") {
			return err
		}
		if !ok {
			w.done(f, firstKey(args))
		}
		if f == replyLost {
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}

// firstKey returns the first key of a script's call.
func firstKey(args []any) string {
	if len(args) > 3 {
		switch k := args[3].(type) {
		case string:
			return k
		case *string:
			return *k
		}
	}
	return ""
}

// unchanged marks the context of a script that the mutation must not change.
type unchanged struct{}

// fateOf is the context key for the fate of a single call.
type fateOf struct{}

func fateIn(ctx context.Context) fate {
	f, _ := ctx.Value(fateOf{}).(*fate)
	return *f
}
