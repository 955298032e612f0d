package vault

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

var (
	//go:embed lua/sealkey.lua
	keySource string
	//go:embed lua/sealforget.lua
	forgetSource string

	keyScript    = wire.NewScript("sealkey", keySource, true).Anywhere()
	forgetScript = wire.NewScript("sealforget", forgetSource, false).Anywhere().Confirmed()
)

// forgotten begins the names of the fields that mark forgotten subjects, and the deleted data keys of such subjects.
const forgotten = "forgotten:"

// ForgottenError means that a subject was forgotten. Its texts do not open any more, and no text is sealed for it.
type ForgottenError struct{ At time.Time }

// Error implements error.
func (e *ForgottenError) Error() string { return "its subject was forgotten on " + notice.Stamp(e.At) }

// ForgottenAt returns when the subject of an error was forgotten. It is zero if err is not a [ForgottenError].
func ForgottenAt(err error) time.Time {
	if e := (*ForgottenError)(nil); errors.As(err, &e) {
		return e.At
	}
	return time.Time{}
}

// field reads a field of a shard's hash; "" = there is none. It returns a ForgottenError if the field is marked.
func (v *Vault) field(ctx context.Context, shard int, name string) (string, error) {
	values, err := v.w.Redis.HMGet(ctx, v.w.Space.Seals(shard), name, forgotten+name).Result()
	if err != nil {
		return "", v.w.Fail("seal", err)
	}

	if mark, ok := values[1].(string); ok {
		ms, _ := strconv.ParseInt(mark, 10, 64) // any mark counts
		return "", &ForgottenError{time.UnixMilli(ms).UTC()}
	}

	value, _ := values[0].(string)
	return value, nil
}

// pairOf are new keys of a subject as the hash has them.
type pairOf struct{ field, id, wrapped string }

// store stores new keys of a subject, and returns the value of its field: another instance may have been first.
func (v *Vault) store(ctx context.Context, shard int, of seal.Subject, p pairOf) (string, error) {
	got, err := v.w.Do(ctx, keyScript, []string{v.w.Space.Seals(shard)}, []any{string(of), p.field, p.id, p.wrapped}).Result()
	if err != nil {
		return "", v.w.Fail(keyScript.Op, err)
	}

	switch x := got.(type) {
	case string:
		return x, nil
	case []any:
		if ms, ok := x[0].(int64); ok {
			return "", &ForgottenError{time.UnixMilli(ms).UTC()}
		}
	}

	return "", wire.BadReply(keyScript.Op, "unexpected answer %T", got)
}

// ForgetSubject deletes the keys of a subject in all shards, and marks it as forgotten. It returns when that was, and the
// number of data keys that it has deleted. With wire.ErrUnconfirmed it has done so in all shards. After another error some
// shards may still have the keys: call again. Each instance may use the keys for [KeyAge] more.
func (v *Vault) ForgetSubject(ctx context.Context, of seal.Subject) (at time.Time, deleted int, err error) {
	var unconfirmed error
	failed := func(err error) bool {
		if errors.Is(err, wire.ErrUnconfirmed) {
			unconfirmed, err = err, nil
		}
		return err != nil
	}

	for shard := range v.w.Space.Places() { // first, so that no shard stores another key
		marked, n, err := v.forget(ctx, shard, of, nil)
		if failed(err) {
			return at, deleted, err
		}

		if deleted += n; marked.After(at) {
			at = marked
		}
	}

	for shard := range v.w.Space.Places() {
		n, err := v.deleteMore(ctx, shard, of)
		if deleted += n; failed(err) {
			return at, deleted, err
		}

		v.Forget(shard)
	}

	return at, deleted, unconfirmed
}

// forget marks a subject in a shard, and deletes its present keys and the data keys with these ids.
func (v *Vault) forget(ctx context.Context, shard int, of seal.Subject, ids []string) (at time.Time, deleted int, err error) {
	args := append([]any{string(of)}, wire.Texts(ids)...)
	got, err := v.w.Parts(ctx, forgetScript, 2, []string{v.w.Space.Seals(shard)}, args)
	if len(got) < 2 {
		return at, 0, err
	}

	ms, _ := got[0].(int64)
	n, _ := got[1].(int64)
	return time.UnixMilli(ms).UTC(), int(n), err
}

// scanned is how many fields one step of deleteMore reads.
const scanned = 1000

// deleteMore deletes data keys of a marked subject that are not in its field.
func (v *Vault) deleteMore(ctx context.Context, shard int, of seal.Subject) (deleted int, unconfirmed error) {
	for cursor := uint64(0); ; {
		pairs, next, err := v.w.Redis.HScan(ctx, v.w.Space.Seals(shard), cursor, "", scanned).Result()
		if err != nil {
			return deleted, v.w.Fail(forgetScript.Op, err)
		}

		var ids []string
		for i := 0; i+1 < len(pairs); i += 2 {
			if seal.IsKeyID(pairs[i]) && strings.HasPrefix(pairs[i+1], string(of)+" ") {
				ids = append(ids, pairs[i])
			}
		}

		if len(ids) > 0 {
			_, n, err := v.forget(ctx, shard, of, ids)
			if deleted += n; errors.Is(err, wire.ErrUnconfirmed) {
				unconfirmed = err
			} else if err != nil {
				return deleted, err
			}
		}

		if cursor = next; cursor == 0 {
			return deleted, unconfirmed
		}
	}
}

// Lift ends the mark of a forgotten subject in all shards, so that new notices of it are sealed with new keys. The deleted keys
// stay deleted. It reports whether the subject was marked, and may be repeated.
func (v *Vault) Lift(ctx context.Context, of seal.Subject) (marked bool, err error) {
	for shard := range v.w.Space.Places() {
		n, err := v.w.Redis.HDel(ctx, v.w.Space.Seals(shard), forgotten+string(of)).Result()
		if err != nil {
			return marked, v.w.Fail("seal", err)
		}

		marked = marked || n > 0
	}

	return marked, nil
}
