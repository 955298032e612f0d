package vault

import (
	"context"
	_ "embed"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

//go:embed lua/sealbring.lua
var bringSource string

var bringScript = wire.NewScript("sealbring", bringSource, true).Anywhere()

// After a reshard, new places lack the keys that old ones have. So a key is looked for in the other places when a shard needs it.

// find returns the first value of a field in some places, and that place; "" = none has it. It returns a ForgottenError if one of
// them has the field's mark.
func (v *Vault) find(ctx context.Context, name string, places []int) (value string, place int, err error) {
	if len(places) == 0 {
		return "", 0, nil
	}

	cmds := make([]*redis.SliceCmd, len(places))
	_, err = v.w.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, place := range places {
			cmds[i] = pipe.HMGet(ctx, v.w.Space.Seals(place), name, forgotten+name)
		}
		return nil
	})
	if err != nil {
		return "", 0, v.w.Fail("seal", err)
	}

	for i, cmd := range cmds {
		got, err := unmarked(cmd.Val())
		if err != nil {
			return "", 0, err
		}

		if value == "" && got != "" {
			value, place = got, places[i]
		}
	}

	return value, place, nil
}

// others returns all places but one, the newest first.
func (v *Vault) others(shard int) []int {
	return slices.DeleteFunc(v.w.Space.Newest(), func(place int) bool { return place == shard })
}

// home returns the shard that decides about the keys of a subject: all shards use these. It is a hash of the subject's name. All notices of
// an order key are in its home.
func home(space keys.Space, of seal.Subject) int {
	if key, ok := of.OrderKey(); ok {
		return space.Shard(key)
	}
	return space.Shard(string(of))
}

// bringKey returns the value of a data key's field from another place, and stores it in the shard; "" = no place has it.
func (v *Vault) bringKey(ctx context.Context, shard int, id string) (string, error) {
	value, _, err := v.find(ctx, id, v.others(shard))
	if err != nil || value == "" {
		return "", err
	}

	gone, err := bring(ctx, v.w, shard, map[string]string{id: value})
	if at, ok := gone[id]; ok {
		return "", &ForgottenError{at}
	}

	return value, err
}

// Bring stores data keys in a shard that lacks them. The values are as [Vault.Keys] returns them, or of an archive, which may lack
// marks. It leaves out keys that any place has as forgotten, and returns these, with the time of the forgetting.
func (v *Vault) Bring(ctx context.Context, shard int, values map[string]string) (gone map[string]time.Time, err error) {
	if gone, err = v.markedIn(ctx, v.others(shard), values); err != nil {
		return nil, err
	}

	values = maps.Clone(values)
	maps.DeleteFunc(values, func(id, _ string) bool { return !gone[id].IsZero() })
	here, err := bring(ctx, v.w, shard, values)
	maps.Copy(gone, here)
	return gone, err
}

// markedIn returns the data keys that some places have as forgotten, or their subjects.
func (v *Vault) markedIn(ctx context.Context, places []int, values map[string]string) (gone map[string]time.Time, err error) {
	gone = map[string]time.Time{}
	ids := slices.Collect(maps.Keys(values))
	for some := range slices.Chunk(ids, scanned) {
		names := make([]string, 0, 2*len(some))
		for _, id := range some {
			names = append(names, forgotten+id, forgotten+SubjectOf(values[id]))
		}

		for _, place := range places {
			got, err := v.w.Redis.HMGet(ctx, v.w.Space.Seals(place), names...).Result()
			if err != nil {
				return nil, v.w.Fail("seal", err)
			}

			for i, x := range got {
				if mark, ok := x.(string); ok {
					gone[some[i/2]] = later(MarkedAt(mark), gone[some[i/2]])
				}
			}
		}
	}

	return gone, nil
}

func bring(ctx context.Context, w *wire.Client, shard int, values map[string]string) (gone map[string]time.Time, err error) {
	args := make([]any, 0, 2*len(values))
	for id, value := range values {
		args = append(args, id, value)
	}

	if len(args) == 0 {
		return nil, nil
	}

	got, err := w.List(bringScript.Op, w.Do(ctx, bringScript, []string{w.Space.Seals(shard)}, args))
	for i := 0; i+1 < len(got); i += 2 {
		id, ok1 := got[i].(string)
		mark, ok2 := got[i+1].(string)
		if !ok1 || !ok2 {
			return nil, wire.BadReply(bringScript.Op, "unexpected answer %T %T", got[i], got[i+1])
		}

		if gone == nil {
			gone = map[string]time.Time{}
		}

		gone[id] = MarkedAt(mark)
	}

	return gone, err
}

// Obtain stores the data key of a sealed text in a shard that lacks it, from another place or the archive. It needs no service key. The
// error is a ForgottenError, or wraps ErrUnknownKey if no place has the key.
func (v *Vault) Obtain(ctx context.Context, shard int, sealed string) error {
	text, err := seal.ParseText(sealed)
	if err != nil {
		return err
	}

	value, _, err := v.keyValue(ctx, shard, text.DataKey)
	if err != nil || value != "" {
		return err
	}

	if value, err = v.archived(ctx, text.DataKey); err != nil {
		return err
	}
	if value == "" {
		return noDataKey(text.DataKey)
	}

	gone, err := v.Bring(ctx, shard, map[string]string{text.DataKey: value})
	if at, ok := gone[text.DataKey]; ok {
		return &ForgottenError{at}
	}

	return err
}

// Keys returns the values of data keys as a shard stores them, by id: the subject and the wrapped key. Keys that no place has, and
// forgotten ones, are left out. It needs no service key.
func (v *Vault) Keys(ctx context.Context, shard int, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	got, err := v.w.Redis.HMGet(ctx, v.w.Space.Seals(shard), ids...).Result()
	if err != nil {
		return nil, v.w.Fail("seal", err)
	}

	values := make(map[string]string, len(ids))
	for i, id := range ids {
		value, _ := got[i].(string)
		if value == "" {
			value, _, err = v.find(ctx, id, v.others(shard))
			if err != nil && ForgottenAt(err).IsZero() {
				return nil, err
			}
		}

		if value != "" {
			values[id] = value
		}
	}

	return values, nil
}

// unmarked returns the value of a field. got is the field and its mark, as HMGET returns them. The error is a ForgottenError if it is
// marked.
func unmarked(got []any) (string, error) {
	if mark, ok := got[1].(string); ok {
		return "", &ForgottenError{MarkedAt(mark)}
	}

	value, _ := got[0].(string)
	return value, nil
}
