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

// mutation is one wrong line in a script, or several, parted by "¦", where another would
// make up for the first.
type mutation struct {
	name, old, new string
	kind           kind // of the world that finds it; "" = onePrefix
}

// cable stands between the store and Redis: it loses requests and replies, and
// changes a line of a script that passes.
type cable struct {
	mutation mutation

	mu        sync.Mutex
	next      fate
	skip      int      // how many scripts arrive before the one that next is about
	ran       []string // the first keys of the scripts that Redis has carried out since
	changed   bool     // the line was found
	amid      func()   // what happens between two scripts of a call
	after     int      // behind how many of them
	announces bool     // what is to be lost may be the announcement of shards
}

// interrupt has something happen behind so many of the next scripts, between this and
// the next call of lose.
func (w *cable) interrupt(after int, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.amid, w.after = do, after
}

// interruption takes what is to happen now; nil = nothing is.
func (w *cable) interruption() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.amid == nil {
		return nil
	}
	if w.after > 0 {
		w.after--
		return nil
	}
	do, next, skip, ran := w.amid, w.next, w.skip, w.ran
	w.amid = nil
	return func() {
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.next, w.skip, w.ran = next, skip, ran
	}
}

// lose decides about the next script.
func (w *cable) lose(f fate) { w.loseAfter(0, f) }

// loseAfter decides about the script that comes after n others.
func (w *cable) loseAfter(n int, f fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.skip, w.ran, w.amid = f, n, nil, nil
}

// lost says what is still to be lost, and which script was the last that Redis has
// carried out, by its first key.
func (w *cable) lost() (left fate, last string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ran) > 0 {
		last = w.ran[len(w.ran)-1]
	}
	return w.next, last
}

// count is how many scripts Redis has carried out since.
func (w *cable) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ran)
}

// hold is what is still to be lost, and after how many scripts.
func (w *cable) hold() (fate, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.skip
}

// sent takes what becomes of a script.
func (w *cable) sent() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.skip > 0 {
		return arrives
	}
	return w.next
}

// done takes a script that Redis has carried out.
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

// unknown is Redis's answer to a digest that it does not know: it makes the store
// send the text.
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
		if do := w.interruption(); do != nil {
			do()
		}
		if !w.announces && firstKey(args) == space.Meta() {
			return next(ctx, cmd) // made once more amid a call, since Redis has forgotten it
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

// firstKey is that of a script's call.
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

// unchanged marks the context of what is not the store's.
type unchanged struct{}

// fateOf marks the context of a call that has a fate of its own.
type fateOf struct{}

func fateIn(ctx context.Context) fate {
	f, _ := ctx.Value(fateOf{}).(*fate)
	return *f
}
