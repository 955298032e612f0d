package intake

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/peek.lua
var peekSource string

var peekScript = wire.NewScript("peek", store.WithParts(peekSource), false)

// maxPeekBytes bounds the payloads and records in the reply of one peek call.
const maxPeekBytes = 4 << 20

// Special values of Seen.Length.
const (
	NoKey    = -1 // the key does not exist
	NoString = -2 // the key holds another type
)

// Seen is a timer key that may need adoption, with the notice of the same key.
type Seen struct {
	Key    string
	Value  []byte // payload; nil if it is longer than the maximum
	Length int64  // of the payload, or NoKey or NoString
	Expire int64  // Unix ms; -1 = never
	// Found.Notice is nil if there is none.
	store.Found
	// NoTimer is set for a pending notice without its own timer.
	NoTimer bool
	score   string
	under   string // the prefix under which the notice was read
}

// Peek checks timer keys of one partition. It omits keys that need nothing, and returns the number
// of keys that it has checked. A notice under another prefix is read there.
func (s Redis) Peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	p, n, err := s.Under(ctx, p, ks)
	if err != nil {
		return now, nil, 0, err
	}

	now, seen, looked, err = s.peek(ctx, p, ks[:n], maxBody)
	for i := range seen {
		seen[i].under = p.Prefix
	}

	return now, seen, looked, err
}

func (s Redis) peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error) {
	if s.Wire().Cluster {
		return s.peekApart(ctx, p, ks, maxBody)
	}

	v, _, err := s.Wire().Replies(p.Shard).Reply(maxPeekBytes, func(bytes int) ([]any, error) {
		args := append([]any{s.Space().ClaimPrefix(p.Shard), maxBody, bytes}, wire.Texts(ks)...)
		return s.Layout.Parts(ctx, peekScript, 2, s.Space().States(p), args)
	})
	if err != nil {
		return now, nil, 0, err
	}

	n, _ := v[1].(int64)
	for _, x := range v[2:] {
		a, ok := x.([]any)
		if !ok || len(a) != 5 {
			return now, nil, 0, wire.BadReply("peek", "unexpected answer %T", x)
		}

		w := Seen{}
		w.Key, _ = a[0].(string)
		value, _ := a[1].(string)
		w.Length, _ = a[2].(int64)
		w.Expire, _ = a[3].(int64)
		if w.Length <= maxBody {
			w.Value = []byte(value)
		}

		f, err := store.ReadFound(w.Key, p.Prefix, a[4])
		if err != nil {
			return now, nil, 0, err
		}

		w.read(f)
		seen = append(seen, w)
	}

	return wire.Micros(v[0]), seen, int(n), nil
}

// read sets the notice. A score without a record is not a notice: a timer replaces it.
func (w *Seen) read(f store.Found) {
	w.score, w.NoTimer = f.Score(), f.Untimed()
	if f.HasRecord() {
		w.Found = f
	}
}

// peekApart reads timers that are in separate slots, and then their notices.
func (s Redis) peekApart(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int,
	err error) {
	for tries, left := 3, ks; tries > 0 && len(left) > 0; tries-- {
		var whole []Seen
		if whole, left, err = s.timersApart(ctx, left, maxBody); err != nil {
			return now, nil, 0, s.Wire().Fail("peek", err)
		}

		seen = append(seen, whole...)
	}

	names := make([]string, len(seen))
	for i := range seen {
		names[i] = seen[i].Key
	}

	notices, err := s.FindMany(ctx, p, names)
	if err != nil {
		return now, nil, 0, err
	}

	for i := range seen {
		seen[i].read(notices[i])
	}

	if now, err = s.Wire().Holder(ctx, s.Space().Base(p.Shard)).Time(ctx).Result(); err != nil {
		return now, nil, 0, s.Wire().Fail("peek", err)
	}

	return now, seen, len(ks), nil
}

// PeekTimers reads timers of a cluster without their notices, in any shards. It omits those that
// change during the call.
func (s Redis) PeekTimers(ctx context.Context, ks []string, maxBody int64) ([]Seen, error) {
	whole, _, err := s.timersApart(ctx, ks, maxBody)
	if err != nil {
		return nil, s.Wire().Fail("peek", err)
	}

	return whole, nil
}

// timersApart reads timers with single commands instead of a script. changed has the keys whose replies do not match,
// because of a write meanwhile. The caller reads those timers again.
func (s Redis) timersApart(ctx context.Context, ks []string, maxBody int64) (whole []Seen, changed []string, err error) {
	// The expiry is read before and after the value, to notice writes between the commands.
	got := make([]timerReplies, len(ks))
	_, err = s.Wire().Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
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

	for i, k := range ks { // each key has its own reply
		if err := got[i].err(); err != nil {
			return nil, nil, err
		}
		if w, ok := got[i].seen(k, maxBody); ok {
			whole = append(whole, w)
		} else {
			changed = append(changed, k)
		}
	}

	return whole, changed, nil
}

// timerReplies are the replies to the commands that read one timer.
type timerReplies struct {
	before, after *redis.DurationCmd
	length        *redis.IntCmd
	value         *redis.StringCmd
}

// err returns the first error, other than that of a key with another type.
func (a *timerReplies) err() error {
	for _, err := range []error{a.before.Err(), a.length.Err(), a.value.Err(), a.after.Err()} {
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
	}
	return nil
}

// seen returns the timer; ok is false if the timer has changed between the commands.
func (a *timerReplies) seen(key string, maxBody int64) (w Seen, ok bool) {
	e, otherType := a.after.Val(), redis.HasErrorPrefix(a.length.Err(), "WRONGTYPE")
	w = Seen{Key: key, Length: a.length.Val(), Expire: e.Milliseconds()}
	if e < 0 {
		w.Expire = -1
	}

	switch {
	case e == -2: // go-redis gives -1 and -2 unscaled
		w.Length = NoKey
	case e != a.before.Val(), otherType != (a.value.Err() != nil), !otherType && int64(len(a.value.Val())) != min(w.Length, maxBody+1):
		return w, false
	case otherType:
		w.Length = NoString
	}

	if w.Length >= 0 && w.Length <= maxBody {
		w.Value = []byte(a.value.Val())
	}

	return w, true
}
