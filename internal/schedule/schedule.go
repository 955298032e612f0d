// Package schedule takes notices in: it finds their route, checks them, and
// gathers concurrent calls into shared script calls.
//
// A call that finds Redis idle goes out alone and at once; while calls are
// under way, others gather and go out together. So a single caller sees one
// round trip, and many callers share one. A caller that gives up while its
// notice waits takes it along: what has gone out may be stored or not.
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
)

// Store is what schedule needs of Redis.
type Store interface {
	Schedule(ctx context.Context, prefix string, shard int, reqs []store.Request) ([]store.Reply, error)
}

// Options of a Scheduler.
type Options struct {
	Store  Store
	Routes *route.Table
	Space  keys.Space
	// Timeout of one call to Redis; zero = 5 s.
	Timeout time.Duration
	// Due hears of notices that are due at once: nobody need wait for a sweep.
	Due func(r *route.Route, key string)
	// Scheduled counts new notices of a route.
	Scheduled func(route string, n int)
}

// Scheduler is safe for concurrent use.
type Scheduler struct {
	o  Options
	mu sync.Mutex
	by map[lane]*coalesce.Batcher[waiting]
}

type lane struct {
	prefix string
	shard  int
}

type waiting struct {
	ctx   context.Context //nolint:containedctx // the caller's; who has gone waits for nothing
	req   store.Request
	reply chan<- store.Reply
}

// calls is how many script calls of one route may be under way; most is how
// many notices one carries.
const (
	calls = 2
	most  = 128
	// crowd is how many notices of one route may wait for their call: while
	// Redis is silent, what callers bring may not fill the memory.
	crowd = 16384
)

// New makes a Scheduler.
func New(o Options) *Scheduler {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	return &Scheduler{o: o, by: map[lane]*coalesce.Batcher[waiting]{}}
}

// Check finds the route of a request and tells what is wrong with it; errors
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
	if to.Target.Kind == route.KindNotice && r.URL == "" {
		return nil, fmt.Errorf("%w: url is missing: notices of route %s bring their own", notice.ErrInvalid, to.Name)
	}
	if to.Target.Kind != route.KindNotice && r.URL != "" {
		return nil, fmt.Errorf("%w: url: route %s has a target of its own", notice.ErrInvalid, to.Name)
	}
	if err := r.Content.Check(); err != nil {
		return nil, err
	}
	return to, nil
}

// Schedule stores one notice. After an error that is store.ErrUnavailable it is
// unknown whether it was stored: the same call may be made again.
func (s *Scheduler) Schedule(ctx context.Context, req store.Request) (store.Reply, error) {
	to, err := s.Check(&req)
	if err != nil {
		return store.Reply{}, err
	}
	reply := make(chan store.Reply, 1)
	if err := ctx.Err(); err != nil {
		return store.Reply{}, fmt.Errorf("schedule: %w: nothing was sent: %w", store.ErrUnavailable, err)
	}
	l := s.lane(lane{to.Prefix, s.o.Space.Shard(req.Key)})
	if l.Len() >= crowd {
		return store.Reply{}, fmt.Errorf("schedule: %w: %d notices of route %s wait for it already", store.ErrUnavailable, crowd, to.Name)
	}
	l.Add(waiting{ctx, req, reply})
	select {
	case r := <-reply:
		return r, r.Err
	case <-ctx.Done():
		// It is on its way, and may or may not be stored.
		return store.Reply{}, fmt.Errorf("schedule: %w: %w", store.ErrUnavailable, ctx.Err())
	}
}

// Many stores notices; replies and requests match by index, each with its own
// Err. Requests of one key keep their order.
func (s *Scheduler) Many(ctx context.Context, reqs []store.Request) []store.Reply {
	out := make([]store.Reply, len(reqs))
	index := map[lane][]int{}
	for i := range reqs {
		to, err := s.Check(&reqs[i])
		if err != nil {
			out[i].Err = err
			continue
		}
		l := lane{to.Prefix, s.o.Space.Shard(reqs[i].Key)}
		index[l] = append(index[l], i)
	}
	var wg sync.WaitGroup
	for l, all := range index {
		wg.Go(func() {
			for len(all) > 0 {
				n := min(len(all), most)
				part := make([]store.Request, n)
				for j, i := range all[:n] {
					part[j] = reqs[i]
				}
				for j, r := range s.send(ctx, l, part) {
					out[all[j]] = r
				}
				all = all[n:]
			}
		})
	}
	wg.Wait()
	return out
}

func (s *Scheduler) lane(l lane) *coalesce.Batcher[waiting] {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.by[l]
	if b == nil {
		b = coalesce.New(calls, 1, most, func(w []waiting) {
			w = slices.DeleteFunc(w, func(w waiting) bool { return w.ctx.Err() != nil })
			if len(w) == 0 {
				return
			}
			reqs := make([]store.Request, len(w))
			for i := range w {
				reqs[i] = w[i].req
			}
			for i, r := range s.send(context.Background(), l, reqs) {
				w[i].reply <- r
			}
		})
		s.by[l] = b
	}
	return b
}

// send makes one script call.
func (s *Scheduler) send(ctx context.Context, l lane, reqs []store.Request) []store.Reply {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	replies, err := s.o.Store.Schedule(ctx, l.prefix, l.shard, reqs)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		replies = make([]store.Reply, len(reqs))
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	r := s.o.Routes.Prefix(l.prefix)
	n := 0
	for i := range replies {
		if !replies[i].Created {
			continue
		}
		n++
		if s.o.Due != nil && !replies[i].Due.After(replies[i].Made) {
			s.o.Due(r, reqs[i].Key)
		}
	}
	if n > 0 && s.o.Scheduled != nil {
		s.o.Scheduled(r.Name, n)
	}
	return replies
}
