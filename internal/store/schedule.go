package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/schedule.lua
var scheduleSource string

var scheduleScript = wire.NewScript("schedule", layout.Order+scheduleSource, true).
	Ends(layout.Outbox, 4).Names("7, #ARGV, 3", "elsewhere").Confirmed()

// Batch holds schedule requests of one partition, for one script call.
type Batch struct {
	keys.Partition
	Requests []Request // already checked by Content.Check
}

// Batched is the result of a [Batch]: one reply for each request, or one error for all. After an error nothing was
// written, or the outcome is unknown because the connection broke. The caller may send the batch again.
//
// A reply with the error ErrUnconfirmed means that the notice was written, but not confirmed as NOTIFIER_DURABILITY
// requires.
type Batched struct {
	Replies []Reply
	Err     error
}

// Schedule stores notices of one partition.
func (s *Store) Schedule(ctx context.Context, p keys.Partition, reqs []Request) ([]Reply, error) {
	out := s.ScheduleAll(ctx, []Batch{{p, reqs}})
	return out[0].Replies, out[0].Err
}

// ScheduleAll stores several batches of notices in one round trip. It returns one result for each batch, with the
// same index. All batches must be of the same [Store.Node]. A batch with the error ErrSendAlone must be sent again
// alone. If two batches are for the same route and shard, their order is not defined.
func (s *Store) ScheduleAll(ctx context.Context, batches []Batch) []Batched {
	since := s.LostMoves()
	if len(s.OldShards()) == 0 {
		out := s.scheduleAll(ctx, batches, since)
		if !slices.ContainsFunc(out, func(b Batched) bool { return errors.Is(b.Err, layout.ErrReplaced) }) {
			return out
		}
		for i := range out {
			if errors.Is(out[i].Err, layout.ErrReplaced) {
				out[i] = s.scheduleWithOld(ctx, batches[i:i+1])[0]
			}
		}
		return out
	}
	return s.scheduleWithOld(ctx, batches)
}

// scheduleAll is ScheduleAll for batches whose shards are the current ones of their keys. since is
// Layout.LostMoves at the time when the caller determined the shards.
func (s *Store) scheduleAll(ctx context.Context, batches []Batch, since int64) []Batched {
	calls := make([]creation, len(batches))
	for i := range batches {
		b := &batches[i]
		a := s.creating(b)
		defer a.Free()
		calls[i] = creation{Partition: b.Partition, args: a.List(), since: since, lost: len(b.Requests) > 0 && b.Requests[0].Lost}
	}
	s.create(ctx, calls)
	out := make([]Batched, len(batches))
	for i := range batches {
		if err := calls[i].alone; err != nil {
			out[i].Err = fmt.Errorf("schedule: %w: %w", ErrSendAlone, err)
			continue
		}
		if which := layout.ElsewhereIn(calls[i].cmd.Err()); which != nil {
			out[i] = s.scheduleRest(ctx, batches[i], which, since)
			continue
		}
		out[i].Replies, out[i].Err = s.created(ctx, batches[i].Requests, &calls[i])
	}
	return out
}

// scheduleRest stores the notices of a batch that are not on the other side of a migration. which
// contains the indexes of the others.
func (s *Store) scheduleRest(ctx context.Context, b Batch, which map[int]bool, since int64) Batched {
	var rest Batched
	if some := layout.Without(b.Requests, which); len(some) > 0 {
		if rest = s.scheduleAll(ctx, []Batch{{b.Partition, some}}, since)[0]; rest.Err != nil {
			return rest
		}
	}
	out := Batched{Replies: make([]Reply, len(b.Requests))}
	for i := range out.Replies {
		if which[i] {
			out.Replies[i].Err = fmt.Errorf("schedule: %w", wire.ErrMoved)
			continue
		}
		out.Replies[i], rest.Replies = rest.Replies[0], rest.Replies[1:]
	}
	return out
}

// Node returns the name of the group of a partition. [Store.ScheduleAll] may send the batches of one group together.
// In a cluster a group is a node, or one shard that takes no writes at present. Elsewhere all partitions are one
// group.
func (s *Store) Node(ctx context.Context, p keys.Partition) string {
	if !s.o.Cluster {
		return ""
	}
	return s.aloneShards.name(s.w.Master(ctx, s.space.Base(p.Shard)), p.Shard)
}

// creating returns the arguments of schedule.lua for a batch.
func (s *Store) creating(b *Batch) *wire.Args {
	a := wire.NewArgs(s.space.ClaimPrefix(b.Shard), s.space.Wake(), b.Partition.Wake(), s.Timers.Mode(b.Prefix), "")
	for i := range b.Requests {
		a.Buf = keys.AppendDigest(a.Buf, b.Requests[i].Key)
	}
	a.End()
	for i := range b.Requests {
		r := &b.Requests[i]
		a.Text(r.Key)
		a.Buf = append(a.Buf, r.OnDuplicate.mode())
		a.Buf = appendWhen(a.Buf, r.Due, r.Delay)
		a.End()
		n := notice.Notice{Content: r.Content, Client: r.Client}
		a.Buf = n.AppendTail(a.Buf)
		a.End()
	}
	return a
}

// creation is one call of schedule.lua or restore.lua, the scripts that create notices. Its Redis keys are those of
// all prefixes, because the notice's key may have a notice under another prefix. If the prefixes have changed, the
// script writes nothing, and the call is sent again.
type creation struct {
	keys.Partition
	args   []any
	others []string // the other prefixes in the last call's keys
	cmd    *redis.Cmd
	alone  error // why the call must be sent alone
	since  int64 // Layout.LostMoves when the shards were determined
	lost   bool  // the notices are of expired timers, which no client can schedule again
}

// keys returns the keys of the call under the layout v.
func (c *creation) keys(s *Store, v *layout.View) []string {
	ks := s.space.States(c.Partition)
	c.others = v.Beside(c.Prefix)
	for _, other := range c.others {
		ks = append(ks, s.space.States(c.Under(other))...)
	}
	return ks
}

// create sends several calls together. A single call is sent alone, and so is each call that Redis
// did not run.
func (s *Store) create(ctx context.Context, calls []creation) {
	if len(calls) == 1 {
		s.createAlone(ctx, &calls[0])
		return
	}

	if v := s.View(); v != nil && !v.Side.Closed() && !s.anyOld(v, calls) {
		s.createTogether(ctx, v, calls)
	}

	var wg sync.WaitGroup
	for i := range calls {
		c := &calls[i]
		switch {
		case c.cmd != nil && !again(c.cmd.Err()):
		case s.o.Cluster && c.cmd != nil && wire.NotNow(c.cmd.Err()):
			s.aloneShards.note(c.Partition, c.cmd.Err())
			c.alone = c.cmd.Err()
		default:
			wg.Go(func() { s.createAlone(ctx, c) })
		}
	}
	wg.Wait()
}

// anyOld reports whether the shard of a call is no longer the current one of its keys.
func (s *Store) anyOld(v *layout.View, calls []creation) bool {
	return slices.ContainsFunc(calls, func(c creation) bool { return s.IsOld(v, c.Shard, c.since) })
}

func (s *Store) createAlone(ctx context.Context, c *creation) {
	c.cmd = s.Knowing(ctx, s.space.Base(c.Shard), func(v *layout.View) *redis.Cmd {
		switch {
		case s.IsOld(v, c.Shard, c.since):
			return layout.Replaced(ctx)
		case v.Side.Closed() && !c.lost:
			return layout.Moved(ctx)
		}
		return s.Send(ctx, v, scheduleScript, c.keys(s, v), c.args)
	})
	if s.o.Cluster {
		s.aloneShards.note(c.Partition, c.cmd.Err())
	}
}

// again reports whether Redis did not run a call of a pipeline, so that the call may be sent again.
func again(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, wire.ErrUnconfirmed) && (redis.HasErrorPrefix(err, "NOSCRIPT") || wire.Refused(err) ||
		wire.NotNow(err))
}

func (s *Store) createTogether(ctx context.Context, v *layout.View, calls []creation) {
	list := make([]wire.Call, len(calls))
	for i := range calls {
		c := &calls[i]
		list[i] = wire.Call{Keys: c.keys(s, v), Args: c.args}
	}
	for i, cmd := range s.SendAll(ctx, v, scheduleScript, list) {
		calls[i].cmd = cmd
	}
}

// created returns the replies to a call.
func (s *Store) created(ctx context.Context, reqs []Request, c *creation) ([]Reply, error) {
	v, err := s.w.List(scheduleScript.Op, c.cmd)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}
	late := err
	if len(v) != len(reqs)+1 {
		return nil, fmt.Errorf("schedule: %d answers to %d requests", len(v)-1, len(reqs))
	}
	now := wire.Micros(v[0])
	replies := make([]Reply, len(reqs))
	for i := range reqs {
		under, x := c.Prefix, v[i+1]
		if _, kept := x.([]any); kept {
			x, under = splitPrefix(x, c.Prefix, c.others)
		}
		replies[i] = s.scheduled(&reqs[i], under, x, now)
	}
	if late != nil {
		s.Unconfirmed(scheduleScript.Op, markUnconfirmed(replies, late), late)
	}
	if s.o.Cluster {
		var t []timer
		for i := range replies {
			if replies[i].Created {
				t = append(t, timer{reqs[i].Key, replies[i].Due.UnixMilli(), 1, overAll})
			}
		}
		s.Timers.arm(ctx, c.Prefix, t, now)
	}
	return replies, nil
}

// markUnconfirmed sets an error in each successful reply, because its write is not confirmed. It returns their
// number.
func markUnconfirmed(replies []Reply, err error) (n int) {
	for i := range replies {
		if r := &replies[i]; r.Err == nil && len(r.Differs) == 0 {
			r.Err = err
			n++
		}
	}
	return n
}

func (s *Store) scheduled(r *Request, prefix string, v any, now time.Time) Reply {
	created := func(due int64, made notice.Made) Reply {
		n := &notice.Notice{Key: r.Key, Route: prefix, Made: made, Due: time.UnixMilli(due).UTC(), Content: r.Content, Client: r.Client}
		return Reply{Found: Found{Notice: n, State: notice.Scheduled}, Created: true}
	}
	switch v := v.(type) {
	case int64:
		return created(v, notice.MadeAt(now))
	case string:
		text, birth, _ := strings.Cut(v, " ")
		due, _ := strconv.ParseInt(text, 10, 64)
		made, _ := strconv.ParseInt(birth, 10, 64)
		reply := created(due, notice.Made(made))
		reply.Replaced = true
		return reply
	}
	if t, ok := tombstoneOf(v); ok {
		return r.settled(prefix, t)
	}
	f, err := ReadFound(r.Key, prefix, v)
	if err != nil {
		return Reply{Err: err}
	}
	return r.kept(f)
}

// kept returns the reply to a request for a key that has a notice.
func (r *Request) kept(f Found) Reply {
	reply := Reply{Found: f}
	if r.OnDuplicate != Keep {
		if reply.Differs = r.Content.Diff(&f.Content); f.Raw != nil {
			reply.Differs = []string{"body"} // the record cannot be read
		}
	}
	return reply
}

// mode returns the letter for schedule.lua.
func (d Duplicate) mode() byte {
	switch d {
	case Keep:
		return 'k'
	case Replace:
		return 'p'
	}
	return 'r'
}

func appendWhen(b []byte, due time.Time, delay time.Duration) []byte {
	if !due.IsZero() {
		return strconv.AppendInt(append(b, '='), due.UnixMilli(), 10)
	}
	// Rounded up, so that a delay is never too short.
	return strconv.AppendInt(append(b, '+'), (delay.Nanoseconds()+999_999)/1_000_000, 10)
}

// Duplicate is the behaviour of a schedule call whose key already has a notice.
type Duplicate string

// The behaviours.
const (
	Reject  Duplicate = "reject"  // returns the stored notice; other content is a conflict
	Keep    Duplicate = "keep"    // returns the stored notice, with any content
	Replace Duplicate = "replace" // replaces the stored notice, even during an attempt
)

// Request describes a notice to schedule.
type Request struct {
	Key string
	// Due is an absolute time. Delay is relative to Redis's clock, and is used if Due is zero. If
	// both are zero, the notice is due now.
	Due         time.Time
	Delay       time.Duration
	OnDuplicate Duplicate // empty = Reject
	// Client is the number of the client that schedules the notice; 0 = not recorded.
	Client int
	notice.Content
}

// Reply is the result of one Request.
type Reply struct {
	Found
	Created bool
	// Replaced reports whether an older notice was replaced.
	Replaced bool
	// Differs names the content's fields that differ from those of the stored notice. It is set
	// only under Reject, and means that nothing was written.
	Differs []string
	Err     error
}
