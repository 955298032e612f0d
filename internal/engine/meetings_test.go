package engine

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// moved moves the notices of an instance by a reshard, or to another Redis, whose instance begin starts. It returns the instance that
// has them then.
func (w *world) moved(t *testing.T, migrates bool, begin func(srv *testkit.Redis) *world) *world {
	t.Helper()
	if !migrates {
		done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: w.srv.Namespace(), To: 3})
		if err != nil || !done.Changed || done.Held > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		return w
	}
	b := begin(testkit.StartRedis(t))
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: w.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
		Namespace: w.srv.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second})
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	return b
}

// bothWays runs a test with a reshard and with a migration.
func bothWays(t *testing.T, f func(t *testing.T, migrates bool)) {
	t.Parallel()
	for _, migrates := range []bool{false, true} {
		t.Run(fmt.Sprintf("migrate %t", migrates), func(t *testing.T) {
			t.Parallel()
			f(t, migrates)
		})
	}
}

// A held notice keeps its expiry when its url changes: at another paused host it expires, elsewhere it is delivered.
func TestHeldNoticeKeepsItsExpiryWithAnotherURL(t *testing.T) {
	t.Parallel()
	g := newGot(10)
	w := start(t, testkit.SharedRedis(t), g, nil, callbackRoute())
	old, other := w.paused(t, "old.example"), w.paused(t, "other.example")
	w.put(t, 2, func(i int) store.Request {
		r := to(key(i), "old.example")
		r.ExpiresAfter = []time.Duration{time.Second, time.Hour}[i]
		return r
	})
	eventually(t, "both are held", func() bool { return w.heldNow(t, old) == 2 })
	for i, host := range []string{"other", "new"} {
		c, was, err := w.Readdress(t.Context(), key(i), notice.Address{URL: "https://" + host + ".example/x"}, nil)
		if err != nil || !c.Done || !was.Expires.Equal(c.Notice.Expires) {
			t.Fatal(c, err)
		}
	}
	w.until(t, key(1), notice.Delivered)
	if f := w.expired(t, key(0)); f.AttemptsMade != 0 || f.URL != "https://other.example/x" || w.heldNow(t, old)+w.heldNow(t, other) != 0 {
		t.Errorf("%+v, %d and %d are held", f.Notice, w.heldNow(t, old), w.heldNow(t, other))
	}
}

// A dead letter that holds back its successors is redriven with an expiry while its receiver is paused. It expires, and holds them
// back again. With a later expiry it is delivered before them.
func TestRedrivenWithAnExpiryBlocks(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"shop.example:443": 410})
	r := callbackRoute()
	r.Order = route.OrderBlock
	w := start(t, testkit.SharedRedis(t), a, nil, r)
	id := func(i int) string { return fmt.Sprintf("app1:trans:paid:O1~%d", i+1) }
	w.put(t, 3, func(i int) store.Request { return to(id(i), "shop.example") })
	w.until(t, id(0), notice.Dead)
	shop := w.paused(t, "shop.example")
	a.set("shop.example:443", 0)
	redrive := func(x notice.Expiry) {
		t.Helper()
		if c, err := w.Redrive(t.Context(), id(0), x); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	redrive(notice.Expiry{After: 300 * time.Millisecond})
	eventually(t, "it is held", func() bool { return w.heldNow(t, shop) == 1 })
	if f := w.expired(t, id(0)); w.heldNow(t, shop) != 0 || f.AttemptsMade != 1 {
		t.Errorf("%d are held, %+v", w.heldNow(t, shop), f.Notice)
	}
	if _, err := w.ResumeReceiver(t.Context(), shop, 0); err != nil {
		t.Fatal(err)
	}
	redrive(notice.Expiry{After: time.Hour})
	for i := range 3 {
		w.until(t, id(i), notice.Delivered)
	}
	var order []string
	for len(order) < 4 {
		order = append(order, testkit.Next(t, "an attempt", a.seen))
	}
	if want := []string{id(0), id(0), id(1), id(2)}; !slices.Equal(order, want) {
		t.Errorf("attempts %q, want %q", order, want)
	}
}

// A route with much weight whose head of a sequence is held leaves the slots to another route. Afterwards the sequence is delivered in
// order.
func TestHeldSequenceOfAHeavyRouteLeavesItsSlots(t *testing.T) {
	t.Parallel()
	const sequences, others = 20, 50
	g := newGot(1000)
	heavy, light := callbackRoute(), testRoute("light", "app2")
	heavy.Order, heavy.Weight, light.Weight = route.OrderBlock, 1000, 1
	w := start(t, testkit.SharedRedis(t), g, func(o *Options) { o.Concurrency = 2 }, heavy, light)
	shop := w.paused(t, "shop.example")
	w.put(t, sequences*inSequence, func(i int) store.Request { return to(inOrder(i), "shop.example") })
	eventually(t, "the heads are held", func() bool { return w.heldNow(t, shop) == sequences })
	w.put(t, others, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app2:a:b:%d", i)} })
	for i := range others {
		w.until(t, fmt.Sprintf("app2:a:b:%d", i), notice.Delivered)
	}
	if n := len(g.seen); n != others {
		t.Errorf("%d attempts, want %d", n, others)
	}
	for range others {
		testkit.Next(t, "one of the light route", g.seen)
	}
	if _, err := w.ResumeReceiver(t.Context(), shop, 0); err != nil {
		t.Fatal(err)
	}
	(&blockingLog{got: g}).inTurn(t, sequences, 1)
}

// Occurrences that overlap are held in a move. They are delivered once, with OverlapWait in order.
func TestOverlappingOccurrencesMove(t *testing.T) {
	bothWays(t, func(t *testing.T, migrates bool) {
		for _, overlap := range []recur.Overlap{recur.OverlapAllow, recur.OverlapWait} {
			t.Run(string(overlap), func(t *testing.T) {
				t.Parallel()
				const times = 3
				g := newGot(100)
				begin := func(srv *testkit.Redis) *world {
					r := callbackRoute()
					if overlap == recur.OverlapWait {
						r.Order = route.OrderSkip
					}
					return start(t, srv, g, nil, r)
				}
				w := begin(testkit.StartRedis(t))
				down := w.paused(t, "down.example")
				d := every("app1:a:b:n", time.Second)
				d.Overlap, d.Times, d.Missed, d.MissedMost = overlap, times, recur.MissedAll, 1000
				d.Content = notice.Content{URL: "https://down.example/x"}
				w.define(t, d)
				eventually(t, "an occurrence is held", func() bool { return w.heldNow(t, down) == 1 })
				w = w.moved(t, migrates, begin)
				least := int64(times)
				if overlap == recur.OverlapWait {
					least = 1 // each place orders its own notices: while they move, more than one may be held
				}
				eventually(t, "all occurrences", func() bool { return w.stateOf(t, d.Key).Stored == times && w.heldNow(t, down) >= least })
				if len(g.seen) > 0 {
					t.Errorf("%d calls of a paused host", len(g.seen))
				}
				if _, err := w.ResumeReceiver(t.Context(), down, 0); err != nil {
					t.Fatal(err)
				}
				for number := 1; number <= times; number++ {
					k := testkit.Next(t, "an occurrence", g.seen)
					if overlap == recur.OverlapWait && k != recur.OccurrenceKey(d.Key, number) {
						t.Errorf("occurrence %d is %s", number, k)
					}
				}
				consecutive(t, w, g, []string{d.Key}, times)
			})
		}
	})
}

func hookTarget() route.Target {
	return route.Target{Kind: route.KindFixed, URL: &url.URL{Scheme: "https", Host: "hook.example", Path: "/x"}}
}

// The notices of a hook are held while its receiver is paused, also in a move. A redrive of the dead letters does not take them back, and
// each death reaches the hook once.
func TestHeldHookNoticesMove(t *testing.T) {
	bothWays(t, func(t *testing.T, migrates bool) {
		const n = 10
		l := newBlockingLog()
		begin := func(srv *testkit.Redis) *world {
			routes := hooked()
			routes[1].Target = hookTarget()
			return start(t, srv, l, nil, routes...)
		}
		w := begin(testkit.StartRedis(t))
		hook := w.paused(t, "hook.example")
		w.put(t, n, func(i int) store.Request { return store.Request{Key: key(i)} })
		eventually(t, "the notices of the hook are held", func() bool { return w.heldNow(t, hook) == n })
		w = w.moved(t, migrates, begin)
		l.answers.Store(true)
		for i := range n {
			if c, err := w.Redrive(t.Context(), key(i), notice.Expiry{}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
			w.until(t, key(i), notice.Delivered)
		}
		w.emptied(t)
		if held := w.heldNow(t, hook); held != n || len(l.ids) > 0 {
			t.Errorf("%d are held and %d sent, want %d held", held, len(l.ids), n)
		}
		if _, err := w.ResumeReceiver(t.Context(), hook, 0); err != nil {
			t.Fatal(err)
		}
		l.await(t, n)
	})
}

// sealedHook is a handler that refuses sealed notices, and records the bodies of the hook's route.
type sealedHook struct{ bodies chan string }

func (h sealedHook) Handle(_ context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if r.Name == "alarms" {
		h.bodies <- string(n.Body)
		return notice.DeliveredResult(200)
	}
	return notice.DeadResult(notice.ReasonGone, card)
}

// Dead letters of a sealed route, and their hook's notices, which are sealed, too, move. The hook gets each death once, and the content
// only sealed.
func TestSealedHookNoticesMove(t *testing.T) {
	bothWays(t, func(t *testing.T, migrates bool) {
		const n = 5
		h := sealedHook{make(chan string, 100)}
		begin := func(srv *testkit.Redis) *world {
			orders, alarms := sealedRoute(seal.PerAudience), testRoute("alarms", "ops:x")
			orders.OnDead, orders.OnDeadBody = alarms, 1<<16
			alarms.Seal, alarms.Target = seal.PerRoute, hookTarget()
			return start(t, srv, h, func(o *Options) { o.SealKeys, o.KeyAge = testkit.ServiceKeys(t, "k"), forgottenAge }, orders, alarms)
		}
		w := begin(testkit.StartRedis(t))
		hook := w.paused(t, "hook.example")
		for i := range n {
			w.scheduleSealed(t, sealedFor("m_1", i, 0))
		}
		eventually(t, "the notices of the hook are held", func() bool { return w.heldNow(t, hook) == n })
		w = w.moved(t, migrates, begin)
		if _, err := w.ResumeReceiver(t.Context(), hook, 0); err != nil {
			t.Fatal(err)
		}
		var all []string
		for range n {
			all = append(all, testkit.Next(t, "a death", h.bodies))
		}
		testkit.CheckSecrets(t, []string{card}, all...)
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != n || !strings.Contains(all[0], `"sealed":"`) {
			t.Errorf("%q", all)
		}
		f := w.until(t, key(0), notice.Dead)
		if w.Open(t.Context(), &f); string(f.Body) != card {
			t.Errorf("the dead letter opens to %q", f.Body)
		}
	})
}

// An occurrence in flight ends as usual when its audience is forgotten. Its retry is dead, and further ticks have no occurrences.
func TestForgetWithAnOccurrenceInFlight(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}, 10), make(chan struct{})
	h := newSink(10)
	h.answer = func(*notice.Notice) notice.Result {
		began <- struct{}{}
		<-release
		return notice.RetryResult(notice.ReasonStatus5xx, "")
	}
	w := startSealing(t, testkit.SharedRedis(t), h, seal.PerAudience)
	d := secretEvery(books, "m_1")
	d.Overlap = recur.OverlapSkip
	w.define(t, d)
	first := recur.OccurrenceKey(books, 1)
	testkit.Next(t, "the attempt", began)
	f := w.forget(t, "m_1")
	if f.Job.Claimed != 1 {
		t.Errorf("%+v", f.Job)
	}
	close(release)
	if x := w.until(t, first, notice.Dead); x.Reason != notice.ReasonForgotten || x.AttemptsMade < 1 {
		t.Errorf("%+v", x.Notice)
	}
	missed := w.stateOf(t, books).Missed
	eventually(t, "ticks without occurrences", func() bool { return w.stateOf(t, books).Missed >= missed+2 })
	if x := w.stateOf(t, books); x.Stored != 1 || len(began) > 0 {
		t.Errorf("%+v, %d more attempts", x, len(began))
	}
}
