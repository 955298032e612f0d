package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/notice"
)

//go:embed lua/amend.lua
var amendSource string

//go:embed lua/find.lua
var findSource string

var (
	amendScript = newScript("amend", amendSource, false)
	findScript  = newScript("find", findSource, false)
)

// Amendment is a change from outside a notice's delivery.
type Amendment string

// The amendments; what each does in which state stands in amend.lua.
const (
	Cancel     Amendment = "cancel"
	Reschedule Amendment = "reschedule"
	Fire       Amendment = "fire"
	Redrive    Amendment = "redrive"
	Reopen     Amendment = "reopen"
)

// Amend changes one notice. Due and delay are of Reschedule, Redrive and
// Reopen; n of Reopen only: the notice as it shall stand then.
func (s *Store) Amend(ctx context.Context, prefix, key string, op Amendment, due time.Time, delay time.Duration, n *notice.Notice) (Change, error) {
	c, err := s.AmendMany(ctx, prefix, s.space.Shard(key), []string{key}, op, due, delay, n)
	if err != nil {
		return Change{}, err
	}
	if c[0].Before == "" {
		return Change{}, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return c[0], nil
}

// AmendMany changes notices of one route and shard. Where there is no notice,
// Before is empty.
func (s *Store) AmendMany(ctx context.Context, prefix string, shard int, ks []string, op Amendment, due time.Time, delay time.Duration,
	n *notice.Notice) ([]Change, error) {
	args := []any{s.space.ClaimPrefix(shard), s.space.Wake(), wakeInfo(shard, prefix), s.timers, s.keep, string(op)}
	var rest []byte
	if n != nil {
		rest = n.AppendTail(strconv.AppendInt([]byte(`,"made":`), n.Made.UnixMilli(), 10))
	}
	for _, k := range ks {
		args = append(args, k, appendWhen(nil, due, delay), rest)
	}
	v, err := s.run(ctx, amendScript, s.four(shard, prefix), args)
	if err != nil {
		return nil, err
	}
	if len(v) != len(ks)+1 {
		return nil, fmt.Errorf("amend: %d answers for %d keys", len(v)-1, len(ks))
	}
	out := make([]Change, len(ks))
	var timers []timer
	for i, k := range ks {
		a, ok := v[i+1].([]any)
		if !ok || len(a) != 7 {
			return nil, fmt.Errorf("amend: unexpected answer %T", v[i+1])
		}
		before, _ := a[0].(string)
		c := Change{Before: notice.State(before), Done: a[1] == int64(1), InFlight: a[2] == int64(1)}
		if before != "" {
			claimed := int64(0)
			if !c.Done {
				claimed, _ = a[2].(int64)
			}
			if c.Found, err = found(k, prefix, []any{a[3], a[4], claimed, a[5], a[6]}); err != nil {
				return nil, err
			}
			if c.Done && c.Found.State == "" { // kept no longer: retention is off
				c.Found.State, c.Found.SettledAt = notice.Cancelled, micros(v[0])
			}
			if s.o.Cluster && c.Done {
				if c.Found.State == notice.Scheduled && c.Due.After(micros(v[0])) {
					timers = append(timers, timer{k, c.Due.UnixMilli(), c.Coming()})
				} else {
					_ = s.c.Del(ctx, k).Err() // a timer left over is a hint too many
				}
			}
		}
		out[i] = c
	}
	s.arm(ctx, timers, micros(v[0]))
	return out, nil
}

// Find reads one notice.
func (s *Store) Find(ctx context.Context, prefix, key string) (Found, error) {
	f, err := s.FindMany(ctx, prefix, s.space.Shard(key), []string{key})
	if err != nil {
		return Found{}, err
	}
	if f[0].Notice == nil {
		return Found{}, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return f[0], nil
}

// FindMany reads notices of one route and shard; what is not there has a nil
// Notice.
func (s *Store) FindMany(ctx context.Context, prefix string, shard int, ks []string) ([]Found, error) {
	args := []any{s.space.ClaimPrefix(shard)}
	for _, k := range ks {
		args = append(args, k)
	}
	v, err := s.run(ctx, findScript, s.four(shard, prefix), args)
	if err != nil {
		return nil, err
	}
	out := make([]Found, len(ks))
	for i, k := range ks {
		if i >= len(v) {
			break
		}
		if a, ok := v[i].([]any); ok && len(a) > 0 && a[0] == "" {
			continue
		}
		if out[i], err = found(k, prefix, v[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// found reads {record, shadow, claimed, dead, settled}.
func found(key, prefix string, v any) (Found, error) {
	a, ok := v.([]any)
	if !ok || len(a) != 5 {
		return Found{}, fmt.Errorf("find: unexpected answer %T", v)
	}
	text, _ := a[0].(string)
	n, err := notice.Decode(key, prefix, text)
	if err != nil {
		return Found{}, err
	}
	f := Found{Notice: n}
	score := func(v any) (float64, bool) {
		s, _ := v.(string)
		x, err := strconv.ParseFloat(s, 64)
		return x, err == nil
	}
	if _, ok := score(a[1]); ok {
		f.State = notice.Scheduled
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
	return f, nil
}
