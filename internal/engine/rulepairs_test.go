package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// pausedByRule pauses a receiver of the route app1 by rule, and returns once this instance has read the pause.
func (w *world) pausedByRule(t *testing.T, host string) receivers.Receiver {
	t.Helper()
	r := receivers.Receiver{Prefix: "app1", Host: host + ":443"}
	if done, err := w.holds.PauseByRule(t.Context(), receivers.Author{}, r, "ON_STATUS 401"); err != nil || !done {
		t.Fatal(done, err)
	}
	eventually(t, "the pause is known", func() bool { return w.holds.Table().Held("app1:x", r.Host, "", time.Now()) != nil })
	return r
}

// chosen stores a notice as the probe of a pause, as of two minutes ago: no instance releases it or chooses another one.
func (w *world) chosen(t *testing.T, r receivers.Receiver, key string) {
	t.Helper()
	f, err := w.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.store.Layout.SetReceiver(t.Context(), store.ReceiverChange{Field: r.String(),
		Value: fmt.Sprintf(`,"rule":"ON_STATUS 401","since":1,"probe":%q,"made":%d,"attempt":%d,"probed":%d}`, key, f.Made,
			f.NextAttempt(), time.Now().Add(-2*time.Minute).UnixMilli())})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the choice is known", func() bool {
		return slices.ContainsFunc(w.holds.Table().Pauses(), func(p *receivers.Pause) bool { return p.Receiver == r && p.Probe == key })
	})
}

// still fails unless exactly this receiver is paused and holds n notices.
func (w *world) still(t *testing.T, r receivers.Receiver, n int64) {
	t.Helper()
	if list := w.pauses(t); !slices.Equal(list, []string{r.String()}) {
		t.Errorf("paused: %v, want %s", list, r)
	}
	eventually(t, "the pause holds the others", func() bool { return w.heldNow(t, r) == n })
}

// Notices that change to another host leave a pause by rule at once, by PATCH or redirect. Other headers do not free a notice.
func TestNoticesLeaveAPauseByRuleForAnotherHost(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"old.example:443": 401})
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"))
	old := w.pausedByRule(t, "old.example")
	w.put(t, 10, func(i int) store.Request { return to(key(i), "old.example") })
	eventually(t, "all are held", func() bool { return w.heldNow(t, old) == 10 })

	for i, change := range []notice.Address{{URL: "https://new.example/x"},
		{Headers: []notice.Header{{Name: "X-Shop", Value: "1"}}, SetHeaders: true}, {URL: "https://old.example/y"}} {
		if c, _, err := w.Readdress(t.Context(), key(i), change, nil); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	w.until(t, key(0), notice.Delivered)
	w.still(t, old, 9)

	if _, err := w.MakeRedirect(t.Context(), jobs.Rule{From: "https://old.example", To: "https://new.example"}, ""); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if f := w.until(t, key(i), notice.Delivered); f.AttemptsMade != 1 || !strings.HasPrefix(f.URL, "https://new.example/") {
			t.Errorf("%+v", f.Notice)
		}
	}
	w.still(t, old, 0)
}

// A probe that changes to another host before its call is delivered there, and does not resume the old host. At another receiver
// that a rule has paused, it is held.
func TestProbeThatChangesItsHostIsNoProbe(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{})
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"))
	old, other := w.pausedByRule(t, "old.example"), w.pausedByRule(t, "other.example")
	w.put(t, 2, func(i int) store.Request { return to(key(i), "old.example") })
	eventually(t, "both are held", func() bool { return w.heldNow(t, old) == 2 })
	for i, host := range []string{"other", "new"} {
		w.chosen(t, old, key(i))
		if c, _, err := w.Readdress(t.Context(), key(i), notice.Address{URL: "https://" + host + ".example/x"}, nil); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	w.until(t, key(1), notice.Delivered)
	eventually(t, "the other is held again", func() bool { return w.heldNow(t, other) == 1 })
	if list := w.pauses(t); len(list) != 2 || a.times(key(0)) != 0 {
		t.Errorf("paused: %v, %d calls of a paused host", list, a.times(key(0)))
	}
}

// A notice that replaces the probe is another one: it is held.
func TestReplacementOfTheProbeIsHeld(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 401})
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"))
	down := w.pausedByRule(t, "down.example")
	w.one(t, key(2), "down.example", "")
	eventually(t, "it is held", func() bool { return w.heldNow(t, down) == 1 })
	w.earlier(t, down)
	if k := w.probed(t, down); k != key(2) {
		t.Fatalf("the probe is %q", k)
	}
	w.tried(t, key(2), 1)
	again := to(key(2), "down.example")
	again.OnDuplicate = store.Replace
	if got, err := w.Schedule(t.Context(), again); err != nil || !got.Replaced {
		t.Fatalf("%+v, %v", got, err)
	}
	eventually(t, "the replacement is held", func() bool { return w.heldNow(t, down) == 1 || a.times(key(2)) > 1 })
	if n := a.times(key(2)); n != 1 {
		t.Errorf("%d calls with the key of the probe, want 1", n)
	}
	if p := w.pauses(t); len(p) != 1 {
		t.Errorf("%v", p)
	}
}

// A probe whose receiver defers it is held then. The pause stays.
func TestDeferredProbeIsHeld(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 423})
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"))
	down := w.pausedByRule(t, "down.example")
	w.one(t, key(1), "down.example", "")
	eventually(t, "it is held", func() bool { return w.heldNow(t, down) == 1 })
	w.earlier(t, down)
	a.await(t, key(1))
	eventually(t, "it is held again", func() bool {
		f, err := w.Find(t.Context(), key(1))
		return err == nil && (f.Locked == 1 && w.heldNow(t, down) == 1 || f.Locked > 1)
	})
	if n := a.times(key(1)); n != 1 {
		t.Errorf("%d calls, want one probe", n)
	}
	w.still(t, down, 1)
}

// ends schedules a notice and waits until it is finalized.
func (w *world) ends(t *testing.T, key, host string, want notice.State) store.Found {
	t.Helper()
	w.one(t, key, host, "")
	return w.until(t, key, want)
}

// A redriven dead letter and a resent notice of a receiver that a rule has paused are held like others.
func TestRedrivenAndResentNoticesAreHeldByRule(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 0})
	r := ruled("r", "app1")
	r.Ladder = notice.Ladder{}
	w := start(t, testkit.SharedRedis(t), a, nil, r)
	delivered := w.ends(t, key(1), "down.example", notice.Delivered)
	a.set("down.example:443", 500)
	w.ends(t, key(2), "down.example", notice.Dead)
	down := w.pausedByRule(t, "down.example")
	if _, err := w.Redrive(t.Context(), key(2), notice.Expiry{}); err != nil {
		t.Fatal(err)
	}
	if c, err := w.Resend(t.Context(), key(1), delivered.ID(), delivered.Ending(), notice.Expiry{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	w.still(t, down, 2)
	if n := a.times(key(1)) + a.times(key(2)); n != 2 {
		t.Errorf("%d calls, want those before the pause", n)
	}
}

// A replayed notice is held by rule, also one that was the probe and became a dead letter.
func TestReplayedNoticesAreHeldByRule(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 0})
	d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	w := start(t, testkit.SharedRedis(t), a, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, ruled("r", "app1"))
	w.ends(t, key(1), "down.example", notice.Delivered)
	down := w.pausedByRule(t, "down.example")
	a.set("down.example:443", 410)
	w.one(t, key(2), "down.example", "")
	eventually(t, "it is held", func() bool { return w.heldNow(t, down) == 1 })
	w.earlier(t, down)
	if k := w.probed(t, down); k != key(2) {
		t.Fatalf("the probe is %q", k)
	}
	w.until(t, key(2), notice.Dead)
	rowsOf(t, d, history.Query{}, 2)
	r := w.over(t, w.replay(t, asked(nil), false).ID)
	if r.Counts[jobs.Sent] != 2 {
		t.Errorf("%+v", r)
	}
	eventually(t, "both are held", func() bool { return w.heldNow(t, down) == 2 || a.times(key(1))+a.times(key(2)) > 2 })
	if n := a.times(key(1)) + a.times(key(2)); n != 2 {
		t.Errorf("%d calls, want one before the pause and one probe", n)
	}
}

// A notice expires while a rule holds it, also as the probe, without a call. The pause stays.
func TestHeldByRuleExpires(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{})
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"))
	down := w.pausedByRule(t, "down.example")
	w.put(t, 3, func(i int) store.Request {
		r := to(key(i), "down.example")
		if i < 2 {
			r.ExpiresAfter = 3 * time.Second
		}
		return r
	})
	eventually(t, "all are held, or have expired on a slow machine", func() bool {
		return w.heldNow(t, down) == 3 || w.state(key(0)) == notice.Dead
	})
	w.chosen(t, down, key(1))
	for i := range 2 {
		if f := w.expired(t, key(i)); f.AttemptsMade != 0 {
			t.Errorf("%+v", f.Notice)
		}
	}
	w.still(t, down, 1)
	w.earlier(t, down)
	eventually(t, "another probe resumes the receiver", func() bool { return len(w.pauses(t)) == 0 })
	if n := a.times(key(0)) + a.times(key(1)); n != 0 {
		t.Errorf("%d calls after the expiry", n)
	}
}

// A probe of a sequence is its head. Once it is delivered, the others follow in order.
func TestDeliveredProbeReleasesItsSequenceInOrder(t *testing.T) {
	t.Parallel()
	const n = 5
	for _, order := range []route.Order{route.OrderSkip, route.OrderBlock} {
		a := newAnswering(map[string]int{"down.example:443": 401})
		r := ruled("r", "app1")
		r.Order = order
		w := start(t, testkit.SharedRedis(t), a, nil, r)
		down := w.pausedByRule(t, "down.example")
		key := func(i int) string { return fmt.Sprintf("app1:trans:notice:S~%d", i+1) }
		w.put(t, n, func(i int) store.Request { return to(key(i), "down.example") })
		eventually(t, "the head is held", func() bool { return w.heldNow(t, down) == 1 })
		a.set("down.example:443", 0)
		w.earlier(t, down)
		eventually(t, "the receiver is resumed", func() bool { return len(w.pauses(t)) == 0 })
		for i := range n { // the held notices are spread over a minute
			eventually(t, key(i)+" is delivered", func() bool {
				f, err := w.Fire(t.Context(), key(i))
				return err == nil && f.State == notice.Delivered
			})
		}
		for i := range n {
			if k := <-a.seen; k != key(i) {
				t.Errorf("%s: call %d is of %s", order, i, k)
			}
		}
		w.stop()
	}
}

// An answer that ON_STATUS makes a dead letter lets the successors go on under skip. Under block they wait for its redrive.
func TestDeadByRuleInASequence(t *testing.T) {
	t.Parallel()
	for _, order := range []route.Order{route.OrderSkip, route.OrderBlock} {
		var calls atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				rw.WriteHeader(http.StatusNotFound)
			}
		}))
		t.Cleanup(srv.Close)
		h := callback.New(callback.Options{})
		t.Cleanup(h.Close)
		target, err := route.ParseTarget(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		r := orderedRoute(order)
		r.Target, r.OnStatus = target, route.OnStatus{404: route.ActionDead}
		w := start(t, testkit.SharedRedis(t), h, nil, r)
		key := func(i int) string { return fmt.Sprintf("app1:shop:paid:O~%d", i) }
		w.put(t, 3, func(i int) store.Request { return store.Request{Key: key(i + 1)} })
		if f := w.until(t, key(1), notice.Dead); f.AttemptsMade != 1 || f.Reason != notice.ReasonStatus4xx {
			t.Errorf("%+v", f.Notice)
		}
		if order == route.OrderBlock {
			parked := w.store.Space().Waiting(keys.Partition{Prefix: "app1"})
			eventually(t, "the successors are parked", func() bool {
				return w.srv.Client().ZCard(t.Context(), parked).Val() == 2
			})
			if c := calls.Load(); c != 1 {
				t.Errorf("%d calls before the redrive, want 1", c)
			}
			if _, err := w.Redrive(t.Context(), key(1), notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
		}
		w.until(t, key(3), notice.Delivered)
		w.stop()
	}
}

// once makes a probe due on the instance, and fails unless one of n held notices is called.
func (w *world) once(t *testing.T, a *answering, r receivers.Receiver, n int) {
	t.Helper()
	calls := func() (sum int) {
		for i := range n {
			sum += a.times(key(i))
		}
		return sum
	}
	if c := calls(); c != 0 {
		t.Errorf("%d calls before the probe", c)
	}
	w.earlier(t, r)
	k := w.probed(t, r)
	w.tried(t, k, 1)
	w.still(t, r, int64(n-1))
	if c := calls(); c != 1 {
		t.Errorf("%d calls, want one probe", c)
	}
}

// A reshard keeps a pause by rule with its notices, and one probe is made among them.
func TestReshardKeepsPauseByRule(t *testing.T) {
	t.Parallel()
	const n = 30
	srv, a := testkit.SharedRedis(t), newAnswering(map[string]int{"down.example:443": 401})
	w, other := start(t, srv, a, nil, ruled("r", "app1")), start(t, srv, a, nil, ruled("r", "app1"))
	down := w.pausedByRule(t, "down.example")
	eventually(t, "the other knows the pause", func() bool { return len(other.holds.Table().Pauses()) == 1 })
	w.put(t, n, func(i int) store.Request { return to(key(i), "down.example") })
	eventually(t, "all are held", func() bool { return w.heldNow(t, down) == n })
	if _, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: 4}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have moved", func() bool {
		return srv.Client().Exists(t.Context(), w.store.Space().Held(keys.Partition{Prefix: "app1"})).Val() == 0 && w.heldNow(t, down) == n
	})
	w.once(t, a, down, n)
}

// The same for a migration.
func TestMigrateKeepsPauseByRule(t *testing.T) {
	t.Parallel()
	const n = 30
	from, to2 := testkit.StartRedis(t), testkit.StartRedis(t)
	a := newAnswering(map[string]int{"down.example:443": 401})
	x, y := start(t, from, a, nil, ruled("r", "app1")), start(t, to2, a, nil, ruled("r", "app1"))
	down := x.pausedByRule(t, "down.example")
	x.put(t, n, func(i int) store.Request { return to(key(i), "down.example") })
	eventually(t, "all are held", func() bool { return x.heldNow(t, down) == n })
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: x.o.Conn, To: y.o.Conn, Names: [2]string{"old", "new"},
		Namespace: from.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second})
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	eventually(t, "all have moved", func() bool { return y.heldNow(t, down) == n })
	y.once(t, a, down, n)
}
