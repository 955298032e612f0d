//go:build measure

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
)

// lateHandler records how late each attempt starts.
type lateHandler struct {
	dispatch.Handler
	mu   sync.Mutex
	late []time.Duration
}

func (h *lateHandler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	late := time.Since(n.Due)
	h.mu.Lock()
	h.late = append(h.late, late)
	h.mu.Unlock()
	return h.Handler.Handle(ctx, r, n)
}

// The load of each run, and the number of pairs.
const (
	tapRate    = 1000
	tapSeconds = 8
	tapPairs   = 15
	listeners  = 10
)

// TestTapMeasured compares 10 listeners with none at 1,000 attempts a second:
//
//	go test -tags measure ./internal/engine -run TestTapMeasured -v -timeout 10m
func TestTapMeasured(t *testing.T) {
	var p99, cpu []float64 // differences: with listeners, less without
	t.Logf("%4s  %22s  %26s", "pair", "p99 lateness ms", "CPU of this process µs/notice")
	for pair := range tapPairs {
		var without, with [2]float64
		if pair%2 == 0 {
			without, with = tapRun(t, 2*pair, 0), tapRun(t, 2*pair+1, listeners)
		} else {
			with, without = tapRun(t, 2*pair+1, listeners), tapRun(t, 2*pair, 0)
		}
		p99, cpu = append(p99, with[0]-without[0]), append(cpu, with[1]-without[1])
		t.Logf("%4d  none %6.2f  10 %6.2f  none %8.1f  10 %8.1f", pair+1, without[0], with[0], without[1], with[1])
	}
	for name, list := range map[string][]float64{"p99 lateness, ms": p99, "CPU, µs/notice": cpu} {
		slices.Sort(list)
		// The 4th and 12th of 15 bound the median at 96 %.
		t.Logf("%s: 10 listeners against none: median %+.2f, 96 %% interval %+.2f to %+.2f", name, list[tapPairs/2], list[3], list[tapPairs-4])
	}
}

// tapRun delivers at tapRate, and returns the p99 of the lateness and the CPU time.
func tapRun(t *testing.T, run, taps int) [2]float64 {
	t.Helper()
	h := &lateHandler{}
	srv := testkit.SharedRedis(t)
	w := start(t, srv, nil, func(o *Options) {
		withTaps(t)(o)
		h.Handler, o.Handler = o.Handler, h
	}, testRoute("logs", "app1:trans"))
	defer w.stop()
	var reading sync.WaitGroup
	open := make([]*tracing.Tap, taps)
	for i := range open {
		from, err := w.OpenTap(t.Context(), fmt.Sprint("client", i), "")
		if err != nil {
			t.Fatal(err)
		}
		open[i] = from
		for e := range from.Events() { // on a busy machine it may be ready before the heartbeat has seen it
			if e.Ready {
				break
			}
		}
		reading.Go(func() {
			v := tracing.NewView(nil)
			for e := range from.Events() {
				if from.Received(&e); e.Copy != nil {
					_, _ = json.Marshal(v.Show(e.Copy)) // as the API does
				}
			}
		})
	}

	const n = tapRate * tapSeconds
	first := time.Now().Add(time.Second)
	w.put(t, n, func(i int) store.Request {
		return store.Request{Key: key(run*n + i), Due: first.Add(time.Duration(i) * time.Second / tapRate),
			Content: notice.Content{Body: []byte(`{"order":"2026112100001","status":"paid"}`)}}
	})
	began, _ := testkit.CPU(t, srv)
	testkit.Until(t, "all are attempted", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.late) >= n
	})
	ended, _ := testkit.CPU(t, srv)
	for _, from := range open {
		from.Close()
	}
	reading.Wait()
	slices.Sort(h.late)
	return [2]float64{float64(h.late[n*99/100].Microseconds()) / 1000, float64((ended - began).Microseconds()) / n}
}
