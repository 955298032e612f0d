package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown = errors.New("redis is down")
	// errUnanswered: what was asked is done, and the answer is lost.
	errUnanswered = errors.New("i/o timeout")
)

// entry is a notice of the fake store.
type entry struct {
	n       *notice.Notice
	prefix  string
	shard   int
	at      time.Time // next attention
	lapses  int
	claimed bool
	token   string
}

// shelf is a Store in memory that keeps the promises dispatch relies on: a
// notice is won by one claim at a time, and a sweep finds what is overdue.
type shelf struct {
	mu      sync.Mutex
	entries []*entry
	made    int
	won     map[string]int // how often each was claimed
	ended   []store.Settlement
	calls   []string      // claim calls in order: "keys p/0 n", "oldest p/0 n", "newest p/0 n"
	settles int           // settle calls
	claim   error         // what claim calls come to
	settle  error         // what settle calls come to
	slow    chan struct{} // holds claim calls
	held    chan struct{} // holds settle calls
	refuse  string        // why pushes are refused
}

func newShelf() *shelf { return &shelf{won: map[string]int{}} }

// put adds n overdue notices.
func (s *shelf) put(prefix string, shard, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		k := fmt.Sprintf("%s:m:t:%d", prefix, s.made)
		at := time.Now().Add(-time.Minute + time.Duration(s.made)*time.Millisecond)
		s.made++
		s.entries = append(s.entries, &entry{n: &notice.Notice{Key: k, Route: prefix, Due: at}, prefix: prefix, shard: shard, at: at})
	}
}

func (s *shelf) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *shelf) ClaimKeys(
	ctx context.Context, prefix string, shard int, token string, _ time.Duration, ks []string,
) (store.Claimed, error) {
	return s.claims(ctx, "keys", prefix, shard, token, len(ks), func(list []*entry) (c store.Claimed, won []*entry) {
		for _, k := range ks {
			i := slices.IndexFunc(list, func(e *entry) bool { return e.n.Key == k })
			switch {
			case i < 0:
				c.Stale++
				c.StaleKeys = append(c.StaleKeys, k)
			case list[i].claimed, slices.Contains(won, list[i]):
				c.Lost++
			default:
				won = append(won, list[i])
			}
		}
		return c, won
	})
}

func (s *shelf) Sweep(
	ctx context.Context, prefix string, shard int, token string, _, grace time.Duration, n int, newest bool,
) (store.Claimed, error) {
	what := "oldest"
	if newest {
		what = "newest"
	}
	return s.claims(ctx, what, prefix, shard, token, n, func(list []*entry) (c store.Claimed, won []*entry) {
		for _, e := range list {
			if !e.claimed && !e.at.After(time.Now().Add(-grace)) {
				won = append(won, e)
			}
		}
		if c.More = len(won) >= n; c.More {
			if newest {
				won = won[len(won)-n:]
			} else {
				won = won[:n]
			}
		}
		return c, won
	})
}

func (s *shelf) claims(
	ctx context.Context, what, prefix string, shard int, token string, n int, choose func([]*entry) (store.Claimed, []*entry),
) (store.Claimed, error) {
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s %s/%d %d", what, prefix, shard, n))
	err, slow := s.claim, s.slow
	s.mu.Unlock()
	if slow != nil {
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
		if e.prefix == prefix && e.shard == shard && !e.at.After(time.Now()) {
			list = append(list, e)
		}
	}
	c, won := choose(list)
	c.Now = time.Now()
	for _, e := range won {
		e.claimed, e.token = true, token
		s.won[e.n.Key]++
		c.Won = append(c.Won, store.Claim{Notice: e.n, Lapses: e.lapses, Shard: shard})
	}
	if err != nil {
		return store.Claimed{}, err
	}
	return c, nil
}

// Recover finds what calls claimed whose answers were lost.
func (s *shelf) Recover(
	_ context.Context, prefix string, shard int, token string, _ time.Duration, n int, _ time.Duration,
) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("recover %s/%d %d", prefix, shard, n))
	if s.claim != nil {
		return store.Claimed{}, s.claim
	}
	c := store.Claimed{Now: time.Now()}
	for _, e := range s.entries {
		if e.claimed && e.token == token && len(c.Won) < n {
			c.Won = append(c.Won, store.Claim{Notice: e.n, Lapses: e.lapses, Shard: shard})
		}
	}
	return c, nil
}

func (s *shelf) Touch(context.Context, []string) (int, error) { return 0, nil }

func (s *shelf) Settle(_ context.Context, _ string, _ int, list []store.Settlement) ([]store.Settled, error) {
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
		if t.Push != nil && s.refuse != "" {
			done[i].Refused = s.refuse
			continue
		}
		at := slices.IndexFunc(s.entries, func(e *entry) bool { return e.n.Key == t.Claim.Key })
		if at < 0 {
			done[i].Stale = true
			continue
		}
		s.ended = append(s.ended, t)
		switch e := s.entries[at]; t.Ending {
		case store.EndRetry, store.EndDeferred:
			e.claimed, e.lapses, e.at = false, 0, time.Now().Add(t.After)
			done[i].Due = e.at
		case store.EndHanded:
			e.claimed, e.lapses, e.at = false, 1, time.Now().Add(t.After)
		default:
			s.entries = slices.Delete(s.entries, at, at+1)
		}
	}
	return done, nil
}

// endings counts what was settled.
func (s *shelf) endings() map[store.Ending]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[store.Ending]int{}
	for _, t := range s.ended {
		m[t.Ending]++
	}
	return m
}

// work is a Handler that says how many run at once.
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

// taking is a handler that takes d and delivers.
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
	return w.do(ctx, n)
}

func (w *work) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

type ear struct {
	mu       sync.Mutex
	attempts map[notice.Outcome]int
	claims   map[string]int
	unset    int
}

func (e *ear) Claims(source, result string, n int) {
	e.mu.Lock()
	e.claims[source+" "+result] += n
	e.mu.Unlock()
}

func (e *ear) Attempt(_ string, o notice.Outcome, _ notice.Reason) {
	e.mu.Lock()
	e.attempts[o]++
	e.mu.Unlock()
}
func (e *ear) Lateness(string, string, time.Duration) {}
func (e *ear) HandlerTime(string, time.Duration)      {}
func (e *ear) Unsettled(_ string, n int)              { e.mu.Lock(); e.unset += n; e.mu.Unlock() }
func testRoute(prefix string, slots int) *route.Route {
	return &route.Route{Name: prefix, Prefix: prefix, Target: route.Target{Kind: route.KindLog}, Timeout: 10 * time.Second,
		Ladder: notice.Ladder{15 * time.Second, 3 * time.Minute}, Concurrency: slots}
}

func options(s Store, h Handler, total int, routes ...*route.Route) Options {
	return Options{Store: s, Routes: routes, Shards: 1, Shard: func(string) int { return 0 }, Handler: func(*route.Route) Handler { return h },
		Total: total, Instance: "t", Grace: 50 * time.Millisecond, Observer: &ear{attempts: map[notice.Outcome]int{}, claims: map[string]int{}},
		Logger: zap.NewNop()}
}

// begin makes a Dispatcher that may claim.
func begin(o Options) *Dispatcher {
	d := New(o)
	d.SetPaused(none)
	return d
}

func none(string) bool { return false }

// drain fails unless all ends in time.
func drain(t *testing.T, d *Dispatcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if left := d.Drain(ctx, time.Second); left != 0 {
		t.Errorf("%d attempts were left", left)
	}
}

// after lets time pass, and all that it brings.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// quiet fails if a slot is still held although nothing is under way.
func quiet(t *testing.T, d *Dispatcher) {
	t.Helper()
	d.mu.Lock()
	if d.total != d.o.Total {
		t.Errorf("%d slots of the total are free, want all %d", d.total, d.o.Total)
	}
	d.mu.Unlock()
	for prefix, l := range d.lanes {
		l.mu.Lock()
		if l.free != l.r.Slots() || l.running != 0 || l.hinting+l.sweeping+l.swept != 0 || len(l.lost) != 0 || l.failing != 0 || l.held != 0 {
			t.Errorf("%s: free %d of %d, running %d, claiming %d, lost %d, failing %d, held %d",
				prefix, l.free, l.r.Slots(), l.running, l.hinting+l.sweeping, len(l.lost), l.failing, l.held)
		}
		l.mu.Unlock()
	}
}
