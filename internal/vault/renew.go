package vault

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

//go:embed lua/sealrenew.lua
var renewSource string

var renewScript = wire.NewScript("sealrenew", renewSource, true).Anywhere()

// since begins the names of the fields with the time since when a subject's data key is in use, in Unix ms.
const since = "since:"

// renew gives each route and audience a new data key for new texts when its data key has been in use for Cleaner.Renew. Older texts keep
// theirs. An order key has few texts, so its data key stays. The digest key stays too, because repeated calls are compared by it.
func (c *Cleaner) renew(ctx context.Context, place int, now time.Time) error {
	v := c.Vault
	if c.Renew <= 0 || v.keys == nil {
		return nil
	}

	subjects, marks := map[seal.Subject]string{}, map[string]string{}
	err := fields(ctx, v.w, place, func(name, value string) {
		if k, ok := readKey(name, value); ok && k.digest && home(v.w.Space, k.of) == place {
			if _, id := k.of.OrderKey(); !id {
				subjects[k.of] = value
			}
		}
		if id, ok := strings.CutPrefix(name, since); ok {
			marks[id] = value
		}
	})
	if err != nil {
		return err
	}

	for of, value := range subjects {
		id, _, _ := strings.Cut(value, " ")
		mark, marked := marks[id]
		delete(marks, id)
		switch {
		case !marked:
			err = v.w.Wrapped(renewScript.Op, v.w.Redis.HSetNX(ctx, v.w.Space.Seals(place), since+id, now.UnixMilli()).Err())
		case now.Sub(MarkedAt(mark)) >= c.Renew:
			err = v.renew(ctx, of)
		}

		if err != nil {
			return err
		}
	}

	for id := range marks { // of keys that were forgotten, or replaced
		if err := v.w.Redis.HDel(ctx, v.w.Space.Seals(place), since+id).Err(); err != nil {
			return v.w.Fail(renewScript.Op, err)
		}
	}

	return nil
}

// renew stores a new data key of a subject in all places that have keys of it, its home first.
func (v *Vault) renew(ctx context.Context, of seal.Subject) error {
	data, err := v.newData(ctx, of)
	if err != nil {
		return err
	}

	at := home(v.w.Space, of)
	for _, place := range append([]int{at}, v.others(at)...) {
		value, err := v.field(ctx, place, string(of))
		if !ForgottenAt(err).IsZero() {
			return nil
		}
		if err != nil {
			return err
		}

		_, digest, ok := strings.Cut(value, " ")
		if !ok { // the place has no keys of the subject, and gets them from its home
			continue
		}

		args := []any{string(of), value, data.id + " " + digest, data.id, data.wrapped}
		if n, err := v.w.Int(ctx, renewScript, []string{v.w.Space.Seals(place)}, args); err != nil || n == 0 && place == at {
			return err // another instance has renewed it
		}
	}

	return nil
}
