package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/reconcile"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// configurations are pairs of configurations that run side by side during a rolling deploy.
var configurations = []struct {
	name          string
	before, after []string
}{
	{"a more specific route is added", []string{"app1"}, []string{"app1", "app1:m"}},
	{"a more specific route is removed", []string{"app1", "app1:m"}, []string{"app1"}},
	{"a wider route takes the place of a narrow one", []string{"app1:m"}, []string{"app1"}},
	{"three levels", []string{"app1", "app1:m:t"}, []string{"app1", "app1:m"}},
}

func startWith(t *testing.T, srv *testkit.Redis, s *sink, prefixes ...string) *world {
	t.Helper()
	var routes []*route.Route
	for i, p := range prefixes {
		routes = append(routes, testRoute(fmt.Sprintf("r%d", i), p))
	}
	return start(t, srv, s, nil, routes...)
}

// tidy makes a round as the instance's Janitor does every half minute.
func (w *world) tidy(t *testing.T) {
	t.Helper()
	k := reconcile.NewJanitor(reconcile.JanitorOptions{Store: reconcile.Redis{Store: w.store}, Layout: w.store.Layout,
		Registry: fleet.NewStore(w.store.Layout), Routes: w.o.Routes, Shards: w.store.Space(), Work: signals{w.Engine}, Logger: zap.NewNop()})
	if _, err := k.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each instance finds a notice that any instance has scheduled, recognizes a repeated call, and can
// cancel and move the notice, while janitors run.
func TestInstancesOfDifferentConfigurationsFindOneNotice(t *testing.T) {
	t.Parallel()
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			s := newSink(1000)
			before := startWith(t, srv, s, c.before...)
			ctx := t.Context()
			far := func(k string) store.Request {
				return store.Request{Key: k, Delay: time.Hour, Content: notice.Content{Body: []byte(`{"a":1}`)}}
			}
			if _, err := before.Schedule(ctx, far("app1:m:t:early")); err != nil {
				t.Fatal(err)
			}
			after := startWith(t, srv, s, c.after...)
			both := []*world{before, after}
			for round := range 3 {
				for i, by := range both {
					k := fmt.Sprintf("app1:m:t:%d-%d", round, i)
					if r, err := by.Schedule(ctx, far(k)); err != nil || !r.Created {
						t.Fatalf("%+v, %v", r, err)
					}
					for j, w := range []*world{both[1-i], by, both[1-i]} {
						w.tidy(t)
						if f, err := both[1-i].Find(ctx, k); err != nil || f.State != notice.Scheduled {
							t.Errorf("round %d: %+v, %v", j, f, err)
						}
						if r, err := both[1-i].Schedule(ctx, far(k)); err != nil || r.Created || len(r.Differs) > 0 {
							t.Errorf("round %d: the same again: %+v, %v", j, r, err)
						}
						other := far(k)
						other.Body = []byte("2")
						if r, err := both[1-i].Schedule(ctx, other); err != nil || !slices.Equal(r.Differs, []string{"body"}) {
							t.Errorf("round %d: another content: %+v, %v", j, r, err)
						}
					}
					if ch, err := both[1-i].Reschedule(ctx, k, time.Time{}, 2*time.Hour); err != nil || !ch.Done {
						t.Errorf("%+v, %v", ch, err)
					}
					other := far(k)
					other.Body, other.OnDuplicate = []byte("3"), store.Replace
					if r, err := both[1-i].Schedule(ctx, other); err != nil || !r.Replaced {
						t.Errorf("replace: %+v, %v", r, err)
					}
					if f, err := by.Find(ctx, k); err != nil || string(f.Body) != "3" {
						t.Errorf("%+v, %v", f, err)
					}
					if ch, err := by.Cancel(ctx, k); err != nil || !ch.Done {
						t.Errorf("%+v, %v", ch, err)
					}
					if f, err := both[1-i].Find(ctx, k); err != nil || f.State != notice.Cancelled {
						t.Errorf("%+v, %v", f, err)
					}
				}
			}
			if ch, err := after.Cancel(ctx, "app1:m:t:early"); err != nil || !ch.Done {
				t.Errorf("%+v, %v", ch, err)
			}
			if n := held(t, srv); n != 7 {
				t.Errorf("%d records are kept, want 7", n)
			}
		})
	}
}

// held is how many records there are under all prefixes.
func held(t *testing.T, srv *testkit.Redis) (n int64) {
	t.Helper()
	for _, k := range srv.Client().Keys(t.Context(), "*:records:*").Val() {
		n += srv.Client().HLen(t.Context(), k).Val()
	}
	return n
}

func TestInstancesOfDifferentConfigurationsDeliverOnce(t *testing.T) {
	t.Parallel()
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			const n = 400
			srv := testkit.SharedRedis(t)
			s := newSink(2 * n)
			both := []*world{startWith(t, srv, s, c.before...), startWith(t, srv, s, c.after...)}
			from := time.Now().Add(200 * time.Millisecond)
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						both[i%2].tidy(t)
					}
				}
			}()
			for i := range n {
				r := store.Request{Key: fmt.Sprintf("app1:m:t:%d", i), Due: from.Add(time.Duration(i) * time.Millisecond)}
				for j := range 3 { // repeated by a producer that goes from instance to instance
					if reply, err := both[(i+j)%2].Schedule(t.Context(), r); err != nil || reply.Created != (j == 0) {
						t.Errorf("%s: call %d: %+v, %v", r.Key, j, reply, err)
					}
				}
			}
			s.await(t, n)
			close(stop)
			<-done
			both[0].stop()
			both[1].stop()
			s.once(t, n)
		})
	}
}

// After the last instance of a configuration has died, instances that cover its keys deliver its
// notices.
func TestWhatLiesUnderARemovedPrefixIsDelivered(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newSink(10)
	ctx := t.Context()
	before := startWith(t, srv, s, "app1", "app1:m")
	if _, err := before.Schedule(ctx, store.Request{Key: "app1:m:t:1", Delay: 500 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	before.stop()
	after := startWith(t, srv, s, "app1")
	s.await(t, 1)
	// A producer's script, or an instance that others take for dead, writes there again.
	old := store.New(store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1},
		Prefixes: []string{"app1", "app1:m"}, Retention: time.Hour, Retain: 1000})
	if _, err := old.Schedule(ctx, keys.Partition{Prefix: "app1:m"}, []store.Request{{Key: "app1:m:t:2"}}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	after.stop()
	s.once(t, 2)
	if got := srv.Client().SMembers(ctx, srv.Namespace()+":routes").Val(); !slices.Contains(got, "app1:m") {
		t.Errorf("a prefix was forgotten: %v", got)
	}
}

// No route covers the key any more: the notice is stored, can be read and cancelled.
func TestANoticeThatNoRouteCoversCanBeReadAndCancelled(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	before := startWith(t, srv, newSink(1), "app1", "app2")
	if _, err := before.Schedule(ctx, store.Request{Key: "app2:m:t:1", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	before.stop()
	after := startWith(t, srv, newSink(1), "app1")
	eventually(t, "the orphan counted", func() bool { return after.janitor.Orphans() == 1 })
	if f, err := after.Find(ctx, "app2:m:t:1"); err != nil || f.State != notice.Scheduled {
		t.Errorf("%+v, %v", f, err)
	}
	if ch, err := after.Cancel(ctx, "app2:m:t:1"); err != nil || !ch.Done {
		t.Errorf("%+v, %v", ch, err)
	}
	if _, err := after.Find(ctx, "app2:m:t:2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestPlainTimersAreAdoptedOnceByInstancesOfDifferentConfigurations(t *testing.T) {
	t.Parallel()
	const n = 60
	srv := testkit.SharedRedis(t)
	s := newSink(2 * n)
	adopting := func(prefixes ...string) *world {
		var routes []*route.Route
		for i, p := range prefixes {
			r := testRoute(fmt.Sprintf("r%d", i), p)
			r.Adopt = true
			routes = append(routes, r)
		}
		return start(t, srv, s, nil, routes...)
	}
	both := []*world{adopting("app1"), adopting("app1", "app1:m")}
	for i := range n {
		if err := srv.Client().Set(t.Context(), fmt.Sprintf("app1:m:t:%d", i), "payload",
			time.Duration(300+i)*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, n)
	for i := range n {
		both[0].until(t, fmt.Sprintf("app1:m:t:%d", i), notice.Delivered)
	}
	both[0].stop()
	both[1].stop()
	s.once(t, n)
	if got := held(t, srv); got != n {
		t.Errorf("%d records are kept, want %d", got, n)
	}
}

// An instance is started with another count while Redis is away: it takes
// nothing, and leaves when Redis is back.
func TestNothingIsTakenBeforeTheLayoutIsKnown(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithAOF(t.TempDir()))
	ctx := t.Context()
	first := startWith(t, srv, newSink(1), "app1")
	o := first.o
	first.stop()
	srv.Kill()
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	o.Conn, o.Space.Shards, o.Metrics, o.Logger = conn, 8, telemetry.NewMetrics(telemetry.MetricsOptions{}), zap.NewNop()
	e := New(o)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	taken := func() (n int) {
		for i := range 30 {
			_, err := e.Schedule(ctx, store.Request{Key: key(i), Delay: time.Hour})
			many := e.ScheduleMany(ctx, []store.Request{{Key: key(i), Delay: time.Hour}})[0].Err
			_, cerr := e.Cancel(ctx, key(i))
			_, rerr := e.Report(ctx, key(i), notice.Report{})
			for _, err := range []error{err, many, cerr, rerr} {
				if !errors.Is(err, wire.ErrUnavailable) && !errors.Is(err, store.ErrLayout) {
					t.Errorf("%v, want ErrUnavailable", err)
					n++
				}
			}
		}
		return n
	}
	if n := taken(); n > 0 {
		t.Fatalf("%d calls were taken while Redis was away", n)
	}
	srv.Restart()
	var end error
	for end == nil {
		taken()
		select {
		case end = <-done:
		default:
		}
	}
	if !errors.Is(end, store.ErrLayout) {
		t.Errorf("it ended with %v", end)
	}
	if n := held(t, srv); n != 0 {
		t.Errorf("%d notices are in shards that no instance reads", n)
	}
}

// Another Redis, with data of another layout, is put in the place of the one
// that an instance works on, and taken away again.
func TestAnotherRedisIsPutInTheFirstOnesPlace(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	w := startWith(t, srv, newSink(10), "app1")
	meta := srv.Namespace() + ":meta"
	// In one step, because an empty Redis gets a new layout at once.
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushDB(ctx)
		p.HSet(ctx, meta, "layout", store.Version, "shards", 4)
		// Due, at the place where it can be claimed.
		p.ZAdd(ctx, srv.Namespace()+":{0}:shadow:app1", redis.Z{Score: 1, Member: "app1:a:b:theirs"})
		p.HSet(ctx, srv.Namespace()+":{0}:records:app1", "app1:a:b:theirs", `{"due":1,"made":1}`)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Schedule(ctx, store.Request{Key: key(1)}); !errors.Is(err, store.ErrLayout) {
		t.Errorf("%v, want ErrLayout", err)
	}
	w.sweepers.Now()
	if r := w.Ready(ctx); r.Ready || len(r.Reasons) == 0 {
		t.Errorf("%+v", r)
	}
	if n := c.Exists(ctx, srv.Namespace()+":{0}:claim:app1:a:b:theirs").Val(); n != 0 {
		t.Error("a notice of another layout was claimed")
	}
	c.FlushDB(ctx)
	if r, err := w.Schedule(ctx, store.Request{Key: key(2)}); err != nil || !r.Created {
		t.Errorf("%+v, %v", r, err)
	}
	w.until(t, key(2), notice.Delivered)
	if r := w.Ready(ctx); !r.Ready {
		t.Errorf("%+v", r)
	}
}

func TestTheCountInRedisHoldsWhereNoneIsSet(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	srv.Client().HSet(ctx, srv.Namespace()+":meta", "layout", store.Version, "shards", 3, "replaced", "1")
	for _, count := range []int{0, 1, 3} {
		s := newSink(10)
		w := start(t, srv, s, func(o *Options) { o.Space.Shards = count; o.Logger = zap.NewNop() }, testRoute("r", "app1"))
		if n := w.Store().Space().Now().Shards; n != 3 {
			t.Errorf("NOTIFIER_SHARDS=%d: %d shards", count, n)
		}
		k := key(100 + count)
		if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		s.await(t, 1)
		w.until(t, k, notice.Delivered)
		w.stop()
	}
}
