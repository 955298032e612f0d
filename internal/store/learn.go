package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/register.lua
var registerSource string

// Learn reads the layout (see the package comment) from all reachable shards, and registers the prefixes of this
// instance's routes there. If Redis has no layout yet, Learn writes one. It returns [ErrLayout] if the data does not
// fit the version or the settings of this instance. In a cluster, one reachable shard is usually enough.
func (s *Layout) Learn(ctx context.Context) error {
	learnt, away := false, error(nil)
	// Places that are added during the loop are learnt when they are needed.
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

// Known checks whether Redis still has the known layout, and reads it otherwise. In a cluster it
// asks the first shard whose node answers.
func (s *Layout) Known(ctx context.Context) (err error) {
	if !s.w.Cluster {
		return s.known(ctx, 0)
	}

	for shard := range s.space.Places() {
		if s.w.Nodes.Slow(s.w.Master(ctx, s.space.Base(shard))) {
			err = s.w.Fail("layout", wire.ErrAway)
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

// KnownTimeout is the timeout for one node of a cluster when another one may answer.
const KnownTimeout = 300 * time.Millisecond

func (s *Layout) known(ctx context.Context, shard int) error {
	before := s.view.Load()
	stored, err := s.c.HMGet(ctx, s.space.Layout(shard), "state", "part").Result()
	if err != nil {
		return s.w.Fail("layout", err)
	}

	state, _ := stored[0].(string)
	part, _ := stored[1].(string)
	return s.compare(ctx, shard, before, state, part)
}

// compare compares the state and the id of a shard's data with the known ones, and reads the layout if they differ.
func (s *Layout) compare(ctx context.Context, shard int, before *LayoutView, state, part string) error {
	if before != nil && state == before.State && s.identity.isPart(shard, part) {
		s.report(nil)
		return nil
	}

	return s.learn(ctx, s.space.Base(shard), before)
}

// learn reads the layout of one shard, unless another goroutine has read it since before was known.
// base is the key prefix of the shard.
func (s *Layout) learn(ctx context.Context, base string, before *LayoutView) error {
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
		known = append(known, now.members...)
	}

	if err := errors.Join(s.copyNew(ctx, keys.ShardKeys(base)), s.newReceivers(ctx, keys.ShardKeys(base))); err != nil {
		return err
	}

	next, err := s.register(ctx, base, known, s.marks())
	if err != nil {
		if errors.Is(err, ErrLayout) {
			s.report(err)
		}
		return err
	}

	s.report(nil)
	s.learnt.Add(1) // another Redis may answer now
	if now == nil || now.State != next.State {
		s.tellRecorded(now, next)
		s.view.Store(next)
		s.places.learnt(now, next)
		if (now != nil || next.Side.State != SideOpen) && (now == nil || now.Side.State != next.Side.State || now.Side.ID != next.Side.ID) {
			s.o.Watcher.SideChanged(next.Side)
		}
	}

	return nil
}

// report passes a change of the layout's validity to the Watcher.
func (s *Layout) report(err error) {
	if s.wrong.Swap(err != nil) != (err != nil) {
		s.o.Watcher.LayoutChanged(err)
	}
}

// marks returns what register writes about the history: the bound of a shard's outbox, or nothing
// without a history.
func (s *Layout) marks() string {
	if s.o.History <= 0 {
		return ""
	}
	return strconv.Itoa(max(s.o.History/s.space.Places(), 1))
}

// register adds prefixes to one shard and to notifier:routes, and writes the history's bound. If
// the shard has a copy of the layout, this takes one round trip.
func (s *Layout) register(ctx context.Context, base string, known []string, history string) (*LayoutView, error) {
	write := "0"
	for range 5 {
		slices.Sort(known)
		known = slices.Compact(known)
		r, err := s.sendRegister(ctx, base, known, write, history)
		if err != nil {
			return nil, err
		}

		if r.state == "" && s.sided(r.migration) {
			continue
		}
		if r.meta.Err() != nil && r.state == "" {
			return nil, s.w.Fail("meta", r.meta.Err())
		}

		outdated := false
		if r.meta.Err() == nil {
			grown, err := s.meta(ctx, r.meta.Val())
			if err != nil {
				return nil, err
			}
			if write = "1"; grown {
				continue
			}

			outdated = r.identity != s.identity.known()
		}

		missing := r.missing()
		missing = append(missing, s.unrecorded(slices.Concat(r.prefixes, missing))...)
		if r.state != "" && len(missing) == 0 && !outdated {
			s.partIs(s.space.Place(keys.ShardKeys(base).Tag()), r.part)
			return r.view(s.o), s.share(ctx, r.routes, r.prefixes)
		}

		known = append(append(known, missing...), r.prefixes...)
	}

	return nil, fmt.Errorf("register: %w: the prefixes keep changing", wire.ErrUnavailable)
}

// registration is the reply of register.lua, with notifier:meta and notifier:routes of the same
// round trip.
type registration struct {
	space     keys.Space // as sent to the script
	side      Side       // as sent to the script
	state     string     // "" = the shard has another layout, and nothing was written
	history   int        // maximum number of entries in the shard's outbox
	identity  string     // the shard's copy of the data identity
	part      string     // the id of the shard's data
	prefixes  []string   // of the shard, with their records
	migration string     // the stored side, if state is empty
	meta      *redis.MapStringStringCmd
	routes    *redis.StringSliceCmd
}

// sendRegister calls register.lua once.
func (s *Layout) sendRegister(ctx context.Context, base string, known []string, write, history string) (registration, error) {
	r := registration{space: s.space.Now(), side: s.Side()}
	shard := keys.ShardKeys(base)
	args := []any{Version, r.space.Shards, write, history, strings.Join(r.space.Tags, ","), strings.Join(r.space.Former, ","),
		keys.JoinCounts(r.space.Replaced), r.space.Places(), r.space.Place(shard.Tag()), r.side.String(), s.identity.known(), rand.Text()}
	for _, p := range known {
		args = append(args, p)
	}

	// A full Redis must let instances start: they deliver its notices.
	src := s.w.TextFor(registerSource)
	var reply *redis.Cmd
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply = wire.Eval(ctx, p, src, []string{shard.Layout(), shard.Routes()}, args...)
		r.meta, r.routes = p.HGetAll(ctx, s.space.Meta()), p.SMembers(ctx, s.space.Routes())
		return nil
	})

	parts, failed := reply.StringSlice()
	switch {
	case failed != nil:
		return r, s.w.Fail("register", errors.Join(err, failed))
	case len(parts) < 4: // not a reply of register.lua
		return r, wire.BadReply("register", "%d answers", len(parts))
	case err != nil && !s.w.Cluster: // in a cluster, a shard works without the node of the other keys
		return r, s.w.Fail("register", err)
	}

	return r, r.read(base, parts)
}

// read reads the reply of register.lua for a shard.
func (r *registration) read(base string, parts []string) (err error) {
	if r.state = parts[0]; r.state == "" {
		r.migration = parts[len(parts)-1]
		return nil
	}

	if r.history, err = strconv.Atoi(parts[1]); err != nil {
		return fmt.Errorf("%w: the history bound %[3]q in %[2]slayout is not a number", ErrLayout, base, parts[1])
	}

	r.identity, r.part, r.prefixes = parts[2], parts[3], parts[4:]
	return nil
}

// missing returns the valid prefixes and records of notifier:routes that the shard does not have.
func (r *registration) missing() []string {
	return slices.DeleteFunc(slices.Clone(r.routes.Val()), func(p string) bool {
		return !registrable(p) || slices.Contains(r.prefixes, p)
	})
}

// view returns the layout that was registered, for an instance with some options.
func (r *registration) view(o LayoutOptions) *LayoutView {
	v := newView(r.state, r.prefixes, barePrefixes(o.Prefixes), o.Handles, r.side)
	v.history, v.first = r.history, r.space.First()
	v.whole = v.first == 0 || strings.HasSuffix(v.State, "+")
	return v
}

// share adds prefixes of a shard that are missing in notifier:routes. In a cluster that key may be
// unreachable; then the shards' copies are enough.
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

// meta checks notifier:meta, and writes it if Redis has no layout yet. If new shards have replaced
// this Layout's, it adds them.
func (s *Layout) meta(ctx context.Context, got map[string]string) (grown bool, err error) {
	name, space, was := s.space.Meta(), s.space.Now(), s.Side()
	if !Begun(got) {
		if got, err = s.writeMeta(ctx); err != nil {
			return false, err
		}
	}

	if err := s.identityIs(ctx, got, was); err != nil {
		return false, err
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
		s.places.reset(next.First()) // before any caller sees a shard that has old shards
		grown := s.o.Watcher.Grow(next.Places())
		s.space.Grow(next)
		grown()
		return true, nil
	}

	return s.sided(got["side"]), checkMeta(got, space)
}

// writeMeta writes notifier:meta of a Redis without a layout, and returns the stored fields:
// another instance may have written them first.
func (s *Layout) writeMeta(ctx context.Context) (map[string]string, error) {
	name, space := s.space.Meta(), s.space.Now()
	s.side.Store(nil) // another Redis without a layout
	id := s.copiedIdentity(ctx)
	var after *redis.MapStringStringCmd
	_, err := s.c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, name, "layout", Version)
		p.HSetNX(ctx, name, "shards", space.Shards)
		p.HSetNX(ctx, name, "id", id)
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
		return nil, s.w.Fail("meta", err)
	}

	return after.Val(), nil
}

// Prefixes returns every prefix that any configuration has registered. It was complete at each
// write of this instance.
func (s *Layout) Prefixes() []string {
	if v := s.view.Load(); v != nil {
		return v.Prefixes
	}
	return nil
}
