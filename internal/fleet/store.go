package fleet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifier/internal/layout"
	"notifier/internal/wire"
)

//go:embed lua/beat.lua
var beatSource string

//go:embed lua/depart.lua
var departSource string

// mayGrow is false: what they write is bounded, and a Redis that is full must
// not make the living look dead.
var (
	beatScript   = wire.NewScript("beat", beatSource, false).Anywhere()
	departScript = wire.NewScript("depart", departSource, false).Anywhere()
)

// Store keeps the heartbeats in Redis. Its methods are safe for concurrent use.
type Store struct {
	l *layout.Layout
	w *wire.Client
}

// NewStore makes the Store of the Redis of a layout.
func NewStore(l *layout.Layout) *Store { return &Store{l, l.Wire()} }

// Bounds of what instances tell and ask.
const (
	MaxAbout     = 16 << 10 // bytes that an instance may tell of itself, or in figures
	MaxAsked     = 64       // instances whose connections one Beat asks for
	maxInstances = 1000
)

// Beat is a sign of life.
type Beat struct {
	ID      string
	Leaving bool
	// NoEvents: expired events do not arrive at the instance.
	NoEvents bool
	// About and Figures are what the instance tells of itself; empty = as
	// before.
	About, Figures string
	// Since is when who ended is told from, by Redis's clock in ms.
	Since int64
	// Ask names instances whose connections are asked for: MaxAsked at most.
	Ask []string
}

// Sign is the last sign of life of an instance.
type Sign struct {
	ID string
	// At is when it was given, by Redis's clock in ms.
	At int64
	// Bound: it had a connection of its own then, which can be asked for.
	Bound bool
	// Leaving: it takes no new work.
	Leaving bool
	// NoEvents: expired events do not arrive at it.
	NoEvents bool
	// Connections are how many it has; -1 = not asked for, or forbidden.
	Connections int
	// score is as Redis has it, so that End can tell whether it has changed.
	score string
}

// Departure tells of an instance that has ended.
type Departure struct {
	ID   string
	Gone bool // it was counted out; else it left by itself
}

// Roll answers a Beat.
type Roll struct {
	Now int64 // by Redis's clock in ms
	// Known: the instance's last sign was still there. Ended: it has been
	// counted out, and this sign of life was not taken.
	Known, Ended bool
	// Connections are the caller's own; -1 = that is forbidden.
	Connections int
	Signs       []Sign
	Departures  []Departure
}

// Beat gives a sign of life and hears who else has given one. Once another call has
// found that another Redis answers, with data of another layout, nothing is written:
// ErrLayout. Signs do not compare it themselves, since in a cluster it lies at other
// nodes; until then they are written there.
func (s *Store) Beat(ctx context.Context, b Beat) (Roll, error) {
	if err := s.l.Right(ctx); err != nil {
		return Roll{}, err
	}
	flags := 0
	if b.Leaving {
		flags++
	}
	if b.NoEvents {
		flags += 2
	}
	args := []any{b.ID, s.w.Space.FleetChannel(), s.w.Space.InstanceChannel(""), flags, b.About, b.Figures, b.Since}
	asked := make(map[string]int, len(b.Ask))
	for i, id := range b.Ask[:min(len(b.Ask), MaxAsked)] {
		args = append(args, id)
		asked[id] = i + 1
	}
	v, err := s.w.Run(ctx, beatScript, s.fleetKeys(), args)
	if err != nil {
		s.w.Reload(ctx)
		return Roll{}, err
	}
	if len(v) != 5 {
		return Roll{}, s.w.Fail(beatScript.Op, fmt.Errorf("a reply of %d parts", len(v)))
	}
	now, _ := v[0].(int64)
	answer, _ := v[1].(int64)
	counts, _ := v[2].([]any)
	connections := func(i int) int {
		if i < len(counts) {
			if n, ok := counts[i].(int64); ok {
				return int(n)
			}
		}
		return -1
	}
	r := Roll{Now: now, Known: answer == 1, Ended: answer == -1, Connections: connections(0)}
	eachScore(v[3], func(id, score string, f float64) {
		sign := signOf(id, score, f)
		if i, ok := asked[id]; ok {
			sign.Connections = connections(i)
		}
		r.Signs = append(r.Signs, sign)
	})
	eachScore(v[4], func(id, _ string, f float64) {
		r.Departures = append(r.Departures, Departure{ID: id, Gone: f == math.Trunc(f)})
	})
	return r, nil
}

func signOf(id, score string, f float64) Sign {
	whole, fraction := math.Modf(f)
	flags := int(fraction * 8)
	return Sign{
		ID: id, At: int64(whole), NoEvents: flags&1 != 0, Bound: flags&2 != 0, Leaving: flags&4 != 0,
		Connections: -1, score: score,
	}
}

// eachScore reads a flat list of members and scores.
func eachScore(v any, f func(id, score string, at float64)) {
	list, _ := v.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		id, _ := list[i].(string)
		score, _ := list[i+1].(string)
		at, err := strconv.ParseFloat(score, 64)
		if err != nil || math.IsInf(at, 0) {
			continue
		}
		f(id, score, at)
	}
}

// Leave ends an instance by its own will.
func (s *Store) Leave(ctx context.Context, id string) error {
	_, err := s.depart(ctx, id, "", id)
	return err
}

// CountOut ends an instance that is gone, unless it has given a sign of life
// since the given one, or has a connection. It reports whether it has ended.
func (s *Store) CountOut(ctx context.Context, gone Sign, by string) (bool, error) {
	return s.depart(ctx, gone.ID, gone.score, by)
}

func (s *Store) depart(ctx context.Context, id, seen, by string) (bool, error) {
	if err := s.l.Right(ctx); err != nil {
		return false, err
	}
	v, err := s.w.Run(ctx, departScript, s.fleetKeys(), []any{id, s.w.Space.FleetChannel(), s.w.Space.InstanceChannel(""), seen, by})
	if err != nil {
		return false, err
	}
	return len(v) == 1 && v[0] == int64(1), nil
}

func (s *Store) fleetKeys() []string {
	return []string{s.w.Space.FleetSigns(), s.w.Space.FleetAbout(), s.w.Space.FleetEnded()}
}

// Told is what an instance tells of itself.
type Told struct{ About, Figures string }

// Told reads what instances tell of themselves, in the order of their ids;
// both are empty where nothing is known.
func (s *Store) Told(ctx context.Context, ids []string) ([]Told, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	fields := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		fields = append(fields, id, id+" figures")
	}
	var v []any
	if err := s.w.At(ctx, s.w.Space.FleetAbout(), func(ctx context.Context) (err error) {
		v, err = s.w.Redis.HMGet(ctx, s.w.Space.FleetAbout(), fields...).Result()
		return s.failFleet("told", err)
	}); err != nil {
		return nil, err
	}
	if len(v) != len(fields) {
		return nil, s.failFleet("told", fmt.Errorf("%d answers to %d fields", len(v), len(fields)))
	}
	list := make([]Told, len(ids))
	for i := range list {
		list[i].About, _ = v[2*i].(string)
		list[i].Figures, _ = v[2*i+1].(string)
	}
	return list, nil
}

// Signs lists the last signs of life, the latest first, and the time by Redis
// in ms. It is for whoever is no member itself.
func (s *Store) Signs(ctx context.Context) (now int64, list []Sign, err error) {
	var clock *redis.TimeCmd
	var signs *redis.ZSliceCmd
	if err := s.w.At(ctx, s.w.Space.FleetSigns(), func(ctx context.Context) error {
		_, err := s.w.Holder(ctx, s.w.Space.FleetSigns()).Pipelined(ctx, func(p redis.Pipeliner) error {
			clock = p.Time(ctx)
			signs = p.ZRevRangeByScoreWithScores(ctx, s.w.Space.FleetSigns(), &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: maxInstances})
			return nil
		})
		return s.failFleet("signs", err)
	}); err != nil {
		return 0, nil, err
	}
	for _, z := range signs.Val() {
		id, _ := z.Member.(string)
		if !math.IsInf(z.Score, 0) {
			list = append(list, signOf(id, "", z.Score))
		}
	}
	return clock.Val().UnixMilli(), list, nil
}

// failFleet is fail where the fleet's keys are read.
func (s *Store) failFleet(op string, err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return s.w.Fail(op, err)
}

// Tell sends a message to the instance of that id, or to all if it is empty.
// It may be lost.
func (s *Store) Tell(ctx context.Context, id, text string) error {
	channel := s.w.Space.FleetChannel()
	if id != "" {
		channel = s.w.Space.InstanceChannel(id)
	}
	if err := s.w.AnyNode(ctx).Publish(ctx, channel, text).Err(); err != nil {
		return s.w.Fail("tell", err)
	}
	return nil
}

// Heard is what comes over a Line: the confirmation that it is subscribed, or
// a message.
type Heard struct {
	Subscribed bool
	Text       string
}

// Line is the subscription of an instance to its own channel and to that of
// all. Next waits until something comes; Close ends it, also for a Next that
// waits.
type Line interface {
	Next(ctx context.Context) (Heard, error)
	Close() error
}

type line struct {
	*redis.PubSub
	confirmed int
}

// Next implements Line.
func (l *line) Next(ctx context.Context) (Heard, error) {
	for {
		v, err := l.Receive(ctx)
		if err != nil {
			return Heard{}, err
		}
		switch m := v.(type) {
		case *redis.Subscription:
			if l.confirmed++; l.confirmed == 2 {
				return Heard{Subscribed: true}, nil
			}
		case *redis.Message:
			return Heard{Text: m.Payload}, nil
		}
	}
}

// Listen opens the Line of an instance, at the node that keeps the signs of
// life.
func (s *Store) Listen(ctx context.Context, id string) (Line, error) {
	own, all := s.w.Space.InstanceChannel(id), s.w.Space.FleetChannel()
	switch c := s.w.Redis.(type) {
	case *redis.ClusterClient:
		// The last line may have ended because its node is no master any more.
		s.w.Reload(ctx)
		node, err := c.MasterForKey(ctx, s.w.Space.FleetSigns())
		if err != nil {
			return nil, s.w.Fail("listen", err)
		}
		return &line{PubSub: node.Subscribe(ctx, own, all)}, nil
	case *redis.Client:
		return &line{PubSub: c.Subscribe(ctx, own, all)}, nil
	}
	return nil, fmt.Errorf("listen: a %T cannot subscribe", s.w.Redis)
}

// ErrForeign says that the keys of the fleet hold what another program has written.
var ErrForeign = errors.New("another program may use the keys under which instances say that they live")
