package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// script is one Lua file. What ends a notice's way frees memory in the end and is
// done although maxmemory is reached; only new notices must be refused.
type script struct {
	op      string
	src     string
	mayGrow bool
	guarded bool // refused where the layout is not what is known: see layout.go
	bare    forms
	// handover is the place among the arguments of what handover.lua takes; 0 = the
	// script ends nothing.
	handover int
	// named says where among the arguments the keys are of the notices that it makes or
	// changes: the first and the next but how many, as Lua has it; "" = it does neither.
	named string
}

func newScript(op, src string, mayGrow bool) *script {
	sc := &script{op: op, src: src, mayGrow: mayGrow, guarded: true, bare: newForms(src)}
	scripts = append(scripts, sc)
	return sc
}

// names says where the keys are of what a script makes or changes.
func (sc *script) names(where string) *script {
	sc.named = where
	return sc
}

// anywhere lets a script go without the guard that only looks, or does not
// concern notices.
func (sc *script) anywhere() *script {
	sc.guarded = false
	return sc
}

// scripts are all that newScript made.
var scripts []*script

// form is a script as Redis knows it.
type form struct{ src, sha string }

func newForm(src string) form { return form{src, redis.NewScript(src).Hash()} }

// run runs the script by its digest, or, on a server that does not know it yet,
// by its text.
func (f form) run(ctx context.Context, through func(context.Context, once) *redis.Cmd, keys []string, args []any) *redis.Cmd {
	w := f.write(ctx, keys, args)
	cmd := through(ctx, w)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		all := w.Args()
		all[0], all[1] = "eval", f.src
		cmd = through(ctx, newWrite(ctx, 3, all...))
	}
	return cmd
}

// write is the script's call by its digest.
func (f form) write(ctx context.Context, keys []string, args []any) once {
	all := make([]any, 3+len(keys)+len(args))
	all[0], all[1], all[2] = "evalsha", f.sha, len(keys)
	for i := range keys {
		all[3+i] = &keys[i]
	}
	copy(all[3+len(keys):], args)
	return newWrite(ctx, 3, all...)
}

// forms are a script as it is, and with the header by which Redis 7 lets it run
// although maxmemory is reached.
type forms struct{ plain, always form }

func newForms(src string) forms { return forms{newForm(src), newForm("#!lua flags=allow-oom\n" + src)} }

// fit is the form for the server that answers.
func (f forms) fit(s *Store, sc *script) form {
	if !sc.mayGrow && s.allowOOM.Load() {
		return f.always
	}
	return f.plain
}

// run sends a script whose reply is a list. The first key of a guarded one is the
// shard's.
func (s *Store) run(ctx context.Context, sc *script, keys []string, args []any) ([]any, error) {
	return s.list(sc.op, s.answer(ctx, sc, keys, args))
}

// list is a reply that is a list; it is there also where it is not confirmed.
func (s *Store) list(op string, cmd *redis.Cmd) ([]any, error) {
	v, err := cmd.Slice()
	switch {
	case errors.Is(err, ErrUnconfirmed):
		v, _ = cmd.Val().([]any)
		return v, Wrap(op, err)
	case err != nil:
		return nil, s.fail(op, err)
	}
	return v, nil
}

// parts is the same of a reply that has so many parts at least.
func (s *Store) parts(ctx context.Context, sc *script, least int, keys []string, args []any) ([]any, error) {
	v, err := s.run(ctx, sc, keys, args)
	if err == nil && len(v) < least {
		err = s.fail(sc.op, fmt.Errorf("a reply of %d parts", len(v)))
	}
	return v, err
}

// tries is how often a script is sent that is refused by the guard: other
// prefixes may become known while this instance learns of some.
const tries = 5

// answer sends a script, and learns the layout first if it is not known, or not
// what the script found.
func (s *Store) answer(ctx context.Context, sc *script, keys []string, args []any) *redis.Cmd {
	if !sc.guarded {
		return sc.bare.fit(s, sc).run(ctx, s.through(sc), keys, args)
	}
	return s.knowing(ctx, base(keys[0]), func(v *view) *redis.Cmd { return s.send(ctx, v, sc, keys, args) })
}

// knowing calls do with what is known of the layout, again if the guard says
// that it has changed; base is the shard's.
func (s *Store) knowing(ctx context.Context, base string, do func(v *view) *redis.Cmd) *redis.Cmd {
	for try := 1; ; try++ {
		v := s.view.Load()
		if v != nil {
			cmd := do(v)
			again := refused(cmd.Err()) || errors.Is(cmd.Err(), ErrMoved) && !s.still(ctx, base, v)
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

// base begins the names of all keys of the shard that key is one of.
func base(key string) string { return key[:strings.Index(key, "}:")+2] }

// send sends a guarded script in the form that fits what is known.
func (s *Store) send(ctx context.Context, v *view, sc *script, keys []string, args []any) *redis.Cmd {
	keys = s.ready(v, sc, keys, args)
	return v.forms[sc].fit(s, sc).run(ctx, s.through(sc), keys, args)
}

// ready completes what a guarded script takes.
func (s *Store) ready(v *view, sc *script, keys []string, args []any) []string {
	if sc.handover > 0 {
		args[sc.handover] = s.handover(v, keys[0])
	}
	return append(keys[:len(keys):len(keys)], base(keys[0])+"layout")
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
