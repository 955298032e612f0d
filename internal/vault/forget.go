package vault

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"slices"
	"time"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

var (
	//go:embed lua/sealkey.lua
	keySource string

	keyScript = wire.NewScript("sealkey", keySource, true).Anywhere()
)

// forgotten begins the names of the fields that mark forgotten subjects, and the deleted data keys of such subjects.
const forgotten = "forgotten:"

// lifted begins the names of the fields with the time at which a mark was ended, in Unix ms.
const lifted = "lifted:"

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
	got, err := v.w.Redis.HMGet(ctx, v.w.Space.Seals(shard), name, forgotten+name).Result()
	if err != nil {
		return "", v.w.Fail("seal", err)
	}

	return unmarked(got)
}

// pairOf are new keys of a subject as the hash has them.
type pairOf struct{ field, id, wrapped string }

// store stores new keys of a subject, and returns the value of its field: another instance may have been first.
func (v *Vault) store(ctx context.Context, shard int, of seal.Subject, p pairOf) (string, error) {
	got, err := v.w.Do(ctx, keyScript, []string{v.w.Space.Seals(shard)}, []any{string(of), p.field, p.id, p.wrapped}).Result()
	if err != nil {
		return "", v.w.Fail(keyScript.Op, err)
	}

	return storedAs(got)
}

// storedAs reads the answer of sealkey.lua: the value of the subject's field, or the ms of the mark of a forgotten subject.
func storedAs(got any) (string, error) {
	switch x := got.(type) {
	case string:
		return x, nil
	case []any:
		if len(x) == 1 {
			ms, _ := x[0].(int64) // any mark counts
			return "", &ForgottenError{time.UnixMilli(ms).UTC()}
		}
	}

	return "", wire.BadReply(keyScript.Op, "unexpected answer %T", got)
}

// Forgotten is what a call of ForgetSubject has done.
type Forgotten struct {
	At      time.Time // of the mark
	Deleted int       // data keys, each counted in every shard that had it
	IDs     []string  // of all data keys that the subject has ever had, sorted
}

// ForgetSubject deletes the keys of a subject in all shards, and marks it as forgotten. With wire.ErrUnconfirmed it has done so in
// all shards. After another error some shards may still have the keys: call again. Each instance may use the keys for [KeyAge]
// more.
func (v *Vault) ForgetSubject(ctx context.Context, of seal.Subject) (Forgotten, error) {
	m := newMarking(v.w)
	m.lifted, m.subjects[of] = true, time.Time{}
	err := m.run(ctx)
	v.forgetAll()
	return Forgotten{At: m.subjects[of], Deleted: m.deleted, IDs: slices.Sorted(maps.Keys(m.keys))}, err
}
