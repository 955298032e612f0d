package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// wraps counts the stored keys of a shard by the name of their service key.
func (w *world) wraps(t *testing.T) map[string]int {
	t.Helper()
	all, err := w.srv.Client().HVals(t.Context(), w.store.Space().Seals(0)).Result()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, value := range all {
		name, err := seal.WrappedWith(value[strings.LastIndexByte(value, ' ')+1:])
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		by[name]++
	}
	return by
}

func TestInstancesAnnounceTheirServiceKeys(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	r := sealedRoute(seal.PerID)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	with := func(names ...string) func(*Options) {
		return func(o *Options) {
			o.Logger = zap.NewNop()
			if len(names) > 0 {
				o.SealKeys = testkit.ServiceKeys(t, names...)
			}
		}
	}
	put := func(w *world, n int) {
		t.Helper()
		x := m.planted(key(n))
		x.Delay = time.Hour
		if _, err := w.Schedule(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	old := start(t, srv, newSink(1), with("old"), r)
	start(t, srv, newSink(1), with(), sealedRoute("")) // has none, and decides nothing
	testkit.Until(t, "the old one is alive", func() bool { return old.fleet.View().Known() })

	// Before its first heartbeat an instance reads the keys of the others.
	o := old.o
	o.SealKeys = testkit.ServiceKeys(t, "new", "old")
	want := testkit.ServiceKeys(t, "old").IDs()
	if lists, err := New(o).peersSealKeys(t.Context()); err != nil || len(lists) != 1 || !slices.Equal(lists[0], want) {
		t.Errorf("before the first heartbeat: %q, %v", lists, err)
	}

	both := start(t, srv, newSink(1), with("new", "old"), r)
	put(both, 1)
	if by := both.wraps(t); by["old"] != 2 || by["new"] != 0 {
		t.Errorf("while an instance does not have the new key: %v", by)
	}
	old.stop()
	testkit.Until(t, "the old one has left", func() bool { return len(both.fleet.View().SealKeys()) == 0 })
	put(both, 2)
	if by := both.wraps(t); by["old"] != 2 || by["new"] != 2 {
		t.Errorf("after it has left: %v", by)
	}
}

// Service keys are rotated while two instances deliver: a new key last, first, rewrapped, the old one removed.
func TestRotationOfServiceKeysLosesNothing(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(seal.PerID)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	instance := func(names ...string) *world {
		t.Helper()
		return start(t, srv, calls, func(o *Options) {
			o.Logger, o.SealKeys, o.Instance = zap.NewNop(), testkit.ServiceKeys(t, names...), strings.Join(names, " ")
		}, r)
	}
	n := 0
	var far []string
	both := func(a, b *world) {
		t.Helper()
		for _, w := range []*world{a, b} {
			for range 10 { // at once, and much later
				x, y := m.planted(key(n)), m.planted(key(n+1))
				y.Delay = time.Hour
				for _, r := range w.ScheduleMany(t.Context(), []store.Request{x, y}) {
					if r.Err != nil || !r.Created {
						t.Fatalf("schedule: %+v", r)
					}
				}
				far = append(far, y.Key)
				n += 2
			}
		}
	}
	a, b := instance("old"), instance("old")
	both(a, b)
	for _, names := range [][]string{{"old", "new"}, {"new", "old"}} {
		for _, w := range []**world{&a, &b} { // one after the other
			next := instance(names...)
			both(*w, next)
			(*w).stop()
			*w = next
			both(a, b)
		}
	}
	if by := a.wraps(t); by["old"] == 0 {
		t.Errorf("before the rewrap: %v", by)
	}
	rewrap := vault.Rewrapper{Keys: a.o.SealKeys, Wire: a.store.Wire()}
	rewrap.Check = func(context.Context) error {
		both(a, b)
		rewrap.Check = nil
		return nil
	}
	if done, err := rewrap.Run(t.Context()); err != nil || len(done.Under) != 1 || done.Under["new"] == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, w := range []**world{&a, &b} {
		next := instance("new")
		both(*w, next)
		(*w).stop()
		*w = next
		both(a, b)
	}
	for _, key := range far {
		if _, err := a.Fire(t.Context(), key); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	for i := range n {
		if f := b.until(t, key(i), notice.Delivered); f.AttemptsMade != 1 {
			t.Errorf("%s: %d attempts", f.Key, f.AttemptsMade)
		}
	}
	if got := m.requests(); len(got) != n {
		t.Errorf("%d requests, want %d", len(got), n)
	}
}

// Without the key anywhere the notices wait, and it is reported until an instance with the key starts.
func TestMissingServiceKeyIsReported(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(seal.PerRoute)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	instance := func(k *seal.ServiceKeys) *world {
		t.Helper()
		return start(t, srv, calls, func(o *Options) { o.Logger, o.SealKeys = zap.NewNop(), k }, r)
	}
	first := instance(testkit.ServiceKeys(t, "old"))
	x := m.planted(key(1))
	x.Delay = time.Hour
	if _, err := first.Schedule(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got := first.unopened(t.Context()); len(got) > 0 {
		t.Errorf("with the key: %+v", got)
	}
	testkit.Until(t, "the keys are counted", func() bool {
		g, err := first.Gauges(t.Context())
		return err == nil && g.SealedWaiting == 0 && g.SealKeys != nil
	})
	first.stop()

	without, liar := instance(testkit.ServiceKeys(t, "new")), instance(testkit.OtherServiceKey(t, "old"))
	if _, err := without.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	const want = "no running instance has the service key old of sealed notices under app1: "
	testkit.Until(t, "an instance reports it", func() bool {
		for _, w := range []*world{without, liar} {
			for _, c := range w.Ready(t.Context()).Degraded {
				if strings.HasPrefix(c.Reason, want) && c.Urgent {
					return true
				}
			}
		}
		return false
	})
	testkit.Until(t, "the gauge has the notice", func() bool {
		a, err1 := without.Gauges(t.Context())
		b, err2 := liar.Gauges(t.Context())
		return err1 == nil && err2 == nil && max(a.SealedWaiting, b.SealedWaiting) == 1 && a.SealKeys["old"] == 2
	})

	last := instance(testkit.ServiceKeys(t, "new", "old"))
	if f := last.until(t, key(1), notice.Delivered); f.AttemptsMade != 1 {
		t.Errorf("%d attempts", f.AttemptsMade)
	}
	testkit.Until(t, "no instance reports it", func() bool {
		return len(without.unopened(t.Context()))+len(liar.unopened(t.Context())) == 0
	})
}

// No notice is due that needs the key, or the route pushes its entries sealed. Notices of later and consumers need it.
func TestMissingServiceKeyIsReportedWithoutDueNotices(t *testing.T) {
	t.Parallel()
	list := queueRoute("list", "app1", route.Target{Kind: route.KindList, Key: "todo"}, route.Ack2xx)
	list.Seal = seal.PerRoute
	for name, r := range map[string]*route.Route{"later": sealedRoute(seal.PerRoute), "list": list} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testkit.SharedRedis(t)
			instance := func(names ...string) *world {
				return start(t, srv, &queue.Handler{}, func(o *Options) {
					o.Logger, o.SealKeys = zap.NewNop(), testkit.ServiceKeys(t, names...)
				}, r)
			}
			first := instance("old")
			x := store.Request{Key: key(1), Delay: time.Hour, Content: notice.Content{URL: "https://shop.example/", Body: []byte(card)}}
			if name == "list" {
				x.URL, x.Delay = "", time.Millisecond
			}
			if _, err := first.Schedule(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if name == "list" {
				first.until(t, key(1), notice.Delivered)
			}
			first.stop()

			without := instance("new")
			const want = "no running instance has the service key old, so 2 keys of sealed notices cannot be decrypted; " +
				"add the service key to NOTIFIER_SEAL_KEYS"
			testkit.Until(t, "it is reported", func() bool {
				return slices.Contains(without.Ready(t.Context()).Degraded, fleet.Condition{Reason: want})
			})
			instance("new", "old")
			testkit.Until(t, "no instance reports it", func() bool { return len(without.unopened(t.Context())) == 0 })
		})
	}
}

// One instance a day deletes the keys of subjects without notices; one that fails leaves it to another.
func TestOneInstanceDeletesUnusedKeys(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	begin := func() *world {
		return start(t, srv, newSink(10), func(o *Options) {
			o.SealKeys, o.SealKeep, o.Logger = testkit.ServiceKeys(t, "k"), 24*time.Hour, zap.NewNop()
		}, sealedRoute(seal.PerID))
	}
	a, b := begin(), begin()
	a.scheduleSealed(t, sealedFor("m_1", 1, time.Hour), sealedFor("m_1", 2, time.Hour))
	c, seals := srv.Client(), a.store.Space().Seals(0)
	if err := c.HDel(t.Context(), a.store.Space().Records(keys.Partition{Prefix: "app1"}), key(1)).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.cleanSealKeysOnce(t.Context()); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	var marks []string
	for name := range c.HGetAll(t.Context(), seals).Val() {
		if strings.HasPrefix(name, "unused:") {
			marks = append(marks, name)
		}
	}
	if len(marks) != 1 {
		t.Fatalf("marks %q", marks)
	}
	if err := c.HSet(t.Context(), seals, marks[0], time.Now().Add(-26*time.Hour).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.cleanSealKeysOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("a second one on the same day deleted %d, %v", n, err)
	}

	day := func() {
		if err := c.Del(t.Context(), a.store.Space().SealsCleaned()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	day()
	if err := c.Rename(t.Context(), seals, srv.Namespace()+":aside").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), seals, "not a hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cleanSealKeysOnce(t.Context()); err == nil {
		t.Error("no error of a wrong type")
	}
	if err := c.Rename(t.Context(), srv.Namespace()+":aside", seals).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.cleanSealKeysOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("deleted %d, %v; want the key without a notice", n, err)
	}
}
