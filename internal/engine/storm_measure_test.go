//go:build measure

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/callback"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// storm handles notices of two types: the first attempts of "storm" fail at once, and all retries of them become due
// together; the lateness of the others, "pay", is measured. Other attempts take 10 to 30 ms.
type storm struct {
	calls   *callback.Handler // makes the attempts that take time; nil: they are no HTTP calls
	url     string            // of the calls
	redrive bool              // they die instead, and a job redrives them
	begin   time.Time         // when the retries are due
	failed  atomic.Int64
	ended   atomic.Int64

	mu   sync.Mutex
	late []time.Duration
}

// Room makes dispatch wait for slots of the receiver.
func (h *storm) Room(r *route.Route, host string) (int, time.Duration) {
	if h.calls == nil {
		return 1, 0
	}
	return h.calls.Room(r, host)
}

// Host names that receiver.
func (h *storm) Host(r *route.Route, n *notice.Notice) string {
	if h.calls == nil {
		return ""
	}
	return h.calls.Host(r, n)
}

func (h *storm) Handle(ctx context.Context, r *route.Route, n *notice.Notice) (result notice.Result) {
	begin := time.Now()
	if strings.HasPrefix(n.Key, "app1:shop:storm:") {
		if n.AttemptsMade == 0 {
			h.failed.Add(1)
			if h.redrive {
				return notice.DeadResult(notice.ReasonStatus4xx, "")
			}

			r := notice.RetryResult(notice.ReasonStatus5xx, "")
			r.After = time.Until(h.begin)
			return r
		}

		defer func() {
			if result.Outcome == notice.OutcomeDelivered {
				h.ended.Add(1)
			}
		}()
	} else {
		defer func() {
			if result.Outcome == notice.OutcomeDelivered { // not if the receiver had no free slot
				h.mu.Lock()
				h.late = append(h.late, begin.Sub(n.Due))
				h.mu.Unlock()
			}
		}()
	}

	if h.calls != nil {
		return h.calls.Handle(ctx, r, n)
	}

	answer()
	return notice.DeliveredResult(200)
}

// answer takes the time of a receiver.
func answer() {
	time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond)) // sleep: a receiver's answer
}

// pays schedules first attempts, rate a second for a window that begins at a time.
func (h *storm) pays(t *testing.T, w *world, begin time.Time, rate int, window time.Duration) (n int) {
	t.Helper()
	n = int(window.Seconds() * float64(rate))
	w.put(t, n, func(i int) store.Request {
		at := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		return store.Request{Key: fmt.Sprintf("app1:shop:pay:%d-%d", begin.UnixNano(), i), Delay: time.Until(at),
			Content: notice.Content{URL: h.url}}
	})
	return n
}

// quantiles waits for n first attempts and returns the median, the 99th percentile and the maximum of their lateness.
func (h *storm) quantiles(t *testing.T, n int) []time.Duration {
	t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // sleep: a poll
		h.mu.Lock()
		if late := h.late; len(late) >= n {
			h.late = nil
			h.mu.Unlock()
			slices.Sort(late)
			return []time.Duration{late[n/2], late[n*99/100], late[n-1]}
		}

		h.mu.Unlock()
		if time.Now().After(limit) {
			t.Fatal("the notices did not come")
		}
	}
}

// TestMeasureStorm measures the lateness of first attempts, 500 a second of 10 to 30 ms in 64 slots, without and beside
// 100,000 retries that are due at once, and how busy the processors of this machine are meanwhile. STORM_MANY,
// STORM_INSTANCES and STORM_SLOTS (of each instance) change the numbers; with STORM_REDRIVE they are dead letters that a
// job redrives, with STORM_HTTP the attempts that take time are calls of one receiver in this process, which has STORM_HOST_SLOTS
// (all).
//
//	go test -tags measure ./internal/engine -run TestMeasureStorm -v -timeout 20m
func TestMeasureStorm(t *testing.T) {
	const rate, ahead = 500, 25 * time.Second
	many, instances := number(t, "STORM_MANY", 100_000), number(t, "STORM_INSTANCES", 1)
	srv, h := testkit.StartRedis(t), &storm{redrive: os.Getenv("STORM_REDRIVE") != ""}
	r := testRoute("r", "app1")
	r.Ladder, r.Concurrency = slices.Repeat(notice.Ladder{time.Second}, 3), number(t, "STORM_SLOTS", 64/instances)
	if os.Getenv("STORM_HTTP") != "" {
		receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answer() }))
		t.Cleanup(receiver.Close)
		calls := callback.New(callback.Options{Concurrency: 512})
		t.Cleanup(calls.Close)
		h.calls, h.url, r.Target = calls, receiver.URL+"/", route.Target{Kind: route.KindNotice}
		r.Allow, _ = route.ParseAllow("127.0.0.1")
		r.HostConcurrency = number(t, "STORM_HOST_SLOTS", r.Concurrency*instances)
	}

	var w *world
	for i := range instances {
		w = start(t, srv, h, func(o *Options) { o.Instance = fmt.Sprint("i", i) }, r)
	}

	alone := h.quantiles(t, h.pays(t, w, time.Now().Add(2*time.Second), rate, 10*time.Second))
	h.begin = time.Now().Add(ahead)
	w.put(t, many, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:shop:storm:%d", i), Content: notice.Content{URL: h.url}}
	})
	eventually(t, "all have failed", func() bool { return h.failed.Load() == int64(many) })
	if time.Until(h.begin) < 2*time.Second {
		t.Fatalf("the first attempts took until %s before the storm", time.Until(h.begin))
	}

	n := h.pays(t, w, h.begin.Add(-time.Second), rate, 30*time.Second)
	eventually(t, "the storm begins", func() bool { return time.Now().After(h.begin) })
	busy, all := processors(t)
	if h.redrive {
		if _, err := w.MakeJob(t.Context(), jobs.Job{Kind: jobs.KindRedrive, Rule: jobs.Rule{Prefix: "app1"}}); err != nil {
			t.Fatal(err)
		}
	}

	beside := h.quantiles(t, n)
	busyAfter, allAfter := processors(t)
	if !testkit.Within(30*time.Minute, func() bool { return h.ended.Load() >= int64(many) }) {
		t.Fatalf("%d of %d notices of the storm have ended", h.ended.Load(), many)
	}

	t.Logf("first attempts alone %s, beside the storm %s (median, p99, most); the storm took %s; %.0f %% busy",
		alone, beside, time.Since(h.begin), 100*(busyAfter-busy)/(allAfter-all))
}

// processors returns the time that the processors of this machine were busy, and their time, both in ticks.
func processors(t *testing.T) (busy, all float64) {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}

	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line)[1:9] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}

		all += n
		if i != 3 && i != 4 { // idle, and waiting for a disk
			busy += n
		}
	}
	return busy, all
}
