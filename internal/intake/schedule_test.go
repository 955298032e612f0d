package intake

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

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func table(t testing.TB) *route.Table {
	t.Helper()
	rs, err := route.NewTable([]*route.Route{
		{Name: "log", Prefix: "app1", Target: route.Target{Kind: route.KindLog}},
		{Name: "each", Prefix: "app2", Target: route.Target{Kind: route.KindNotice}},
		{Name: "fixed", Prefix: "app3", Target: route.Target{Kind: route.KindFixed}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// fakeStore notes the calls it gets; it may hold them.
type fakeStore struct {
	mu    sync.Mutex
	calls [][]string // keys of each script call
	trips [][]string // and of each round trip
	hold  chan struct{}
	err   error
	node  func(keys.Partition) string // nil = all have one
	away  chan struct{}               // holds the trips to the node "away"
	apart bool                        // shard 1 is sent separately, and is on its own node, "away", once that was reported

	answered [2]int // callers, by shard
}

func (s *fakeStore) Node(_ context.Context, p keys.Partition) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return ""
	}
	return s.node(p)
}

func (s *fakeStore) ScheduleAll(ctx context.Context, batches []store.Batch) []store.Batched {
	s.mu.Lock()
	var together []string
	for _, b := range batches {
		var ks []string
		for _, r := range b.Requests {
			ks = append(ks, r.Key)
		}
		s.calls = append(s.calls, ks)
		together = append(together, ks...)
	}
	s.trips = append(s.trips, together)
	hold, err, apart := s.hold, s.err, s.apart && len(s.trips) < 100
	if s.away != nil && s.node != nil && s.node(batches[0].Partition) == "away" {
		hold = s.away
	}
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			err = fmt.Errorf("schedule: %w", ctx.Err())
		}
	}
	out := make([]store.Batched, len(batches))
	for i, b := range batches {
		if err != nil {
			out[i].Err = err
			continue
		}
		if apart && b.Shard == 1 && len(batches) > 1 {
			out[i].Err = store.ErrSendAlone
			s.mu.Lock()
			if s.away != nil {
				s.node = func(p keys.Partition) string { return []string{"", "away"}[p.Shard] }
			}
			s.mu.Unlock()
			continue
		}
		now := time.Now().Truncate(time.Millisecond)
		for _, r := range b.Requests {
			out[i].Replies = append(out[i].Replies, store.Reply{Created: true,
				Found: store.Found{Notice: &notice.Notice{Key: r.Key, Made: notice.MadeAt(now), Due: now.Add(r.Delay)}}})
		}
	}
	return out
}

func TestCheck(t *testing.T) {
	s := NewScheduler(SchedulerOptions{Routes: table(t), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	now := time.Now()
	for _, c := range []struct {
		name string
		req  store.Request
		is   error // nil = right
		says string
	}{
		{"right", store.Request{Key: "app1:m:t:1"}, nil, ""},
		{"right, with a url", store.Request{Key: "app2:m:t:1", Content: notice.Content{URL: "http://m.example/x"}}, nil, ""},
		{"the furthest delay", store.Request{Key: "app1:m:t:1", Delay: notice.MaxHorizon}, nil, ""},
		{"due long ago", store.Request{Key: "app1:m:t:1", Due: now.Add(-24 * 365 * time.Hour)}, nil, ""},
		{"three segments", store.Request{Key: "app1:m:t"}, notice.ErrInvalid, "3 segments"},
		{"no key", store.Request{}, notice.ErrInvalid, "key is missing"},
		{"the namespace", store.Request{Key: "notifier:m:t:1"}, notice.ErrInvalid, "namespace"},
		{"nobody's", store.Request{Key: "app9:m:t:1"}, store.ErrUnrouted, "app9:m:t:1"},
		{"before now", store.Request{Key: "app1:m:t:1", Delay: -time.Second}, notice.ErrInvalid, "delay"},
		{"too far", store.Request{Key: "app1:m:t:1", Delay: notice.MaxHorizon + 1}, notice.ErrInvalid, "delay"},
		{"due too far", store.Request{Key: "app1:m:t:1", Due: now.Add(notice.MaxHorizon + time.Hour)}, notice.ErrInvalid, "due"},
		{"due before time began", store.Request{Key: "app1:m:t:1", Due: time.Unix(-1, 0)}, notice.ErrInvalid, "due"},
		{"url missing", store.Request{Key: "app2:m:t:1"}, notice.ErrInvalid, "url is missing"},
		{"url not wanted", store.Request{Key: "app3:m:t:1", Content: notice.Content{URL: "http://x/"}}, notice.ErrInvalid, "bring no url"},
		{"a private address", store.Request{Key: "app2:m:t:1", Content: notice.Content{URL: "http://10.0.0.1/"}}, notice.ErrInvalid,
			"url may not be called: 10.0.0.1 is private, which a notice's url may not reach; NOTIFIER_ROUTE_EACH_ALLOW=10.0.0.1/32 would allow it"},
		{"no behaviour", store.Request{Key: "app1:m:t:1", OnDuplicate: "merge"}, notice.ErrInvalid, "on_duplicate"},
		{"expires before it is due", store.Request{Key: "app1:m:t:1", Due: now.Add(time.Hour), Content: notice.Content{Expires: now}},
			notice.ErrInvalid, "expires is not after the due time"},
		{"repeats without an end", store.Request{Key: "app1:m:t:1", Content: notice.Content{Ladder: notice.Ladder{-time.Hour}}},
			notice.ErrInvalid, "retry repeats its last step, so the notice needs expires"},
		{"wrong content", store.Request{Key: "app1:m:t:1", Content: notice.Content{Method: "DELETE"}}, notice.ErrInvalid, "method"},
	} {
		faults := s.Check(&c.req)
		if c.is == nil {
			if len(faults) > 0 || c.req.Checked == "" {
				t.Errorf("%s: %v", c.name, faults)
			}
			continue
		}
		if len(faults) != 1 || !errors.Is(faults[0].Err, c.is) || c.req.Checked != "" {
			t.Errorf("%s: %v; want %v", c.name, faults, c.is)
		}
		if _, err := s.Schedule(t.Context(), c.req); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Schedule: %v; want %v and %q", c.name, err, c.is, c.says)
		}
	}
}

// All mistakes are returned together, and a request is checked again only if its route is another one.
func TestCheckListsAllFaultsOnce(t *testing.T) {
	now := time.Now()
	s := NewScheduler(SchedulerOptions{Routes: table(t), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	wrong := store.Request{Key: "app2:m:t:1", Due: now.Add(2 * notice.MaxHorizon)}
	var fields []string
	for _, f := range s.Check(&wrong) {
		fields = append(fields, f.Field)
	}
	if !slices.Equal(fields, []string{"due", "url"}) {
		t.Errorf("faults of %v", fields)
	}

	checked := store.Request{Key: "app1:m:t:1", Checked: "app1", Content: notice.Content{Method: "DELETE"}}
	if _, err := s.route(&checked); err != nil {
		t.Errorf("checked again: %v", err)
	}
	checked.Checked = "app1:m" // a route that is gone
	if _, err := s.route(&checked); !errors.Is(err, notice.ErrInvalid) {
		t.Errorf("not checked for its new route: %v", err)
	}
}

// counted is an Observer that calls it.
type counted func(n int)

func (f counted) Scheduled(_ string, n int) { f(n) }

// hinted is Hints that calls it.
type hinted func(key string)

func (f hinted) Hint(_ *route.Route, key string) bool {
	f(key)
	return true
}

func TestASingleCallGoesOutAloneAndOthersGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{})}
		scheduled := 0
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1},
			Observer: counted(func(n int) {
				st.mu.Lock()
				scheduled += n
				st.mu.Unlock()
			})})
		var wg sync.WaitGroup
		put := func(i int) {
			wg.Go(func() {
				r, err := s.Schedule(t.Context(), store.Request{Key: fmt.Sprintf("app1:m:t:%d", i)})
				if err != nil || r.Key != fmt.Sprintf("app1:m:t:%d", i) {
					t.Errorf("%d: %+v, %v", i, r, err)
				}
			})
			synctest.Wait()
		}
		for i := range 302 {
			put(i)
		}
		if len(st.calls) != 2 || len(st.calls[0]) != 1 || len(st.calls[1]) != 1 {
			t.Fatalf("%d calls are under way, want two of one notice each", len(st.calls))
		}
		close(st.hold)
		wg.Wait()
		var sizes []int
		for _, c := range st.calls {
			sizes = append(sizes, len(c))
		}
		slices.Sort(sizes)
		if want := []int{1, 1, 44, 128, 128}; len(st.trips) != 3 || !slices.Equal(sizes, want) {
			t.Errorf("calls of %v notices in %d round trips, want %v in 3", sizes, len(st.trips), want)
		}
		if scheduled != 302 {
			t.Errorf("%d were counted", scheduled)
		}
	})
}

// However many shards a node has, what gathers for it goes in one round trip, with one
// script call a shard.
func TestShardsOfOneNodeShareARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := keys.Space{Namespace: "n", Shards: 64}
		st := &fakeStore{hold: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space})
		var wg sync.WaitGroup
		key := func(i int) string { return fmt.Sprintf("app1:m:t:%d", i) }
		for i := range 2 + maxTogether {
			wg.Go(func() {
				if r, err := s.Schedule(t.Context(), store.Request{Key: key(i)}); err != nil || r.Key != key(i) {
					t.Errorf("%d: %+v, %v", i, r, err)
				}
			})
			synctest.Wait()
		}
		close(st.hold)
		wg.Wait()
		if len(st.trips) != 3 || len(st.trips[2]) != maxTogether {
			t.Errorf("%d round trips, want 3, the last with all %d that gathered", len(st.trips), maxTogether)
		}
		seen := map[int]bool{}
		for _, ks := range st.calls[2:] {
			if seen[space.Shard(ks[0])] {
				t.Errorf("a second script call for shard %d", space.Shard(ks[0]))
			}
			seen[space.Shard(ks[0])] = true
		}
		st.trips = nil
		reqs := make([]store.Request, 500)
		for i := range reqs {
			reqs[i].Key = key(i)
		}
		for i, r := range s.Many(t.Context(), reqs) {
			if r.Err != nil || r.Key != key(i) {
				t.Errorf("%d of many: %+v", i, r)
			}
		}
		if len(st.trips) != 1 {
			t.Errorf("%d round trips for a batch of 500, want one", len(st.trips))
		}
	})
}

// A node that does not answer delays only callers of its shards.
func TestASilentNodeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := keys.Space{Namespace: "n", Shards: 2}
		st := &fakeStore{away: make(chan struct{}), node: func(p keys.Partition) string { return []string{"away", "well"}[p.Shard] }}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space})
		var wg sync.WaitGroup
		put := func(shard, n int) {
			for i := 0; n > 0; i++ {
				if key := fmt.Sprintf("app1:m:t:%d", i); space.Shard(key) == shard {
					n--
					wg.Go(func() {
						if _, err := s.Schedule(t.Context(), store.Request{Key: key}); err != nil {
							t.Errorf("shard %d: %v", shard, err)
						}
						st.mu.Lock()
						defer st.mu.Unlock()
						st.answered[shard]++
					})
				}
			}
		}
		put(0, 100)
		synctest.Wait()
		put(1, 100)
		synctest.Wait()
		st.mu.Lock()
		if st.answered != [2]int{0, 100} {
			t.Errorf("answered %v by shard, want none of the silent node's and all 100 of the other's", st.answered)
		}
		st.mu.Unlock()
		close(st.away)
		wg.Wait()
	})
}

func TestWhoHasGoneIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1}, Timeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		put := func(ctx context.Context, key string, want error) {
			wg.Go(func() {
				if _, err := s.Schedule(ctx, store.Request{Key: key}); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", key, err, want)
				}
			})
			synctest.Wait()
		}
		put(ctx, "app1:m:t:under-way", wire.ErrUnavailable)
		put(t.Context(), "app1:m:t:under-way-too", nil)
		for i := range 200 {
			put(ctx, fmt.Sprintf("app1:m:t:%d", i), context.Canceled)
		}
		put(t.Context(), "app1:m:t:stays", nil)
		cancel()
		synctest.Wait()
		put(ctx, "app1:m:t:late", wire.ErrUnavailable)
		close(st.hold)
		wg.Wait()
		synctest.Wait()
		want := [][]string{{"app1:m:t:under-way"}, {"app1:m:t:under-way-too"}, {"app1:m:t:stays"}}
		if !slices.EqualFunc(st.calls, want, slices.Equal) {
			t.Errorf("calls %v", st.calls)
		}
	})
}

// Callers come and go while Redis does not answer; the work that they leave must be bounded.
func TestACrowdIsSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxWaiting + 2*maxTogether + 50 { // two round trips take some; some of the others find it full
			wg.Go(func() { _, _ = s.Schedule(ctx, store.Request{Key: "app1:m:t:1"}) })
		}
		synctest.Wait()
		for range 10 {
			if _, err := s.Schedule(ctx, store.Request{Key: "app1:m:t:1"}); !errors.Is(err, wire.ErrUnavailable) || ctx.Err() != nil {
				t.Errorf("%v, want to be sent away", err)
			}
		}
		cancel()
		wg.Wait()
		time.Sleep(6 * time.Second) // the two calls under way end
		if _, err := s.Schedule(t.Context(), store.Request{Key: "app1:m:t:2"}); errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := len(st.trips); n > 3 {
			t.Errorf("%d round trips, most for callers who had gone", n)
		}
	})
}

// Calls before Close are sent, calls after it are refused, and none is running when it returns.
func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1}})
		var wg sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for i := range 5 {
			wg.Go(func() {
				if _, err := s.Schedule(t.Context(), store.Request{Key: fmt.Sprintf("app1:m:t:%d", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			for i, r := range s.Many(t.Context(), []store.Request{{Key: "app1:m:t:6"}, {Key: "app1:m:t:7"}}) {
				if r.Err != nil {
					t.Errorf("%d of many: %v", i, r.Err)
				}
			}
		})
		wg.Go(func() { _, _ = s.Schedule(gone, store.Request{Key: "app1:m:t:gone"}) })
		synctest.Wait()
		leave()
		closed := make(chan struct{})
		go func() {
			s.Close(t.Context())
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while calls are under way")
		default:
		}
		if _, err := s.Schedule(t.Context(), store.Request{Key: "app1:m:t:8"}); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%v, want it refused", err)
		}
		if out := s.Many(t.Context(), []store.Request{{Key: "app1:m:t:8"}}); !errors.Is(out[0].Err, wire.ErrUnavailable) {
			t.Errorf("%v, want it refused", out[0].Err)
		}
		close(st.hold)
		<-closed
		wg.Wait()
	})
}

// A Redis that says nothing does not keep Close longer than it may take.
func TestCloseGivesUpWhatRedisDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1}, Timeout: time.Hour})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				if _, err := s.Schedule(t.Context(), store.Request{Key: fmt.Sprintf("app1:m:t:%d", i)}); !errors.Is(err, wire.ErrUnavailable) {
					t.Errorf("%v, want ErrUnavailable", err)
				}
			})
		}
		wg.Go(func() {
			if out := s.Many(t.Context(), []store.Request{{Key: "app1:m:t:many"}}); !errors.Is(out[0].Err, wire.ErrUnavailable) {
				t.Errorf("many: %v, want ErrUnavailable", out[0].Err)
			}
		})
		synctest.Wait()
		from := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s.Close(ctx)
		if took := time.Since(from); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		wg.Wait()
	})
}

func TestAnErrorReachesEachCaller(t *testing.T) {
	st := &fakeStore{err: fmt.Errorf("schedule: %w", wire.ErrFull)}
	s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: keys.Space{Namespace: "n", Shards: 1}})
	if _, err := s.Schedule(t.Context(), store.Request{Key: "app1:m:t:1"}); !errors.Is(err, wire.ErrFull) {
		t.Error(err)
	}
	out := s.Many(t.Context(), []store.Request{{Key: "app1:m:t:1"}, {Key: "rubbish"}, {Key: "app9:m:t:1"}, {Key: "app1:m:t:2"}})
	for i, want := range []error{wire.ErrFull, notice.ErrInvalid, store.ErrUnrouted, wire.ErrFull} {
		if !errors.Is(out[i].Err, want) {
			t.Errorf("%d: %v, want %v", i, out[i].Err, want)
		}
	}
}

func TestManyPartsByRouteAndShardAndKeepsOrder(t *testing.T) {
	st := &fakeStore{}
	space := keys.Space{Namespace: "n", Shards: 3}
	var mu sync.Mutex
	var due []string
	s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space, Hints: hinted(func(key string) {
		mu.Lock()
		due = append(due, key)
		mu.Unlock()
	})})
	var reqs []store.Request
	for i := range 1000 {
		r := store.Request{Key: fmt.Sprintf("app1:m:t:%d", i/2), Delay: time.Hour}
		if i%10 == 0 {
			r.Delay = 0
		}
		reqs = append(reqs, r)
	}
	for i, r := range s.Many(t.Context(), reqs) {
		if r.Err != nil || r.Key != reqs[i].Key {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if len(due) != 100 {
		t.Errorf("%d hints for notices due at once, want 100", len(due))
	}
	for _, c := range st.calls {
		if len(c) > maxBatch {
			t.Errorf("a call of %d", len(c))
		}
		for _, k := range c {
			if space.Shard(k) != space.Shard(c[0]) {
				t.Errorf("%s and %s in one call", k, c[0])
			}
		}
	}
}

// The same key several times in one call, on a real Redis: each reply is the same as in successive
// calls.
func TestDuplicatesInOneBatch(t *testing.T) {
	srv := testkit.SharedRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	st := store.New(store.Options{Client: srv.Client(), Space: space, Retention: time.Hour, Retain: 100})
	s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space})
	body := func(key, b string, on store.Duplicate) store.Request {
		return store.Request{Key: "app1:m:t:" + key, Delay: time.Hour, OnDuplicate: on, Content: notice.Content{Body: []byte(b)}}
	}
	for round := range 2 { // the second round meets the notices of the first
		out := s.Many(t.Context(), []store.Request{
			body("1", `{"n":1}`, ""), body("2", "a", ""), body("1", `{"n":1}`, ""), body("1", `{"n":2}`, ""),
			body("2", "b", store.Keep), body("2", "c", store.Replace), body("2", "c", ""),
			body("3", "x", store.Replace), body("3", "y", store.Replace)})
		want := []string{"created", "created", "same", "differs", "same", "replaced", "same", "created", "replaced"}
		if round == 1 {
			want = []string{"same", "differs", "same", "differs", "same", "replaced", "same", "replaced", "replaced"}
		}
		for i, r := range out {
			got := "same"
			switch {
			case r.Err != nil:
				got = r.Err.Error()
			case r.Replaced:
				got = "replaced"
			case r.Created:
				got = "created"
			case len(r.Differs) > 0:
				got = "differs"
			}
			if got != want[i] {
				t.Errorf("round %d, %d: %s, want %s", round, i, got, want[i])
			}
		}
		for key, want := range map[string]string{"1": `{"n":1}`, "2": "c", "3": "y"} {
			r, err := s.Schedule(t.Context(), body(key, "?", store.Keep))
			if err != nil || string(r.Body) != want || r.Created {
				t.Errorf("round %d: %s holds %q, %v; want %q", round, key, r.Body, err, want)
			}
		}
	}
	n, err := srv.Client().ZCard(t.Context(), space.Shadow(keys.Partition{Prefix: "app1"})).Result()
	if err != nil || n != 3 {
		t.Errorf("%d pending, %v; want 3", n, err)
	}
}
