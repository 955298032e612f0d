package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/embedded"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// got records a call of the handler.
type got struct {
	mu    sync.Mutex
	all   map[string][]notice.Notice
	at    map[string]time.Time
	seen  chan string
	reply func(n *notice.Notice) notice.Result
}

func newGot(room int) *got {
	return &got{all: map[string][]notice.Notice{}, at: map[string]time.Time{}, seen: make(chan string, room)}
}

func (g *got) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	g.mu.Lock()
	g.all[n.Key] = append(g.all[n.Key], *n)
	g.at[n.Key] = time.Now()
	reply := g.reply
	g.mu.Unlock()
	res := notice.DeliveredResult(200)
	if reply != nil {
		res = reply(n)
	}
	g.seen <- n.Key
	return res
}

func (g *got) await(t *testing.T, want string) notice.Notice {
	t.Helper()
	for testkit.Next(t, want+" is handled", g.seen) != want {
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.all[want]
	return l[len(l)-1]
}

func (g *got) times(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all[key])
}

func adopting(t *testing.T, h dispatch.Handler, ladder ...time.Duration) (*world, *redis.Client) {
	t.Helper()
	srv := testkit.StartRedis(t)
	r := testRoute("r", "app1")
	r.Adopt = true
	if len(ladder) > 0 {
		r.Ladder = ladder
	}
	w := start(t, srv, h, nil, r)
	return w, srv.Client()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Until(t, what, ok)
}

func (w *world) state(key string) notice.State {
	f, err := w.Find(context.Background(), key)
	if err != nil {
		return ""
	}
	return f.State
}

func TestAPlainTimerIsANotice(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	g.reply = func(n *notice.Notice) notice.Result {
		if n.NextAttempt() < 3 {
			return notice.RetryResult(notice.ReasonStatus5xx, "not yet")
		}
		return notice.DeliveredResult(200)
	}
	w, c := adopting(t, g)
	ctx := context.Background()
	payloads := []string{`{"order": 7}`, "plain text", "\x00\xff binary", "1", ""}
	const wait = 2 * time.Second // a slow instance must see the timers before they expire
	before := time.Now()
	for i, payload := range payloads {
		if err := c.Set(ctx, fmt.Sprintf("app1:a:b:%d", i), payload, wait).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, payload := range payloads {
		k := fmt.Sprintf("app1:a:b:%d", i)
		eventually(t, k+" adopted", func() bool { return w.state(k) == notice.Scheduled })
		if v := c.Get(ctx, k).Val(); v != payload {
			t.Errorf("%s: the timer holds %q, want the payload %q", k, v, payload)
		}
	}
	for i, payload := range payloads {
		k := fmt.Sprintf("app1:a:b:%d", i)
		f := w.until(t, k, notice.Delivered)
		g.mu.Lock()
		calls, at := slices.Clone(g.all[k]), g.at[k]
		g.mu.Unlock()
		if string(f.Body) != payload || f.AttemptsMade != 3 || len(calls) != 3 {
			t.Errorf("%s: handled %d times, %+v", k, len(calls), f.Notice)
		}
		for _, n := range calls {
			if string(n.Body) != payload || n.Lost {
				t.Errorf("%s: %+v", k, n)
			}
		}
		if at.Sub(before) < wait {
			t.Errorf("%s came early", k)
		}
	}
	// The timer's last millisecond is the one that PEXPIRETIME names.
	at := time.Now().Add(time.Hour).UnixMilli()
	c.Do(ctx, "SET", "app1:a:b:far", "x", "PXAT", at)
	if f := w.until(t, "app1:a:b:far", notice.Scheduled); f.Due.UnixMilli() != at+1 {
		t.Errorf("due %d, want %d", f.Due.UnixMilli(), at+1)
	}
	// In a transaction, and in two steps.
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "orders:1", "unpaid", 0)
		p.SetEx(ctx, "app1:a:b:multi", "m", time.Hour)
		p.Set(ctx, "app1:a:b:steps", "s", 0)
		p.Expire(ctx, "app1:a:b:steps", time.Hour)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"app1:a:b:multi", "app1:a:b:steps"} {
		w.until(t, k, notice.Scheduled)
	}
}

func TestWhatClientsDoWithTheirTimers(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	w, c := adopting(t, g)
	ctx := context.Background()
	set := func(k, v string) {
		t.Helper()
		if err := c.Set(ctx, k, v, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, k+" holds "+v, func() bool {
			f, err := w.Find(ctx, k)
			return err == nil && f.State == notice.Scheduled && string(f.Body) == v
		})
	}
	const k = "app1:a:b:1"
	set(k, "first")
	first, _ := w.Find(ctx, k)
	set(k, "second")
	if f, _ := w.Find(ctx, k); f.Made <= first.Made {
		t.Errorf("made %d and %d: want another notice", first.Made, f.Made)
	}
	second, _ := w.Find(ctx, k)
	c.Expire(ctx, k, 2*time.Hour)
	eventually(t, "moved", func() bool {
		f, _ := w.Find(ctx, k)
		return f.Due.UnixMilli() == c.PExpireTime(ctx, k).Val().Milliseconds()+1
	})
	if f, _ := w.Find(ctx, k); f.Made != second.Made || string(f.Body) != "second" {
		t.Errorf("%+v: want the same notice", f.Notice)
	}
	for _, how := range []struct {
		name string
		do   func() error
	}{
		{"DEL", func() error { return c.Del(ctx, k).Err() }},
		{"RENAME", func() error { return c.Rename(ctx, k, "elsewhere").Err() }},
		{"EXPIRE 0", func() error { return c.Expire(ctx, k, 0).Err() }},
		{"PERSIST", func() error { return c.Persist(ctx, k).Err() }},
		{"SET without expiry", func() error { return c.Set(ctx, k, "z", 0).Err() }},
	} {
		set(k, how.name)
		if err := how.do(); err != nil {
			t.Fatal(how.name, err)
		}
		eventually(t, how.name+" cancels", func() bool { return w.state(k) == notice.Cancelled })
	}
	set(k, "after all")
	// The same due time with another payload, as with an absolute time.
	at := time.Now().Add(time.Hour).UnixMilli()
	for _, v := range []string{"one", "two", `{"n":1}`, `{"n":2}`, `"1"`, "9", "8"} {
		c.Do(ctx, "SET", k, v, "PXAT", at)
		eventually(t, "payload "+v, func() bool {
			f, err := w.Find(ctx, k)
			return err == nil && string(f.Body) == v && f.Due.UnixMilli() == at+1
		})
	}
	// By the API: the timer moves and keeps its payload, fires, is cancelled.
	if ch, err := w.Reschedule(ctx, k, time.Time{}, 3*time.Hour); err != nil || !ch.Done {
		t.Fatal(ch, err)
	}
	if v := c.Get(ctx, k).Val(); v != "8" {
		t.Errorf("after a reschedule the timer holds %q", v)
	}
	if ch, err := w.Cancel(ctx, k); err != nil || !ch.Done || c.Exists(ctx, k).Val() != 0 {
		t.Fatal(ch, err)
	}
	set(k, "last")
	if ch, err := w.Fire(ctx, k); err != nil || !ch.Done {
		t.Fatal(ch, err)
	}
	if n := g.await(t, k); string(n.Body) != "last" {
		t.Errorf("%q", n.Body)
	}
	w.until(t, k, notice.Delivered)
	if n := g.times(k); n != 1 {
		t.Errorf("handled %d times, want once", n)
	}
}

func TestTheServicesOwnTimersAreNotAdopted(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	g.reply = func(n *notice.Notice) notice.Result { return notice.RetryResult(notice.ReasonStatus5xx, "no") }
	w, c := adopting(t, g, time.Hour)
	ctx := context.Background()
	const k = "app1:a:b:1"
	if _, err := w.Schedule(ctx, store.Request{Key: k, Delay: time.Hour, Content: notice.Content{Body: []byte("mine")}}); err != nil {
		t.Fatal(err)
	}
	mine, _ := w.Find(ctx, k)
	// Events arrive in order, so all events of the schedule arrive before this one.
	c.Set(ctx, "app1:a:b:2", "", 2*time.Hour)
	eventually(t, "a later timer adopted", func() bool { return w.state("app1:a:b:2") == notice.Scheduled })
	// A client moves it.
	c.PExpireAt(ctx, k, time.Now().Add(200*time.Millisecond))
	g.await(t, k)
	f := w.until(t, k, notice.Scheduled)
	if string(f.Body) != "mine" || f.AttemptsMade != 1 || f.Made != mine.Made {
		t.Fatalf("%+v", f.Notice)
	}
	if v := c.Get(ctx, k).Val(); v != "2" {
		t.Errorf("the retry's timer holds %q, want 2", v)
	}
	c.Expire(ctx, k, 2*time.Hour) // heard after the retry's own events
	eventually(t, "moved", func() bool {
		f, _ = w.Find(ctx, k)
		return f.Due.After(time.Now().Add(90 * time.Minute))
	})
	if string(f.Body) != "mine" || f.AttemptsMade != 1 || f.Made != mine.Made {
		t.Fatalf("%+v", f.Notice)
	}
	w.adopter.Scan()
	c.Set(ctx, "app1:a:b:marker", "x", time.Hour)
	w.until(t, "app1:a:b:marker", notice.Scheduled)
	// The ladder has one step: the second failure is the last.
	c.PExpire(ctx, k, time.Millisecond)
	g.await(t, k)
	if f = w.until(t, k, notice.Dead); f.AttemptsMade != 2 || string(f.Body) != "mine" {
		t.Fatalf("%+v", f.Notice)
	}
	// A dead letter's name is used again.
	c.Set(ctx, k, "new", time.Hour)
	if f = w.until(t, k, notice.Scheduled); string(f.Body) != "new" || f.AttemptsMade != 0 {
		t.Fatalf("%+v", f.Notice)
	}
}

func TestATimerThatWasMissedIsDeliveredAsLost(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	w, c := adopting(t, g)
	ctx := context.Background()
	// The timer is set while no events are sent, and expires when they are sent again. No instance
	// can adopt it, unless a scan at the start happens within its 2 ms.
	flags := c.ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]
	k, lost := "", false
	for i := 0; i < 20 && !lost; i++ {
		k = fmt.Sprintf("app1:a:b:%d", i)
		if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.ConfigSet(ctx, "notify-keyspace-events", "")
			p.Set(ctx, k, "x", 2*time.Millisecond)
			p.ConfigSet(ctx, "notify-keyspace-events", flags)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		n := g.await(t, k)
		lost = n.Lost && len(n.Body) == 0
	}
	if !lost {
		t.Error("none of 20 unseen timers was delivered as lost")
	}
	w.until(t, k, notice.Delivered)
	// The same again while the first is still kept: it is taken by the scan.
	c.ConfigSet(ctx, "notify-keyspace-events", "")
	c.Set(ctx, k, "found", time.Hour)
	c.ConfigSet(ctx, "notify-keyspace-events", flags)
	w.adopter.Scan()
	if f := w.until(t, k, notice.Scheduled); string(f.Body) != "found" || f.Lost {
		t.Errorf("%+v", f.Notice)
	}
	// The scan comes by itself: the flags are found missing, and set again.
	c.ConfigSet(ctx, "notify-keyspace-events", "")
	c.Set(ctx, "app1:a:b:flags", "found", time.Hour)
	if f := w.until(t, "app1:a:b:flags", notice.Scheduled); string(f.Body) != "found" {
		t.Errorf("%+v", f.Notice)
	}
	// Longer than may be kept.
	c.Set(ctx, "app1:a:b:long", make([]byte, 300<<10), 200*time.Millisecond)
	if n := g.await(t, "app1:a:b:long"); !n.Lost || len(n.Body) != 0 {
		t.Errorf("%+v", n)
	}
	if got := g.times("app1:a:b:long"); got != 1 {
		t.Errorf("handled %d times", got)
	}
}

func TestTimersFromBeforeTheStartAreAdopted(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c := srv.Client()
	ctx := context.Background()
	const n = 3000
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(ctx, key(i), fmt.Sprintf(`{"i":%d}`, i), time.Minute)
			p.Set(ctx, fmt.Sprintf("other:a:b:%d", i), "x", time.Minute)
		}
		p.RPush(ctx, "app1:a:list:1", "x")
		p.Expire(ctx, "app1:a:list:1", time.Minute)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := testRoute("r", "app1")
	r.Adopt = true
	w := start(t, srv, newGot(1), nil, r)
	eventually(t, "all adopted", func() bool {
		counts, _, err := w.Counts(ctx)
		return err == nil && counts[0].Pending == n
	})
	if f, err := w.Find(ctx, key(17)); err != nil || string(f.Body) != `{"i":17}` {
		t.Errorf("%+v, %v", f.Notice, err)
	}
}

// Several clients change some hundred timers at random, between calls of the API. The last change
// of each decides.
func TestTheLastWordCounts(t *testing.T) {
	t.Parallel()
	const clients, each, ops = 6, 40, 12
	g := newGot(4 * clients * each)
	w, c := adopting(t, g)
	ctx := context.Background()
	var mu sync.Mutex
	want := map[string]string{} // the payload that must come; "" = none
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(n)))
			for i := range each {
				k := fmt.Sprintf("app1:c%d:k:%d", n, i)
				last := ""
				for o := range ops {
					// Own lives are long, so that nothing falls due on the way.
					switch r.IntN(7) {
					case 0, 1, 2:
						last = []string{fmt.Sprintf(`{"n":%d,"i":%d,"o":%d}`, n, i, o), fmt.Sprintf("text %d/%d/%d \"q\"", n, i, o), strconv.Itoa(100 + o), ""}[r.IntN(4)]
						_ = c.Set(ctx, k, last, time.Duration(1+r.IntN(3))*time.Hour).Err()
					case 3:
						_ = c.Expire(ctx, k, time.Duration(1+r.IntN(3))*time.Hour).Err()
					case 4:
						_ = c.Del(ctx, k).Err()
					case 5:
						_, _ = w.Reschedule(ctx, k, time.Time{}, 5*time.Hour)
					default:
						_, _ = w.Cancel(ctx, k)
					}
				}
				last = fmt.Sprintf("last %d/%d", n, i)
				// Long enough to be adopted on a busy machine: a timer that expires before is taken for a late event of
				// the cancelled notice.
				if err := c.Set(ctx, k, last, 5*time.Second).Err(); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					_ = c.Del(ctx, k).Err()
					last = ""
				}
				mu.Lock()
				want[k] = last
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for k, payload := range want {
		if payload == "" {
			continue
		}
		w.until(t, k, notice.Delivered)
	}
	for k, payload := range want {
		g.mu.Lock()
		all := g.all[k]
		g.mu.Unlock()
		switch {
		case payload == "" && (len(all) > 0 || w.state(k) == notice.Scheduled):
			t.Errorf("%s was deleted, is %q and was delivered %d times", k, w.state(k), len(all))
		case payload != "" && (len(all) != 1 || string(all[0].Body) != payload || all[0].Lost):
			t.Errorf("%s: %d deliveries, the first with %+v; want one with %q", k, len(all), all, payload)
		}
	}
}

// The Redis for development sends no keyspace events; timers are found all the
// same.
func TestPlainTimersInTheEmulation(t *testing.T) {
	t.Parallel()
	srv, err := embedded.StartEmulated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	conn, err := wire.Open(wire.Address{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	r := testRoute("r", "app1")
	r.Adopt = true
	table, err := route.NewTable([]*route.Route{r})
	if err != nil {
		t.Fatal(err)
	}
	g := newGot(10)
	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table,
		Handler: g, Instance: "i", Concurrency: 8, Grace: 50 * time.Millisecond, Retention: time.Hour,
		Retain: 1000, ConfigureRedis: true, Drain: 5 * time.Second, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}()
	if err := conn.Set(ctx, key(1), "payload", 6*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if n := g.await(t, key(1)); string(n.Body) != "payload" || n.Lost {
		t.Errorf("%+v", n)
	}
}
