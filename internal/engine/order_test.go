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
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// sequenceLog is a handler that records the attempts of each sequence, and those that overlap.
type sequenceLog struct {
	mu       sync.Mutex
	running  map[string]string   // by order key
	attempts map[string][]string // keys by order key
	overlaps []string
	answer   func(n *notice.Notice) notice.Result
}

func newSequenceLog(answer func(n *notice.Notice) notice.Result) *sequenceLog {
	return &sequenceLog{running: map[string]string{}, attempts: map[string][]string{}, answer: answer}
}

func (l *sequenceLog) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	name := keys.OrderKey(n.Key)
	l.mu.Lock()
	if other := l.running[name]; other != "" {
		l.overlaps = append(l.overlaps, n.Key+" during "+other)
	}
	l.running[name] = n.Key
	l.attempts[name] = append(l.attempts[name], n.Key)
	l.mu.Unlock()

	time.Sleep(time.Millisecond) // sleep: the duration of an attempt
	res := l.answer(n)
	l.mu.Lock()
	delete(l.running, name)
	l.mu.Unlock()
	return res
}

// check fails if attempts overlapped, or if the attempts of a sequence are not those of want in turn.
func (l *sequenceLog) check(t *testing.T, name string, want []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.overlaps) > 0 {
		t.Errorf("attempts overlap: %v", l.overlaps)
	}
	if got := slices.Compact(slices.Clone(l.attempts[name])); !slices.Equal(got, want) {
		t.Errorf("%s: the attempts are of %v, want %v", name, got, want)
	}
}

func orderedRoute(order route.Order) *route.Route {
	r := testRoute("r", "app1")
	r.Order, r.Ladder = order, notice.Ladder{}
	for range 20 {
		r.Ladder = append(r.Ladder, 5*time.Millisecond)
	}
	return r
}

// fails reports whether an attempt of a key fails, the same in each run.
func fails(key string, attempt int) bool {
	sum := attempt * 7
	for _, c := range key {
		sum += int(c)
	}
	return sum%3 == 0
}

// Two instances deliver sequences in order although a third of the attempts fail.
func TestSequencesAreDeliveredInOrder(t *testing.T) {
	t.Parallel()
	const sequences, length = 60, 5
	srv := testkit.SharedRedis(t)
	l := newSequenceLog(func(n *notice.Notice) notice.Result {
		if fails(n.Key, n.NextAttempt()) {
			return notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		return notice.DeliveredResult(200)
	})
	w := start(t, srv, l, nil, orderedRoute(route.OrderSkip))
	_ = start(t, srv, l, nil, orderedRoute(route.OrderSkip))
	w.put(t, sequences*length, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:shop:t%d:O%d~%d", i%length, i/length, i%length+1)}
	})

	for i := range sequences {
		var want []string
		for j := range length {
			key := fmt.Sprintf("app1:shop:t%d:O%d~%d", j, i, j+1)
			w.until(t, key, notice.Delivered)
			want = append(want, key)
		}
		l.check(t, fmt.Sprintf("app1:shop:O%d", i), want)
	}
	left := srv.Client().Keys(context.Background(), srv.Namespace()+":{0}:*").Val()
	if left = testkit.SequenceKeys(left); len(left) > 0 {
		t.Errorf("keys of sequences are left: %v", left)
	}
}

// A dead letter leaves its sequence under skip. Under block it holds back its successors until it is
// redriven or cancelled.
func TestDeadLettersInASequence(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, order := range []route.Order{route.OrderSkip, route.OrderBlock} {
		var mu sync.Mutex
		refused := true
		l := newSequenceLog(func(n *notice.Notice) notice.Result {
			mu.Lock()
			defer mu.Unlock()
			if refused && strings.HasPrefix(n.Key, "app1:shop:created:") {
				return notice.DeadResult(notice.ReasonGone, "gone")
			}
			return notice.DeliveredResult(200)
		})
		w := start(t, testkit.SharedRedis(t), l, nil, orderedRoute(order))
		for _, id := range []string{"O1", "O2"} {
			for _, kind := range []string{"created", "paid", "closed"} {
				w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:shop:" + kind + ":" + id} })
			}
		}
		for _, id := range []string{"O1", "O2"} {
			w.until(t, "app1:shop:created:"+id, notice.Dead)
		}
		if order == route.OrderBlock {
			w.until(t, "app1:shop:paid:O1", notice.Scheduled)
			mu.Lock()
			refused = false
			mu.Unlock()
			if _, err := w.Redrive(ctx, "app1:shop:created:O1", notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Cancel(ctx, "app1:shop:created:O2"); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"O1", "O2"} {
			w.until(t, "app1:shop:closed:"+id, notice.Delivered)
			l.check(t, "app1:shop:"+id, []string{"app1:shop:created:" + id, "app1:shop:paid:" + id, "app1:shop:closed:" + id})
		}
		w.stop()
	}
}

// A parked notice starts when the head of its sequence is cancelled, replaced by a later notice, or
// delivered after a fire.
func TestSuccessorFollowsAChangedHead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newSequenceLog(func(n *notice.Notice) notice.Result {
		if strings.HasPrefix(n.Key, "app1:shop:created:") && n.NextAttempt() == 1 {
			return notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		return notice.DeliveredResult(200)
	})
	r := orderedRoute(route.OrderSkip)
	r.Ladder = notice.Ladder{time.Hour}
	srv := testkit.SharedRedis(t)
	w := start(t, srv, l, nil, r)
	ids := []string{"cancelled", "replaced", "fired"}
	for _, id := range ids {
		w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:shop:created:" + id} })
		w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:shop:paid:" + id} })
	}
	parked := w.store.Space().Waiting(keys.Partition{Prefix: "app1"})
	eventually(t, "the successors are parked", func() bool { return srv.Client().ZCard(ctx, parked).Val() == 3 })

	if g, err := w.Gauges(ctx); err != nil || len(g.Routes) != 1 || g.Routes[0].Waiting != 3 || g.Routes[0].LongestWait < 0 {
		t.Errorf("the gauges of three parked notices are %+v, %v", g.Routes, err)
	}
	m := samples(w.Engine)
	if m[`notifier_claims_total{result="parked",source="sweep"}`]+m[`notifier_claims_total{result="parked",source="event"}`] < 1 {
		t.Errorf("parked claims are not counted: %v", m)
	}

	if _, err := w.Cancel(ctx, "app1:shop:created:cancelled"); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Schedule(ctx, store.Request{Key: "app1:shop:created:replaced", Delay: time.Hour,
		OnDuplicate: store.Replace}); err != nil ||
		!got.Replaced {
		t.Fatalf("%+v, %v", got, err)
	}
	for fired := false; !fired; { // its first attempt may be in flight, or not yet made
		f := w.until(t, "app1:shop:created:fired", notice.Scheduled)
		if f.AttemptsMade == 0 {
			continue
		}
		got, err := w.Fire(ctx, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		fired = got.Done
	}
	for _, id := range ids {
		w.until(t, "app1:shop:paid:"+id, notice.Delivered)
		l.check(t, "app1:shop:"+id, []string{"app1:shop:created:" + id, "app1:shop:paid:" + id})
	}
}
