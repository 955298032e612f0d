//go:build fault

package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// stream schedules n notices of app1:pay over a time from a second ahead, and
// says when the first is due.
func (s *service) stream(n int, over time.Duration) time.Time {
	s.t.Helper()
	from := time.Now().Add(time.Second)
	s.scheduleAll(n, func(i int) string {
		return line(fmt.Sprintf("app1:pay:now:%d", i), from.Add(time.Duration(i)*over/time.Duration(n)))
	})
	return from
}

// complete waits until n notices of app1:pay are settled and reports whether each
// came once.
func (s *service) complete(rec *receiver, n int) {
	s.t.Helper()
	rec.wait(2*waitTimeout, n)
	await(s.t, 2*waitTimeout, "all settled", func() bool { return s.settled("pay") == int64(n) })
	rec.once(n)
	if s.ended() {
		s.t.Error("the service ended")
	}
}

// The subscription's connection stays and nothing comes over it any more.
func TestSilentSubscriptionLosesNothing(t *testing.T) {
	const n = 4000
	rec := listen(t, nil)
	db := newRedis(t)
	p := newProxy(t, db.servers[0].Addr())
	s := launch(t, strings.Replace(db.URL(), db.servers[0].Addr(), p.addr, 1), wide(rec.url))
	s.stream(n, 10*time.Second)
	rec.wait(waitTimeout, n/8)
	cut := time.Now()
	if got := p.silence(); got != 1 {
		t.Errorf("%d subscriptions, want 1", got)
	}
	await(t, waitTimeout, "a new subscription", func() bool { return s.metric("notifier_subscriptions_total") >= 2 })
	back := time.Now()
	s.complete(rec, n)
	if s.logLines("does not receive its beat") != 1 {
		t.Errorf("the log:\n%s", tail(s.log))
	}
	if back.Sub(cut) > 30*time.Second {
		t.Errorf("a new subscription after %s", back.Sub(cut))
	}
	var silent, normal []time.Duration
	for _, h := range rec.all() {
		if h.due.After(cut) && h.due.Before(back) {
			silent = append(silent, h.late())
		} else {
			normal = append(normal, h.late())
		}
	}
	if x := spreadOf(silent); x.p99 > time.Second {
		t.Errorf("in the silence %s", x)
	}
	t.Logf("a new subscription %s after the silence began; notices due in it %s; others %s", back.Sub(cut).Round(time.Millisecond),
		spreadOf(silent), spreadOf(normal))
}

// Redis drops its subscribers, again and again.
func TestDroppedSubscriptionLosesNothing(t *testing.T) {
	const n = 4000
	rec := listen(t, nil)
	db := newRedis(t)
	s := launch(t, db.URL(), wide(rec.url))
	s.stream(n, 8*time.Second)
	for i := 1; i <= 4; i++ {
		rec.wait(waitTimeout, n*i/6)
		before := s.metric("notifier_subscriptions_total")
		if db.cut() == 0 {
			t.Fatal("there was no subscription")
		}
		await(t, waitTimeout, "a new subscription", func() bool { return s.metric("notifier_subscriptions_total") > before })
	}
	s.complete(rec, n)
	t.Logf("subscriptions %.0f; %s", s.metric("notifier_subscriptions_total"), rec.lateness("app1"))
}

// Redis stops for seconds, its connections stay.
func TestRedisPauseLosesNothing(t *testing.T) {
	const n = 3000
	rec := listen(t, nil)
	db := newRedis(t)
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	s.stream(n, 6*time.Second)
	rec.wait(waitTimeout, n/6)
	db.Pause()
	from := time.Now()
	await(t, waitTimeout, "the subscription given up", func() bool { return s.logLines("subscription ended") > 0 })
	if h, err := s.api.Ready(t.Context()); err != nil || h.Ready {
		t.Errorf("ready while Redis is paused: %v, %+v", err, h)
	}
	db.Unpause()
	stood := time.Since(from)
	s.complete(rec, n)
	if subs := s.metric("notifier_subscriptions_total"); subs < 2 {
		t.Errorf("%.0f subscriptions", subs)
	}
	t.Logf("Redis was paused for %s; subscriptions %.0f; %s", stood.Round(time.Millisecond), s.metric("notifier_subscriptions_total"),
		rec.lateness("app1"))
}

// Redis has no memory left: new notices are refused, and pending ones are delivered.
func TestFullRedisDeliversPendingNotices(t *testing.T) {
	const n = 2000
	fails := make(chan struct{}, n)
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		if h.attempt == 1 && len(h.key)%2 == 0 { // the records of some must grow by an attempt
			w.WriteHeader(http.StatusInternalServerError)
			fails <- struct{}{}
		}
	})
	db := newRedis(t, testkit.WithConfig("maxmemory-policy noeviction"))
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "RETRY=1s,1s"))
	s.stream(n, 4*time.Second)
	ctx := t.Context()
	db.set("maxmemory", "1mb")
	_, err := s.api.Schedule(ctx, client.Request{Key: "app1:pay:full:1", Delay: time.Hour})
	if !client.IsStatus(err, http.StatusInsufficientStorage) {
		t.Errorf("a schedule call: %v, want 507", err)
	}
	if _, err := s.api.Get(ctx, "app1:pay:full:1"); !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("the notice that was refused: %v, want 404", err)
	}
	if a := s.must("", "DELETE", "/v1/notices/app1:pay:now:1999", ""); a.status != http.StatusOK {
		t.Errorf("a cancel while full: %d %s", a.status, a.body)
	}
	rec.wait(2*waitTimeout, n-1)
	await(t, 2*waitTimeout, "all settled while full", func() bool { return s.settled("pay") == n })
	for key, hits := range rec.byKey() {
		if want := 1 + (len(key)+1)%2; len(hits) != want {
			t.Errorf("%s came %d times, want %d", key, len(hits), want)
		}
	}
	var first []time.Duration
	for _, h := range rec.all() {
		first = append(first, h.late())
	}
	db.set("maxmemory", "0")
	if _, err := s.api.Schedule(ctx, client.Request{Key: "app1:pay:full:1", Delay: time.Hour}); err != nil {
		t.Errorf("with memory again: %v", err)
	}
	t.Logf("while full: %s; %d retries; used %s", spreadOf(first), len(fails), info(t, db, "used_memory_human"))
}
