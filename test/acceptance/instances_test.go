//go:build fault

package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// An instance is paused for longer than its lease, with requests in flight. Another instance
// claims these notices meanwhile. After the pause, the first instance's settles are too late
// and change nothing.
func TestPausedInstanceSettlesNothingAfterItsLease(t *testing.T) {
	const n, held = 500, 10
	free := make(chan struct{})
	rec := listen(t, func(_ http.ResponseWriter, _ *http.Request, h hit) {
		if strings.HasPrefix(h.key, "app1:pay:held:") && h.attempt == 1 {
			<-free
		}
	})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	db := newRedis(t)
	env := route("pay", "app1:pay", rec.url, "TIMEOUT=3s", "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	a := launch(t, db.URL(), env)
	key := func(i int) string { return fmt.Sprintf("app1:pay:held:%d", i) }
	now := time.Now()
	a.scheduleAll(held, func(i int) string { return line(key(i), now) })
	rec.wait(waitTimeout, held)
	a.freeze()
	release() // the answers wait in a's sockets
	b := launch(t, db.URL(), env)
	b.stream(n, 3*time.Second)
	await(t, waitTimeout, "all settled by the other", func() bool { return b.settled("pay") == n+held })
	a.signal(syscall.SIGCONT)
	await(t, waitTimeout, "the first one delivering again", func() bool { return a.healthy() && a.numbers("pay").InFlight == 0 })
	// The instance delivers again, and does not touch settled notices.
	a.scheduleAll(100, func(i int) string { return line(fmt.Sprintf("app1:pay:after:%d", i), time.Now()) })
	await(t, waitTimeout, "all settled", func() bool { return b.settled("pay") == n+held+100 })
	var again []string
	for i := range held {
		again = append(again, key(i))
		hits := rec.of(key(i))
		if len(hits) != 2 || hits[0].id != hits[1].id || hits[1].attempt != 2 {
			t.Errorf("%s came as %+v", key(i), hits)
		}
		got, err := b.api.Get(t.Context(), key(i))
		if err != nil || got.State != "delivered" || len(got.Attempts) != 2 || got.Attempts[0].Reason != "interrupted" ||
			got.Attempts[1].Status != 200 {
			t.Errorf("%s: %v, %s", key(i), err, got.JSON)
		}
	}
	rec.once(n+held+100, again...)
	t.Logf("the stream beside it %s", rec.lateness("app1:pay:now"))
}

// freeze sends SIGSTOP and waits until the process is stopped, which the signal does not
// guarantee at once.
func (s *service) freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	await(s.t, waitTimeout, "the process stopped", func() bool {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
		if err != nil {
			s.t.Fatal(err)
		}
		return strings.Contains(string(raw), "State:\tT")
	})
}

// Three instances are replaced one after the other, under load.
func TestRollingRestartLosesNothing(t *testing.T) {
	const n = 5000
	rec := listen(t, nil)
	db := newRedis(t)
	env := wide(rec.url)
	var all []*service
	for range 3 {
		all = append(all, launch(t, db.URL(), env))
	}
	all[0].stream(n, 10*time.Second)
	for i := range all {
		rec.wait(waitTimeout, n*(i+1)/5)
		next := launch(t, db.URL(), env)
		if code, _ := all[i].stop(waitTimeout); code != 0 {
			t.Errorf("exit code %d\n%s", code, tail(all[i].log))
		}
		all[i] = next
	}
	all[0].complete(rec, n)
	late := rec.lateness("app1")
	if late.most > 8*time.Second {
		t.Errorf("%s: something waited for a lease", late)
	}
	t.Logf("lateness %s", late)
}

// Callers schedule all the time and repeat calls that were answered 503, while Redis is
// killed and restarted. Each acknowledged notice is delivered, and none twice.
func TestAcknowledgedNoticesSurviveRedisKills(t *testing.T) {
	const callers, kills = 8, 3
	rec := listen(t, nil)
	db := newRedis(t, testkit.WithAOF(""))
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acked, refused atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := client.Request{Key: fmt.Sprintf("app1:pay:now:%d-%d", caller, i), Delay: 500 * time.Millisecond, Body: []byte(`{"paid":true}`)}
				for {
					// Not ctx: a call is made to its end.
					_, err := s.api.Schedule(context.WithoutCancel(ctx), r)
					if err == nil {
						acked.Add(1)
						break
					}
					if !client.IsStatus(err, http.StatusServiceUnavailable) {
						t.Errorf("%s: %v", r.Key, err)
						return
					}
					refused.Add(1)
				}
			}
		})
	}
	for i := 1; i <= kills; i++ {
		from := acked.Load()
		await(t, waitTimeout, "calls acknowledged", func() bool { return acked.Load() >= from+500 })
		db.Kill()
		refusals := refused.Load()
		await(t, waitTimeout, "calls refused", func() bool { return refused.Load() > refusals+callers })
		db.Restart()
	}
	from := acked.Load()
	await(t, waitTimeout, "calls acknowledged", func() bool { return acked.Load() >= from+500 })
	stop()
	wg.Wait()
	n := int(acked.Load())
	s.complete(rec, n)
	t.Logf("%d acknowledged and delivered, %d calls refused with 503 in %d kills; %s", n, refused.Load(), kills, rec.lateness("app1"))
}

// Eight instances come and five of them go again.
func TestRateHoldsForEightInstances(t *testing.T) { rateHolds(t, 0, 1, 8, 3) }

// fleetOf starts n instances, and waits until the metrics of each count all of them alive.
func fleetOf(t *testing.T, n int, url string, env ...[]string) (all []*service) {
	t.Helper()
	for range n {
		all = append(all, launch(t, url, env...))
	}
	await(t, waitTimeout, "all instances knowing each other", func() bool {
		for _, s := range all {
			if s.metric("notifier_instances", `state="living"`) != float64(n) {
				return false
			}
		}
		return true
	})
	return all
}

// Instances are killed under load, one after another. Claims of a killed instance are
// reclaimed within about four seconds, although the lease is 15 s. Notices for which it was
// preferred are late by the grace and some milliseconds, until it is declared dead. No
// notice is lost, and only notices in flight are delivered twice. These figures are for an
// idle machine. The bounds leave room for a busy one, and are far below the lease.
func TestKilledInstanceClaimsAreReclaimed(t *testing.T) {
	const n, rate, takes, kills = 10_000, 500, 50 * time.Millisecond, 3
	rec := listen(t, (&busy{takes: takes}).answer)
	db := newRedis(t)
	all := fleetOf(t, 4, db.URL(), route("pay", "app1:pay", rec.url, "TIMEOUT=10s", "CONCURRENCY=64", "HOST_CONCURRENCY=256"))
	last := all[kills]
	last.stream(n, n/rate*time.Second)
	var killed []time.Time
	for i := range kills { // three of four: mostly one of them is preferred for sweeps
		rec.wait(waitTimeout, n*(i+1)/5)
		all[i].kill()
		killed = append(killed, time.Now())
		await(t, waitTimeout, "the killed one declared dead", func() bool { return last.metric("notifier_instances_gone_total") == float64(i+1) })
		t.Logf("declared dead %s after the kill", time.Since(killed[i]).Round(time.Millisecond))
	}
	rec.wait(waitTimeout, n)
	await(t, waitTimeout, "all settled", func() bool { return last.settled("pay") == n })
	// before is the kill before an instant, and how long before.
	before := func(at time.Time) (kill int, since time.Duration) {
		kill = -1
		for i, k := range killed {
			if at.After(k) {
				kill, since = i, at.Sub(k)
			}
		}
		return kill, since
	}
	first := map[string]time.Time{}
	var again, doubles [kills]time.Duration
	var others [kills][]time.Duration
	var latest [kills]hit
	for _, h := range rec.all() {
		kill, since := before(h.at)
		switch begun, twice := first[h.key]; {
		case twice:
			doubles[kill]++
			if d := killed[kill].Sub(begun); d < -time.Second || d > time.Second {
				t.Errorf("%s came twice, and the first time %s from the kill: it was not in flight", h.key, d)
			}
			again[kill] = max(again[kill], since)
		case h.attempt > 1: // claimed by the dead instance, which had not called the receiver yet
			again[kill] = max(again[kill], since)
		case kill >= 0:
			others[kill] = append(others[kill], h.late())
			if h.late() > latest[kill].late() {
				latest[kill] = h
			}
		}
		if _, twice := first[h.key]; !twice {
			first[h.key] = h.at
		}
	}
	for i := range kills {
		late := spreadOf(others[i])
		t.Logf("kill %d: %d delivered twice; its claims were reclaimed within %s; the others: %s, the latest of them %s after the kill",
			i+1, doubles[i], again[i], late, latest[i].at.Sub(killed[i]).Round(time.Millisecond))
		if again[i] > 8*time.Second {
			t.Errorf("a claim of the killed instance was reclaimed %s after the kill, want some 4 s; its lease is 15 s", again[i])
		}
		// Grace and 20 ms are 70 ms.
		if late.p50 > time.Second || late.most > 5*time.Second {
			t.Errorf("the others were late: %s", late)
		}
		if inFlight := rate * int(takes/time.Millisecond) / 1000; doubles[i] > time.Duration(4*inFlight) {
			t.Errorf("%d came twice; some %d were in flight at all four", doubles[i], inFlight)
		}
	}
	if gone := last.metric("notifier_counted_out_total"); gone != 0 {
		t.Errorf("the live instance was declared dead %v times", gone)
	}
}

// Paused instances keep their connections, so they are not declared dead. Their claims wait
// for their lease, and settles after the pause count.
func TestPausedInstanceIsNotDeclaredDead(t *testing.T) {
	for _, still := range []time.Duration{2 * time.Second, 20 * time.Second} {
		t.Run(still.String(), func(t *testing.T) {
			const n, rate = 2000, 200
			rec := listen(t, (&busy{takes: 50 * time.Millisecond}).answer)
			db := newRedis(t)
			all := fleetOf(t, 4, db.URL(), route("pay", "app1:pay", rec.url, "TIMEOUT=30s", "CONCURRENCY=64", "HOST_CONCURRENCY=256"))
			all[1].stream(n, n/rate*time.Second)
			rec.wait(waitTimeout, n/3)
			all[0].freeze()
			time.Sleep(still) // sleep: the length of the pause
			all[0].signal(syscall.SIGCONT)
			rec.wait(waitTimeout, n)
			await(t, waitTimeout, "all settled", func() bool { return all[1].settled("pay") == n })
			hits, notices := rec.count()
			var gone, renamed float64
			for _, s := range all {
				gone += s.metric("notifier_instances_gone_total")
				renamed += s.metric("notifier_counted_out_total")
			}
			t.Logf("%d requests for %d notices; %v taken for dead; lateness %s", hits, notices, gone, rec.lateness("app1"))
			if hits != n || gone != 0 || renamed != 0 {
				t.Errorf("%d requests for %d notices, %v instances taken for dead, %v new ids", hits, n, gone, renamed)
			}
		})
	}
}

// busy is a receiver's work that takes some time. It counts the most requests that were in work at once.
type busy struct {
	takes     time.Duration
	now, most atomic.Int64
}

func (b *busy) answer(http.ResponseWriter, *http.Request, hit) {
	x := b.now.Add(1)
	defer b.now.Add(-1)
	for m := b.most.Load(); x > m && !b.most.CompareAndSwap(m, x); m = b.most.Load() {
	}
	time.Sleep(b.takes) // sleep: the receiver takes so long
}

// aliveAfter delivers notices with four instances and causes a fault. Afterwards it checks
// that no instance was declared dead, that the limit of 16 calls for all instances held,
// that no notice is lost, and that at most again notices were delivered twice.
func aliveAfter(t *testing.T, db string, env []string, again int, fault func()) {
	t.Helper()
	const n, rate, calls, takes = 4000, 400, 16, 20 * time.Millisecond
	work := &busy{takes: takes}
	rec := listen(t, work.answer)
	all := fleetOf(t, 4, db, env, route("pay", "app1:pay", rec.url, "TIMEOUT=30s", "CONCURRENCY=64", fmt.Sprint("HOST_CONCURRENCY=", calls)))
	all[1].stream(n, n/rate*time.Second)
	rec.wait(waitTimeout, n/4)
	fault()
	rec.wait(3*waitTimeout, n)
	await(t, 3*waitTimeout, "all settled", func() bool { return all[1].settled("pay") == n })
	for _, s := range all {
		await(t, waitTimeout, "all instances alive to each", func() bool { return s.metric("notifier_instances", `state="living"`) == 4 })
		if gone, renamed := s.metric("notifier_instances_gone_total"), s.metric("notifier_counted_out_total"); gone+renamed > 0 {
			t.Errorf("%v instances were declared dead, and this one %v times", gone, renamed)
		}
	}
	hits, notices := rec.count()
	t.Logf("%d notices in %d requests, %d at once at most; %s", notices, hits, work.most.Load(), rec.lateness("app1"))
	if notices != n || hits > n+again {
		t.Errorf("%d of %d notices were delivered, in %d requests; %d may be repeated", notices, n, hits, again)
	}
	if most := work.most.Load(); most > calls {
		t.Errorf("%d calls were in flight at once, %d are allowed for all", most, calls)
	}
}

// While Redis is paused, no instance gets heartbeats of the others.
func TestFleetSurvivesRedisPause(t *testing.T) {
	db := newRedis(t)
	aliveAfter(t, db.URL(), nil, 0, func() {
		db.Pause()
		time.Sleep(10 * time.Second) // sleep: the length of the pause
		db.Unpause()
	})
}

func TestFleetSurvivesRedisRestart(t *testing.T) {
	db := newRedis(t, testkit.WithAOF(""))
	aliveAfter(t, db.URL(), nil, 16, func() { // as many as were in flight
		db.Kill()
		time.Sleep(5 * time.Second) // sleep: so long it is away
		db.Restart()
	})
}

func TestFleetSurvivesFailover(t *testing.T) {
	url, env, master, _ := sentinels(t)
	// Settles that were not replicated are repeated; the bound is that of the other failover tests.
	aliveAfter(t, url, env, 100, master.Kill)
}
