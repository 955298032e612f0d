package store

import (
	"context"
	"crypto/sha1" //nolint:gosec // tells values apart, and protects nothing
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

//go:embed lua/peek.lua
var peekSource string

//go:embed lua/adopt.lua
var adoptSource string

var (
	peekScript  = newScript("peek", peekSource, false)
	adoptScript = newScript("adopt", adoptSource, true)
)

// maxPeekBytes bounds the payloads and records one peek call brings.
const maxPeekBytes = 4 << 20

// Lengths of a Seen that are none.
const (
	NoTimer  = -1 // there is no such key
	NoString = -2 // the key holds something else
)

// Seen is a timer key that may need adoption, and the notice of that name.
type Seen struct {
	Key    string
	Value  []byte // the payload; nil if it is longer than was asked for
	Length int64  // of the payload, or NoTimer or NoString
	Expire int64  // Unix ms; -1 = it never expires
	// Found's Notice is nil if there is none.
	Found
	// Bare: pending without a timer of its own.
	Bare  bool
	score string
}

// Peek looks at timer keys of one route and shard. It passes over those that
// need nothing, and returns how many of the keys it looked at.
func (s *Store) Peek(ctx context.Context, prefix string, shard int, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	if s.o.Cluster {
		return s.peekApart(ctx, prefix, shard, ks, maxBody)
	}
	args := []any{s.space.ClaimPrefix(shard), maxBody, maxPeekBytes}
	for _, k := range ks {
		args = append(args, k)
	}
	v, err := s.run(ctx, peekScript, s.four(shard, prefix), args)
	if err != nil {
		return now, nil, 0, err
	}
	n, _ := v[1].(int64)
	for _, x := range v[2:] {
		a, ok := x.([]any)
		if !ok || len(a) != 5 {
			return now, nil, 0, fmt.Errorf("peek: unexpected answer %T", x)
		}
		w := Seen{}
		w.Key, _ = a[0].(string)
		value, _ := a[1].(string)
		w.Length, _ = a[2].(int64)
		w.Expire, _ = a[3].(int64)
		if w.Length <= maxBody {
			w.Value = []byte(value)
		}
		w.read(prefix, a[4])
		seen = append(seen, w)
	}
	return micros(v[0]), seen, int(n), nil
}

// read takes what find.lua would answer. A record that cannot be read is none:
// a timer takes its place.
func (w *Seen) read(prefix string, v any) {
	a, ok := v.([]any)
	if !ok || len(a) != 5 {
		return
	}
	w.score, _ = a[1].(string)
	f, _ := strconv.ParseFloat(w.score, 64)
	w.Bare = f != float64(int64(f))
	if a[0] == "" {
		return
	}
	if f, err := found(w.Key, prefix, v); err == nil {
		w.Found = f
	}
}

// peekApart looks at timers that lie in slots of their own.
func (s *Store) peekApart(ctx context.Context, prefix string, shard int, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	lengths, expires, values := make([]*redis.IntCmd, len(ks)), make([]*redis.DurationCmd, len(ks)), make([]*redis.StringCmd, len(ks))
	_, err = s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range ks {
			lengths[i], expires[i] = p.StrLen(ctx, k), p.PExpireTime(ctx, k)
			values[i] = p.GetRange(ctx, k, 0, maxBody)
		}
		return nil
	})
	var answer redis.Error
	if err != nil && (!errors.As(err, &answer) || unavailable(err)) {
		return now, nil, 0, s.fail("peek", err)
	}
	args := []any{s.space.ClaimPrefix(shard)}
	for _, k := range ks {
		args = append(args, k)
	}
	v, err := s.run(ctx, findScript, s.four(shard, prefix), args)
	if err != nil {
		return now, nil, 0, err
	}
	for i, k := range ks {
		w := Seen{Key: k, Length: lengths[i].Val(), Expire: expires[i].Val().Milliseconds()}
		switch e := expires[i].Val(); {
		case lengths[i].Err() != nil:
			w.Length = NoString
		case e < 0:
			w.Expire = -1
			if e == -2 { // go-redis gives -1 and -2 unscaled
				w.Length = NoTimer
			}
		}
		if w.Length >= 0 && w.Length <= maxBody {
			w.Value = []byte(values[i].Val())
		}
		if i < len(v) {
			if a, ok := v[i].([]any); ok && len(a) == 5 {
				w.read(prefix, v[i])
			}
		}
		seen = append(seen, w)
	}
	if now, err = s.c.Time(ctx).Result(); err != nil {
		return now, nil, 0, s.fail("peek", err)
	}
	return now, seen, len(ks), nil
}

// Operation is what Adopt does with a key.
type Operation string

// The operations; the values are adopt.lua's.
const (
	OpAdopt  Operation = "a" // a new notice takes the place of whatever is there
	OpMove   Operation = "m" // the pending notice moves to the timer's expiry
	OpCancel Operation = "c" // the pending notice is cancelled
)

// Adoption is one step to take with a key as it was seen.
type Adoption struct {
	Seen
	Op      Operation
	Content notice.Content // of OpAdopt
}

// Adopt takes steps of one route and shard in one call. False means that timer
// or notice have changed since they were seen, and nothing was written.
func (s *Store) Adopt(ctx context.Context, prefix string, shard int, list []Adoption) ([]bool, error) {
	args := []any{s.space.ClaimPrefix(shard), s.space.Wake(), wakeInfo(shard, prefix), s.timers, s.keep}
	for i := range list {
		a := &list[i]
		digest, made := "", int64(0)
		switch {
		case a.Length >= 0 && a.Value == nil:
			digest = "L" + strconv.FormatInt(a.Length, 10)
		case a.Length >= 0:
			sum := sha1.Sum(a.Value) //nolint:gosec // as above
			digest = hex.EncodeToString(sum[:])
		}
		if a.Notice != nil {
			made = a.Made.UnixMilli()
		}
		var tail []byte
		if a.Op == OpAdopt {
			n := notice.Notice{Content: a.Content}
			tail = n.AppendTail(nil)
		}
		args = append(args, a.Key, string(a.Op), digest, a.Expire, a.score, made, tail)
	}
	v, err := s.run(ctx, adoptScript, s.four(shard, prefix), args)
	if err != nil {
		return nil, err
	}
	if len(v) != len(list)+1 {
		return nil, fmt.Errorf("adopt: %d answers to %d steps", len(v)-1, len(list))
	}
	done := make([]bool, len(list))
	for i := range list {
		done[i] = v[i+1] == int64(1)
	}
	return done, nil
}

// Unknown returns those of the keys of one route and shard that have no record,
// and those whose notice was settled or died longer than late ago.
func (s *Store) Unknown(ctx context.Context, prefix string, shard int, ks []string, late time.Duration) (none, old []string, err error) {
	k := s.four(shard, prefix)
	has := make([]*redis.BoolCmd, len(ks))
	ends := make([][2]*redis.FloatCmd, len(ks))
	var now *redis.TimeCmd
	_, err = s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range ks {
			has[i] = p.HExists(ctx, k[1], key)
			ends[i] = [2]*redis.FloatCmd{p.ZScore(ctx, k[2], key), p.ZScore(ctx, k[3], key)}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, s.fail("unknown", err)
	}
	before := float64(now.Val().Add(-late).UnixMilli())
	for i, key := range ks {
		if !has[i].Val() {
			none = append(none, key)
			continue
		}
		for _, z := range ends[i] {
			if z.Err() == nil && z.Val() < before {
				old = append(old, key)
				break
			}
		}
	}
	return none, old, nil
}

// Timers calls f with the keys that match a pattern, some at a time, from all
// of Redis. A key that is there all the while is among them.
func (s *Store) Timers(ctx context.Context, masters func(context.Context, func(context.Context, *redis.Client) error) error, pattern string, n int64,
	f func(ctx context.Context, ks []string) error) error {
	scan := func(ctx context.Context, c redis.Cmdable) error {
		cursor := uint64(0)
		for {
			ks, next, err := c.Scan(ctx, cursor, pattern, n).Result()
			if err != nil {
				return s.fail("scan", err)
			}
			if len(ks) > 0 {
				if err := f(ctx, ks); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if masters == nil {
		return scan(ctx, s.c)
	}
	return masters(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
}
