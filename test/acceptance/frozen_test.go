//go:build fault

package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An instance is paused for longer than its timeout, with calls in flight, next to two
// others. The calls in flight count as interrupted. Notices that are due after the pause
// are on time, and each is delivered by its first attempt.
func TestFrozenInstanceDelaysNoLaterNotice(t *testing.T) {
	const n, held, timeout = 1200, 30, 2 * time.Second
	free := make(chan struct{})
	rec := listen(t, func(_ http.ResponseWriter, r *http.Request, h hit) {
		if strings.HasPrefix(h.key, "app1:pay:held:") && h.attempt == 1 {
			select {
			case <-free:
			case <-r.Context().Done():
			}
		}
	})
	t.Cleanup(func() { close(free) })
	db := newRedis(t)
	env := route("pay", "app1:pay", rec.url, "TIMEOUT=2s", "CONCURRENCY=64", "HOST_CONCURRENCY=192", "RETRY=1s,1s,1s")
	frozen := launch(t, db.URL(), env)
	now := time.Now()
	frozen.scheduleAll(held, func(i int) string { return line(fmt.Sprintf("app1:pay:held:%d", i), now) })
	rec.wait(waitTimeout, held)
	frozen.freeze()
	begun := time.Now()
	others := []*service{launch(t, db.URL(), env), launch(t, db.URL(), env)}
	others[0].scheduleAll(100, func(i int) string { return line(fmt.Sprintf("app1:pay:before:%d", i), time.Now()) })
	rec.wait(waitTimeout, held+100)
	time.Sleep(time.Until(begun.Add(timeout + 1500*time.Millisecond))) // sleep: the fault

	frozen.signal(syscall.SIGCONT)
	await(t, waitTimeout, "the frozen one again", frozen.healthy)
	from := others[0].stream(n, 12*time.Second)
	await(t, 2*waitTimeout, "all settled", func() bool { return others[0].settled("pay") == n+held+100 })

	used := 0
	for i := range n {
		if hits := rec.of(fmt.Sprintf("app1:pay:now:%d", i)); len(hits) != 1 || hits[0].attempt != 1 {
			used++
		}
	}
	late := rec.lateness("app1:pay:now")
	t.Logf("due from %s after it went on: %s; %d of %d took another attempt", from.Sub(begun).Round(time.Millisecond), late, used, n)
	if used > 0 || late.most > 4*time.Second { // the shortest time that a breaker is open is 5 s
		t.Errorf("%d notices took another attempt, %s", used, late)
	}
	for i := range held {
		got, err := others[0].api.Get(t.Context(), fmt.Sprintf("app1:pay:held:%d", i))
		if err != nil || len(got.Attempts) != 2 || got.Attempts[0].Reason != "interrupted" {
			t.Errorf("%v, %s", err, got.JSON)
		}
	}
}
