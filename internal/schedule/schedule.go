// Package schedule takes notices in: it finds their route, checks them, and
// gathers concurrent calls into shared script calls.
//
// A call that finds its node idle goes out alone and at once; while calls to that
// node are under way, others gather and go out together: one script call for each
// route and shard, and all of them in one round trip. So a single caller sees one
// round trip, and many callers share one, however many shards the node has; and
// nobody waits for a node that does not have his shard. A caller that gives up while its
// notice waits takes it along: what has gone out may be stored or not.
//
// The calls that go out belong to the Scheduler, not to one of those who share
// them; Close ends them.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"notifier/internal/coalesce"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Store is what schedule needs of Redis.
type Store interface {
	// ScheduleAll stores batches of shards of one node in one round trip, with one
	// answer each.
	ScheduleAll(ctx context.Context, batches []store.Batch) []store.Batched
	// Node names the node that has a partition's shard.
	Node(ctx context.Context, p keys.Partition) string
}

// Options of a Scheduler.
type Options struct {
	Store  Store
	Routes *route.Table
	Space  keys.Space
	// Timeout of one call to Redis; zero = 5 s. Wait is how much longer one may take
	// because it waits until it is confirmed.
	Timeout, Wait time.Duration
	// Hints, if not nil, takes notices that are due at once, so that they do not wait for a
	// sweep.
	Hints Hints
	// Observer, if not nil, counts the notices of a route that are new.
	Observer Observer
}

// Hints takes the key of a notice that is due; false if there was no room.
type Hints interface {
	Hint(r *route.Route, key string) bool
}

// Observer counts new notices.
type Observer interface {
	Scheduled(route string, n int)
}

// Scheduler is safe for concurrent use.
type Scheduler struct {
	o Options
	// Calls to Redis run under life, which ends when Close has run out of time.
	life context.Context // of all calls, not of one
	end  context.CancelFunc

	callers sync.WaitGroup // within Schedule and Many

	waiting *coalesce.Group[string, waiting] // by node

	mu     sync.Mutex
	closed bool
}

type waiting struct {
	ctx   context.Context // the caller's; who has gone waits for nothing
	to    keys.Partition
	req   store.Request
	reply chan<- store.Reply
}

const (
	// maxCalls is how many pipelines of callers' notices may be under way to one node.
	maxCalls = 2
	// maxBatch is how many notices one script call carries, and maxTogether how many
	// one pipeline.
	maxBatch, maxTogether = 128, 512
	// maxWaiting is how many notices may wait for one node: while it is silent, what
	// callers bring may not fill the memory.
	maxWaiting = 16384
)

// New makes a Scheduler.
func New(o Options) *Scheduler {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	s := &Scheduler{o: o}
	s.waiting = coalesce.NewGroup[string](coalesce.Options{MaxSenders: maxCalls, MinExtra: 1, MaxBatch: maxTogether}, s.flush)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// errClosed is what callers get after Close.
var errClosed = fmt.Errorf("schedule: %w: this instance is stopping", wire.ErrUnavailable)

// Close refuses what comes from now on, and returns when nothing is under way any
// more. What has come before goes out until ctx ends; then it is given up, and its
// callers get store.ErrUnavailable.
func (s *Scheduler) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, s.end)()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.callers.Wait()
	s.waiting.Wait() // who calls no more may have left something that waits
	s.end()
}

// enter counts a caller, until it calls callers.Done. It reports whether callers
// are let in.
func (s *Scheduler) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.callers.Add(1)
	}
	return !s.closed
}

// Check finds the route of a request and says what is wrong with it; errors
// wrap notice.ErrInvalid or store.ErrUnrouted.
func (s *Scheduler) Check(r *store.Request) (*route.Route, error) {
	if !keys.Valid(r.Key) {
		_, err := keys.Parse(r.Key)
		return nil, fmt.Errorf("%w: key: %w", notice.ErrInvalid, err)
	}
	if keys.HasPrefix(r.Key, s.o.Space.Namespace) {
		return nil, fmt.Errorf("%w: key: the segment app may not be %q, the namespace", notice.ErrInvalid, s.o.Space.Namespace)
	}
	to := s.o.Routes.Match(r.Key)
	if to == nil {
		return nil, fmt.Errorf("%s: %w", r.Key, store.ErrUnrouted)
	}
	if r.Delay < 0 || r.Delay > notice.MaxHorizon {
		return nil, fmt.Errorf("%w: delay: %s is not from 0 to %s", notice.ErrInvalid, r.Delay, notice.Short(notice.MaxHorizon))
	}
	if !r.Due.IsZero() && (r.Due.After(time.Now().Add(notice.MaxHorizon)) || r.Due.Before(time.Unix(0, 0))) {
		return nil, fmt.Errorf("%w: due: %s is not within %s", notice.ErrInvalid, r.Due.Format(time.RFC3339), notice.Short(notice.MaxHorizon))
	}
	if wrong := to.Misfits(&r.Content); len(wrong) > 0 {
		return nil, fmt.Errorf("%w: %s %s", notice.ErrInvalid, wrong[0].Field, wrong[0].Text)
	}
	if err := r.Content.Check(); err != nil {
		return nil, err
	}
	return to, nil
}

// Schedule stores one notice. After an error that is wire.ErrUnavailable it is
// unknown whether it was stored: the same call may be made again.
func (s *Scheduler) Schedule(ctx context.Context, req store.Request) (store.Reply, error) {
	to, err := s.Check(&req)
	if err != nil {
		return store.Reply{}, err
	}
	reply := make(chan store.Reply, 1)
	if err := ctx.Err(); err != nil {
		return store.Reply{}, fmt.Errorf("schedule: %w: nothing was sent: %w", wire.ErrUnavailable, err)
	}
	if !s.enter() {
		return store.Reply{}, errClosed
	}
	defer s.callers.Done()
	p := s.o.Space.Partition(to.Prefix, req.Key)
	b := s.waiting.For(s.o.Store.Node(ctx, p))
	if b.Len() >= maxWaiting {
		return store.Reply{}, fmt.Errorf("schedule: %w: %d notices wait for it already", wire.ErrUnavailable, maxWaiting)
	}
	b.Add(waiting{ctx, p, req, reply})
	select {
	case r := <-reply:
		return r, r.Err
	case <-ctx.Done():
		// It is on its way, and may or may not be stored.
		return store.Reply{}, fmt.Errorf("schedule: %w: %w", wire.ErrUnavailable, ctx.Err())
	}
}

// Many stores notices; replies and requests match by index, each with its own
// Err. Requests of one key keep their order.
func (s *Scheduler) Many(ctx context.Context, reqs []store.Request) []store.Reply {
	out := make([]store.Reply, len(reqs))
	if !s.enter() {
		for i := range out {
			out[i].Err = errClosed
		}
		return out
	}
	defer s.callers.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	nodes := map[string]parts{}
	for i := range reqs {
		to, err := s.Check(&reqs[i])
		if err != nil {
			out[i].Err = err
			continue
		}
		p := s.o.Space.Partition(to.Prefix, reqs[i].Key)
		node := s.o.Store.Node(ctx, p)
		if nodes[node] == nil {
			nodes[node] = parts{}
		}
		nodes[node][p] = append(nodes[node][p], i)
	}
	var wg sync.WaitGroup
	for _, all := range nodes {
		wg.Go(func() {
			for len(all) > 0 {
				s.sendSome(ctx, all, reqs, out)
			}
		})
	}
	wg.Wait()
	return out
}

// parts are the places, among those that came together, of notices of each partition
// of one node.
type parts map[keys.Partition][]int

// sendSome sends the next notices of each partition, in one round trip, and takes
// them out of all. There is one script call for a partition, so that notices of one
// key keep their order.
func (s *Scheduler) sendSome(ctx context.Context, all parts, reqs []store.Request, out []store.Reply) {
	var batches []store.Batch
	var places [][]int
	n := 0
	for p, these := range all {
		these = these[:min(len(these), maxBatch, maxTogether-n)]
		if len(these) == 0 {
			break
		}
		n += len(these)
		some := make([]store.Request, len(these))
		for j, i := range these {
			some[j] = reqs[i]
		}
		batches, places = append(batches, store.Batch{Partition: p, Requests: some}), append(places, these)
		if all[p] = all[p][len(these):]; len(all[p]) == 0 {
			delete(all, p)
		}
	}
	tell := func(b, j int, r store.Reply) { out[places[b][j]] = r }
	for _, b := range s.send(ctx, batches, tell) { // the caller waits for all of them
		_ = s.send(ctx, batches[b:b+1], func(_, j int, r store.Reply) { tell(b, j, r) })
	}
}

// flush sends what callers have brought for a node.
func (s *Scheduler) flush(all []waiting) {
	var batches []store.Batch
	var callers [][]waiting
	all = slices.DeleteFunc(all, func(w waiting) bool { return w.ctx.Err() != nil })
	left := map[keys.Partition]int{} // that are in no batch yet
	for _, w := range all {
		left[w.to]++
	}
	at := map[keys.Partition]int{} // the batch that is not full
	for _, w := range all {
		b, ok := at[w.to]
		if !ok || len(callers[b]) == maxBatch {
			b = len(batches)
			n := min(left[w.to], maxBatch)
			batches = append(batches, store.Batch{Partition: w.to, Requests: make([]store.Request, 0, n)})
			callers = append(callers, make([]waiting, 0, n))
			at[w.to] = b
			left[w.to] -= n
		}
		batches[b].Requests, callers[b] = append(batches[b].Requests, w.req), append(callers[b], w)
	}
	if len(batches) == 0 {
		return
	}
	tell := func(b, j int, r store.Reply) { callers[b][j].reply <- r }
	for _, b := range s.send(s.life, batches, tell) {
		if !s.enter() { // nothing may be added any more
			_ = s.send(s.life, batches[b:b+1], func(_, j int, r store.Reply) { tell(b, j, r) })
			continue
		}
		apart := s.waiting.For(s.o.Store.Node(s.life, batches[b].Partition))
		for _, w := range callers[b] {
			apart.Add(w)
		}
		s.callers.Done()
	}
}

// send makes script calls to one node, and tells the reply to each request of each
// batch but those that are to be sent apart, each alone; of one batch alone there is
// none.
func (s *Scheduler) send(ctx context.Context, batches []store.Batch, tell func(batch, request int, r store.Reply)) (apart []int) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout+s.o.Wait)
	defer cancel()
	for b, got := range s.o.Store.ScheduleAll(ctx, batches) {
		reqs := batches[b].Requests
		if errors.Is(got.Err, store.ErrApart) && len(batches) > 1 {
			apart = append(apart, b)
			continue
		}
		if err := got.Err; err != nil {
			if errors.Is(err, context.Canceled) {
				err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
			}
			for j := range reqs {
				tell(b, j, store.Reply{Err: err})
			}
			continue
		}
		s.count(batches[b].Prefix, reqs, got.Replies)
		for j := range reqs {
			tell(b, j, got.Replies[j])
		}
	}
	return apart
}

// count says what is new, and what is due at once.
func (s *Scheduler) count(prefix string, reqs []store.Request, replies []store.Reply) {
	r := s.o.Routes.Prefix(prefix)
	n := 0
	for i := range replies {
		if !replies[i].Created {
			continue
		}
		n++
		if s.o.Hints != nil && !replies[i].Due.After(replies[i].Made.Time()) {
			s.o.Hints.Hint(r, reqs[i].Key)
		}
	}
	if n > 0 && s.o.Observer != nil {
		s.o.Observer.Scheduled(r.Name, n)
	}
}
