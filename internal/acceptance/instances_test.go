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

	"notifier/internal/client"
	"notifier/internal/redistest"
)

// An instance stands still for longer than its lease, with requests in hand,
// and then goes on. Another one has taken over; the first one's settles come
// too late and do nothing.
func TestInstanceStandsStillForALease(t *testing.T) {
	const n, held = 500, 10
	free := make(chan struct{})
	rec := listen(t, func(_ http.ResponseWriter, _ *http.Request, h hit) {
		if strings.HasPrefix(h.key, "app1:pay:held:") && h.attempt == 1 {
			<-free
		}
	})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	db := redistest.Start(t)
	env := route("pay", "app1:pay", rec.url, "TIMEOUT=3s", "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	a := launch(t, db.URL(), env)
	key := func(i int) string { return fmt.Sprintf("app1:pay:held:%d", i) }
	now := time.Now()
	a.scheduleAll(held, func(i int) string { return line(key(i), now) })
	rec.wait(patience, held)
	a.freeze()
	release() // the answers wait in a's sockets
	b := launch(t, db.URL(), env)
	b.stream(n, 3*time.Second)
	await(t, patience, "all settled by the other", func() bool { return b.settled("pay") == n+held })
	a.signal(syscall.SIGCONT)
	await(t, patience, "the first one delivering again", func() bool { return a.healthy() && a.numbers("pay").InFlight == 0 })
	// It takes part again, and does not touch what is settled.
	a.scheduleAll(100, func(i int) string { return line(fmt.Sprintf("app1:pay:after:%d", i), time.Now()) })
	await(t, patience, "all settled", func() bool { return b.settled("pay") == n+held+100 })
	var again []string
	for i := range held {
		again = append(again, key(i))
		hits := rec.of(key(i))
		if len(hits) != 2 || hits[0].id != hits[1].id || hits[1].attempt != 2 {
			t.Errorf("%s came as %+v", key(i), hits)
		}
		got, err := b.api.Get(t.Context(), key(i))
		if err != nil || got.State != "delivered" || len(got.Attempts) != 2 || got.Attempts[0].Reason != "interrupted" || got.Attempts[1].Status != 200 {
			t.Errorf("%s: %v, %s", key(i), err, got.JSON)
		}
	}
	rec.once(n+held+100, again...)
	t.Logf("the stream beside it %s", rec.lateness("app1:pay:now"))
}

// freeze is SIGSTOP, and waits until the process stands still: the signal only
// asks for it.
func (s *service) freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	await(s.t, patience, "the process standing still", func() bool {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
		if err != nil {
			s.t.Fatal(err)
		}
		return strings.Contains(string(raw), "State:\tT")
	})
}

// Three instances are replaced one after the other, under load.
func TestRollingRestart(t *testing.T) {
	const n = 5000
	rec := listen(t, nil)
	db := redistest.Start(t)
	env := wide(rec.url)
	var all []*service
	for range 3 {
		all = append(all, launch(t, db.URL(), env))
	}
	all[0].stream(n, 10*time.Second)
	for i := range all {
		rec.wait(patience, n*(i+1)/5)
		next := launch(t, db.URL(), env)
		if code, _ := all[i].stop(patience); code != 0 {
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

// Callers schedule all the time and repeat what is answered 503, while Redis
// is killed and comes back: what was acknowledged is delivered, and nothing twice.
func TestAcknowledgedIsDeliveredWhateverRedisDoes(t *testing.T) {
	const callers, kills = 8, 3
	rec := listen(t, nil)
	db := redistest.Start(t, redistest.WithAOF(t.TempDir()))
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acked, refused atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := client.Request{Key: fmt.Sprintf("app1:pay:now:%d-%d", caller, i), Delay: "500ms", Body: []byte(`{"paid":true}`)}
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
		await(t, patience, "calls acknowledged", func() bool { return acked.Load() >= from+500 })
		db.Kill()
		refusals := refused.Load()
		await(t, patience, "calls refused", func() bool { return refused.Load() > refusals+callers })
		db.Restart()
	}
	from := acked.Load()
	await(t, patience, "calls acknowledged", func() bool { return acked.Load() >= from+500 })
	stop()
	wg.Wait()
	n := int(acked.Load())
	s.complete(rec, n)
	t.Logf("%d acknowledged and delivered, %d calls refused with 503 in %d kills; %s", n, refused.Load(), kills, rec.lateness("app1"))
}
