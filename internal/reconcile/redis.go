package reconcile

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/rehome.lua
var rehomeSource string

var rehomeScript = wire.NewScript("rehome", store.WithParts(rehomeSource), false)

// Redis is the store of a Janitor. Its script runs under the guard of package store.
type Redis struct{ *store.Store }

var _ JanitorStore = Redis{}

// Holds implements Rehomer.
func (s Redis) Holds(ctx context.Context, shard int, prefixes []string) (bool, error) {
	ks := make([]string, 0, 2*len(prefixes))
	for _, p := range prefixes {
		at := keys.Partition{Prefix: p, Shard: shard}
		ks = append(ks, s.Space().Records(at), s.Space().Recurring(at))
	}

	return s.Layout.AnyOf(ctx, ks)
}

// Defined implements Rehomer.
func (s Redis) Defined(ctx context.Context, p keys.Partition, cursor uint64) (ks []string, next uint64, err error) {
	list, next, err := store.NewRecurrences(s.Store).Stored(ctx, p, cursor)
	for _, d := range list {
		ks = append(ks, d.Key)
	}

	return ks, next, err
}

// Redefine implements Rehomer.
func (s Redis) Redefine(ctx context.Context, from keys.Partition, to string, ks []string) error {
	return store.NewRecurrences(s.Store).Rehome(ctx, from, to, ks)
}

// Unsettled implements Rehomer.
func (s Redis) Unsettled(ctx context.Context, p keys.Partition) (int64, error) {
	both := s.Wire().Redis.Pipeline()
	pending, dead := both.ZCard(ctx, s.Space().Shadow(p)), both.ZCard(ctx, s.Space().Dead(p))
	if _, err := both.Exec(ctx); err != nil {
		return 0, s.Wire().Fail("kept", err)
	}

	return pending.Val() + dead.Val(), nil
}

// Rehome moves notices of one shard from the prefix from.Prefix to the prefix to, because another route matches their
// keys ks now. moved counts the keys that have no notice under from.Prefix any more. If a key has an old notice under
// from.Prefix and a new one under to, their contents and states decide (settled means delivered or cancelled):
//
//	contents   states                                        result
//	equal      only the old one is settled                   the old one replaces the new one
//	equal      both scheduled, the old has more attempts     the old one replaces the new one
//	equal      any other                                     the old one is deleted
//	different  only the new one is settled                   the old one replaces the new one
//	different  any other                                     both stay
//
// stuck are the keys for which both stay and the old notice is pending or dead: it can move once the new one is
// settled. The notices of a claimed key stay for a later call.
func (s Redis) Rehome(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, stuck []string, err error) {
	moved, both, err := s.rehome(ctx, from, to, ks, make([]string, len(ks)))
	if err != nil || len(both) == 0 {
		return moved, nil, err
	}

	old, err := s.FindMany(ctx, from, both)
	if err != nil {
		return moved, nil, err
	}

	now, err := s.FindMany(ctx, from.Under(to), both)
	if err != nil {
		return moved, nil, err
	}

	var todo, ops []string
	for i, k := range both {
		if old[i].Notice == nil || now[i].Notice == nil {
			continue // changed meanwhile
		}
		switch op := merge(&old[i], &now[i]); {
		case op != "":
			todo, ops = append(todo, k), append(ops, fmt.Sprintf("%s %d %d", op, old[i].Made, now[i].Made))
		case !settled(old[i].State):
			stuck = append(stuck, k)
		}
	}

	if len(todo) == 0 {
		return moved, stuck, nil
	}

	n, _, err := s.rehome(ctx, from, to, todo, ops)
	return moved + n, stuck, err
}

// rehome runs the script, and returns how many notices have moved, and the keys under which both
// prefixes have a notice.
func (s Redis) rehome(ctx context.Context, from keys.Partition, to string, ks, ops []string) (moved int, both []string, err error) {
	args := make([]any, 0, 3+2*len(ks))
	args = append(args, s.Space().ClaimPrefix(from.Shard), s.Space().Wake(), from.Under(to).Wake())
	for i, k := range ks {
		args = append(args, k, ops[i])
	}

	names := append(s.Space().States(from), s.Space().States(from.Under(to))...)
	v, err := s.Layout.Take(ctx, rehomeScript, 1, store.Taking{Prefix: from.Prefix, Keys: names, Args: args})
	if err != nil {
		return 0, nil, err
	}

	n, _ := v[0].(int64)
	for _, k := range v[1:] {
		key, _ := k.(string)
		both = append(both, key)
	}

	return int(n), both, nil
}

func settled(s notice.State) bool { return s == notice.Delivered || s == notice.Cancelled }

// merge returns what becomes of a notice if the new prefix has one of the same key: an operation of
// rehome.lua, or "" to leave both.
func merge(old, now *store.Found) string {
	if len(old.Diff(&now.Content)) > 0 || !bytes.Equal(old.Raw, now.Raw) { // of a record that cannot be read, the content is not known
		if settled(now.State) && !settled(old.State) {
			return "r" // the settled notice is done
		}
		return ""
	}

	switch {
	case settled(old.State) && !settled(now.State),
		old.State == notice.Scheduled && now.State == notice.Scheduled && old.AttemptsMade > now.AttemptsMade:
		return "r" // the old prefix's notice is further on
	}

	return "d"
}
