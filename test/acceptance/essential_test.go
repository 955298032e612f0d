package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// The tests of this file have two sizes: a small one that runs with the other
// tests, and that of `make fault`.

// instanceKilled kills an instance whose receiver holds a request. Once the other instances
// have declared it dead, they deliver the notice again, with the same id and as the second
// attempt. The n other notices are delivered once.
func instanceKilled(t *testing.T, n int) {
	t.Parallel()
	const timeout = 8 * time.Second // the lease is 5 s more
	held := make(chan struct{}, 1)
	rec := listen(t, func(_ http.ResponseWriter, r *http.Request, h hit) {
		if strings.HasPrefix(h.key, "app1:pay:held:") && h.attempt == 1 {
			held <- struct{}{}
			<-r.Context().Done()
		}
	})
	db := newRedis(t)
	env := route("pay", "app1:pay", rec.url, "TIMEOUT="+timeout.String())
	a := launch(t, db.URL(), env)
	now := time.Now()
	a.scheduleAll(n, func(i int) string {
		due := now.Add(time.Duration(i) * time.Millisecond)
		if i%2 == 1 {
			due = now.Add(time.Hour) // until b fires it
		}
		return line(fmt.Sprintf("app1:pay:order:%d", i), due)
	})
	b := launch(t, db.URL(), env)
	// A notice in flight at a kill may be delivered twice. None of the n others is in flight:
	// half are settled, and half are not yet due.
	await(t, waitTimeout, "the first half settled", func() bool { return b.numbers("pay").Settled == int64(n/2) })
	b.stop(waitTimeout)
	const key = "app1:pay:held:1"
	a.scheduleAll(1, func(int) string { return line(key, time.Now()) })
	select {
	case <-held:
	case <-time.After(waitTimeout):
		t.Fatal("the held notice did not come")
	}
	a.kill()
	killed := time.Now()
	c := launch(t, db.URL(), env)
	for i := 1; i < n; i += 2 {
		if _, err := c.api.Fire(t.Context(), fmt.Sprintf("app1:pay:order:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	rec.wait(waitTimeout, n+1)
	await(t, waitTimeout, "the held notice delivered", func() bool { return c.numbers("pay").Settled == int64(n+1) })
	rec.once(n+1, key)
	hits := rec.of(key)
	if len(hits) != 2 || hits[0].id != hits[1].id || hits[0].id == "" || hits[0].attempt != 1 || hits[1].attempt != 2 {
		t.Fatalf("the held notice came as %+v, want attempts 1 and 2 of one webhook-id", hits)
	}
	if after := hits[1].at.Sub(killed); after < time.Second || after > timeout {
		t.Errorf("the second delivery was %s after the kill, with a takeover of 3 s and a lease of 13 s", after)
	}
	t.Logf("the held notice was delivered again %s after the kill (lease %s)", hits[1].at.Sub(killed).Round(time.Millisecond),
		timeout+5*time.Second)
	got, err := c.api.Get(t.Context(), key)
	if err != nil || got.State != "delivered" || len(got.Attempts) != 2 || got.Attempts[0].Reason != string(notice.ReasonInterrupted) ||
		got.Attempts[1].Status != 200 {
		t.Errorf("%v: %s", err, got.JSON)
	}
	if x := c.numbers("pay"); x.Pending != 0 || x.Dead != 0 {
		t.Errorf("left: %+v", x)
	}
}

// redisKilled kills Redis during the delivery of n notices, and restarts it from its
// append-only file.
func redisKilled(t *testing.T, n int) {
	t.Parallel()
	rec := listen(t, nil)
	db := newRedis(t, testkit.WithAOF(""))
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "TIMEOUT=8s", "CONCURRENCY=64", "HOST_CONCURRENCY=64"))
	from := time.Now().Add(time.Second)
	s.scheduleAll(n, func(i int) string {
		return line(fmt.Sprintf("app1:pay:order:%d", i), from.Add(time.Duration(i)*3*time.Second/time.Duration(n)))
	})
	rec.wait(waitTimeout, n/5)
	db.Kill()
	_, before := rec.count()
	const outage = "app1:pay:outage:1"
	if _, err := s.api.Schedule(t.Context(), client.Request{Key: outage, Delay: time.Hour}); !client.IsStatus(err,
		http.StatusServiceUnavailable) {
		t.Errorf("a schedule call in the outage: %v, want 503", err)
	}
	await(t, waitTimeout, "the service not ready in the outage", func() bool {
		h, err := s.api.Ready(t.Context())
		return err == nil && !h.Ready
	})
	db.Restart()
	back := time.Now()
	rec.wait(2*waitTimeout, n)
	last := time.Now()
	await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == int64(n) })
	rec.once(n)
	if s.ended() {
		t.Error("the service ended")
	}
	ctx := t.Context()
	if _, err := s.api.Get(ctx, outage); !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("the notice refused in the outage: %v, want 404", err)
	}
	c := db.Client()
	part := db.part("app1:pay", outage)
	if c.Exists(ctx, outage).Val() != 0 || c.HExists(ctx, db.space().Records(part), outage).Val() || c.ZScore(ctx, db.space().Shadow(part),
		outage).Err() == nil {
		t.Error("the notice refused in the outage is there in part")
	}
	t.Logf("%d before the kill, all %d delivered %s after the restart of Redis; %s", before, n, last.Sub(back).Round(time.Millisecond),
		rec.lateness("app1"))
}

// settled is how many of a route are settled; -1 while that is not to be had.
func (s *service) settled(name string) int64 {
	st, err := s.api.Stats(s.t.Context())
	if err != nil {
		return -1
	}
	for _, r := range st.Routes {
		if r.Route == name {
			return r.Settled
		}
	}
	return -1
}

// ladderKept fails notices 0 to 3 times, and one each time.
func ladderKept(t *testing.T) {
	t.Parallel()
	ladder := []time.Duration{700 * time.Millisecond, 1500 * time.Millisecond, 400 * time.Millisecond}
	answered := make(chan hit, 64) // at = when the answer was given
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		var fails int
		if _, err := fmt.Sscanf(h.key, "app1:pay:fails:%d", &fails); err != nil {
			t.Error(err)
		}
		if h.attempt <= fails {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("the till is closed"))
		}
		h.at = time.Now()
		answered <- h
	})
	db := newRedis(t)
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "RETRY=700ms,1500ms,400ms"))
	due := time.Now().Add(500 * time.Millisecond)
	s.scheduleAll(5, func(i int) string { return line(fmt.Sprintf("app1:pay:fails:%d", i), due) })
	await(t, waitTimeout, "four delivered and one dead", func() bool {
		x := s.numbers("pay")
		return x.Settled == 4 && x.Dead == 1 && x.Pending == 0
	})
	close(answered)
	ends := map[string]time.Time{}
	for h := range answered {
		ends[fmt.Sprint(h.key, h.attempt)] = h.at
	}
	var late []time.Duration
	for i := range 5 {
		key := fmt.Sprintf("app1:pay:fails:%d", i)
		hits := rec.of(key)
		if want := min(i+1, 4); len(hits) != want {
			t.Errorf("%s: %d attempts, want %d", key, len(hits), want)
		}
		for j, h := range hits {
			if h.attempt != j+1 || h.id != hits[0].id {
				t.Errorf("%s: attempt %d is %+v", key, j+1, h)
			}
			if j == 0 {
				continue
			}
			over := h.at.Sub(ends[fmt.Sprint(key, j)]) - ladder[j-1]
			late = append(late, over)
			if over < 0 || over > 30*time.Second {
				t.Errorf("%s: attempt %d began %s after the step of %s", key, j+1, over, ladder[j-1])
			}
		}
	}
	t.Logf("attempts after answer + step: %s", spreadOf(late))
	const dead = "app1:pay:fails:4"
	ctx := t.Context()
	if err := db.Client().ZScore(ctx, db.space().Dead(db.part("app1:pay", dead)), dead).Err(); err != nil {
		t.Errorf("the dead zset: %v", err)
	}
	record := db.Client().HGet(ctx, db.space().Records(db.part("app1:pay", dead)), dead).Val()
	var r struct {
		Due, Made int64
		JSON      struct{ Key string }
		Reason    string
		Attempts  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(record), &r); err != nil || r.Due == 0 || r.Made == 0 || r.JSON.Key != dead || r.Reason != "status_5xx" ||
		len(r.Attempts) != 4 || !strings.Contains(record, "the till is closed") {
		t.Errorf("the record is not for people: %v\n%s", err, record)
	}
	t.Logf("HGET: %s", record)
	if got, err := s.api.Get(ctx, dead); err != nil || got.State != "dead" || got.Reason != "status_5xx" || len(got.Attempts) != 4 {
		t.Errorf("%v: %s", err, got.JSON)
	}
}

// stopFinishes sends SIGTERM to an instance with n running handlers, while it shares a
// stream of due notices with another instance.
func stopFinishes(t *testing.T, n int) {
	t.Parallel()
	const stream = 600
	free := make(chan struct{})
	hold := listen(t, func(http.ResponseWriter, *http.Request, hit) { <-free })
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	flow := listen(t, nil)
	db := newRedis(t)
	const timeout = 40 * time.Second // the lease is 5 s more
	// Twice the slots, because a backlog may not take the slots of newly due notices.
	env := append(route("hold", "app1:hold", hold.url, fmt.Sprintf("CONCURRENCY=%d", 2*n), fmt.Sprintf("HOST_CONCURRENCY=%d", 2*n),
		"TIMEOUT="+timeout.String()),
		route("flow", "app1:flow", flow.url, "TIMEOUT="+timeout.String())...)
	env = append(env, "NOTIFIER_SHUTDOWN_TIMEOUT=60s")
	a := launch(t, db.URL(), env)
	now := time.Now()
	a.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:hold:order:%d", i), now) })
	hold.wait(waitTimeout, n)
	b := launch(t, db.URL(), env)
	from := time.Now().Add(500 * time.Millisecond)
	b.scheduleAll(stream, func(i int) string {
		return line(fmt.Sprintf("app1:flow:order:%d", i), from.Add(time.Duration(i)*3*time.Millisecond))
	})
	flow.wait(waitTimeout, stream/3)
	a.signal(syscall.SIGTERM)
	sent := time.Now()
	b.scheduleAll(10, func(i int) string { return line(fmt.Sprintf("app1:hold:more:%d", i), now) })
	flow.wait(waitTimeout, stream)
	hold.wait(waitTimeout, n+10)
	if a.ended() {
		t.Fatalf("the instance ended with %d handlers running", n)
	}
	await(t, waitTimeout, "the stopping instance refusing calls", func() bool { return !a.healthy() })
	release()
	await(t, waitTimeout, "the end after SIGTERM", a.ended)
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, tail(a.log))
	}
	took := time.Since(sent)
	await(t, waitTimeout, "all settled", func() bool { return b.settled("hold") == int64(n+10) && b.settled("flow") == stream })
	hold.once(n + 10)
	flow.once(stream)
	late := flow.lateness("app1")
	if late.most > 20*time.Second {
		t.Errorf("the stream was up to %s late: something waited for a lease", late.most)
	}
	t.Logf("exit %s after SIGTERM; the stream %s", took.Round(time.Millisecond), late)
}
