//go:build measure

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// neighbours handles the notices whose lateness is measured, whose type is "up". Others fail and are retried in an hour.
type neighbours struct {
	mu     sync.Mutex
	late   []time.Duration
	others int
}

func (h *neighbours) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	late := time.Since(n.Due)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !strings.HasPrefix(n.Key, "app1:shop:up:") {
		h.others++
		return notice.RetryResult(notice.ReasonStatus5xx, "blocks its sequence")
	}
	h.late = append(h.late, late)
	return notice.DeliveredResult(200)
}

// p99 schedules the measured notices, rate a second for a window, and returns the 99th percentile of their lateness.
// also are the other notices of the window.
func (h *neighbours) p99(t *testing.T, w *world, rate int, window time.Duration, also ...store.Request) time.Duration {
	t.Helper()
	h.mu.Lock()
	h.late = nil
	h.mu.Unlock()
	begin, n := time.Now().Add(time.Second), rate*int(window/time.Second)
	for i := range n {
		at := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		r := to(fmt.Sprintf("app1:shop:up:%d-%d", begin.UnixNano(), i), fmt.Sprintf("up%d.example", i%20))
		r.Delay = time.Until(at)
		also = append(also, r)
	}
	w.put(t, len(also), func(i int) store.Request { return also[i] })
	for limit := time.Now().Add(window + time.Minute); ; time.Sleep(10 * time.Millisecond) { // sleep: a poll
		h.mu.Lock()
		late := slices.Clone(h.late)
		h.mu.Unlock()
		if len(late) == n {
			slices.Sort(late)
			return late[n*99/100]
		}
		if time.Now().After(limit) {
			t.Fatalf("%d of %d notices came", len(late), n)
		}
	}
}

// TestMeasurePausedHost measures the lateness of other hosts' notices, 300 a second at three instances, while 2,000
// notices of a paused host fall due within 6 s, beside windows without them.
//
//	go test -tags measure ./internal/engine -run TestMeasurePausedHost -v -timeout 10m
func TestMeasurePausedHost(t *testing.T) {
	const rate, window, paused = 300, 6 * time.Second, 2000
	srv, h := testkit.StartRedis(t), &neighbours{}
	var all []*world
	for range 3 {
		all = append(all, start(t, srv, h, nil, callbackRoute()))
	}
	w, host := all[0], receivers.Receiver{Host: "down.example"}
	if err := w.PauseReceiver(t.Context(), "", host, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		eventually(t, "the pause is known", func() bool { return len(x.holds.Table().Pauses()) == 1 })
	}

	pairs := number(t, "PAUSED_PAIRS", 7)
	var with, without, over []time.Duration
	measure := func(pair int) {
		var also []store.Request
		for i := range paused {
			r := to(fmt.Sprintf("app1:shop:down:%d-%d", pair, i), "down.example")
			r.Delay = time.Second + time.Duration(i)*window/paused
			also = append(also, r)
		}
		with = append(with, h.p99(t, w, rate, window, also...))
	}
	for pair := range pairs {
		if pair%2 == 0 {
			measure(pair)
		}
		without = append(without, h.p99(t, w, rate, window))
		if pair%2 == 1 {
			measure(pair)
		}
		over = append(over, with[pair]-without[pair]*11/10)
	}
	eventually(t, "all are held", func() bool { return w.heldNow(t, host) == int64(pairs*paused) })
	t.Logf("p99 with %v, without %v; median of with - 1.1 × without: %s, at most 500µs wanted; %d attempts at the paused host", with, without,
		median(over), h.others)
	if h.others > 0 || median(over) > 500*time.Microsecond {
		t.Fail()
	}
}

// TestMeasureManyOfOneSequence measures what 100,000 parked notices of one sequence cost its neighbours, at 300 a second
// beside windows at another Redis without them: claims that are not won a second, and lateness. ORDER_MINUTES is the
// length of the measurement.
//
//	go test -tags measure ./internal/engine -run TestMeasureManyOfOneSequence -v -timeout 30m
func TestMeasureManyOfOneSequence(t *testing.T) {
	const rate, window = 300, 6 * time.Second
	many := number(t, "ORDER_MANY", 100_000)
	r := callbackRoute()
	r.Order, r.Ladder = route.OrderSkip, slices.Repeat(notice.Ladder{time.Hour}, 3)
	h, beside := &neighbours{}, &neighbours{}
	w, free := start(t, testkit.StartRedis(t), h, nil, r), start(t, testkit.StartRedis(t), beside, nil, r)
	w.put(t, many, func(i int) store.Request { return to(fmt.Sprintf("app1:shop:paid:one~%d", i), "one.example") })
	waiting := w.store.Space().Waiting(keys.Partition{Prefix: "app1"})
	for limit := time.Now().Add(5 * time.Minute); w.srv.Client().ZCard(t.Context(), waiting).Val() < int64(many-1); {
		if time.Now().After(limit) {
			t.Fatal("the notices are not parked")
		}
		time.Sleep(100 * time.Millisecond) // sleep: a poll
	}

	before, from := vain([]*Engine{w.Engine}), time.Now()
	var ratios []float64
	var with, without []time.Duration
	for until := from.Add(time.Duration(number(t, "ORDER_MINUTES", 10)) * time.Minute); time.Now().Before(until); {
		a, b := h.p99(t, w, rate, window), beside.p99(t, free, rate, window)
		with, without, ratios = append(with, a), append(without, b), append(ratios, float64(a)/float64(b))
	}
	claims := (vain([]*Engine{w.Engine}) - before) / time.Since(from).Seconds()
	t.Logf("%d windows: p99 with %s, without %s (medians), ratio %.2f; %.1f claims a second more, at most 30 wanted; %d attempts of the "+
		"sequence",
		len(ratios), median(with), median(without), median(ratios), claims, h.others)
	if claims > 30 || median(ratios) > 1.2 || h.others != 1 {
		t.Fail()
	}
}
