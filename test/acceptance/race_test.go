//go:build fault

package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client"
)

// raceDelivery schedules n notices with different due times, and calls act within two
// milliseconds of each due time. The receiver takes up to two milliseconds to answer.
func raceDelivery(t *testing.T, n int, act func(ctx context.Context, s *service, i int, key string)) (*service, *receiver) {
	// sleep: a receiver takes its time; nothing waits for it
	rec := listen(t, func(http.ResponseWriter, *http.Request, hit) { time.Sleep(rand.N(2 * time.Millisecond)) })
	db := newRedis(t)
	s := launch(t, db.URL(), wide(rec.url))
	key := func(i int) string { return fmt.Sprintf("app1:pay:race:%d", i) }
	from := time.Now().Add(time.Second)
	due := func(i int) time.Time { return from.Add(time.Duration(i) * 5 * time.Millisecond) }
	s.scheduleAll(n, func(i int) string { return line(key(i), due(i)) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			moment := due(i).Add(rand.N(4*time.Millisecond) - 2*time.Millisecond)
			timer := time.NewTimer(time.Until(moment))
			defer timer.Stop()
			select {
			case <-timer.C:
				act(ctx, s, i, key(i))
			case <-ctx.Done():
				t.Error(ctx.Err())
			}
		})
	}
	wg.Wait()
	return s, rec
}

// A cancel that says "nothing in flight" is followed by no delivery, and one
// that comes too late says so.
func TestCancelRacesDelivery(t *testing.T) {
	const n = 1000
	type answer struct {
		n     *client.Notice
		err   error
		again bool // repeated
	}
	answers := make([]answer, n)
	s, rec := raceDelivery(t, n, func(ctx context.Context, s *service, i int, key string) {
		var x answer
		for x.n, x.err = s.api.Cancel(ctx, key); client.IsStatus(x.err, http.StatusServiceUnavailable) && ctx.Err() == nil; {
			x.again = true // as it says: a node of a cluster was too slow
			x.n, x.err = s.api.Cancel(ctx, key)
		}
		answers[i] = x
	})
	await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == n })
	await(t, waitTimeout, "no attempt under way", func() bool { return s.numbers("pay").InFlight == 0 })
	hits := rec.byKey()
	cancelled, inFlight, late := 0, 0, 0
	for i, a := range answers {
		key := fmt.Sprintf("app1:pay:race:%d", i)
		got := len(hits[key])
		want := "cancelled"
		switch {
		case client.IsStatus(a.err, http.StatusConflict):
			late++
			want = "delivered"
			if got != 1 {
				t.Errorf("%s was delivered, by the answer to the cancel, and came %d times", key, got)
			}
		case a.err != nil:
			t.Errorf("%s: %v", key, a.err)
		case a.n.InFlight || a.again: // the notice of the first call may have been in flight
			inFlight++
			if got > 1 {
				t.Errorf("%s was cancelled in flight and came %d times", key, got)
			}
		default:
			cancelled++
			if got != 0 {
				t.Errorf("%s was cancelled with nothing in flight, and came all the same", key)
			}
		}
		if now, err := s.api.Get(t.Context(), key); err != nil || string(now.State) != want {
			t.Errorf("%s is %v, %v, want %s", key, now.State, err, want)
		}
	}
	if x := s.numbers("pay"); x.Pending != 0 || x.Dead != 0 {
		t.Errorf("left: %+v", x)
	}
	t.Logf("of %d: %d cancelled before, %d in flight, %d too late", n, cancelled, inFlight, late)
}

// A replacement is delivered once. The replaced notice is delivered at most once, and its
// delivery does not begin after the answer to the replace call.
func TestReplaceRacesDelivery(t *testing.T) {
	const n = 1000
	answered := make([]time.Time, n)
	s, rec := raceDelivery(t, n, func(ctx context.Context, s *service, i int, key string) {
		_, err := s.api.Schedule(ctx, client.Request{Key: key, Body: []byte(`"new"`), OnDuplicate: "replace",
			Delay: []time.Duration{0, 3 * time.Millisecond, 300 * time.Millisecond}[i%3]})
		if err != nil {
			t.Errorf("replace %s: %v", key, err)
		}
		answered[i] = time.Now()
	})
	await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == n })
	await(t, waitTimeout, "no attempt under way", func() bool { return s.numbers("pay").InFlight == 0 })
	hits := rec.byKey()
	both := 0
	for i := range n {
		key := fmt.Sprintf("app1:pay:race:%d", i)
		older, newer := 0, 0
		ids := map[string]bool{}
		for _, h := range hits[key] {
			ids[h.id] = true
			if strings.Contains(h.body, "new") {
				newer++
				continue
			}
			older++
			// It was claimed before the answer; a second for the way.
			if after := h.at.Sub(answered[i]); after > time.Second {
				t.Errorf("%s: the one replaced came %s after the answer", key, after)
			}
		}
		if newer != 1 || older > 1 || len(ids) != newer+older {
			t.Errorf("%s: the old one came %d times, the new one %d times, under %d ids", key, older, newer, len(ids))
		}
		both += older
		if now, err := s.api.Get(t.Context(), key); err != nil || now.State != "delivered" || string(now.Body) != `"new"` ||
			len(now.Attempts) != 1 {
			t.Errorf("%s: %v, %s", key, err, now.JSON)
		}
	}
	if x := s.numbers("pay"); x.Pending != 0 || x.Dead != 0 || x.Settled != n {
		t.Errorf("left: %+v", x)
	}
	t.Logf("of %d: %d were under way or delivered when they were replaced, %d were not", n, both, n-both)
}
