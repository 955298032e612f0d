package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// SchedulerStore stores notices in Redis.
type SchedulerStore interface {
	// ScheduleAll stores batches for shards of one node in one round trip. It returns one result
	// per batch.
	ScheduleAll(ctx context.Context, batches []store.Batch) []store.Batched
	// Node returns the name of the node that holds a partition's shard.
	Node(ctx context.Context, p keys.Partition) string
}

// SchedulerOptions configure a [Scheduler].
type SchedulerOptions struct {
	Store  SchedulerStore
	Routes *route.Table
	Space  keys.Space
	// Timeout bounds one call to Redis; zero = 5 s. Wait is added for writes that wait until
	// replicas or the disk confirm them.
	Timeout, Wait time.Duration
	// Hints receives notices that are due at once, so that they need not wait for a sweep. It may
	// be nil.
	Hints Hints
	// Observer counts the new notices of each route. It may be nil.
	Observer SchedulerObserver
	// Vault seals the contents of routes with a seal; nil = no route has one.
	Vault Vault
	// Now is Redis's clock, with which due times are compared. Nil means time.Now.
	Now func() time.Time
}

// Hints receives the keys of due notices. Hint returns false if it has no room.
type Hints interface {
	Hint(r *route.Route, key string) bool
}

// SchedulerObserver counts new notices.
type SchedulerObserver interface {
	Scheduled(route string, n int)
}

// Scheduler accepts notices. It is safe for concurrent use.
type Scheduler struct {
	o SchedulerOptions
	// Calls to Redis run under life, which ends when Close has run out of time.
	life context.Context // shared by all calls
	end  context.CancelFunc

	callers sync.WaitGroup // running calls of Schedule and Many

	waiting *pace.Batchers[string, waiting] // by node

	mu     sync.Mutex
	closed bool
}

type waiting struct {
	ctx   context.Context // of the caller; a waiting notice whose ctx has ended is dropped
	to    keys.Partition
	req   *store.Request
	reply chan<- store.Reply
}

const (
	// maxCalls is how many pipelines of callers' notices may be in flight to one node.
	maxCalls = 2
	// maxBatch bounds the notices of one script call, and maxTogether those of one pipeline.
	maxBatch, maxTogether = 128, 512
	// maxWaiting bounds the notices that wait for one node, so that callers cannot fill the memory
	// while the node does not answer.
	maxWaiting = 16384
)

// NewScheduler returns a Scheduler.
func NewScheduler(o SchedulerOptions) *Scheduler {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}

	if o.Now == nil {
		o.Now = time.Now
	}

	s := &Scheduler{o: o}
	s.waiting = pace.NewBatchers[string](pace.BatcherOptions{MaxSenders: maxCalls, MinExtra: 1, MaxBatch: maxTogether}, s.flush)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// errClosed is returned to callers after Close.
var errClosed = fmt.Errorf("schedule: %w: this instance is stopping", wire.ErrUnavailable)

// Close refuses new calls and returns when no call is in flight. Waiting notices are sent until ctx
// ends. Then the rest is given up, and its callers get wire.ErrUnavailable.
func (s *Scheduler) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, s.end)()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.callers.Wait()
	s.waiting.Wait() // notices of callers that have gone may still wait
	s.end()
}

// enter registers a caller until it calls callers.Done. It returns false after Close.
func (s *Scheduler) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.callers.Add(1)
	}

	return !s.closed
}

// Fault is a mistake in a request. Err wraps notice.ErrInvalid or store.ErrUnrouted.
type Fault struct {
	Field string
	Err   error
}

// Check returns the faults of a request. A request without faults is marked, so that Schedule and Many do not check it
// again. If the key is invalid or no route covers it, that is the only fault.
func (s *Scheduler) Check(r *store.Request) []Fault {
	to, err := s.match(r.Key)
	if err != nil {
		return []Fault{{"key", err}}
	}

	var faults []Fault
	add := func(field string, err error) {
		if err != nil {
			faults = append(faults, Fault{field, err})
		}
	}
	add("on_duplicate", r.OnDuplicate.Check())
	add(store.When{Due: r.Due, Delay: r.Delay}.Check(s.o.Now()))
	if !r.Due.IsZero() && !r.Expires.IsZero() && !r.Expires.After(r.Due) {
		add("expires", fmt.Errorf("%w: is not after the due time", notice.ErrInvalid))
	}

	if r.Ladder.Repeats() && r.Expires.IsZero() && r.ExpiresAfter == 0 && to.Expires == 0 {
		add("retry", fmt.Errorf("%w: repeats its last step, so the notice needs expires", notice.ErrInvalid))
	}

	for _, m := range to.Misfits(&r.Content) {
		add(m.Field, fmt.Errorf("%w: %s", notice.ErrInvalid, m.Text))
	}

	if len(faults) == 0 { // a content that the route takes may be wrong in itself
		add("", r.Content.Check())
	}

	if len(faults) == 0 {
		r.Checked = to.Prefix
	}

	return faults
}

// match returns the route of a key.
func (s *Scheduler) match(key string) (*route.Route, error) {
	switch {
	case key == "":
		return nil, fmt.Errorf("%w: is missing; want app:module:type:id", notice.ErrInvalid)
	case !keys.Valid(key):
		_, err := keys.Parse(key)
		return nil, fmt.Errorf("%w: %w", notice.ErrInvalid, err)
	case keys.HasPrefix(key, s.o.Space.Namespace):
		return nil, fmt.Errorf("%w: the segment app may not be %q, the namespace", notice.ErrInvalid, s.o.Space.Namespace)
	}

	to := s.o.Routes.Match(key)
	if to == nil {
		return nil, fmt.Errorf("%s: %w", key, store.ErrUnrouted)
	}

	return to, nil
}

// route returns the route of a request, and checks it unless it was checked for this route. It adds the route's expiry to a request
// without one.
func (s *Scheduler) route(r *store.Request) (*route.Route, error) {
	to := s.o.Routes.Match(r.Key)
	if to == nil || to.Prefix != r.Checked {
		if faults := s.Check(r); len(faults) > 0 {
			return nil, faults[0].error()
		}

		to = s.o.Routes.Prefix(r.Checked)
	}

	if r.Expires.IsZero() && r.ExpiresAfter == 0 {
		r.ExpiresAfter = to.Expires
	}

	return to, nil
}

// error returns the fault with the name of its field.
func (f Fault) error() error {
	if f.Field == "" || errors.Is(f.Err, store.ErrUnrouted) {
		return f.Err
	}
	return fmt.Errorf("%w: %s %s", notice.ErrInvalid, f.Field, f.Text())
}

// Text returns the fault without the common first word "invalid".
func (f Fault) Text() string {
	return strings.TrimPrefix(f.Err.Error(), notice.ErrInvalid.Error()+": ")
}

// Schedule stores one notice. After an error that is wire.ErrUnavailable it may be stored or not;
// the same call may be repeated.
func (s *Scheduler) Schedule(ctx context.Context, req store.Request) (store.Reply, error) {
	to, err := s.route(&req)
	if err != nil {
		return store.Reply{}, err
	}

	p := s.o.Space.Partition(to.Prefix, req.Key)
	if err := s.sealed(ctx, to, p, &req); err != nil {
		return store.Reply{}, err
	}

	reply, err := s.one(ctx, p, &req)
	if !errors.Is(err, store.ErrNoDataKey) {
		return reply, err
	}

	s.o.Vault.Forget(p.Shard) // Redis has lost the key
	if err := s.sealed(ctx, to, p, &req); err != nil {
		return store.Reply{}, err
	}

	return s.one(ctx, p, &req)
}

// one stores one notice.
func (s *Scheduler) one(ctx context.Context, p keys.Partition, req *store.Request) (store.Reply, error) {
	reply := make(chan store.Reply, 1)
	if err := ctx.Err(); err != nil {
		return store.Reply{}, fmt.Errorf("schedule: %w: nothing was sent: %w", wire.ErrUnavailable, err)
	}
	if !s.enter() {
		return store.Reply{}, errClosed
	}

	defer s.callers.Done()
	b := s.waiting.For(s.o.Store.Node(ctx, p))
	if b.Len() >= maxWaiting {
		return store.Reply{}, fmt.Errorf("schedule: %w: %d notices wait for it already", wire.ErrUnavailable, maxWaiting)
	}

	b.Add(waiting{ctx, p, req, reply})
	select {
	case r := <-reply:
		return r, r.Err
	case <-ctx.Done():
		// The notice may have been sent, so it may be stored.
		return store.Reply{}, fmt.Errorf("schedule: %w: %w", wire.ErrUnavailable, ctx.Err())
	}
}

// Many stores notices. It returns one reply per request in the same order, each with its Err.
// Requests of one key keep their order.
func (s *Scheduler) Many(ctx context.Context, reqs []store.Request) []store.Reply {
	return store.SealedAnew(reqs, func(r *store.Request) string { return r.Key },
		func(key string) { s.o.Vault.Forget(s.o.Space.Shard(key)) },
		func(some []store.Request) []store.Reply { return s.many(ctx, some) })
}

// many is Many without the repetition for lost data keys.
func (s *Scheduler) many(ctx context.Context, reqs []store.Request) []store.Reply {
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
	add := func(p keys.Partition, i int) {
		node := s.o.Store.Node(ctx, p)
		if nodes[node] == nil {
			nodes[node] = parts{}
		}

		nodes[node][p] = append(nodes[node][p], i)
	}
	var toSeal []sealing
	for i := range reqs {
		to, err := s.route(&reqs[i])
		if err != nil {
			out[i].Err = err
			continue
		}

		p := s.o.Space.Partition(to.Prefix, reqs[i].Key)
		add(p, i)
		if to.Seal != "" {
			toSeal = append(toSeal, sealing{to, p, i})
		}
	}

	var wg sync.WaitGroup
	sealed := s.sealMany(ctx, toSeal, reqs, out)
	for _, all := range nodes {
		wg.Go(func() {
			for len(all) > 0 {
				s.sendSome(ctx, all, reqs, sealed, out)
			}
		})
	}

	wg.Wait()
	return out
}

// parts are the notices for one node by partition, as indexes into the requests of one call.
type parts map[keys.Partition][]int

// sendSome sends the next notices of each partition in one round trip and removes them from all.
// Each partition has one script call, so that notices of one key keep their order. It waits until they are sealed, and leaves out those
// that cannot be.
func (s *Scheduler) sendSome(ctx context.Context, all parts, reqs []store.Request, sealed gates, out []store.Reply) {
	var batches []store.Batch
	var places [][]int
	n := 0
	for p, these := range all {
		these = these[:min(len(these), maxBatch, maxTogether-n)]
		if len(these) == 0 {
			break
		}

		n += len(these)
		if all[p] = all[p][len(these):]; len(all[p]) == 0 {
			delete(all, p)
		}

		these = sealed.await(these, out)
		some := make([]*store.Request, len(these))
		for j, i := range these {
			some[j] = &reqs[i]
		}

		if len(these) > 0 {
			batches, places = append(batches, store.Batch{Partition: p, Requests: some}), append(places, these)
		}
	}

	if len(batches) == 0 {
		return
	}

	deliver := func(b, j int, r store.Reply) { out[places[b][j]] = r }
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	for _, b := range s.answer(batches, s.o.Store.ScheduleAll(bounded, batches), deliver) { // the caller waits for all of them
		s.sendAlone(ctx, batches, b, deliver)
	}
}

// flush sends the waiting notices of a node.
func (s *Scheduler) flush(all []waiting) {
	var batches []store.Batch
	var callers [][]waiting
	all = slices.DeleteFunc(all, func(w waiting) bool { return w.ctx.Err() != nil })
	left := map[keys.Partition]int{} // per partition: notices without a batch
	for _, w := range all {
		left[w.to]++
	}

	at := map[keys.Partition]int{} // per partition: the batch that has room
	for _, w := range all {
		b, ok := at[w.to]
		if !ok || len(callers[b]) == maxBatch {
			b = len(batches)
			n := min(left[w.to], maxBatch)
			batches = append(batches, store.Batch{Partition: w.to, Requests: make([]*store.Request, 0, n)})
			callers = append(callers, make([]waiting, 0, n))
			at[w.to] = b
			left[w.to] -= n
		}

		batches[b].Requests, callers[b] = append(batches[b].Requests, w.req), append(callers[b], w)
	}

	if len(batches) == 0 {
		return
	}

	deliver := func(b, j int, r store.Reply) { callers[b][j].reply <- r }
	ctx, cancel := s.bounded(s.life)
	defer cancel()
	otherShard := func(b store.Batch) bool { return b.Shard != batches[0].Shard }
	mixed := slices.ContainsFunc(batches, otherShard)
	for _, b := range s.answer(batches, s.o.Store.ScheduleAll(ctx, batches), deliver) {
		// Batches of one shard would meet again in its own batcher. After Close, nothing may be added to one.
		if !mixed || !s.enter() {
			s.sendAlone(s.life, batches, b, deliver)
			continue
		}

		separate := s.waiting.For(s.o.Store.Node(s.life, batches[b].Partition))
		for _, w := range callers[b] {
			separate.Add(w)
		}

		s.callers.Done()
	}
}

// bounded returns a context that ends after the timeout of one call to Redis.
func (s *Scheduler) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.o.Timeout+s.o.Wait)
}

// deliver passes on the reply to a request, by the indexes of its batch and in the batch.
type deliver func(batch, request int, r store.Reply)

// sendAlone sends batch b again, in a round trip of its own.
func (s *Scheduler) sendAlone(ctx context.Context, batches []store.Batch, b int, to deliver) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	alone := batches[b : b+1]
	s.answer(alone, s.o.Store.ScheduleAll(ctx, alone), func(_, j int, r store.Reply) { to(b, j, r) })
}

// answer delivers the store's results for batches. separate has the indexes of batches that Redis refused only because
// they were sent with others (store.ErrSendAlone): their requests got no reply.
func (s *Scheduler) answer(batches []store.Batch, results []store.Batched, to deliver) (separate []int) {
	for b, got := range results {
		reqs := batches[b].Requests
		if errors.Is(got.Err, store.ErrSendAlone) && len(batches) > 1 {
			separate = append(separate, b)
			continue
		}

		if err := got.Err; err != nil {
			if errors.Is(err, context.Canceled) {
				err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
			}

			for j := range reqs {
				to(b, j, store.Reply{Err: err})
			}

			continue
		}

		s.count(batches[b].Prefix, reqs, got.Replies)
		for j := range reqs {
			to(b, j, got.Replies[j])
		}
	}

	return separate
}

// count reports new notices to the Observer, and those that are due at once to Hints.
func (s *Scheduler) count(prefix string, reqs []*store.Request, replies []store.Reply) {
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
