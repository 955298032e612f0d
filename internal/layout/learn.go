package layout

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/node"
	"notifier/internal/wire"
)

//go:embed lua/register.lua
var registerSource string

// Learn makes this Store's prefixes known in every shard, and learns what is
// known there; at the first start of all it writes the layout. Its error is
// ErrLayout if Redis holds something else. Calls that write do it by themselves: so
// a shard of a cluster whose node is away now is learnt of when it is back, and one
// that is there is enough.
func (s *Layout) Learn(ctx context.Context) error {
	learnt, away := false, error(nil)
	// Those that are learnt of meanwhile are learnt when they are needed.
	for shard := range s.space.Places() {
		switch err := s.learn(ctx, s.space.Base(shard), s.view.Load()); {
		case err == nil:
			learnt = true
		case s.w.Cluster && errors.Is(err, wire.ErrUnavailable):
			away = err
		default:
			return err
		}
	}
	if learnt {
		return nil
	}
	return away
}

// Known reports whether Redis is the one this Store knows; if not, it learns. In a
// cluster it asks the first shard whose node answers.
func (s *Layout) Known(ctx context.Context) (err error) {
	if !s.w.Cluster {
		return s.known(ctx, 0)
	}
	for shard := range s.space.Places() {
		if s.w.Nodes.Slow(s.w.Master(ctx, s.space.Base(shard))) {
			err = s.w.Fail("layout", node.ErrAway)
			continue
		}
		one, cancel := context.WithTimeout(ctx, KnownTimeout)
		err = s.known(one, shard)
		cancel()
		if !errors.Is(err, wire.ErrUnavailable) {
			return err
		}
	}
	return err
}

// KnownTimeout is how long one node of a cluster is waited for where another may
// answer.
const KnownTimeout = 300 * time.Millisecond

func (s *Layout) known(ctx context.Context, shard int) error {
	before := s.view.Load()
	state, err := s.c.HGet(ctx, s.space.Layout(shard), "state").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return s.w.Fail("layout", err)
	}
	if before != nil && state == before.State {
		s.tell(nil)
		return nil
	}
	return s.learn(ctx, s.space.Base(shard), before)
}

// learn learns what one shard knows, unless that has been done since before was
// what this Store knew. base begins the names of the shard's keys.
func (s *Layout) learn(ctx context.Context, base string, before *View) error {
	select {
	case s.learning <- struct{}{}:
		defer func() { <-s.learning }()
	case <-ctx.Done():
		return s.w.Fail("layout", ctx.Err())
	}
	now := s.view.Load()
	if now != before {
		return nil
	}
	known := slices.Clone(s.o.Prefixes)
	if now != nil {
		known = append(known, now.Prefixes...)
	}
	next, err := s.register(ctx, base, known, s.marks())
	if err != nil {
		if errors.Is(err, ErrLayout) {
			s.tell(err)
		}
		return err
	}
	s.tell(nil)
	s.learnt.Add(1) // this may be another Redis
	if now == nil || now.State != next.State {
		s.view.Store(next)
		s.places.learnt(now, next)
		if (now != nil || next.Side.State != SideOpen) && (now == nil || now.Side.State != next.Side.State || now.Side.ID != next.Side.ID) {
			s.o.Watcher.SideChanged(next.Side)
		}
	}
	return nil
}

// tell says how the layout stands, where that has changed.
func (s *Layout) tell(err error) {
	if s.wrong.Swap(err != nil) != (err != nil) {
		s.o.Watcher.LayoutChanged(err)
	}
}

// marks is what this Store says of history where it registers: how many endings a
// shard holds at most, or nothing where it has none itself.
func (s *Layout) marks() string {
	if s.o.History <= 0 {
		return ""
	}
	return strconv.Itoa(max(s.o.History/s.space.Places(), 1))
}

// register makes prefixes known in one shard and in notifier:routes, and what is
// said of history. One round trip does where the shard has its copy of the layout.
func (s *Layout) register(ctx context.Context, base string, known []string, history string) (*View, error) {
	// A full Redis lets instances begin: it has notices to deliver.
	src := s.w.TextFor(registerSource)
	write := "0"
	for range 5 {
		slices.Sort(known)
		known = slices.Compact(known)
		all := make([]any, len(known))
		for i, p := range known {
			all[i] = p
		}
		space, side := s.space.Now(), s.Side()
		var meta *redis.MapStringStringCmd
		var routes *redis.StringSliceCmd
		var reply *redis.Cmd
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			reply = wire.Eval(ctx, p, src, []string{keys.ShardKeys(base).Layout(), keys.ShardKeys(base).Routes()},
				append([]any{Version, space.Shards, write, history, strings.Join(space.Tags, ","), strings.Join(space.Former, ","),
					keys.JoinCounts(space.Replaced), space.Places(), space.Place(keys.ShardKeys(base).Tag()), side.String()}, all...)...)
			meta, routes = p.HGetAll(ctx, s.space.Meta()), p.SMembers(ctx, s.space.Routes())
			return nil
		})
		there, rerr := reply.StringSlice()
		if rerr != nil {
			return nil, s.w.Fail("register", errors.Join(err, rerr))
		}
		if len(there) < 2 { // it is not register.lua that answers
			return nil, fmt.Errorf("register: %d answers", len(there))
		}
		if err != nil && !s.w.Cluster { // in a cluster a shard goes on without the master of the other keys
			return nil, s.w.Fail("register", err)
		}
		held := 0
		if there[0] != "" {
			if held, err = strconv.Atoi(there[1]); err != nil {
				return nil, fmt.Errorf("%w: %slayout says %q of history, which is no number", ErrLayout, base, there[1])
			}
			there = slices.Delete(there, 1, 2)
		}
		if there[0] == "" && s.sided(there[len(there)-1]) {
			continue
		}
		if meta.Err() != nil && there[0] == "" {
			return nil, s.w.Fail("meta", meta.Err())
		}
		if meta.Err() == nil {
			grown, err := s.meta(ctx, meta.Val())
			if err != nil {
				return nil, err
			}
			if write = "1"; grown {
				continue
			}
		}
		missing := slices.DeleteFunc(slices.Clone(routes.Val()), func(p string) bool { return keys.CheckPrefix(p) != nil || slices.Contains(there, p) })
		if there[0] != "" && len(missing) == 0 {
			v := newView(there[0], there[1:], s.o.Prefixes, side)
			v.history, v.First = held, space.First()
			v.whole = v.First == 0 || strings.HasSuffix(v.State, "+")
			return v, s.share(ctx, routes, there[1:])
		}
		known = append(known, missing...)
		if there[0] != "" {
			known = append(known, there[1:]...)
		}
	}
	return nil, fmt.Errorf("register: %w: the prefixes change all the time", wire.ErrUnavailable)
}

// share adds to notifier:routes what a shard knows and it does not. In a cluster
// it may be out of reach; then the shards' own copies have to do.
func (s *Layout) share(ctx context.Context, routes *redis.StringSliceCmd, there []string) error {
	var more []any
	for _, p := range there {
		if !slices.Contains(routes.Val(), p) {
			more = append(more, p)
		}
	}
	if routes.Err() != nil || len(more) == 0 {
		return nil
	}
	if err := s.c.SAdd(ctx, s.space.Routes(), more...).Err(); err != nil && !s.w.Cluster && !redis.IsOOMError(err) {
		return s.w.Fail("register", err)
	}
	return nil
}

// meta checks what notifier:meta says, and writes it at the first start of all. Where
// others have taken the place of this Store's shards, it grows by them.
func (s *Layout) meta(ctx context.Context, got map[string]string) (grown bool, err error) {
	name, space := s.space.Meta(), s.space.Now()
	if len(got) == 0 {
		s.side.Store(nil) // it is another Redis, which has not begun
		var after *redis.MapStringStringCmd
		_, err := s.c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSetNX(ctx, name, "layout", Version)
			p.HSetNX(ctx, name, "shards", space.Shards)
			if len(space.Tags) > 0 {
				p.HSetNX(ctx, name, "tags", strings.Join(space.Tags, ","))
			}
			if len(space.Former) > 0 {
				p.HSetNX(ctx, name, "former", strings.Join(space.Former, ","))
				p.HSetNX(ctx, name, "replaced", keys.JoinCounts(space.Replaced))
			}
			after = p.HGetAll(ctx, name)
			return nil
		})
		if err != nil {
			return false, s.w.Fail("meta", err)
		}
		got = after.Val()
	}
	if at, err := strconv.ParseInt(got["since"], 10, 64); err == nil {
		s.since.Store(at)
	}
	s.came.Store(got["came"])
	next, err := spaceOf(s.space.Namespace, got)
	if err == nil && checkVersion(name, got) == nil && next.Grows(space) {
		return true, s.announceAgain(ctx, next, space)
	}
	if err == nil && s.space.Grows(next) {
		s.places.reset(next.First()) // before anybody is told of a shard that has others before it
		grown := s.o.Watcher.Grow(next.Places())
		s.space.Grow(next)
		grown()
		return true, nil
	}
	return s.sided(got["side"]), checkMeta(got, space)
}

// Prefixes lists every prefix that any configuration ever had, as far as this
// Store knows: at each of its writes that was all there were.
func (s *Layout) Prefixes() []string {
	if v := s.view.Load(); v != nil {
		return v.Prefixes
	}
	return nil
}
