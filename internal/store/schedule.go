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
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/schedule.lua
var scheduleSource string

var scheduleScript = wire.NewScript("schedule", WithParts(scheduleSource), true).
	Ends(4).Names("8, #ARGV, 3", "elsewhere").Confirmed()

// Batch holds schedule requests of one partition, for one script call.
type Batch struct {
	keys.Partition
	Requests []*Request // already checked by Content.Check
	// located is the Sight with which the store determined the shard. It is nil in callers' batches, whose
	// notices may also be in an old shard.
	located *Sight
}

// Batched is the result of a [Batch]: one reply for each request, or one error for the whole batch. If Err is set, the
// notices may or may not be stored, and the caller may send the batch again. A reply with the error
// [wire.ErrUnconfirmed] means that its notice is stored, but replicas or disk have not confirmed the write in time.
type Batched struct {
	Replies []Reply
	Err     error
}

// Schedule stores notices of one partition.
func (s *Store) Schedule(ctx context.Context, p keys.Partition, reqs []Request) ([]Reply, error) {
	list := make([]*Request, len(reqs))
	for i := range reqs {
		list[i] = &reqs[i]
	}

	out := s.ScheduleAll(ctx, []Batch{{Partition: p, Requests: list}})
	return out[0].Replies, out[0].Err
}

// ScheduleAll stores batches of notices, usually in one round trip, and returns one result for each batch, in the same
// order. [Store.Node] must return the same name for the partitions of all batches. The error [ErrSendAlone] means that
// a batch was not written, and that the caller must send it again in a separate call.
func (s *Store) ScheduleAll(ctx context.Context, batches []Batch) []Batched {
	since := s.Sight()
	if len(batches) > 0 && batches[0].located == nil && !since.Settled() {
		return s.scheduleWithOld(ctx, batches)
	}

	calls := make([]creation, len(batches))
	for i := range batches {
		b := &batches[i]
		a := s.creating(b)
		defer a.Free()
		calls[i] = creation{Partition: b.Partition, args: a.List(), since: since, lost: len(b.Requests) > 0 && b.Requests[0].Lost}
		if b.located != nil {
			calls[i].since = *b.located
		}
	}

	if len(calls) == 1 {
		calls[0].cmd = s.Layout.Call(ctx, scheduleScript, s.space.Base(calls[0].Shard), calls[0].prepare(s))
	} else {
		// Two batches of the same partition may be stored in either order.
		s.createAll(ctx, calls)
	}

	out := make([]Batched, len(batches))
	for i := range batches {
		if s.o.Cluster {
			s.aloneShards.note(batches[i].Partition, calls[i].cmd.Err())
		}

		if err := calls[i].alone; err != nil {
			out[i].Err = fmt.Errorf("schedule: %w: %w", ErrSendAlone, err)
			continue
		}

		out[i] = s.read(ctx, &batches[i], &calls[i])
		if batches[i].located == nil && errors.Is(out[i].Err, ErrReplaced) {
			out[i] = s.scheduleWithOld(ctx, batches[i:i+1])[0]
		}
	}

	return out
}

var errScheduleMoved = fmt.Errorf("schedule: %w", wire.ErrMoved)

// read returns the result of a call on a batch.
func (s *Store) read(ctx context.Context, b *Batch, c *creation) (out Batched) {
	var refused bool
	if out.Replies, refused, out.Err = Rest(b.Requests, c.cmd.Err(), Reply{Err: errScheduleMoved}, func(some []*Request) ([]Reply, error) {
		rest := s.ScheduleAll(ctx, []Batch{{b.Partition, some, &c.since}})[0]
		return rest.Replies, rest.Err
	}); !refused {
		out.Replies, out.Err = s.created(ctx, b.Requests, c)
	}

	return out
}

// Node groups partitions for [Store.ScheduleAll]: one call may contain batches of all partitions for which Node returns
// the same name. In a cluster, that is usually the name of the Redis node that stores p. Without a cluster it is empty.
func (s *Store) Node(ctx context.Context, p keys.Partition) string {
	if !s.o.Cluster {
		return ""
	}

	// A shard that has just refused a write has a separate name, so that it does not delay other shards.
	return s.aloneShards.name(s.w.Master(ctx, s.space.Base(p.Shard)), p.Shard)
}

// creating returns the arguments of schedule.lua for a batch.
func (s *Store) creating(b *Batch) *wire.Args {
	a := wire.NewArgs(s.space.ClaimPrefix(b.Shard), s.space.Wake(), b.Partition.Wake(), s.Timers.Mode(b.Prefix), "")
	for i := range b.Requests {
		a.Buf = keys.AppendDigest(a.Buf, b.Requests[i].Key)
	}

	a.End()
	a.Text(dataKeys(b.Requests, func(r **Request) *notice.Content { return &(*r).Content }))
	for i := range b.Requests {
		r := b.Requests[i]
		a.Text(r.Key)
		a.Buf = append(a.Buf, r.OnDuplicate.mode())
		a.Buf = appendExpiry(appendWhen(a.Buf, r.Due, r.Delay), r.Content.Expiry())
		a.End()
		a.Buf = r.newTail(a.Buf)
		a.End()
	}

	return a
}

// creation is one call of schedule.lua or restore.lua, which create notices. An instance whose routes are configured
// differently may have stored a notice of the same key under another prefix. So that the script finds this notice, the
// call contains the Redis keys of such prefixes too. If a prefix has been added meanwhile, the script writes nothing
// and the call is sent again.
type creation struct {
	keys.Partition
	args   []any
	others []string // the other prefixes in the last call's keys
	cmd    *redis.Cmd
	alone  error // why the call must be sent alone
	since  Sight // with which the shards were determined
	lost   bool  // the notices are of expired timers, which no client can schedule again
}

// passage is the call as the gate sees it. Expired timers of clients are here only, so their notices are
// created here in any role.
func (c *creation) passage() passage {
	e := passage{shard: c.Shard, creates: true, since: c.since, access: accessOpen}
	if c.lost {
		e.access = accessAny
	}

	return e
}

// prepare returns a function that prepares the call, unless the gate refuses it.
func (c *creation) prepare(s *Store) Prepare {
	return func(v *LayoutView) ([]string, []any, error) {
		if err := s.Layout.refusal(v, c.passage()); err != nil {
			return nil, nil, err
		}
		return c.keys(s, v), c.args, nil
	}
}

// keys returns the keys of the call under the layout v.
func (c *creation) keys(s *Store, v *LayoutView) []string {
	ks := s.space.States(c.Partition)
	c.others = v.Beside(c.Prefix)
	for _, other := range c.others {
		ks = append(ks, s.space.States(c.Under(other))...)
	}

	return ks
}

// createAll sends calls together. It sends a call that Redis did not run again alone.
func (s *Store) createAll(ctx context.Context, calls []creation) {
	v := s.Layout.view.Load()
	refused := func(c creation) bool { return s.Layout.refusal(v, c.passage()) != nil }
	if v != nil && !slices.ContainsFunc(calls, refused) {
		s.createTogether(ctx, v, calls)
	}

	var wg sync.WaitGroup
	for i := range calls {
		c := &calls[i]
		switch {
		case c.cmd != nil && !again(c.cmd.Err()):
		case s.o.Cluster && c.cmd != nil && wire.NotNow(c.cmd.Err()):
			c.alone = c.cmd.Err()
		default:
			wg.Go(func() { c.cmd = s.Layout.Call(ctx, scheduleScript, s.space.Base(c.Shard), c.prepare(s)) })
		}
	}

	wg.Wait()
}

// again reports whether Redis did not run a call of a pipeline, so that the call may be sent again.
func again(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, wire.ErrUnconfirmed) && (redis.HasErrorPrefix(err, "NOSCRIPT") || wire.Refused(err) ||
		wire.NotNow(err))
}

func (s *Store) createTogether(ctx context.Context, v *LayoutView, calls []creation) {
	list := make([]wire.Call, len(calls))
	for i := range calls {
		c := &calls[i]
		list[i] = wire.Call{Keys: c.keys(s, v), Args: c.args}
	}

	for i, cmd := range s.Layout.sendAll(ctx, v, scheduleScript, list) {
		calls[i].cmd = cmd
	}
}

// created returns the replies to a call.
func (s *Store) created(ctx context.Context, reqs []*Request, c *creation) ([]Reply, error) {
	v, err := s.w.List(scheduleScript.Op, c.cmd)
	if lacksDataKey(c.cmd.Err()) {
		return nil, ErrNoDataKey
	}
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}

	late := err
	if v = s.Foreign(c.Prefix, v); len(v) != len(reqs)+1 {
		return nil, wire.BadReply("schedule", "%d answers to %d requests", len(v)-1, len(reqs))
	}

	now := wire.Micros(v[0])
	replies, timers := make([]Reply, len(reqs)), []timer(nil)
	for i := range reqs {
		under, x := c.Prefix, v[i+1]
		if _, kept := x.([]any); kept {
			x, under = splitPrefix(x, c.Prefix, c.others)
		}

		var was string
		replies[i], was = s.scheduled(reqs[i], under, x, now)
		if s.o.Cluster && replies[i].Created {
			timers = append(timers, timer{key: reqs[i].Key, due: replies[i].Due.UnixMilli(), attempt: 1, was: was, anew: true})
		}
	}

	if late != nil {
		s.Unconfirmed(scheduleScript.Op, markUnconfirmed(replies, late), late)
	}

	if s.o.Cluster {
		s.Timers.arm(ctx, c.Prefix, timers, now)
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

// scheduled reads the answer of schedule.lua to a request. was is the score of the notice that was replaced.
func (s *Store) scheduled(r *Request, prefix string, v any, now time.Time) (reply Reply, was string) {
	created := func(due int64, made notice.Made) Reply {
		n := &notice.Notice{Key: r.Key, Route: prefix, Made: made, Due: time.UnixMilli(due).UTC(), Content: r.Content, Client: r.Client}
		if n.ExpiresAfter > 0 {
			n.Expires = n.Due.Add(n.ExpiresAfter.Truncate(time.Millisecond))
		}

		return Reply{Found: Found{Notice: n, State: notice.Scheduled}, Created: true}
	}
	switch v := v.(type) {
	case int64:
		if v < 0 {
			return Reply{Err: ErrExpires}, ""
		}

		return created(v, notice.MadeAt(now)), ""
	case string:
		text, rest, _ := strings.Cut(v, " ")
		birth, was, _ := strings.Cut(rest, " ")
		due, _ := strconv.ParseInt(text, 10, 64)
		made, _ := strconv.ParseInt(birth, 10, 64)
		reply := created(due, notice.Made(made))
		reply.Replaced = true
		return reply, was
	}

	if t, ok := tombstoneOf(v); ok {
		return r.settled(prefix, t), ""
	}

	f, err := ReadFound(r.Key, prefix, v)
	if err != nil {
		return Reply{Err: err}, ""
	}

	return r.kept(f), ""
}

// kept returns the reply to a request for a key that has a notice.
func (r *Request) kept(f Found) Reply {
	reply := Reply{Found: f}
	if r.OnDuplicate != Keep {
		if reply.Differs = r.diff(&f.Content); f.Raw != nil {
			reply.Differs = []string{"body"} // the record cannot be read
		} else if !r.Due.IsZero() && !f.SameDue(r.Due) {
			reply.Differs = append(reply.Differs, "due")
		}
	}

	return reply
}

// diff returns the fields that differ from those of a stored content. That one may have been stored before the route had a seal, or by an
// instance with another SEAL_URL.
func (r *Request) diff(stored *notice.Content) []string {
	if r.Clear != nil && stored.Sealed == "" {
		return r.Clear.Diff(stored)
	}

	fields := r.Content.Diff(stored)
	if len(fields) == 0 || stored.Sealed == "" {
		return fields
	}

	if c := r.otherwise(); c != nil {
		if others := c.Diff(stored); len(others) == 0 || c.URLSealed == stored.URLSealed {
			return others
		}
	}

	return fields
}

// otherwise returns the content with its url in the other form; nil if there is none.
func (r *Request) otherwise() *notice.Content {
	if r.Otherwise == nil {
		return nil
	}
	return r.Otherwise()
}

// same reports whether a notice of which only the tombstone is stored had the same content.
func (r *Request) same(t notice.Tombstone) bool {
	if t.Same(&r.Content) || r.Clear != nil && t.Same(r.Clear) {
		return true
	}

	c := r.otherwise()
	return c != nil && t.Same(c)
}

// Check returns an error for an unknown behaviour.
func (d Duplicate) Check() error {
	switch d {
	case "", Reject, Keep, Replace:
		return nil
	}
	return fmt.Errorf("%w: %.80q; want reject, keep or replace", notice.ErrInvalid, string(d))
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
	// Checked is the prefix of the route that the request was checked for; empty = it was not checked.
	Checked string
	// Clear is the content before it was sealed; nil = it is not sealed.
	Clear *notice.Content
	// Otherwise returns the content as an instance with another SEAL_URL seals it; nil = it cannot. It is called only to compare
	// contents that differ. It may be nil.
	Otherwise func() *notice.Content
	notice.Content
}

// Reply is the result of one Request.
type Reply struct {
	Found
	Created bool
	// Replaced reports whether an older notice was replaced.
	Replaced bool
	// Differs names the content's fields that differ from those of the stored notice, and due if the Request has a Due
	// that differs from the one at the creation. It is set only under Reject, and means that nothing was written.
	Differs []string
	Err     error
}
