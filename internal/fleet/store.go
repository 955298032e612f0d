package fleet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/beat.lua
var beatSource string

//go:embed lua/depart.lua
var departSource string

// Both scripts are sent also when Redis is out of memory (mayGrow is false). Their writes are
// bounded, and a full Redis must not make alive instances look dead.
var (
	beatScript   = wire.NewScript("beat", beatSource, false).Anywhere()
	departScript = wire.NewScript("depart", departSource, false).Anywhere()
)

// Store reads and writes heartbeats in Redis. It is safe for concurrent use.
type Store struct {
	l *store.Layout
	w *wire.Client
}

// NewStore returns a Store in the Redis of a layout.
func NewStore(l *store.Layout) *Store { return &Store{l, l.Wire()} }

// Limits of heartbeats and their replies.
const (
	MaxAbout     = 16 << 10 // bytes of a description, and of figures
	MaxAsked     = 64       // instances whose connections one heartbeat asks for
	maxInstances = 1000
)

// Heartbeat is the message that an instance publishes at each interval.
type Heartbeat struct {
	ID      string
	Leaving bool
	// NoEvents is true if expired events do not arrive at the instance.
	NoEvents bool
	// About and Figures are the instance's description and figures. If empty, the stored ones stay.
	About, Figures string
	// Since limits the reply's Departures to later ones. It is a time of Redis's clock in ms.
	Since int64
	// Ask are the ids of instances whose connections the reply counts: MaxAsked at most.
	Ask []string
}

// LastHeartbeat is the stored last heartbeat of an instance.
type LastHeartbeat struct {
	ID string
	// At is the time of the heartbeat, by Redis's clock in ms.
	At int64
	// Bound is true if the instance's channel had a subscriber at that time. Only then does a
	// missing subscriber prove that its connections are closed.
	Bound bool
	// Leaving is true if the instance takes no new work.
	Leaving bool
	// NoEvents is true if expired events do not arrive at the instance.
	NoEvents bool
	// Connections is how many subscribers the instance's channel has now. It is -1 if the heartbeat
	// did not ask, or if the question is forbidden.
	Connections int
	// score is the stored score, by which DeclareDead recognizes a later heartbeat.
	score string
}

// Departure is an instance that has ended.
type Departure struct {
	ID   string
	Dead bool // it was declared dead; if false, it left by itself
}

// Roster is the reply to a heartbeat: the state of all instances.
type Roster struct {
	Now int64 // by Redis's clock in ms
	// Known is true if the caller's previous heartbeat was still stored. Ended is true if the
	// caller was declared dead, and this heartbeat was not stored.
	Known, Ended bool
	// Connections is how many subscribers the caller's channel has. It is -1 if the question is
	// forbidden.
	Connections int
	Heartbeats  []LastHeartbeat
	Departures  []Departure
	// Taps are the open taps, as package tracing names them.
	Taps []string
	// Receivers is the version of the paused receivers; empty = none was published.
	Receivers string
}

// Publish stores this instance's heartbeat in Redis. It returns the last heartbeats of the instances, and those that
// left or were declared dead since b.Since, at most a minute ago. If this instance was declared dead itself, Publish
// stores nothing, and [Roster].Ended is true. The error is [store.ErrLayout] if this process cannot use the data in
// Redis, for example because of another version.
func (s *Store) Publish(ctx context.Context, b Heartbeat) (Roster, error) {
	// The script cannot check the layout, because in a cluster another node may store it.
	if err := s.l.Right(ctx); err != nil {
		return Roster{}, err
	}

	flags := 0
	if b.Leaving {
		flags++
	}

	if b.NoEvents {
		flags += 2
	}

	args := []any{b.ID, s.w.Space.FleetChannel(s.w.DB), s.w.Space.InstanceChannel(s.w.DB, ""), flags, b.About, b.Figures, b.Since}
	asked := make(map[string]int, len(b.Ask))
	for i, id := range b.Ask[:min(len(b.Ask), MaxAsked)] {
		args = append(args, id)
		asked[id] = i + 1
	}

	v, err := s.w.Run(ctx, beatScript, append(s.fleetKeys(), s.w.Space.Taps(), s.w.Space.ReceiversVersion()), args)
	if err != nil {
		s.w.Reload(ctx)
		return Roster{}, err
	}

	if len(v) != 7 {
		return Roster{}, s.w.Fail(beatScript.Op, fmt.Errorf("reply has %d parts", len(v)))
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

	r := Roster{Now: now, Known: answer == 1, Ended: answer == -1, Connections: connections(0)}
	eachScore(v[3], func(id, score string, f float64) {
		heartbeat := lastHeartbeatOf(id, score, f)
		if i, ok := asked[id]; ok {
			heartbeat.Connections = connections(i)
		}

		r.Heartbeats = append(r.Heartbeats, heartbeat)
	})
	eachScore(v[4], func(id, _ string, f float64) {
		r.Departures = append(r.Departures, Departure{ID: id, Dead: f == math.Trunc(f)})
	})
	r.Taps = tapsOf(v[5])
	r.Receivers, _ = v[6].(string)
	return r, nil
}

// tapsOf returns the taps in a reply.
func tapsOf(reply any) (taps []string) {
	list, _ := reply.([]any)
	for _, t := range list {
		if text, ok := t.(string); ok {
			taps = append(taps, text)
		}
	}

	return taps
}

func lastHeartbeatOf(id, score string, f float64) LastHeartbeat {
	whole, fraction := math.Modf(f)
	flags := int(fraction * 8)
	return LastHeartbeat{
		ID: id, At: int64(whole), NoEvents: flags&1 != 0, Bound: flags&2 != 0, Leaving: flags&4 != 0,
		Connections: -1, score: score,
	}
}

// eachScore calls f for each pair of a flat list of members and scores.
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

// Leave records that an instance has left by itself.
func (s *Store) Leave(ctx context.Context, id string) error {
	_, err := s.depart(ctx, id, "", id)
	return err
}

// DeclareDead marks an instance as dead, unless it has published another heartbeat since the given
// one or has a connection. It reports whether the instance is marked.
func (s *Store) DeclareDead(ctx context.Context, dead LastHeartbeat, by string) (bool, error) {
	return s.depart(ctx, dead.ID, dead.score, by)
}

func (s *Store) depart(ctx context.Context, id, seen, by string) (bool, error) {
	if err := s.l.Right(ctx); err != nil {
		return false, err
	}

	args := []any{id, s.w.Space.FleetChannel(s.w.DB), s.w.Space.InstanceChannel(s.w.DB, ""), seen, by}
	v, err := s.w.Run(ctx, departScript, s.fleetKeys(), args)
	if err != nil {
		return false, err
	}

	return len(v) == 1 && v[0] == int64(1), nil
}

func (s *Store) fleetKeys() []string {
	return []string{s.w.Space.FleetSigns(), s.w.Space.FleetAbout(), s.w.Space.FleetEnded()}
}

// Description is the stored description and figures of an instance.
type Description struct{ About, Figures string }

// Descriptions returns the descriptions of instances, in the order of their ids. Both parts are
// empty for an unknown instance.
func (s *Store) Descriptions(ctx context.Context, ids []string) ([]Description, error) {
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
		return nil, s.failFleet("told", fmt.Errorf("reply has %d values for %d fields", len(v), len(fields)))
	}

	list := make([]Description, len(ids))
	for i := range list {
		list[i].About, _ = v[2*i].(string)
		list[i].Figures, _ = v[2*i+1].(string)
	}

	return list, nil
}

// Heartbeats returns the last heartbeats, the latest first, and the time of Redis's clock in ms. It
// is for callers that are not instances.
func (s *Store) Heartbeats(ctx context.Context) (now int64, list []LastHeartbeat, err error) {
	var clock *redis.TimeCmd
	var heartbeats *redis.ZSliceCmd
	if err := s.w.At(ctx, s.w.Space.FleetSigns(), func(ctx context.Context) error {
		_, err := s.w.Holder(ctx, s.w.Space.FleetSigns()).Pipelined(ctx, func(p redis.Pipeliner) error {
			clock = p.Time(ctx)
			heartbeats = p.ZRevRangeByScoreWithScores(ctx, s.w.Space.FleetSigns(), &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: maxInstances})
			return nil
		})
		return s.failFleet("signs", err)
	}); err != nil {
		return 0, nil, err
	}

	for _, z := range heartbeats.Val() {
		id, _ := z.Member.(string)
		if !math.IsInf(z.Score, 0) {
			list = append(list, lastHeartbeatOf(id, "", z.Score))
		}
	}

	return clock.Val().UnixMilli(), list, nil
}

// failFleet wraps an error of reading the fleet's keys. A wrong type becomes [ErrForeign].
func (s *Store) failFleet(op string, err error) error {
	if err == nil {
		return nil
	}

	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}

	return s.w.Fail(op, err)
}

// Send publishes a message to an instance, or to all instances if id is empty. Messages may be
// lost.
func (s *Store) Send(ctx context.Context, id, text string) error {
	channel := s.w.Space.FleetChannel(s.w.DB)
	if id != "" {
		channel = s.w.Space.InstanceChannel(s.w.DB, id)
	}

	if err := s.w.AnyNode(ctx).Publish(ctx, channel, text).Err(); err != nil {
		return s.w.Fail("tell", err)
	}

	return nil
}

// Message is an event of a [Subscription]: its confirmation, or a received message.
type Message struct {
	Subscribed bool
	Text       string
}

// Subscription receives the messages to one instance and those to all. Next waits for a message or
// the confirmation. Close ends the subscription and a waiting Next.
type Subscription interface {
	Next(ctx context.Context) (Message, error)
	Close() error
}

type subscription struct {
	wire.Subscription
	confirmed int
}

// Next implements [Subscription].
func (l *subscription) Next(ctx context.Context) (Message, error) {
	for {
		v, err := wire.Receive(ctx, l.Subscription)
		if err != nil {
			return Message{}, err
		}

		switch m := v.(type) {
		case *redis.Subscription:
			if l.confirmed++; l.confirmed == 2 {
				return Message{Subscribed: true}, nil
			}
		case *redis.Message:
			return Message{Text: m.Payload}, nil
		}
	}
}

// Listen opens the subscription of an instance, at the node that stores the heartbeats.
func (s *Store) Listen(ctx context.Context, id string) (Subscription, error) {
	own, all := s.w.Space.InstanceChannel(s.w.DB, id), s.w.Space.FleetChannel(s.w.DB)
	// One master has all keys and channels of the fleet, which share a hash tag.
	// The last subscription may have ended because its node is no longer a master.
	s.w.Reload(ctx)
	node, err := s.w.HolderOf(ctx, s.w.Space.FleetSigns())
	if err != nil {
		return nil, s.w.Fail("listen", err)
	}

	sub, err := wire.Subscribe(ctx, node, own, all)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}

	return &subscription{Subscription: sub}, nil
}

// ErrForeign is returned if the fleet's keys contain data that another program has written.
var ErrForeign = errors.New("the keys of heartbeats contain data of another program")
