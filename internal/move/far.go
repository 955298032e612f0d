package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// way is the way of notices from one Redis to another.
type way struct {
	far  Redis         // the target
	side store.Side    // of the source
	near time.Duration // notices that are due within near, or were within near ago, stay
}

// export takes a batch of notices out of one shard, for a shard of another Redis. It returns how many
// notices stay, and why. It exports nothing if the target has no memory left.
func (s Redis) export(ctx context.Context, w way, from keys.Partition, to int, ks []string) (store.Moving, store.Staying, error) {
	batch := store.Moving{From: from, To: to, Far: w.side.ID + "/" + s.Space().Tag(from.Shard)}
	if err := w.far.room(ctx, to); err != nil {
		return batch, store.Staying{}, fmt.Errorf("the new side: %w", err)
	}

	last, err := w.far.Layout.LastIn(ctx, to, batch.Far)
	if err != nil {
		return batch, store.Staying{}, err
	}

	target := w.side.ID + "/" + w.far.Space().Tag(to)
	args := []any{target, from.Prefix, "", last, w.near.Milliseconds(), s.timerMode()}
	batch, held, err := s.Layout.TakeOut(ctx, batch, args, ks, func(v *store.LayoutView) bool { return v.Side == w.side })
	if err != nil {
		return batch, held, err
	}

	return batch, held, s.dropTimers(ctx, batch)
}

// room returns an error if the node of a shard has no memory left, and would refuse an import.
func (s Redis) room(ctx context.Context, shard int) error {
	return s.Wire().Wrapped("room", s.Wire().Redis.HSetNX(ctx, s.Space().Layout(shard), "room", 1).Err())
}

// dropTimers deletes, in a cluster, the timers of notices that are leaving.
func (s Redis) dropTimers(ctx context.Context, batch store.Moving) error {
	if !s.Wire().Cluster {
		return nil
	}

	_, err := s.Wire().Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < len(batch.What); i += 2 {
			if score, _, _ := strings.Cut(batch.What[i+1], " "); score != "-" {
				store.Disarm(ctx, p, batch.What[i], score)
			}
		}
		return nil
	})
	return s.Wire().Wrapped("drop", err)
}

// timed returns the due time, in Unix ms, of a notice that has a timer.
func timed(what string) (due int64, ok bool) {
	at, _, _ := strings.Cut(what, " ")
	score, err := strconv.ParseFloat(at, 64)
	return int64(score), err == nil && store.HasTimer(score)
}

// imports stores a batch from another Redis in its shard and sets the timers. A repeated call changes
// nothing. It returns the keys of the notices that are to stay in their source.
func (s Redis) imports(ctx context.Context, batch store.Moving) (stay []string, err error) {
	p := keys.Partition{Prefix: batch.From.Prefix, Shard: batch.To}
	args := []any{batch.Far, batch.Number, s.Space().Wake(), p.Wake(), s.timerMode()}
	values := make([]string, batch.Len())
	for i := range values {
		key, what := batch.What[2*i], batch.What[2*i+1]
		values[i] = timerOf(key, p.Prefix, what)
		args = append(args, key, what, values[i])
	}

	if stay, err = s.Layout.PutIn(ctx, s.Space().States(p), args); err != nil {
		return nil, err
	}

	if s.Wire().Cluster {
		err = s.setTimers(ctx, batch, values, stay)
	}

	return stay, err
}

// timerOf returns the value of a notice's timer. That is the payload if the notice was adopted and
// has had no attempt, and otherwise the number of the next attempt.
func timerOf(key, prefix, what string) string {
	words := strings.SplitN(what, " ", 4)
	n, err := notice.Decode(key, prefix, words[len(words)-1])
	switch {
	case err != nil:
		return "0" // not a payload
	case n.Adopted && n.AttemptsMade == 0:
		return string(n.Body)
	}

	return strconv.Itoa(n.NextAttempt())
}

// setTimers sets, in a cluster, the timers of imported notices. A timer that already exists was set by
// a producer and stays.
func (s Redis) setTimers(ctx context.Context, batch store.Moving, values, stay []string) error {
	stays := make(map[string]bool, len(stay))
	for _, k := range stay {
		stays[k] = true
	}

	_, err := s.Wire().Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, value := range values {
			key := batch.What[2*i]
			if due, ok := timed(batch.What[2*i+1]); ok && !stays[key] {
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "set", key, value, "nx", "pxat", due-1))
			}
		}
		return nil
	})
	if errors.Is(err, redis.Nil) {
		err = nil
	}

	return s.Wire().Wrapped("arm", err)
}

// finishFar completes the batch of a shard that is on its way to another Redis, whichever mover
// exported it.
func (s Redis) finishFar(ctx context.Context, far Redis, place int) error {
	batch, tag, err := s.Layout.OutstandingAt(ctx, place)
	if err != nil || batch == nil {
		return err
	}

	id, tag, ok := strings.Cut(tag, "/")
	if !ok {
		return nil // its target is a shard of this Redis
	}

	batch.Far = id + "/" + s.Space().Tag(place)
	if batch.To = far.Space().Place(tag); batch.To < 0 {
		return fmt.Errorf("%w: the other side does not know the shard %s, the target of an unfinished batch", store.ErrLayout, tag)
	}

	if err := s.dropTimers(ctx, *batch); err != nil {
		return err
	}

	stay, err := far.imports(ctx, *batch)
	if err != nil {
		return err
	}

	return s.Layout.MoveEnd(ctx, *batch, stay)
}

// copyKey copies the service's own key, if it is stored in Redis.
func (s Redis) copyKey(ctx context.Context, far Redis) error {
	key, err := s.Wire().Redis.Get(ctx, s.Space().Key()).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return s.Wire().Fail("key", err)
	}

	return far.Wire().Wrapped("key", far.Wire().Redis.Set(ctx, far.Space().Key(), key, 0).Err())
}

// copyPauses pauses in far the prefixes and receivers that are paused in this Redis, and resumes all others. It also copies
// the limits of receivers.
func (s Redis) copyPauses(ctx context.Context, far Redis) error {
	want, err := s.Wire().Redis.SMembers(ctx, s.Space().Paused()).Result()
	if err != nil {
		return s.Wire().Fail("paused", err)
	}

	have, err := far.Wire().Redis.SMembers(ctx, far.Space().Paused()).Result()
	if err != nil {
		return far.Wire().Fail("paused", err)
	}

	for _, p := range want {
		if err := far.Wire().Redis.SAdd(ctx, far.Space().Paused(), p).Err(); err != nil {
			return far.Wire().Fail("pause", err)
		}
	}

	for _, p := range have {
		if slices.Contains(want, p) {
			continue
		}
		if err := far.Wire().Redis.SRem(ctx, far.Space().Paused(), p).Err(); err != nil {
			return far.Wire().Fail("resume", err)
		}
	}

	if err := far.Layout.CopyPaused(ctx); err != nil {
		return err
	}
	if err := s.Layout.GiveReceivers(ctx, far.Layout); err != nil {
		return err
	}

	return far.Layout.Publish(ctx, "paused ")
}

// addClients adds the client numbers of another Redis, whose records are about to move to this one.
// It returns the names that have a different number here, or whose number another name has.
func (s Redis) addClients(ctx context.Context, list map[string]int) (differ []string, err error) {
	have, err := s.Store.Clients.Numbers(ctx)
	if err != nil {
		return nil, err
	}

	taken := map[int]bool{}
	for _, n := range have {
		taken[n] = true
	}

	var add []any
	for name, n := range list {
		switch was, ok := have[name]; {
		case ok && was == n:
		case ok, taken[n]:
			differ = append(differ, name)
		default:
			add = append(add, name, n)
		}
	}

	if len(add) == 0 {
		return differ, nil
	}

	return differ, s.Wire().Wrapped("client", s.Wire().Redis.HSet(ctx, s.Space().Clients(), add...).Err())
}
