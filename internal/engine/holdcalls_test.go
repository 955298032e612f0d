package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func callbackRoute() *route.Route {
	r := testRoute("r", "app1")
	r.Target = route.Target{Kind: route.KindNotice}
	return r
}

// to returns a request with the url of a host.
func to(key, host string) store.Request {
	return store.Request{Key: key, Content: notice.Content{URL: "https://" + host + "/x"}}
}

// heldNow returns how many notices a pause holds.
func (w *world) heldNow(t *testing.T, r receivers.Receiver) (n int64) {
	t.Helper()
	counts, err := w.HeldCounts(t.Context(), []string{r.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, some := range counts[0] {
		n += some
	}
	return n
}

// Notices of a paused host are held without an attempt, each claimed once, while another host gets its notices. A resume
// spreads their scores evenly.
func TestPausedHostHoldsItsNotices(t *testing.T) {
	t.Parallel()
	const n = 2000
	srv := testkit.SharedRedis(t)
	a, b := newSink(2*n), newSink(2*n)
	w := start(t, srv, a, nil, callbackRoute())
	other := start(t, srv, b, nil, callbackRoute())
	host := receivers.Receiver{Host: "down.example"}
	if err := w.PauseReceiver(t.Context(), "", host, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both instances know the pause", func() bool {
		return len(w.holds.Table().Pauses()) == 1 && len(other.holds.Table().Pauses()) == 1
	})

	w.put(t, n, func(i int) store.Request { return to(key(i), "down.example:8443") })
	w.put(t, 100, func(i int) store.Request { return to(fmt.Sprintf("app1:trans:up:%d", i), "up.example") })
	eventually(t, "all notices of the paused host are held", func() bool { return w.heldNow(t, host) == n })
	eventually(t, "the other host has got its notices", func() bool { return len(a.seen)+len(b.seen) == 100 })
	for _, x := range []*world{w, other} {
		eventually(t, "no slot is taken", func() bool { return x.Stats()[0].InFlight == 0 })
	}
	if f, err := w.Find(t.Context(), key(7)); err != nil || f.State != notice.Scheduled || f.AttemptsMade != 0 ||
		time.Until(f.NextAttemptAt()) < 50*time.Minute {
		t.Errorf("%+v, %v", f, err)
	}
	ended := func() int64 {
		return w.Stats()[0].Outcomes[notice.OutcomeDeferred] + other.Stats()[0].Outcomes[notice.OutcomeDeferred]
	}
	eventually(t, "each notice is counted", func() bool { return ended() >= n })
	if ended() != n {
		t.Errorf("%d claims were ended by the pause, want one for each notice", ended())
	}

	before := time.Now()
	if paused, err := other.ResumeReceiver(t.Context(), host, time.Minute); err != nil || !paused {
		t.Fatal(paused, err)
	}
	eventually(t, "no notice is held", func() bool { return w.heldNow(t, host) == 0 })
	tenths := [10]int{}
	left := srv.Client().ZRangeWithScores(t.Context(), w.store.Space().Shadow(w.store.Space().Partition("app1", key(0))), 0, -1).Val()
	for _, z := range left {
		at := time.UnixMilli(int64(z.Score)).Sub(before)
		tenths[min(9, max(0, int(at/(6*time.Second))))]++
	}
	tenths[0] += n - len(left) // delivered already
	for i, k := range tenths {
		if k < n*8/100 || k > n*12/100 {
			t.Errorf("%d notices in tenth %d: %v", k, i+1, tenths)
		}
	}
	t.Log(tenths)
}

// A pause that ends by its time, or whose client has a prefix, holds only its notices until then.
func TestPauseEndsByItsTime(t *testing.T) {
	t.Parallel()
	s := newSink(100)
	w := start(t, testkit.SharedRedis(t), s, nil, callbackRoute())
	shop := receivers.Receiver{Host: "shop.example:443", Prefix: "app1:trans"}
	buyer := receivers.Receiver{Audience: "buyer-7"}
	for _, r := range []receivers.Receiver{shop, buyer} {
		if err := w.PauseReceiver(t.Context(), "", r, time.Now().Add(3*time.Second), 0); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the pauses are known", func() bool { return len(w.holds.Table().Pauses()) == 2 })
	w.put(t, 1, func(int) store.Request { return to("app1:trans:a:1", "shop.example") })
	w.put(t, 1, func(int) store.Request {
		r := to("app1:trans:a:2", "else.example")
		r.Audience = "buyer-7"
		return r
	})
	w.put(t, 1, func(int) store.Request { return to("app1:trans:a:3", "shop.example:8443") })
	w.put(t, 1, func(int) store.Request { return to("app1:other:a:4", "shop.example") })
	s.await(t, 2)
	eventually(t, "two are held", func() bool { return w.heldNow(t, shop) == 1 && w.heldNow(t, buyer) == 1 })
	if err := w.PauseReceiver(t.Context(), "", buyer, time.Now().Add(-time.Second), 0); err == nil {
		t.Error("a pause in the past was accepted")
	}
	s.await(t, 2)
	w.stop()
	s.once(t, 4)
}

// A held notice leaves the list when it is fired, cancelled, replaced and rescheduled. A stale entry changes nothing.
func TestHeldNoticeLeavesTheList(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newSink(100)
	w := start(t, srv, s, nil, callbackRoute())
	ctx, host := t.Context(), receivers.Receiver{Host: "down.example"}
	if err := w.PauseReceiver(ctx, "", host, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause is known", func() bool { return len(w.holds.Table().Pauses()) == 1 })
	w.put(t, 4, func(i int) store.Request { return to(key(i), "down.example") })
	eventually(t, "all are held", func() bool { return w.heldNow(t, host) == 4 })

	if _, err := w.Cancel(ctx, key(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reschedule(ctx, key(1), time.Time{}, time.Hour); err != nil {
		t.Fatal(err)
	}
	again := to(key(2), "up.example")
	again.OnDuplicate, again.Delay = store.Replace, 2*time.Hour
	if r, err := w.Schedule(ctx, again); err != nil || !r.Created {
		t.Fatal(r, err)
	}
	if n := w.heldNow(t, host); n != 1 {
		t.Errorf("%d are held, want 1", n)
	}
	if _, err := w.Fire(ctx, key(3)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fired one is held again", func() bool {
		return w.heldNow(t, host) == 1 &&
			w.Stats()[0].Outcomes[notice.OutcomeDeferred] == 5
	})

	// Entries that a script has left behind: of a notice that is scheduled for another time, and of no notice.
	space, at := w.store.Space(), w.store.Space().Partition("app1", key(1))
	for _, k := range []string{key(1), "app1:trans:notice:none"} {
		srv.Client().ZAdd(ctx, space.Held(at), redis.Z{Member: host.String() + " " + k})
		srv.Client().HSet(ctx, space.Holds(at), k, "1.515625 "+host.String())
	}
	if _, err := w.ResumeReceiver(ctx, host, 0); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	eventually(t, "the list is empty", func() bool {
		return srv.Client().Exists(ctx, space.Held(at), space.Holds(at)).Val() == 0
	})
	if f, err := w.Find(ctx, key(1)); err != nil || time.Until(f.Due) < 50*time.Minute {
		t.Errorf("%+v, %v", f, err)
	}
}

// A reshard keeps held notices held, and a resume finds them.
func TestReshardKeepsHeldNotices(t *testing.T) {
	t.Parallel()
	const n = 200
	srv := testkit.SharedRedis(t)
	s := newSink(n)
	w := start(t, srv, s, nil, callbackRoute())
	ctx, host := context.Background(), receivers.Receiver{Host: "down.example"}
	if err := w.PauseReceiver(ctx, "", host, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause is known", func() bool { return len(w.holds.Table().Pauses()) == 1 })
	w.put(t, n, func(i int) store.Request { return to(key(i), "down.example") })
	eventually(t, "all are held", func() bool { return w.heldNow(t, host) == n })

	if _, err := move.Reshard(ctx, move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: 4}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have moved", func() bool {
		return srv.Client().Exists(ctx, w.store.Space().Held(keys.Partition{Prefix: "app1"})).Val() == 0 && w.heldNow(t, host) == n
	})
	if d := w.Stats()[0].Outcomes[notice.OutcomeDeferred]; d != n {
		t.Errorf("%d claims were ended by the pause, want %d", d, n)
	}
	if _, err := w.ResumeReceiver(ctx, host, 0); err != nil {
		t.Fatal(err)
	}
	s.await(t, n)
	w.stop()
	s.once(t, n)
}
