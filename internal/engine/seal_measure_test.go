//go:build measure

package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// tally delivers notices and counts them.
type tally struct{ n atomic.Int64 }

func (c *tally) Handle(context.Context, *route.Route, *notice.Notice) notice.Result {
	c.n.Add(1)
	return notice.DeliveredResult(200)
}

// TestMeasureSeal measures what a sealed route costs, beside a route in clear text, in SEAL_PAIRS alternating pairs: single schedules of 64
// callers, batches of 500, and a drain of notices that are due at once. Bodies have 200 bytes. The keys are of 100 audiences,
// or with SEAL_ID=1 a key for each notice.
//
//	go test -tags measure ./internal/engine -run TestMeasureSeal -v -timeout 20m
func TestMeasureSeal(t *testing.T) {
	const singles, batch, batches = 5000, 500, 40
	pairs, id := number(t, "SEAL_PAIRS", 5), number(t, "SEAL_ID", 0) == 1
	srv, h := testkit.StartRedis(t), &tally{}
	plain, sealed := testRoute("plain", "app1"), testRoute("sealed", "app2")
	sealed.Seal = seal.PerAudience
	if id {
		sealed.Seal = seal.PerID
	}

	w := start(t, srv, h, func(o *Options) { o.SealKeys = testkit.ServiceKeys(t, "a") }, plain, sealed)
	body := []byte(fmt.Sprintf(`{"text":"%0188d"}`, 0))
	request := func(prefix string, round, i int, delay time.Duration) store.Request {
		return store.Request{Key: fmt.Sprintf("%s:pay:n%d:%d", prefix, round, i), Delay: delay,
			Content: notice.Content{Body: body, Audience: fmt.Sprint("m", i%100)}}
	}

	names := []string{"single schedules", "batches", "drain"}
	measure := func(variant, round int) (took []time.Duration) {
		prefix := []string{"app1", "app2"}[variant]
		from := time.Now()
		var all sync.WaitGroup
		for c := range 64 {
			all.Go(func() {
				for i := c; i < singles; i += 64 {
					if _, err := w.Schedule(t.Context(), request(prefix, 2*round, i, time.Hour)); err != nil {
						t.Error(err)
					}
				}
			})
		}

		all.Wait()
		took = append(took, time.Since(from))
		from, before := time.Now(), h.n.Load()
		const wait = 15 * time.Second
		due := from.Add(wait)
		for b := range batches {
			var list []store.Request
			for i := range batch {
				list = append(list, request(prefix, 2*round+1, b*batch+i, time.Until(due)))
			}

			for _, r := range w.ScheduleMany(t.Context(), list) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}

		took = append(took, time.Since(from))
		if time.Until(due) < 0 {
			t.Fatalf("%d batches took %s", batches, time.Since(from))
		}

		for h.n.Load() < before+batch*batches {
			time.Sleep(time.Millisecond) // sleep: a poll
		}

		return append(took, time.Since(due))
	}

	testkit.Pairs(t, pairs, names, measure) // clear first, sealed second
}
