package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// refusing is a handler whose receiver never acknowledges.
func refusing() *got {
	g := newGot(1000)
	g.reply = func(*notice.Notice) notice.Result { return notice.RetryResult(notice.ReasonStatus5xx, "no") }
	return g
}

// expired waits until a notice is dead because it has expired, and checks that it was not before.
func (w *world) expired(t *testing.T, key string) store.Found {
	t.Helper()
	f := w.until(t, key, notice.Dead)
	if f.Reason != notice.ReasonExpired || f.SettledAt.Before(f.Expires) {
		t.Errorf("%s is dead (%s) at %s, expires %s", key, f.Reason, f.SettledAt, f.Expires)
	}
	return f
}

// Notices expire in each state in which they wait: for a retry, on a paused route, for another one of their sequence.
func TestWaitingNoticesExpire(t *testing.T) {
	t.Parallel()
	retried, ordered := testRoute("r", "app1"), orderedRoute(route.OrderSkip)
	retried.Ladder, retried.OnDead, retried.Expires = notice.Ladder{time.Hour}, testRoute("hook", "hook"), 150*time.Millisecond
	ordered.Name, ordered.Prefix, ordered.Ladder = "o", "app2", notice.Ladder{time.Hour}
	g := refusing()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, g, nil, retried, ordered, testRoute("p", "app3"), retried.OnDead)
	w.pauseRoute(t, "app3")

	w.put(t, 20, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app2:shop:paid:O1~1"} })
	w.put(t, 1, func(int) store.Request {
		return store.Request{Key: "app2:shop:paid:O1~2", Content: notice.Content{ExpiresAfter: 200 * time.Millisecond}}
	})
	w.put(t, 300, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app3:a:b:%d", i), Delay: time.Duration(200+i) * time.Millisecond,
			Content: notice.Content{ExpiresAfter: 100 * time.Millisecond}}
	})
	for i := range 20 {
		if f := w.expired(t, fmt.Sprintf("app1:a:b:%d", i)); f.AttemptsMade != 1 || f.Attempts[0].Reason != notice.ReasonStatus5xx {
			t.Errorf("%d attempts: %+v", f.AttemptsMade, f.Attempts)
		}
	}

	if f := w.expired(t, "app2:shop:paid:O1~2"); f.AttemptsMade != 0 {
		t.Errorf("a parked notice was attempted: %+v", f.Attempts)
	}

	for i := range 300 {
		if f := w.expired(t, fmt.Sprintf("app3:a:b:%d", i)); f.AttemptsMade != 0 {
			t.Errorf("a notice of a paused route was attempted: %+v", f.Attempts)
		}
	}

	eventually(t, "a hook for each dead letter", func() (all bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		hooks := 0
		for key := range g.all {
			if strings.HasPrefix(key, "hook:") {
				hooks++
			}
		}
		return hooks == 20
	})
	if left := srv.Client().Keys(t.Context(), srv.Namespace()+":{0}:expiring:*").Val(); len(left) > 0 {
		t.Errorf("entries are left in %v", left)
	}
}

// An instance that starts later ends what has expired while none was alive.
func TestNoticesExpireWhileNoInstanceIsAlive(t *testing.T) {
	t.Parallel()
	srv, g := testkit.SharedRedis(t), newGot(10)
	w := start(t, srv, g, nil, testRoute("r", "app1"))
	w.put(t, 5, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i), Delay: 300 * time.Millisecond,
			Content: notice.Content{ExpiresAfter: 200 * time.Millisecond}}
	})
	f, err := w.Find(t.Context(), "app1:a:b:4")
	if err != nil {
		t.Fatal(err)
	}

	w.stop()
	awaitTime(t, srv, f.Expires) // no engine runs when they are due and expire
	w = start(t, srv, g, nil, testRoute("r", "app1"))
	for i := range 5 {
		if f := w.expired(t, fmt.Sprintf("app1:a:b:%d", i)); f.AttemptsMade != 0 {
			t.Errorf("sent after it expired: %+v", f.Attempts)
		}
	}
}

// A dead letter that has expired is sent again only with a new expiry.
func TestExpiredNoticesAreSentAgainWithANewExpiry(t *testing.T) {
	t.Parallel()
	g := newGot(10)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	w.pauseRoute(t, "app1")
	keys := []string{"app1:a:b:1", "app1:a:b:2", "app1:a:b:3"}
	w.put(t, 3, func(i int) store.Request {
		return store.Request{Key: keys[i], Delay: 200 * time.Millisecond, Content: notice.Content{ExpiresAfter: 50 * time.Millisecond}}
	})
	var letters []store.Found
	for _, key := range keys {
		letters = append(letters, w.expired(t, key))
	}

	if err := w.Resume(t.Context(), "app1"); err != nil {
		t.Fatal(err)
	}

	ctx, none, hour := context.Background(), notice.Expiry{}, notice.Expiry{After: time.Hour}
	if _, err := w.Redrive(ctx, keys[0], none); !errors.Is(err, store.ErrExpires) {
		t.Errorf("redriven without an expiry: %v", err)
	}
	if _, err := w.Resend(ctx, keys[1], letters[1].ID(), letters[1].Ending(), none); !errors.Is(err, store.ErrExpires) {
		t.Errorf("resent without an expiry: %v", err)
	}
	if c, err := w.Redrive(ctx, keys[0], hour); err != nil || !c.Done {
		t.Errorf("redriven with an expiry: %+v, %v", c, err)
	}
	if c, err := w.Resend(ctx, keys[1], letters[1].ID(), letters[1].Ending(), hour); err != nil || !c.Done {
		t.Errorf("resent with an expiry: %+v, %v", c, err)
	}

	for _, key := range keys[:2] {
		if f := w.until(t, key, notice.Delivered); time.Until(f.Expires) < 50*time.Minute {
			t.Errorf("%s expires %s", key, f.Expires)
		}
	}

	if f := w.until(t, keys[2], notice.Dead); f.Reason != notice.ReasonExpired {
		t.Errorf("%+v", f.Reason)
	}
}

// A repeated schedule call is compared with the expiry of the first one, also after the notice was sent again with another expiry.
func TestRepeatedCallAfterANewExpiry(t *testing.T) {
	t.Parallel()
	g := newGot(10)
	g.reply = func(n *notice.Notice) notice.Result {
		if n.Endings == 0 {
			return notice.DeadResult(notice.ReasonGone, "no")
		}
		return notice.DeliveredResult(200)
	}
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	ctx, at := t.Context(), w.Now().Add(time.Hour).Truncate(time.Millisecond)
	for i, x := range []struct {
		first, other notice.Content
	}{{notice.Content{Expires: at}, notice.Content{Expires: at.Add(time.Hour)}}, {notice.Content{}, notice.Content{Expires: at}}} {
		for _, again := range []string{"redrive", "resend"} {
			q := store.Request{Key: fmt.Sprintf("app1:a:b:%d-%s", i, again), Content: x.first}
			w.put(t, 1, func(int) store.Request { return q })
			f := w.until(t, q.Key, notice.Dead)
			var err error
			if expiry := (notice.Expiry{At: at.Add(time.Hour)}); again == "redrive" {
				_, err = w.Redrive(ctx, q.Key, expiry)
			} else {
				_, err = w.Resend(ctx, q.Key, f.ID(), f.Ending(), expiry)
			}
			if err != nil {
				t.Fatal(err)
			}
			if f = w.until(t, q.Key, notice.Delivered); !f.Expires.Equal(at.Add(time.Hour)) {
				t.Errorf("%s expires %s", q.Key, f.Expires)
			}
			if r, err := w.Schedule(ctx, q); err != nil || r.Created || len(r.Differs) > 0 {
				t.Errorf("%s: the same call again: %+v, %v", q.Key, r.Differs, err)
			}
			q.Content = x.other
			if r, err := w.Schedule(ctx, q); err != nil || r.Created || len(r.Differs) != 1 {
				t.Errorf("%s: a call with another expiry: %+v, %v", q.Key, r.Differs, err)
			}
		}
	}
}

// A reschedule keeps the expiry, and is refused if the notice would have expired then.
func TestRescheduleKeepsTheExpiry(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, testRoute("r", "app1"))
	const key = "app1:a:b:1"
	w.put(t, 1, func(int) store.Request {
		return store.Request{Key: key, Delay: time.Hour, Content: notice.Content{ExpiresAfter: time.Hour}}
	})
	before, err := w.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := w.Reschedule(t.Context(), key, time.Time{}, 2*time.Hour+time.Minute); !errors.Is(err, store.ErrExpires) {
		t.Errorf("rescheduled past its expiry: %v", err)
	}

	c, err := w.Reschedule(t.Context(), key, time.Time{}, 90*time.Minute)
	if err != nil || !c.Done || !c.Found.Expires.Equal(before.Expires) {
		t.Errorf("%+v, %v; expired %s before", c, err, before.Expires)
	}

	at := before.Due.Add(-time.Hour)
	for _, x := range []notice.Content{{Expires: before.Due.Add(-time.Minute)}, {Expires: at}} {
		if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:a:b:2", Due: before.Due, Content: x}); !errors.Is(err, notice.ErrInvalid) {
			t.Errorf("scheduled for after its expiry: %v", err)
		}
		if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:a:b:2", Delay: time.Hour, Content: x}); !errors.Is(err, store.ErrExpires) {
			t.Errorf("scheduled for after its expiry: %v", err)
		}
	}
}

// A notice that is held for a paused receiver expires, and leaves the list.
func TestHeldNoticesExpire(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, callbackRoute())
	host := w.paused(t, "down.example")
	w.put(t, 3, func(i int) store.Request {
		q := to(key(i), "down.example")
		q.ExpiresAfter = 300 * time.Millisecond
		return q
	})
	eventually(t, "all are held", func() bool { return w.heldNow(t, host) == 3 })
	for i := range 3 {
		if f := w.expired(t, key(i)); f.AttemptsMade != 0 {
			t.Errorf("%+v", f.Attempts)
		}
	}

	if n := w.heldNow(t, host); n != 0 {
		t.Errorf("%d are held", n)
	}
}

// A consumer's report that is awaited decides. Without one the notice is dead when the wait is over.
func TestReportsDecideAfterTheExpiry(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "expiring jobs"}, route.AckReport)
	r.Timeout, r.Expires = 1500*time.Millisecond, 200*time.Millisecond
	w := start(t, srv, &queue.Handler{}, nil, r)
	took := map[string]entry{}
	for _, k := range []string{"app1:a:b:acked", "app1:a:b:nacked", "app1:a:b:silent"} {
		w.put(t, 1, func(int) store.Request { return store.Request{Key: k} })
		took[k] = pop(t, srv.Client(), "expiring jobs")
	}

	f, err := w.Find(t.Context(), "app1:a:b:silent")
	if err != nil {
		t.Fatal(err)
	}

	awaitTime(t, srv, f.Expires) // all have expired, and none has ended
	for _, x := range []struct {
		key    string
		result notice.Result
		state  notice.State
		reason notice.Reason
	}{
		{"app1:a:b:acked", notice.Result{Outcome: notice.OutcomeDelivered}, notice.Delivered, ""},
		{"app1:a:b:nacked", notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}, notice.Dead, notice.ReasonExpired},
	} {
		e := took[x.key]
		c, err := w.Report(t.Context(), x.key, notice.Report{ID: e.ID, Attempt: e.Attempt, Result: x.result})
		if err != nil || !c.Done || c.State != x.state || c.Reason != x.reason || c.AttemptsMade != 1 {
			t.Errorf("%s: %+v, %v", x.key, c, err)
		}
	}

	if f := w.expired(t, "app1:a:b:silent"); f.AttemptsMade != 1 || f.Attempts[0].Reason != notice.ReasonUnreported {
		t.Errorf("without a report: %+v", f.Attempts)
	}
}

// The attempt of an instance that died counts as interrupted, and the notice is dead when that claim ends.
func TestInterruptedNoticesExpire(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, testRoute("r", "app1"))
	w.pauseRoute(t, "app1") // so that only the claim below is made
	const key = "app1:a:b:1"
	w.put(t, 1, func(int) store.Request {
		return store.Request{Key: key, Delay: 200 * time.Millisecond, Content: notice.Content{ExpiresAfter: 200 * time.Millisecond}}
	})
	lease := store.Lease{Token: "killed-1", For: 600 * time.Millisecond}
	eventually(t, "the claim", func() bool {
		c, err := w.store.ClaimKeys(t.Context(), w.store.Space().Partition("app1", key), lease, []string{key})
		return err == nil && len(c.Won) == 1
	})
	f := w.expired(t, key)
	if f.AttemptsMade != 1 || f.Attempts[0].Reason != notice.ReasonInterrupted || f.SettledAt.Sub(f.Expires) < 300*time.Millisecond {
		t.Errorf("%d attempts %+v, dead %s after its expiry", f.AttemptsMade, f.Attempts, f.SettledAt.Sub(f.Expires))
	}
}

// The expiry of an adopted timer counts from when the timer expires, and moves with it.
func TestAdoptedTimersExpire(t *testing.T) {
	t.Parallel()
	r := testRoute("r", "app1")
	r.Adopt, r.Ladder, r.Expires = true, notice.Ladder{time.Hour}, 300*time.Millisecond
	srv := testkit.StartRedis(t)
	w, c := start(t, srv, refusing(), nil, r), srv.Client()
	const key = "app1:a:b:1"
	if err := c.Set(t.Context(), key, "x", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}

	expires := func() time.Duration {
		f, err := w.Find(t.Context(), key)
		if err != nil {
			return 0
		}
		return f.Expires.Sub(f.Due)
	}
	eventually(t, "adopted", func() bool { return expires() == r.Expires })
	if err := c.PExpire(t.Context(), key, time.Second).Err(); err != nil {
		t.Fatal(err)
	}

	eventually(t, "moved", func() bool {
		f, err := w.Find(t.Context(), key)
		return err == nil && time.Until(f.Due) < time.Minute && expires() == r.Expires
	})
	if f := w.expired(t, key); f.AttemptsMade != 1 {
		t.Errorf("%+v", f.Attempts)
	}
}

// In a cluster, notices of all shards expire while they wait for a retry, and their timers are deleted.
func TestNoticesExpireInACluster(t *testing.T) {
	t.Parallel()
	srv, c := oneNode(t)
	r := testRoute("r", "app1")
	r.Ladder, r.Expires = notice.Ladder{time.Hour}, 300*time.Millisecond
	w := startCluster(t, srv, 4, func(*wire.Conn) dispatch.Handler { return refusing() }, r)
	const n = 40
	w.put(t, n, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
	for i := range n {
		if f := w.expired(t, fmt.Sprintf("app1:a:b:%d", i)); f.AttemptsMade != 1 {
			t.Errorf("%+v", f.Attempts)
		}
	}

	eventually(t, "no timer is left", func() bool { return len(c.Keys(t.Context(), "app1:*").Val()) == 0 })
}

// awaitTime waits until Redis's clock is past a time.
func awaitTime(t *testing.T, srv *testkit.Redis, at time.Time) {
	t.Helper()
	testkit.Until(t, "Redis's clock is past "+at.String(), func() bool { return srv.Client().Time(t.Context()).Val().After(at) })
}
