package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Found is a notice as it is kept, and where it stands.
type Found struct {
	*notice.Notice
	State notice.State
	// SettledAt is when it was delivered or cancelled, or when it died.
	SettledAt time.Time
	// Shard is the place it lies in.
	Shard int
	// next is the score of a scheduled notice as a time: see NextAttemptAt.
	next time.Time
	// record is the text it was read from: see Store.Reopen. score is that of the shadow,
	// where it is pending: see Reported.
	record, score string
}

// NextAttemptAt is when a scheduled notice is claimed for its next attempt, later than its due
// time if it was postponed. It is zero in every other state.
func (f *Found) NextAttemptAt() time.Time {
	switch {
	case f.State != notice.Scheduled:
		return time.Time{}
	case f.next.Before(f.Due): // not read from the shadow
		return f.Due
	}
	return f.next
}

//go:embed lua/find.lua
var findSource string

var findScript = wire.NewScript("find", findSource, false)

// Find reads one notice: under prefix, which is that of its route ("" = it has
// none), or under another that covers its key. The notice's Route says where it
// lies.
func (s *Store) Find(ctx context.Context, prefix, key string) (Found, error) {
	for range maxMoves {
		open, side := len(s.Formers()), s.Side()
		at, err := s.Place(ctx, key)
		if err != nil {
			return Found{}, err
		}
		f, err := s.findIn(ctx, at, prefix, key)
		if !errors.Is(err, ErrNotFound) {
			return f, err
		}
		if s.IsFormer(at) || s.Refilled(open) {
			continue
		}
		if err = s.absent(ctx, at, key); !errors.Is(err, ErrNotFound) || !side.Sorts() && !s.Side().Sorts() {
			return f, err
		}

		// It may have arrived since the first look, or its mark may have been dropped with
		// a change of side.
		f, err = s.findIn(ctx, at, prefix, key)
		if !errors.Is(err, ErrNotFound) || s.Side().Epoch == side.Epoch {
			return f, err
		}
	}
	return Found{}, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// findIn is Find in one shard.
func (s *Store) findIn(ctx context.Context, shard int, prefix, key string) (Found, error) {
	if prefix != "" {
		f, err := s.FindMany(ctx, keys.Partition{Prefix: prefix, Shard: shard}, []string{key})
		if err != nil {
			return Found{}, err
		}
		if f[0].Notice != nil {
			return f[0], nil
		}
	}
	all, err := s.LookUnder(ctx, shard, prefix, key)
	if err != nil {
		return Found{}, err
	}
	if len(all) > 0 {
		// All in one script: it may be on its way from one to another.
		var ks []string
		for _, p := range all {
			ks = append(ks, s.space.States(keys.Partition{Prefix: p, Shard: shard})...)
		}
		v, err := s.w.Parts(ctx, findScript, 1, ks, []any{s.space.ClaimPrefix(shard), key})
		if err != nil {
			return Found{}, err
		}
		if a, under := splitPrefix(v[0], all[0], all[1:]); len(a) > 0 && a[0] != "" {
			f, err := found(key, under, a)
			f.Shard = shard
			return f, err
		}
	}
	return Found{}, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// FindMany reads notices of one partition; what is not there has a nil
// Notice.
func (s *Store) FindMany(ctx context.Context, p keys.Partition, ks []string) ([]Found, error) {
	args := []any{s.space.ClaimPrefix(p.Shard)}
	for _, k := range ks {
		args = append(args, k)
	}
	v, err := s.w.Parts(ctx, findScript, len(ks), s.space.States(p), args)
	if err != nil {
		return nil, err
	}
	out := make([]Found, len(ks))
	for i, k := range ks {
		if a, ok := v[i].([]any); ok && len(a) == 5 && a[0] == "" && a[1] == "" && a[3] == "" && a[4] == "" {
			continue
		}
		if out[i], err = found(k, p.Prefix, v[i]); err != nil {
			return nil, err
		}
		out[i].Shard = p.Shard
	}
	return out, nil
}

// found reads {record, shadow, claimed, dead, settled}. A record that cannot be
// read is returned as such (notice.Unread), and is no error: it may stand among others that can.
func found(key, prefix string, v any) (Found, error) {
	a, ok := v.([]any)
	if !ok || len(a) != 5 {
		return Found{}, fmt.Errorf("find: unexpected answer %T", v)
	}
	text, _ := a[0].(string)
	n, err := notice.Decode(key, prefix, text)
	if err != nil {
		n = notice.Unread(key, prefix, text)
	}
	f := Found{Notice: n, record: text}
	score := func(v any) (float64, bool) {
		s, _ := v.(string)
		x, err := strconv.ParseFloat(s, 64)
		return x, err == nil
	}
	due, pending := score(a[1])
	if pending {
		f.State, f.next = notice.Scheduled, time.UnixMilli(int64(due)).UTC()
		f.score, _ = a[1].(string)
		if a[2] == int64(1) {
			f.State = notice.Claimed
		}
	} else if x, ok := score(a[3]); ok {
		f.State, f.SettledAt = notice.Dead, time.UnixMilli(int64(x)).UTC()
	} else if x, ok := score(a[4]); ok {
		f.State, f.SettledAt = notice.Delivered, time.UnixMilli(int64(x)).UTC()
		if x != float64(int64(x)) {
			f.State = notice.Cancelled
		}
	}
	if n.Due.IsZero() { // the record does not tell; when it next needs attention is known
		if n.Due = f.SettledAt; pending {
			n.Due = time.UnixMilli(int64(due)).UTC()
		}
	}
	return f, nil
}

// absent is the error of what was not found in a shard: it may be on the other side.
func (s *Store) absent(ctx context.Context, shard int, key string) error {
	v := s.View()
	switch {
	case v == nil || !v.Side.Sorts():
	case v.Side.Closed():
		return fmt.Errorf("%s: %w", key, wire.ErrMoved)
	default:
		there, err := s.c.HExists(ctx, s.space.Elsewhere(shard), key).Result()
		if err != nil {
			return s.w.Fail("elsewhere", err)
		}
		if there {
			return fmt.Errorf("%s: %w", key, wire.ErrMoved)
		}
	}
	return fmt.Errorf("%s: %w", key, ErrNotFound)
}

// splitPrefix parts a script's answer on a notice that was asked for under several
// prefixes: what is kept, and the prefix it lies under.
func splitPrefix(answer any, first string, others []string) (a []any, under string) {
	a, _ = answer.([]any)
	if len(a) == 6 {
		if n, _ := a[5].(int64); n > 0 && int(n) <= len(others) {
			return a[:5], others[n-1]
		}
	}
	return a, first
}

// maxMoves bounds how often a notice is followed that is moved again and again
// while it is to be changed.
const maxMoves = 20
