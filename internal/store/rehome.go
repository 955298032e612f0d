package store

import (
	"context"
	_ "embed"
	"fmt"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/rehome.lua
var rehomeSource string

var rehomeScript = wire.NewScript("rehome", rehomeSource, false)

// Kept reads keys that a prefix holds in one shard, some at a time: pass the
// cursor on until it is 0.
func (s *Store) Kept(ctx context.Context, p keys.Partition, cursor uint64, n int64) (ks []string, next uint64, err error) {
	fields, next, err := s.c.HScanNoValues(ctx, s.space.Records(p), cursor, "", n).Result()
	if err != nil {
		// HSCAN … NOVALUES is of Redis 7.4; before it the values come along.
		fields, next, err = s.c.HScan(ctx, s.space.Records(p), cursor, "", n).Result()
		if err != nil {
			return nil, 0, s.w.Fail("kept", err)
		}
		for i := 0; i < len(fields); i += 2 {
			ks = append(ks, fields[i])
		}
		return ks, next, nil
	}
	return fields, next, nil
}

// Holds reports whether any of the prefixes holds notices in a shard.
func (s *Store) Holds(ctx context.Context, shard int, prefixes []string) (bool, error) {
	ks := make([]string, len(prefixes))
	for i, p := range prefixes {
		ks[i] = s.space.Records(keys.Partition{Prefix: p, Shard: shard})
	}
	return s.AnyOf(ctx, ks)
}

// Unsettled counts what is pending or dead under a prefix in one shard.
func (s *Store) Unsettled(ctx context.Context, p keys.Partition) (int64, error) {
	both := s.c.Pipeline()
	pending, dead := both.ZCard(ctx, s.space.Shadow(p)), both.ZCard(ctx, s.space.Dead(p))
	if _, err := both.Exec(ctx); err != nil {
		return 0, s.w.Fail("kept", err)
	}
	return pending.Val() + dead.Val(), nil
}

// Rehome moves notices of a partition to that of another prefix. Where the other
// has a notice of the same key, one of two that are the same is dropped; a
// pending one takes the place of a settled one; of what differs otherwise both
// stay, and stuck names those that wait for the other's end.
func (s *Store) Rehome(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, stuck []string, err error) {
	ops := make([]string, len(ks))
	moved, both, err := s.rehome(ctx, from, to, ks, ops)
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
	var todo []string
	ops = ops[:0]
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

func (s *Store) rehome(ctx context.Context, from keys.Partition, to string, ks, ops []string) (moved int, both []string, err error) {
	args := make([]any, 0, 1+2*len(ks))
	args = append(args, s.space.ClaimPrefix(from.Shard))
	for i, k := range ks {
		args = append(args, k, ops[i])
	}
	v, err := s.w.Parts(ctx, rehomeScript, 1, append(s.space.States(from), s.space.States(from.Under(to))...), args)
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

// merge says what becomes of a notice whose key the new prefix has too:
// rehome.lua's operation, or "" to leave both.
func merge(old, now *Found) string {
	if len(old.Diff(&now.Content)) > 0 {
		if settled(now.State) && !settled(old.State) {
			return "r" // what is settled has had its due
		}
		return ""
	}
	switch {
	case settled(old.State) && !settled(now.State),
		old.State == notice.Scheduled && now.State == notice.Scheduled && old.AttemptsMade > now.AttemptsMade:
		return "r" // it is further on
	}
	return "d"
}
