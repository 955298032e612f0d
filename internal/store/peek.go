package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/peek.lua
var peekSource string

var peekScript = wire.NewScript("peek", peekSource, false)

// maxPeekBytes bounds the payloads and records one peek call brings.
const maxPeekBytes = 4 << 20

// Lengths of a Seen that are none.
const (
	NoKey    = -1 // there is no such key
	NoString = -2 // the key holds something else
)

// Seen is a timer key that may need adoption, and the notice of that name.
type Seen struct {
	Key    string
	Value  []byte // the payload; nil if it is longer than was asked for
	Length int64  // of the payload, or NoKey or NoString
	Expire int64  // Unix ms; -1 = it never expires
	// Found's Notice is nil if there is none.
	Found
	// NoTimer: pending without a timer of its own.
	NoTimer bool
	score   string
	under   string // the prefix it was looked at under
}

// Peek looks at timer keys of one partition. It passes over those that
// need nothing, and returns how many of the keys it looked at. A notice that lies
// under another prefix is looked at there.
func (s *Store) Peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	if others := s.Others(p.Prefix); len(others) > 0 {
		at, err := s.Locate(ctx, p.Shard, append([]string{p.Prefix}, others...), ks)
		if err != nil {
			return now, nil, 0, err
		}
		n := 1
		for n < len(ks) && at[n] == at[0] {
			n++
		}
		if ks = ks[:n]; at[0] != "" {
			p.Prefix = at[0]
		}
	}
	now, seen, looked, err = s.peek(ctx, p, ks, maxBody)
	for i := range seen {
		seen[i].under = p.Prefix
	}
	return now, seen, looked, err
}

func (s *Store) peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	if s.o.Cluster {
		return s.peekApart(ctx, p, ks, maxBody)
	}
	args := []any{s.space.ClaimPrefix(p.Shard), maxBody, maxPeekBytes}
	for _, k := range ks {
		args = append(args, k)
	}
	v, err := s.w.Parts(ctx, peekScript, 2, s.space.States(p), args)
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
		w.read(p.Prefix, a[4])
		seen = append(seen, w)
	}
	return wire.Micros(v[0]), seen, int(n), nil
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
	w.NoTimer = !hasTimer(f)
	if a[0] == "" {
		return
	}
	if f, err := found(w.Key, prefix, v); err == nil {
		w.Found = f
	}
}

// peekApart looks at timers that lie in slots of their own, and then at their notices.
func (s *Store) peekApart(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	for tries, left := 3, ks; tries > 0 && len(left) > 0; tries-- {
		var whole []Seen
		if whole, left, err = s.timersApart(ctx, left, maxBody); err != nil {
			return now, nil, 0, s.w.Fail("peek", err)
		}
		seen = append(seen, whole...)
	}
	args := []any{s.space.ClaimPrefix(p.Shard)}
	for i := range seen {
		args = append(args, seen[i].Key)
	}
	v, err := s.w.Run(ctx, findScript, s.space.States(p), args)
	if err != nil {
		return now, nil, 0, err
	}
	for i := range seen {
		if i < len(v) {
			if a, ok := v[i].([]any); ok && len(a) == 5 {
				seen[i].read(p.Prefix, v[i])
			}
		}
	}
	if now, err = s.w.Holder(ctx, s.space.Base(p.Shard)).Time(ctx).Result(); err != nil {
		return now, nil, 0, s.w.Fail("peek", err)
	}
	return now, seen, len(ks), nil
}

// PeekTimers looks at timers of a cluster without their notices, at any shards. It
// leaves out those that change meanwhile.
func (s *Store) PeekTimers(ctx context.Context, ks []string, maxBody int64) ([]Seen, error) {
	whole, _, err := s.timersApart(ctx, ks, maxBody)
	if err != nil {
		return nil, s.w.Fail("peek", err)
	}
	return whole, nil
}

// timersApart looks at timers, each as a whole: its commands are sent together, but others'
// may come between them, and a timer may expire there. What differs before and after is
// changed, to be looked at again; the event of what happened to it is on its way, too.
func (s *Store) timersApart(ctx context.Context, ks []string, maxBody int64) (whole []Seen, changed []string, err error) {
	type answers struct {
		before, after *redis.DurationCmd
		length        *redis.IntCmd
		value         *redis.StringCmd
	}
	got := make([]answers, len(ks))
	_, err = s.c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, k := range ks {
			a := &got[i]
			a.before, a.length, a.value = pipe.PExpireTime(ctx, k), pipe.StrLen(ctx, k), pipe.GetRange(ctx, k, 0, maxBody)
			a.after = pipe.PExpireTime(ctx, k)
		}
		return nil
	})
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return nil, nil, err
	}
	for i, k := range ks { // an answer is that of one command, and each has its own
		a := got[i]
		otherType := redis.HasErrorPrefix(a.length.Err(), "WRONGTYPE")
		for _, err := range []error{a.before.Err(), a.length.Err(), a.value.Err(), a.after.Err()} {
			if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
				return nil, nil, err
			}
		}
		e := a.after.Val()
		w := Seen{Key: k, Length: a.length.Val(), Expire: e.Milliseconds()}
		if e < 0 {
			w.Expire = -1
		}
		switch {
		case e == -2: // go-redis gives -1 and -2 unscaled
			w.Length = NoKey
		case e != a.before.Val(), otherType != (a.value.Err() != nil), !otherType && int64(len(a.value.Val())) != min(w.Length, maxBody+1):
			changed = append(changed, k)
			continue
		case otherType:
			w.Length = NoString
		}
		if w.Length >= 0 && w.Length <= maxBody {
			w.Value = []byte(a.value.Val())
		}
		whole = append(whole, w)
	}
	return whole, changed, nil
}
