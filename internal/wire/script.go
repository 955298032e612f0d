package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Script is one Lua file, which Redis runs atomically.
type Script struct {
	Op      string // names the script in metrics and errors
	src     string
	mayGrow bool
	guarded bool // refused if the layout has changed: see package store
	bare    Forms
	waits   waits
	// outbox is the index of the argument that handover.lua needs. It is 0 if the script finalizes no
	// notice.
	outbox int
	// named says which arguments are keys of notices that the script creates or changes, as the
	// bounds of a Lua loop: first, last, step. It is empty if there are none.
	named string
	// absent is the name of the shard's hash that lists the keys on the other side of a migration.
	// The script is refused if it contains one of the named keys.
	absent string
}

// waits is the confirmation, by replicas or the disk, that a script waits for.
type waits int

const (
	waitsForNone waits = iota
	waitsAsCall
	waitsAsSettle
)

// NewScript creates a script from the Lua code src, and registers it under the name op, which metrics and errors show.
// Scripts must be package variables, because all must be registered before the first Client is created. mayGrow is true
// if the script may need more memory, and so may fail when Redis has reached its memory limit. Unless [Script.Anywhere]
// is called, the script writes nothing after a change of the data layout in Redis.
func NewScript(op, src string, mayGrow bool) *Script {
	sc := &Script{Op: op, src: src, mayGrow: mayGrow, guarded: true, bare: NewForms(op, src)}
	scripts = append(scripts, sc)
	return sc
}

// Names sets where the arguments of a script contain the keys of notices that it creates or
// changes, and which of the shard's hashes must not contain them during a migration.
func (sc *Script) Names(where, absent string) *Script {
	sc.named, sc.absent = where, absent
	return sc
}

// Named returns the arguments of Names.
func (sc *Script) Named() (where, absent string) { return sc.named, sc.absent }

// Anywhere sends a script without the guard, because it only reads, or does not concern notices.
func (sc *Script) Anywhere() *Script {
	sc.guarded = false
	return sc
}

// Confirmed makes each call of a script wait for the confirmation of [Options].Confirm.
func (sc *Script) Confirmed() *Script {
	sc.waits = waitsAsCall
	return sc
}

// ConfirmedSettle makes each call of a script wait for the confirmation of [Options].ConfirmSettle.
func (sc *Script) ConfirmedSettle() *Script {
	sc.waits = waitsAsSettle
	return sc
}

// Ends marks a script that finalizes notices. at is the index of the argument for the outbox, which the script's guard sets.
func (sc *Script) Ends(at int) *Script {
	sc.outbox = at
	return sc
}

// Outbox returns the index that Ends was given. It is 0 if the script finalizes no notice.
func (sc *Script) Outbox() int { return sc.outbox }

// Source returns the text of the script without the guard.
func (sc *Script) Source() string { return sc.src }

// Guarded lists all scripts that are sent behind a guard.
func Guarded() []*Script {
	var list []*Script
	for _, sc := range scripts {
		if sc.guarded {
			list = append(list, sc)
		}
	}

	return list
}

// scripts are all scripts that NewScript has created.
var scripts []*Script

// Prelude prepares code that is added before scripts. It removes the comments, which would be sent
// with each script, and joins the lines, so that errors have the script's own line numbers.
func Prelude(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "--") {
			b.WriteString(line + " ")
		}
	}

	return b.String()
}

// form is a script as Redis knows it.
type form struct {
	src    string
	digest *digest
}

// digest is the argument of EVALSHA. It names its script, so that round trips are counted by
// script without a map from digests, which would grow with each layout.
type digest struct {
	op  string
	sha []byte
}

// MarshalBinary is what Redis gets.
func (d *digest) MarshalBinary() ([]byte, error) { return d.sha, nil }

// String is what errors and logs show.
func (d *digest) String() string { return string(d.sha) }

func newForm(op, src string) form {
	return form{src, &digest{op, []byte(redis.NewScript(src).Hash())}}
}

// unknown reports whether a server does not know a script's digest.
func unknown(cmd *redis.Cmd) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") }

// withText returns a call of write again, with the script's text in place of its digest.
func (f form) withText(ctx context.Context, call Once) Once {
	all := call.Args()
	all[0], all[1] = "eval", f.src // counted as eval
	return NewWrite(ctx, 3, all...)
}

// write returns the script's call by its digest.
func (f form) write(ctx context.Context, keys []string, args []any) Once {
	all := make([]any, 3+len(keys)+len(args))
	all[0], all[1], all[2] = "evalsha", f.digest, len(keys)
	for i := range keys {
		all[3+i] = &keys[i]
	}

	copy(all[3+len(keys):], args)
	return NewWrite(ctx, 3, all...)
}

// probeScript changes nothing, but Redis refuses it as it refuses writes that need memory: on a replica, with too few
// replicas, if it cannot write to its disk, and after these checks at maxmemory.
const probeScript = "#!lua\nreturn 1"

// Probe returns an error if Redis does not answer, refuses writes, or refuses the user's login. The error is ErrFull if
// Redis refuses only writes that need memory. A server that does not know such a script, or a user who may not send it,
// has answered.
func Probe(ctx context.Context, c redis.Cmdable) error {
	_, err := c.Eval(ctx, probeScript, nil).Int()
	err = Wrap("probe", err)
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLogin) || errors.Is(err, ErrFull) {
		return err
	}

	return nil
}

// runsFull is the first line of a script that Redis 7 runs also when maxmemory is reached.
const runsFull = "#!lua flags=allow-oom\n"

// Forms is a script in two forms: unchanged, and with the header that lets Redis 7 run it when
// maxmemory is reached.
type Forms struct{ plain, always form }

// NewForms makes the forms of a text. op names the script.
func NewForms(op, src string) Forms {
	return Forms{newForm(op, src), newForm(op, runsFull+src)}
}

// fit is the form for the server that answers.
func (w *Client) fit(f Forms, mayGrow bool) form {
	if !mayGrow && w.allowOOM.Load() {
		return f.always
	}
	return f.plain
}

// TextFor is a script's text as the server that answers takes it although it is full.
func (w *Client) TextFor(src string) string { return w.fit(NewForms("", src), false).src }

// Run sends an unguarded script whose reply is a list. The reply is there also where the error is ErrUnconfirmed.
func (w *Client) Run(ctx context.Context, sc *Script, keys []string, args []any) ([]any, error) {
	return w.List(sc.Op, w.Do(ctx, sc, keys, args))
}

// List is a reply that is a list; it is there also where it is not confirmed.
func (w *Client) List(op string, cmd *redis.Cmd) ([]any, error) {
	v, err := cmd.Slice()
	switch {
	case errors.Is(err, ErrUnconfirmed):
		v, _ = cmd.Val().([]any)
		return v, Wrap(op, err)
	case err != nil:
		return nil, w.Fail(op, err)
	}

	return v, nil
}

// Parts is Run of a reply that has so many parts at least.
func (w *Client) Parts(ctx context.Context, sc *Script, least int, keys []string, args []any) ([]any, error) {
	return w.PartsOf(sc.Op, least, w.Do(ctx, sc, keys, args))
}

// PartsOf is List of a reply that has so many parts at least.
func (w *Client) PartsOf(op string, least int, cmd *redis.Cmd) ([]any, error) {
	v, err := w.List(op, cmd)
	if err == nil && len(v) < least {
		err = w.Fail(op, fmt.Errorf("a reply of %d parts", len(v)))
	}

	return v, err
}

// Int runs a script that answers with a number.
func (w *Client) Int(ctx context.Context, sc *Script, ks []string, args []any) (int, error) {
	n, err := w.Do(ctx, sc, ks, args).Int()
	if err != nil {
		return 0, w.Fail(sc.Op, err)
	}

	return n, nil
}

// Do sends an unguarded script, and returns its reply. Package store sends the guarded ones.
func (w *Client) Do(ctx context.Context, sc *Script, keys []string, args []any) *redis.Cmd {
	if sc.guarded {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(fmt.Errorf("%s: %w", sc.Op, errGuarded))
		return cmd
	}

	return w.Send(ctx, sc, sc.bare, keys, args)
}

// errGuarded means that a script was sent without its guard, which is a mistake in the caller.
var errGuarded = errors.New("the script needs a guard")

// Send sends a script in forms that its guard has made: by its digest, or, to a server that does not
// know it yet, by its text. It waits for the confirmation that the script needs.
func (w *Client) Send(ctx context.Context, sc *Script, forms Forms, keys []string, args []any) *redis.Cmd {
	f, send := w.fit(forms, sc.mayGrow), w.sender(sc)
	call := f.write(ctx, keys, args)
	cmd := send(ctx, call)
	if unknown(cmd) {
		cmd = send(ctx, f.withText(ctx, call))
	}

	return cmd
}

// Call is one call of a script among several.
type Call struct {
	Keys []string
	Args []any
}

// SendAll sends calls of one script to the node of the first one's key, in one round trip. Each has
// its own error; NOSCRIPT means that the node does not know the script's digest.
func (w *Client) SendAll(ctx context.Context, sc *Script, f Forms, calls []Call) []*redis.Cmd {
	list, form := make([]Once, len(calls)), w.fit(f, sc.mayGrow)
	for i, c := range calls {
		list[i] = form.write(ctx, c.Keys, c.Args)
	}

	if c := w.confirmer(sc); c != nil {
		return c.sendAll(ctx, list)
	}

	sendAll(ctx, w.Redis, list)
	out := make([]*redis.Cmd, len(list))
	for i := range list {
		out[i] = list[i].Cmd
	}

	return out
}

// RunAll sends calls of an unguarded script to the node of the first one's key, in one round trip, or in one more for
// each call if the node does not know the script. Each has its own error.
func (w *Client) RunAll(ctx context.Context, sc *Script, calls []Call) []*redis.Cmd {
	if len(calls) == 0 {
		return nil
	}

	cmds := w.SendAll(ctx, sc, sc.bare, calls)
	for i, cmd := range cmds {
		if unknown(cmd) {
			cmds[i] = w.Do(ctx, sc, calls[i].Keys, calls[i].Args)
		}
	}

	return cmds
}

// SendTo sends an unguarded script over a client that need not be a Client's, and waits for
// no confirmation.
func SendTo(ctx context.Context, c Commander, sc *Script, keys []string, args []any) *redis.Cmd {
	return (&Client{Redis: c}).Send(ctx, sc, sc.bare, keys, args)
}

// sender returns the function that sends calls of a script: at once, or followed by a wait.
func (w *Client) sender(sc *Script) func(ctx context.Context, call Once) *redis.Cmd {
	if c := w.confirmer(sc); c != nil {
		return c.send
	}
	return direct{w.Redis}.send
}

// confirmer is what makes a script's calls wait; nil = they do not.
func (w *Client) confirmer(sc *Script) *confirmer {
	switch sc.waits {
	case waitsAsCall:
		return w.calls
	case waitsAsSettle:
		return w.settles
	}
	return nil
}

// Refused reports whether the guard has refused a script.
func Refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "LAYOUT ")
}

// Micros reads a time that a script has returned in µs.
func Micros(v any) time.Time {
	us, _ := v.(int64)
	return time.UnixMicro(us).UTC()
}

// Eval puts a script that is sent by its text into a pipeline.
func Eval(ctx context.Context, p redis.Pipeliner, src string, keys []string, args ...any) *redis.Cmd {
	return p.Eval(ctx, src, keys, args...)
}
