package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Notices that go to another Redis: out, in and end as from a former shard, with the
// Store of the other side as the place they go to. See package move.

// Way leads to another Redis, from a side that is being left, or was. What falls due within
// Near, or has just done so, does not take it.
type Way struct {
	Far  *Store
	Side layout.Side
	Near time.Duration
}

// SendOff takes notices of a side that is being left out of one shard, on their way to one
// of another Redis.
func (s *Store) SendOff(ctx context.Context, way Way, from keys.Partition, to int, ks []string) (layout.Moving, layout.Staying, error) {
	far, id := way.Far, way.Side.ID
	l := layout.Moving{From: from, To: to, Far: id + "/" + s.space.Tag(from.Shard)}
	if err := far.Room(ctx, to); err != nil {
		return l, layout.Staying{}, fmt.Errorf("the new side: %w", err)
	}
	last, err := far.LastIn(ctx, to, l.Far)
	if err != nil {
		return l, layout.Staying{}, err
	}
	timers := "1"
	if s.o.Cluster {
		timers = "0"
	}
	args := []any{id + "/" + far.space.Tag(to), from.Prefix, layout.MaxMovingBytes, last, way.Near.Milliseconds(), timers}
	l, held, err := s.TakeOut(ctx, l, args, ks, func(v *layout.View) bool {
		return v.Side == way.Side
	})
	if err != nil {
		return l, held, err
	}
	return l, held, s.dropTimers(ctx, l)
}

// Room is an error if the node of a shard has no memory left, which would refuse the half
// of what is to arrive there.
func (s *Store) Room(ctx context.Context, shard int) error {
	return s.w.Wrapped("room", s.c.HSetNX(ctx, s.space.Layout(shard), "room", 1).Err())
}

// dropScript deletes a timer that expires when its notice is due: another is a
// producer's. It is sent by its text, since each goes to a node of its own.
const dropScript = `local at = redis.pcall('PEXPIRETIME', KEYS[1])
if type(at) == 'table' then
  local t = redis.call('TIME')
  local left = redis.call('PTTL', KEYS[1])
  at = left < 0 and left or t[1] * 1000 + math.floor(t[2] / 1000) + left
end
if math.abs(at - tonumber(ARGV[1])) <= 1 then return redis.call('DEL', KEYS[1]) end
return 0`

// dropTimers deletes, in a cluster, the timers of notices that are leaving.
func (s *Store) dropTimers(ctx context.Context, l layout.Moving) error {
	if !s.o.Cluster {
		return nil
	}
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < len(l.What); i += 2 {
			if due, ok := timed(l.What[i+1]); ok {
				wire.Eval(ctx, p, dropScript, []string{l.What[i]}, due-1)
			}
		}
		return nil
	})
	return s.w.Wrapped("drop", err)
}

// timed is when a notice is due that has a timer of its own.
func timed(what string) (due int64, ok bool) {
	at, _, _ := strings.Cut(what, " ")
	score, err := strconv.ParseFloat(at, 64)
	return int64(score), err == nil && hasTimer(score)
}

// Arrive puts what has left another Redis in, once, and says which notices are to stay
// there.
func (s *Store) Arrive(ctx context.Context, l layout.Moving) (stay []string, err error) {
	p := keys.Partition{Prefix: l.From.Prefix, Shard: l.To}
	timers := "1"
	if s.o.Cluster {
		timers = "0"
	}
	args := []any{l.Far, l.Number, s.space.Wake(), p.Wake(), timers}
	values := make([]string, len(l.What)/2)
	for i := range values {
		key, what := l.What[2*i], l.What[2*i+1]
		values[i] = timerOf(key, p.Prefix, what)
		args = append(args, key, what, values[i])
	}
	if stay, err = s.PutIn(ctx, s.space.States(p), args); err != nil {
		return nil, err
	}
	if s.o.Cluster {
		err = s.armFar(ctx, l, values, stay)
	}
	return stay, err
}

// timerOf is what a notice's timer holds: the payload of one that was adopted and not
// tried yet, else the number of the coming attempt.
func timerOf(key, prefix, what string) string {
	words := strings.SplitN(what, " ", 4)
	n, err := notice.Decode(key, prefix, words[len(words)-1])
	switch {
	case err != nil:
		return "0" // which is no payload either
	case n.Adopted && n.AttemptsMade == 0:
		return string(n.Body)
	}
	return strconv.Itoa(n.NextAttempt())
}

// armFar sets, in a cluster, the timers of what has arrived; what is there is a
// producer's.
func (s *Store) armFar(ctx context.Context, l layout.Moving, values, stay []string) error {
	stays := make(map[string]bool, len(stay))
	for _, k := range stay {
		stays[k] = true
	}
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, value := range values {
			if due, ok := timed(l.What[2*i+1]); ok && !stays[l.What[2*i]] {
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "set", l.What[2*i], value, "nx", "pxat", due-1))
			}
		}
		return nil
	})
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return s.w.Wrapped("arm", err)
}

// FinishLeaving brings what is on its way out of a shard to far, whoever began.
func (s *Store) FinishLeaving(ctx context.Context, far *Store, place int) error {
	l, tag, err := s.OutstandingAt(ctx, place)
	if err != nil || l == nil {
		return err
	}
	id, tag, ok := strings.Cut(tag, "/")
	if !ok {
		return nil // it goes to a shard of this Redis
	}
	l.Far = id + "/" + s.space.Tag(place)
	if l.To = far.space.Place(tag); l.To < 0 {
		return fmt.Errorf("%w: the shard %s, to which a batch is on its way, is not known on the other side", layout.ErrLayout, tag)
	}
	if err := s.dropTimers(ctx, *l); err != nil {
		return err
	}
	stay, err := far.Arrive(ctx, *l)
	if err != nil {
		return err
	}
	return s.MoveEnd(ctx, *l, stay)
}

// Kind says which notices of a partition are read.
type Kind string

// The kinds.
const (
	KindSettled Kind = "settled"
	KindDead    Kind = "dead"
	KindAll     Kind = "all"
)

// KeptOf is Kept of one kind.
func (s *Store) KeptOf(ctx context.Context, p keys.Partition, kind Kind, cursor uint64, n int64) (ks []string, next uint64, err error) {
	name := s.space.Settled(p)
	switch kind {
	case KindAll:
		return s.Kept(ctx, p, cursor, n)
	case KindDead:
		name = s.space.Dead(p)
	}
	both, next, err := s.c.ZScan(ctx, name, cursor, "", n).Result()
	if err != nil {
		return nil, 0, s.w.Fail("kept", err)
	}
	for i := 0; i < len(both); i += 2 {
		ks = append(ks, both[i])
	}
	return ks, next, nil
}

//go:embed lua/marks.lua
var marksSource string

var marksScript = wire.NewScript("marks", marksSource, false)

// Mark marks notices of a shard as being on the other side, but for those of which this
// side has a record. It is ErrUnavailable where the side is not at any more: another mover
// has changed it, and a mark that this one would write may be wrong by now.
func (s *Store) Mark(ctx context.Context, at layout.Side, shard int, ks []string) error {
	return s.mark(ctx, at, shard, "+", ks)
}

// Unmark removes the marks of notices, on the same condition.
func (s *Store) Unmark(ctx context.Context, at layout.Side, shard int, ks []string) error {
	return s.mark(ctx, at, shard, "-", ks)
}

// crossedFor is how long a side knows which notices have moved away from it. An instance that
// stood still may receive the expired event of a timer that late.
const crossedFor = time.Hour

// Cross notes that notices of a shard have moved to the other side. An expired event that
// arrives afterwards is of a timer of theirs, not of one that was never adopted: see Unknown.
func (s *Store) Cross(ctx context.Context, shard int, ks []string) error {
	if len(ks) == 0 {
		return nil
	}
	name, members := s.space.Crossed(shard), make([]any, len(ks))
	for i := range ks {
		members[i] = ks[i]
	}
	_, err := s.c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, name, members...)
		pipe.PExpire(ctx, name, crossedFor)
		return nil
	})
	return s.w.Wrapped("cross", err)
}

// Uncross forgets that, when the side is to take calls again.
func (s *Store) Uncross(ctx context.Context, shard int) error {
	return s.w.Wrapped("cross", s.c.Unlink(ctx, s.space.Crossed(shard)).Err())
}

func (s *Store) mark(ctx context.Context, at layout.Side, shard int, op string, ks []string) error {
	if len(ks) == 0 {
		return nil
	}
	args := []any{op}
	for _, k := range ks {
		args = append(args, k)
	}
	err := s.Knowing(ctx, s.space.Base(shard), func(v *layout.View) *redis.Cmd {
		switch {
		case v.Side.Epoch > at.Epoch && v.Side.Sorts():
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(layout.ErrOvertaken)
			return cmd
		case v.Side.Sorts() != at.Sorts(), at.Sorts() && v.Side != at:
			return layout.Outdated(ctx)
		}
		names := []string{s.space.Elsewhere(shard)}
		if op == "+" {
			for _, p := range v.CoveringAny(ks) {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: shard}))
			}
		}
		return s.Send(ctx, v, marksScript, names, args)
	}).Err()
	return s.w.Wrapped(marksScript.Op, err)
}

// Elsewhere reads which notices of a shard are on the other side, some at a time, each
// with what it was when it left: its score in the shadow, "dead" or "settled".
func (s *Store) Elsewhere(ctx context.Context, shard int, cursor uint64, n int64) (was map[string]string, next uint64, err error) {
	both, next, err := s.c.HScan(ctx, s.space.Elsewhere(shard), cursor, "", n).Result()
	if err != nil {
		return nil, 0, s.w.Fail("elsewhere", err)
	}
	was = make(map[string]string, len(both)/2)
	for i := 0; i < len(both); i += 2 {
		was[both[i]] = both[i+1]
	}
	return was, next, nil
}

// Absent is which of some keys of a shard no prefix has.
func (s *Store) Absent(ctx context.Context, shard int, ks []string) (absent []string, err error) {
	if len(ks) == 0 {
		return nil, nil
	}
	under, err := s.Locate(ctx, shard, s.Prefixes(), ks)
	for i, p := range under {
		if p == "" {
			absent = append(absent, ks[i])
		}
	}
	return absent, err
}

// Unshipped is how many endings a history has not confirmed yet.
func (s *Store) Unshipped(ctx context.Context) (n int64, err error) {
	for place := range s.space.Places() {
		some, err := s.c.LLen(ctx, s.space.Ended(place)).Result()
		if err != nil {
			return 0, s.w.Fail("endings", err)
		}
		n += some
	}
	return n, nil
}

// CopyKey gives far the service's own key, if it has one in Redis.
func (s *Store) CopyKey(ctx context.Context, far *Store) error {
	key, err := s.c.Get(ctx, s.space.Key()).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return s.w.Fail("key", err)
	}
	return far.w.Wrapped("key", far.c.Set(ctx, far.space.Key(), key, 0).Err())
}

// CopyPauses pauses on far what is paused here, and nothing else.
func (s *Store) CopyPauses(ctx context.Context, far *Store) error {
	want, err := s.c.SMembers(ctx, s.space.Paused()).Result()
	if err != nil {
		return s.w.Fail("paused", err)
	}
	have, err := far.c.SMembers(ctx, far.space.Paused()).Result()
	if err != nil {
		return far.w.Fail("paused", err)
	}
	is := map[string]bool{}
	for _, p := range want {
		is[p] = true
		if err := far.c.SAdd(ctx, far.space.Paused(), p).Err(); err != nil {
			return far.w.Fail("pause", err)
		}
	}
	for _, p := range have {
		if !is[p] {
			if err := far.c.SRem(ctx, far.space.Paused(), p).Err(); err != nil {
				return far.w.Fail("resume", err)
			}
		}
	}
	if err := far.CopyPaused(ctx); err != nil {
		return err
	}
	return far.Publish(ctx, "paused ")
}
