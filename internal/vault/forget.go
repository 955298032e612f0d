package vault

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
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
	x := forgetting{w: v.w, of: of}
	err := x.run(ctx)
	v.forgetAll()
	return x.done, err
}

// forgetting deletes the keys of a subject in all places.
type forgetting struct {
	w  *wire.Client
	of seal.Subject

	done        Forgotten // At is also the time of new marks
	unconfirmed error
}

func (x *forgetting) run(ctx context.Context) error {
	if err := x.mark(ctx); err != nil {
		return err
	}

	slices.Sort(x.done.IDs)
	x.done.IDs = slices.Compact(x.done.IDs)
	places := x.w.Space.Places()
	// All in each place: an instance may have read a key in one place before, to store it in another.
	for some := range slices.Chunk(x.done.IDs, scanned) {
		for place := range places {
			if err := x.forget(ctx, place, some); err != nil {
				return err
			}
		}
	}

	return x.unconfirmed
}

// mark marks the subject in all places, and then finds its data keys, so that no place stores another one.
func (x *forgetting) mark(ctx context.Context) error {
	for place := range x.w.Space.Places() {
		if err := x.forget(ctx, place, nil); err != nil {
			return err
		}
	}

	for place := range x.w.Space.Places() {
		some, err := dataKeysOf(ctx, x.w, place, x.of)
		if err != nil {
			return err
		}

		x.done.IDs = append(x.done.IDs, some...)
	}

	return nil
}

// forget marks the subject in a place, and deletes its present keys and the data keys with these ids.
func (x *forgetting) forget(ctx context.Context, place int, ids []string) error {
	at := ""
	if !x.done.At.IsZero() {
		at = strconv.FormatInt(x.done.At.UnixMilli(), 10)
	}

	args := append([]any{string(x.of), at}, wire.Texts(ids)...)
	got, err := x.w.Parts(ctx, forgetScript, 2, []string{x.w.Space.Seals(place)}, args)
	if errors.Is(err, wire.ErrUnconfirmed) && len(got) >= 2 {
		x.unconfirmed, err = err, nil
	}

	if err != nil {
		return err
	}

	ms, _ := got[0].(int64)
	n, _ := got[1].(int64)
	x.done.Deleted += int(n)
	if marked := time.UnixMilli(ms).UTC(); marked.After(x.done.At) {
		x.done.At = marked
	}

	return nil
}

// scanned is how many fields one command reads, and how many data keys one script deletes.
const scanned = 1000

// dataKeysOf returns the ids of all data keys of a marked subject in a place, deleted ones included.
func dataKeysOf(ctx context.Context, w *wire.Client, place int, of seal.Subject) (ids []string, err error) {
	err = fields(ctx, w, place, func(name, value string) {
		if id, owner, ok := dataKeyOf(name, value); ok && owner == of {
			ids = append(ids, id)
		}
	})
	return ids, err
}
