package jobs

import (
	"context"
	"errors"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/vault"
)

// Keyring makes notices from the history ready for Redis.
type Keyring struct {
	Vault *vault.Vault
	DB    *history.DB
	// Routes has the routes whose notices are sealed.
	Routes *route.Table
}

// Ready returns the result of each notice that cannot be scheduled in a shard: KeyForgotten, KeyLost or Unfit. "" = it can. For
// these it stores the data keys of the sealed ones in the shard, because Redis may have lost them. A notice in clear text whose
// route seals its notices is sealed, and so is the clear query of a sealed notice whose route seals urls. It may be repeated.
func (k Keyring) Ready(ctx context.Context, shard int, list []*notice.Notice) ([]string, error) {
	out := make([]string, len(list))
	gone, err := k.bring(ctx, shard, list)
	for i, n := range list {
		if err != nil {
			return nil, err
		}

		if n.Sealed != "" {
			out[i] = gone[keyOf(n.Sealed)]
		}

		if out[i] == "" {
			out[i], err = k.seal(ctx, shard, n)
		}
	}

	return out, err
}

// keyOf returns the id of the data key of a sealed text; "" = the text cannot be read.
func keyOf(sealed string) string {
	text, err := seal.ParseText(sealed)
	if err != nil {
		return ""
	}

	return text.DataKey
}

// bring stores the data keys of sealed notices in a shard. It returns the result of each key that it cannot store.
func (k Keyring) bring(ctx context.Context, shard int, list []*notice.Notice) (map[string]string, error) {
	ids, gone := idsOf(list), map[string]string{"": Unreadable}
	if len(ids) == 0 {
		return gone, nil
	}

	values, err := k.Vault.Keys(ctx, shard, ids)
	if err != nil {
		return nil, err
	}

	kept, forgotten, err := k.DB.SealKeys(ctx, ids)
	if err != nil {
		return nil, err
	}

	for _, id := range ids {
		switch _, marked := forgotten[id]; {
		case marked:
			gone[id] = KeyForgotten
			delete(values, id)
		case values[id] == "" && kept[id] == "":
			gone[id] = KeyLost
		case values[id] == "":
			values[id] = kept[id]
		}
	}

	var refused map[string]time.Time
	refused, err = k.Vault.Bring(ctx, shard, values)
	for id := range refused {
		gone[id] = KeyForgotten
	}

	return gone, err
}

// idsOf returns the ids of the data keys of sealed notices and their answers.
func idsOf(list []*notice.Notice) (ids []string) {
	seen := map[string]bool{}
	for _, n := range list {
		row := history.Row{Notice: n}
		for _, id := range row.DataKeys() {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}

	return ids
}

// seal seals the clear parts of a notice, if its route does.
func (k Keyring) seal(ctx context.Context, shard int, n *notice.Notice) (result string, err error) {
	r := k.Routes.Prefix(n.Route)
	if r == nil || !r.SealsMore(&n.Content) {
		return "", nil
	}

	of, err := r.SealSubject(n.Audience, n.Key)
	if err != nil {
		return Unfit, nil
	}

	k.Vault.Forget(shard) // the script of a replay does not check that Redis has the data key
	x, err := sealed(ctx, k.Vault, place{shard, of}, n)
	switch {
	case !vault.ForgottenAt(err).IsZero():
		return KeyForgotten, nil
	case errors.Is(err, seal.ErrForeign), errors.Is(err, seal.ErrFormat):
		return Unreadable, nil
	case err != nil:
		return "", err
	}

	*n = *x
	return "", nil
}

// place names the keys that seal a notice: those of a subject in a shard.
type place struct {
	shard int
	of    seal.Subject
}

// sealed returns a notice sealed. Of one that is sealed already, the content is sealed anew, and the answers stay.
func sealed(ctx context.Context, v *vault.Vault, at place, n *notice.Notice) (*notice.Notice, error) {
	if n.Sealed == "" {
		n = n.ToSeal()
		return n, v.SealNotice(ctx, at.shard, at.of, n)
	}

	opened, err := v.Open(ctx, at.shard, n.Key, &n.Content)
	if err != nil {
		return nil, err
	}

	n = n.ToSealAgain(opened)
	return n, v.Seal(ctx, at.shard, at.of, n.Key, &n.Content)
}
