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

var scheduleScript = wire.NewScript("schedule", scheduleSource, true).Ends(layout.Outbox, 4).Names("7, #ARGV, 3", "elsewhere").Confirmed()

// Batch is notices of one partition, for one script call.
type Batch struct {
	keys.Partition
	Requests []Request // must be checked before: see Content.Check
}

// Batched is what came of a Batch: a reply to each request, or an error of all of
// them. After an error nothing was written, or, when the connection broke amid it, it
// is unknown, and the call may be repeated. What was not confirmed is the
// ErrUnconfirmed of each reply that would be a success; the reply says what was done
// all the same.
type Batched struct {
	Replies []Reply
	Err     error
}

// Schedule stores notices of one partition.
func (s *Store) Schedule(ctx context.Context, p keys.Partition, reqs []Request) ([]Reply, error) {
	out := s.ScheduleAll(ctx, []Batch{{p, reqs}})
	return out[0].Replies, out[0].Err
}

// ScheduleAll stores batches, with one answer each. Those of shards of one node,
// which Node tells, go and are answered together, in one round trip; others should
// not be among them, because they would be waited for too. What is answered with
// ErrApart would hold the others up as well. Nothing is said of the order of two
// batches of one partition.
func (s *Store) ScheduleAll(ctx context.Context, batches []Batch) []Batched {
	since := s.Forgot()
	if len(s.Formers()) == 0 {
		out := s.scheduleAll(ctx, batches, since)
		if !slices.ContainsFunc(out, func(b Batched) bool { return errors.Is(b.Err, layout.ErrReplaced) }) {
			return out
		}
		for i := range out {
			if errors.Is(out[i].Err, layout.ErrReplaced) {
				out[i] = s.scheduleAmid(ctx, batches[i:i+1])[0]
			}
		}
		return out
	}
	return s.scheduleAmid(ctx, batches)
}

// scheduleAll is ScheduleAll where each batch is of the shard that its notices go to, as
// was found when Redis had forgotten since moves.
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
		if err := calls[i].apart; err != nil {
			out[i].Err = fmt.Errorf("schedule: %w: %w", ErrApart, err)
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

// scheduleRest stores a batch but for those that are on the other side of a migration.
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

// Node names the node that has a partition's shard, or the shard itself while it is
// kept apart; there is one alone outside a cluster.
func (s *Store) Node(ctx context.Context, p keys.Partition) string {
	if !s.o.Cluster {
		return ""
	}
	return s.aparts.name(s.w.Master(ctx, s.space.Base(p.Shard)), p.Shard)
}

// creating are the script's arguments for a batch.
func (s *Store) creating(b *Batch) *wire.Args {
	a := wire.NewArgs(s.space.ClaimPrefix(b.Shard), s.space.Wake(), b.Partition.Wake(), s.timing(b.Prefix), "")
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

// creation is one call of the script. Its keys are also those of the other prefixes
// that it must look under. These may change until the script is let through: who
// asks with those of before is refused by the guard and asks again.
type creation struct {
	keys.Partition
	args   []any
	others []string // the prefixes of the last call
	cmd    *redis.Cmd
	apart  error // why it is to be sent apart from the others
	since  int64 // how often moves had been forgotten when it was found where they go
	lost   bool  // they are of timers that have expired, which is no call to be repeated
}

// keys are those of a call while v is known.
func (c *creation) keys(s *Store, v *layout.View) []string {
	ks := s.space.States(c.Partition)
	c.others = v.Beside(c.Prefix)
	for _, other := range c.others {
		ks = append(ks, s.space.States(c.Under(other))...)
	}
	return ks
}

// create makes calls: several together, and by itself what is one alone, and again by
// itself what has not been let through.
func (s *Store) create(ctx context.Context, calls []creation) {
	old := func(v *layout.View) bool {
		return slices.ContainsFunc(calls, func(c creation) bool { return s.IsOld(v, c.Shard, c.since) })
	}
	if v := s.View(); v != nil && len(calls) > 1 && !old(v) && !v.Side.Closed() {
		s.createTogether(ctx, v, calls)
	}
	var wg sync.WaitGroup
	alone := func(c *creation) {
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
			s.aparts.note(c.Partition, c.cmd.Err())
		}
	}
	for i := range calls {
		switch c := &calls[i]; {
		case len(calls) == 1:
			alone(c)
		case s.o.Cluster && c.cmd != nil && again(c.cmd.Err()) && wire.NotNow(c.cmd.Err()):
			s.aparts.note(c.Partition, c.cmd.Err())
			c.apart = c.cmd.Err()
		case c.cmd == nil || again(c.cmd.Err()):
			wg.Go(func() { alone(c) })
		}
	}
	wg.Wait()
}

// again reports whether a call in a pipeline came to an answer after which it may be
// let through by itself: nothing was done.
func again(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, wire.ErrUnconfirmed) && (redis.HasErrorPrefix(err, "NOSCRIPT") || wire.Refused(err) || wire.NotNow(err))
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

// created are the replies to a call that has been made.
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
		s.unconfirmed(scheduleScript.Op, hold(replies, late), late)
	}
	if s.o.Cluster {
		var t []timer
		for i := range replies {
			if replies[i].Created {
				t = append(t, timer{reqs[i].Key, replies[i].Due.UnixMilli(), 1, overAll})
			}
		}
		s.arm(ctx, c.Prefix, t, now)
	}
	return replies, nil
}

// hold gives each reply that would be a success the error that it is not confirmed,
// and says how many those are.
func hold(replies []Reply, err error) (n int) {
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
	f, err := found(r.Key, prefix, v)
	if err != nil {
		return Reply{Err: err}
	}
	return r.kept(f)
}

// kept is the reply to a request whose key is kept already.
func (r *Request) kept(f Found) Reply {
	reply := Reply{Found: f}
	if r.OnDuplicate != Keep {
		if reply.Differs = r.Content.Diff(&f.Content); f.Raw != nil {
			reply.Differs = []string{"body"} // whatever it was
		}
	}
	return reply
}

// mode is the duplicate's word in schedule.lua.
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
	// Rounded up, so that a delay is never short.
	return strconv.AppendInt(append(b, '+'), (delay.Nanoseconds()+999_999)/1_000_000, 10)
}

// Duplicate says what a schedule call does with a key that is kept already.
type Duplicate string

// The answers to a duplicate.
const (
	Reject  Duplicate = "reject"  // same content: the stored notice; different: a conflict
	Keep    Duplicate = "keep"    // the stored notice, whatever it holds
	Replace Duplicate = "replace" // the new notice takes the old one's place, also amid an attempt
)

// Request is one notice to schedule.
type Request struct {
	Key string
	// Due is the instant, Delay the time from now by Redis's clock. Due is
	// taken if it is not zero; both zero means now.
	Due         time.Time
	Delay       time.Duration
	OnDuplicate Duplicate // empty = Reject
	// Client is the number of the client that schedules it; 0 = none is recorded.
	Client int
	notice.Content
}

// Reply answers one Request.
type Reply struct {
	Found
	Created bool
	// Replaced: an older notice was there and is gone.
	Replaced bool
	// Differs names the content's fields that differ from the stored notice's:
	// not empty only under Reject, and then nothing was written.
	Differs []string
	// Err is this item's own failure.
	Err error
}
