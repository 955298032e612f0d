package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown = errors.New("redis is down")
	// errUnanswered simulates a call that Redis has run but whose reply is lost.
	errUnanswered = errors.New("i/o timeout")
)

// entry is a notice of the fake store.
type entry struct {
	n       *notice.Notice
	class   notice.Class // of n when it was added: its attempt may be writing n
	prefix  string
	shard   int
	at      time.Time // next attention
	lapses  int
	claimed bool
	token   string
	held    notice.Held // cause of its postponement
}

// fakeStore is a Store in memory with the guarantees that dispatch relies on: a notice is won by
// one claim at a time, and a sweep finds overdue notices.
type fakeStore struct {
	mu       sync.Mutex
	entries  []*entry
	made     int
	attempts int            // of the next notices
	won      map[string]int // number of claims, by key
	ended    []store.Settlement
	calls    []string      // claim calls in order: "keys p/0 n", "oldest p/0 n", "newest p/0 n"
	settles  int           // settle calls
	claim    error         // result of claim calls
	settle   error         // result of settle calls
	short    int           // number of settle calls that are done but not confirmed
	woke     bool          // settles make a notice due that has waited
	slow     chan struct{} // holds claim calls
	hangs    int           // only this shard's claim calls wait for slow, counted from 1; 0 = all
	held     chan struct{} // holds settle calls
	late     chan struct{} // holds the replies of Recover
	refuse   string        // why pushes are refused
	// unavailable: pushes are refused because Redis accepts no writes at the moment.
	unavailable bool
	tokens      []string // of claim calls in order
}

func newFakeStore() *fakeStore { return &fakeStore{won: map[string]int{}} }

// put adds n overdue notices.
func (s *fakeStore) put(prefix string, shard, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		k := fmt.Sprintf("%s:m:t:%d", prefix, s.made)
		at := time.Now().Add(-time.Minute + time.Duration(s.made)*time.Millisecond)
		s.made++
		n := &notice.Notice{Key: k, Route: prefix, Due: at, AttemptsMade: s.attempts}
		s.entries = append(s.entries, &entry{n: n, class: n.Class(), prefix: prefix, shard: shard, at: at})
	}
}

func (s *fakeStore) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fakeStore) ClaimKeys(ctx context.Context, p keys.Partition, lease store.Lease, ks []string) (store.Claimed, error) {
	return s.claims(ctx, callMade{"keys", p, lease.Token, len(ks)}, func(list []*entry) (c store.Claimed, won []*entry) {
		for _, k := range ks {
			i := slices.IndexFunc(list, func(e *entry) bool { return e.n.Key == k })
			switch {
			case i < 0:
				c.Stale++
				c.StaleKeys = append(c.StaleKeys, k)
				if at := slices.IndexFunc(s.entries, func(e *entry) bool { return e.n.Key == k && !e.claimed }); at >= 0 {
					c.Early = append(c.Early, store.Early{Key: k, At: s.entries[at].at})
				}
			case list[i].claimed && list[i].token == lease.Token: // a retry
				won = append(won, list[i])
			case list[i].claimed, slices.Contains(won, list[i]):
				c.Lost++
			default:
				won = append(won, list[i])
			}
		}
		return c, won
	})
}

func (s *fakeStore) Sweep(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error) {
	if o.Expired {
		return s.expire(p, lease, o.Limit)
	}
	if len(o.Keys) > 0 {
		return s.sorted(ctx, p, lease, o)
	}
	what := "oldest"
	if o.Newest {
		what = "newest"
	}
	return s.claims(ctx, callMade{what, p, lease.Token, o.Limit}, func(list []*entry) (c store.Claimed, won []*entry) {
		for _, e := range list {
			if !e.claimed && !e.at.After(time.Now().Add(-o.Grace)) {
				won = append(won, e)
			}
		}
		if c.More = len(won) >= o.Limit; c.More {
			if o.Newest {
				won = won[len(won)-o.Limit:]
			} else {
				won = won[:o.Limit]
			}
		}
		return c, won
	})
}

// sorted claims the first attempts of the keys before others.
func (s *fakeStore) sorted(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error) {
	return s.claims(ctx, callMade{"sorted", p, lease.Token, len(o.Keys)}, func(list []*entry) (c store.Claimed, won []*entry) {
		for _, first := range []bool{true, false} {
			for _, e := range list {
				switch {
				case !slices.Contains(o.Keys, e.n.Key) || (e.class == notice.ClassFirst) != first:
				case e.claimed:
					c.Lost++
				case len(won) < o.Limit:
					won = append(won, e)
				case first:
					c.Left = append(c.Left, e.n.Key)
				default:
					c.More = true
				}
			}
		}
		return c, won
	})
}

// callMade is a claim call that the fake received.
type callMade struct {
	what  string
	at    keys.Partition
	token string
	n     int
}

func (s *fakeStore) claims(ctx context.Context, made callMade, choose func([]*entry) (store.Claimed, []*entry)) (store.Claimed, error) {
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s %s/%d %d", made.what, made.at.Prefix, made.at.Shard, made.n))
	s.tokens = append(s.tokens, made.token)
	err, slow := s.claim, s.slow
	s.mu.Unlock()
	if slow != nil && (s.hangs == 0 || s.hangs == made.at.Shard+1) {
		select {
		case <-slow:
		case <-ctx.Done():
			return store.Claimed{}, ctx.Err()
		}
	}
	if err != nil && !errors.Is(err, errUnanswered) {
		return store.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*entry
	for _, e := range s.entries {
		if e.prefix == made.at.Prefix && e.shard == made.at.Shard && !e.at.After(time.Now()) {
			list = append(list, e)
		}
	}
	c, won := choose(list)
	c.Now = time.Now()
	for _, e := range won {
		if !e.claimed {
			s.won[e.n.Key]++
		}
		e.claimed, e.token = true, made.token
		c.Won = append(c.Won, store.Claim{Notice: e.n, Lapses: e.lapses, Shard: made.at.Shard, Attention: e.at, Held: e.held})
	}
	if err != nil {
		return store.Claimed{}, err
	}
	return c, nil
}

// Recover returns the claims of calls whose replies were lost.
func (s *fakeStore) Recover(_ context.Context, p keys.Partition, lease store.Lease, n int, _ time.Duration) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("recover %s/%d %d", p.Prefix, p.Shard, n))
	if s.claim != nil {
		return store.Claimed{}, s.claim
	}
	// Their leases are renewed, so that the next Recover returns them last.
	c := store.Claimed{Now: time.Now()}
	var found, others []*entry
	for _, e := range s.entries {
		if e.claimed && e.token == lease.Token && len(c.Won) < n {
			c.Won = append(c.Won, store.Claim{Notice: e.n, Lapses: e.lapses, Shard: p.Shard})
			found = append(found, e)
		} else {
			others = append(others, e)
		}
	}
	s.entries = append(others, found...)
	if late := s.late; late != nil {
		s.mu.Unlock()
		<-late
		s.mu.Lock()
	}
	return c, nil
}

// ClaimPostponed claims the notices whose score is unchanged.
func (s *fakeStore) ClaimPostponed(_ context.Context, p keys.Partition, lease store.Lease, list []store.Postponed) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("postponed %s/%d %d", p.Prefix, p.Shard, len(list)))
	if s.claim != nil {
		return store.Claimed{}, s.claim
	}
	c := store.Claimed{Now: time.Now()}
	for _, x := range list {
		i := slices.IndexFunc(s.entries, func(e *entry) bool {
			return e.n.Key == x.Key && !e.claimed && fmt.Sprint(e.at.UnixNano()) == x.Score
		})
		if i < 0 {
			c.Stale++
			continue
		}
		e := s.entries[i]
		s.won[x.Key]++
		e.claimed, e.token = true, lease.Token
		c.Won = append(c.Won, store.Claim{Notice: e.n, Shard: p.Shard, Attention: e.at, Held: e.held})
	}
	return c, nil
}

// expire claims the notices that have expired.
func (s *fakeStore) expire(p keys.Partition, lease store.Lease, n int) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("expired %s/%d %d", p.Prefix, p.Shard, n))
	if s.claim != nil {
		return store.Claimed{}, s.claim
	}
	c := store.Claimed{Now: time.Now()}
	for _, e := range s.entries {
		if e.prefix == p.Prefix && e.shard == p.Shard && !e.claimed && e.n.Expired(c.Now) && len(c.Won) < n &&
			!(e.n.AwaitsReport && e.at.After(c.Now)) {
			e.claimed, e.token = true, lease.Token
			c.Won = append(c.Won, store.Claim{Notice: e.n, Lapses: e.lapses, Shard: p.Shard, Attention: e.at})
		}
	}
	c.More = len(c.Won) == n
	return c, nil
}

// TakeOver reclaims the claims of a dead holder.
func (s *fakeStore) TakeOver(ctx context.Context, p keys.Partition, lease store.Lease, o store.TakeOverOptions) (store.Claimed, error) {
	return s.claims(ctx, callMade{"over " + o.Holder + o.From, p, lease.Token, o.Limit}, func(list []*entry) (c store.Claimed, won []*entry) {
		for _, e := range list {
			if e.claimed && strings.HasPrefix(e.token, o.Holder+"-") {
				if len(won) == o.Limit {
					c.Next = "+"
					break
				}
				e.lapses++
				won = append(won, e)
			}
		}
		return c, won
	})
}

func (s *fakeStore) Touch(context.Context, []string) (store.Touched, error) {
	return store.Touched{}, nil
}

func (s *fakeStore) Settle(_ context.Context, _ keys.Partition, list []store.Settlement) ([]store.Settled, error) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		<-held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settles++
	if s.settle != nil {
		return nil, s.settle
	}
	done := make([]store.Settled, len(list))
	for i, t := range list {
		done[i].Woke = s.woke
		if t.Push != nil && s.refuse != "" {
			done[i].Refused, done[i].Unavailable = s.refuse, s.unavailable
			continue
		}
		at := slices.IndexFunc(s.entries, func(e *entry) bool { return e.n.Key == t.Claim.Key })
		if at < 0 {
			done[i].Stale = true
			continue
		}
		s.ended = append(s.ended, t)
		switch e := s.entries[at]; t.Ending {
		case store.EndRetry, store.EndDeferred, store.EndPostponed:
			e.claimed, e.lapses, e.at = false, 0, time.Now().Add(t.After)
			if e.held = t.Held; t.Ending != store.EndPostponed {
				e.n.Due = e.at
			} else {
				done[i].Score = fmt.Sprint(e.at.UnixNano())
			}
			done[i].Due = e.at
		case store.EndHanded:
			e.claimed, e.lapses, e.at = false, 1, time.Now().Add(t.After)
		default:
			s.entries = slices.Delete(s.entries, at, at+1)
		}
	}
	if s.short > 0 {
		s.short--
		return done, wire.ErrUnconfirmed
	}
	return done, nil
}

// endings counts the settled notices.
func (s *fakeStore) endings() map[store.Ending]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[store.Ending]int{}
	for _, t := range s.ended {
		m[t.Ending]++
	}
	return m
}

// work is a Handler that records how many calls run at once.
type work struct {
	mu       sync.Mutex
	running  map[string]int
	most     map[string]int
	all, top int
	calls    int
	do       func(ctx context.Context, n *notice.Notice) notice.Result
}

func newWork(do func(ctx context.Context, n *notice.Notice) notice.Result) *work {
	return &work{running: map[string]int{}, most: map[string]int{}, do: do}
}

// taking returns a handler that takes d and delivers.
func taking(d time.Duration) *work {
	return newWork(func(context.Context, *notice.Notice) notice.Result {
		time.Sleep(d)
		return notice.DeliveredResult(200)
	})
}

func (w *work) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	w.mu.Lock()
	w.calls++
	w.all++
	w.running[r.Prefix]++
	w.top, w.most[r.Prefix] = max(w.top, w.all), max(w.most[r.Prefix], w.running[r.Prefix])
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.all--
		w.running[r.Prefix]--
		w.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return w.do(ctx, n)
}

func (w *work) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// counts records the observed attempts.
type counts struct {
	mu       sync.Mutex
	attempts map[notice.Outcome]int
}

func newCounts() *counts { return &counts{attempts: map[notice.Outcome]int{}} }

// Attempt implements AttemptObserver.
func (c *counts) Attempt(_ string, o notice.Outcome, _ notice.Reason) {
	c.mu.Lock()
	c.attempts[o]++
	c.mu.Unlock()
}

// shards is a set of n shards; keys that are not in by are in the first one.
type shards struct {
	n  int
	by map[string]int
}

func (s shards) Places() int          { return s.n }
func (s shards) Shard(key string) int { return s.by[key] }

func testRoute(prefix string, slots int) *route.Route {
	return &route.Route{Name: prefix, Prefix: prefix, Target: route.Target{Kind: route.KindLog}, Timeout: 10 * time.Second,
		Ladder: notice.Ladder{15 * time.Second, 3 * time.Minute}, Concurrency: slots}
}

func options(s Store, h Handler, total int, routes ...*route.Route) Options {
	return Options{Store: s, Timers: &fakeStore{}, Routes: routes, Shards: shards{n: 1}, Handler: h,
		Total: total, Grace: 50 * time.Millisecond,
		Logger: zap.NewNop()}
}

// begin returns a Dispatcher that may claim.
func begin(o Options) *Dispatcher {
	d := New(o)
	d.SetPaused(none)
	return d
}

func none(keys.Partition) bool { return false }

// drain fails the test unless Drain returns in time.
func drain(t *testing.T, d *Dispatcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if left := d.Drain(ctx, time.Second); left != 0 {
		t.Errorf("%d attempts were left", left)
	}
}

// after lets virtual time pass, and waits for all goroutines.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// quiet fails the test if a slot is still taken when nothing runs.
func quiet(t *testing.T, d *Dispatcher) {
	t.Helper()
	if free := d.total.room(); free != d.o.Total {
		t.Errorf("%d slots of the total are free, want all %d", free, d.o.Total)
	}
	for prefix, q := range d.queues {
		q.mu.Lock()
		slots := q.plan.slots
		slots.ahead = 0
		if q.ahead.handling != 0 || q.ahead.claims.n != 0 {
			t.Errorf("%s: %+v", prefix, q.ahead)
		}
		f := q.inFlight
		if slots != newSlots(q.r.Slots()) || len(f.held)+f.finding+len(f.settledSince)+len(f.leases) != 0 || q.plan.share.held != 0 {
			t.Errorf("%s: slots %+v, in flight %d, held %d", prefix, q.plan.slots, len(f.held), q.plan.share.held)
		}
		for name, h := range q.gate.waiting.hosts {
			if !q.closed && h.coming.all()+h.claiming.all() != 0 {
				t.Errorf("%s, host %s: coming %v, claiming %v", prefix, name, h.coming, h.claiming)
			}
		}
		if n := int(q.gate.waiting.n.Load()); n != len(q.gate.waiting.hosts) {
			t.Errorf("%s: %d hosts are counted, want %d", prefix, n, len(q.gate.waiting.hosts))
		}
		for _, l := range q.shards.all() {
			if len(l.unanswered.calls) != 0 || l.health.failing != 0 || l.stuck != 0 {
				t.Errorf("%s, shard %d: unanswered %d, failing %d, stuck %d", prefix, l.shard, len(l.unanswered.calls), l.health.failing, l.stuck)
			}
		}
		q.mu.Unlock()
	}
}
