package app

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/redistest"
	"notifier/internal/route"
	"notifier/internal/store"
)

func queueRoute(name, prefix string, target route.Target, ack route.AckKind) *route.Route {
	r := testRoute(name, prefix)
	r.Target, r.Ack = target, route.Ack{Kind: ack}
	return r
}

// entry is what a list's consumer reads.
type entry struct {
	ID, Key string
	Attempt int
	Due     time.Time
	Body    json.RawMessage
}

// pop takes one entry from a list.
func pop(t *testing.T, c *redis.Client, list string) entry {
	t.Helper()
	v, err := c.BLPop(context.Background(), 30*time.Second, list).Result()
	if err != nil {
		t.Fatalf("nothing came to the list %s: %v", list, err)
	}
	var e entry
	if err := json.Unmarshal([]byte(v[1]), &e); err != nil {
		t.Fatalf("%s: %v", v[1], err)
	}
	return e
}

func TestListAndStreamTakeNotices(t *testing.T) {
	srv := redistest.Shared(t)
	w := start(t, srv, &queue.Handler{}, nil,
		queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.Ack2xx),
		queueRoute("s", "app2", route.Target{Kind: route.KindStream, Key: "events", MaxLen: 100}, route.Ack2xx))
	ctx := context.Background()
	due := time.Now().Add(100 * time.Millisecond)
	for _, k := range []string{"app1:a:b:1", "app2:a:b:1"} {
		if _, err := w.Schedule(ctx, store.Request{Key: k, Due: due, Content: notice.Content{Body: []byte(`{"a": 1}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	e := pop(t, srv.Client(), "jobs")
	f := w.until(t, "app1:a:b:1", notice.Delivered)
	if e.Key != f.Key || e.ID != f.ID() || e.Attempt != 1 || e.Due.UnixMilli() != due.UnixMilli() || string(e.Body) != `{"a": 1}` {
		t.Errorf("%+v", e)
	}
	f = w.until(t, "app2:a:b:1", notice.Delivered)
	got, err := srv.Client().XRange(ctx, "events", "-", "+").Result()
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	v := got[0].Values
	if v["key"] != f.Key || v["id"] != f.ID() || v["attempt"] != "1" || v["body"] != `{"a": 1}` || v["content_type"] != "application/json" {
		t.Errorf("%v", v)
	}
	w.put(t, 1500, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app2:a:many:%d", i)} })
	for i := range 1500 {
		w.until(t, fmt.Sprintf("app2:a:many:%d", i), notice.Delivered)
	}
	// Trimmed by whole nodes, of 100 entries each.
	if n := srv.Client().XLen(ctx, "events").Val(); n < 100 || n > 300 {
		t.Errorf("the stream holds %d entries, want about 100", n)
	}
}

func TestConsumersReport(t *testing.T) {
	srv := redistest.Shared(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	r.Timeout = 700 * time.Millisecond
	w := start(t, srv, &queue.Handler{}, nil, r)
	ctx := context.Background()
	put := func(k string) entry {
		t.Helper()
		if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		return pop(t, srv.Client(), "jobs")
	}
	report := func(e entry, v store.Verdict) store.Change {
		t.Helper()
		c, err := w.Report(ctx, e.Key, e.Attempt, v)
		if err != nil || !c.Done {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}

	e := put("app1:a:b:acked")
	report(e, store.Verdict{Outcome: notice.OutcomeDelivered, Response: "fine"})
	if f := w.until(t, e.Key, notice.Delivered); f.Used != 1 || f.Attempts[0].Response != "fine" {
		t.Errorf("acked: %+v", f.Notice)
	}
	if c, err := w.Report(ctx, e.Key, e.Attempt, store.Verdict{Outcome: notice.OutcomeDelivered}); err != nil || c.Done {
		t.Errorf("a second ack: %+v, %v", c, err)
	}

	e = put("app1:a:b:nacked")
	for n := 1; n <= 3; n++ {
		if e.Attempt != n {
			t.Errorf("attempt %d, want %d", e.Attempt, n)
		}
		report(e, store.Verdict{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected})
		if n < 3 {
			e = pop(t, srv.Client(), "jobs")
		}
	}
	if f := w.until(t, e.Key, notice.Dead); f.Used != 3 || f.Reason != notice.ReasonRejected {
		t.Errorf("nacked: %+v", f.Notice)
	}

	e = put("app1:a:b:deferred")
	for range 3 {
		report(e, store.Verdict{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked, After: time.Millisecond})
		if e = pop(t, srv.Client(), "jobs"); e.Attempt != 1 {
			t.Errorf("a deferral used an attempt: %+v", e)
		}
	}
	report(e, store.Verdict{Outcome: notice.OutcomeDelivered})
	if f := w.until(t, e.Key, notice.Delivered); f.Used != 1 {
		t.Errorf("deferred: %+v", f.Notice)
	}

	e = put("app1:a:b:silent")
	for range 2 {
		e = pop(t, srv.Client(), "jobs") // it comes again by itself
	}
	if f := w.until(t, e.Key, notice.Dead); e.Attempt != 3 || f.Used != 3 || f.Reason != notice.ReasonUnreported {
		t.Errorf("silent: %+v", f.Notice)
	}
}

// Without awaited reports a push is a delivery, and a report of failure opens it
// again.
func TestADeliveredPushIsOpenedAgain(t *testing.T) {
	srv := redistest.Shared(t)
	w := start(t, srv, &queue.Handler{}, nil, queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.Ack2xx))
	ctx := context.Background()
	if _, err := w.Schedule(ctx, store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	report := func(want int, o notice.Outcome) {
		t.Helper()
		e := pop(t, srv.Client(), "jobs")
		w.until(t, e.Key, notice.Delivered)
		reason := notice.ReasonRejected
		if o == notice.OutcomeDeferred {
			reason = notice.ReasonLocked
		}
		c, err := w.Report(ctx, e.Key, e.Attempt, store.Verdict{Outcome: o, Reason: reason, After: time.Millisecond})
		if e.Attempt != want || err != nil || c.Done != (o != notice.OutcomeDelivered) {
			t.Fatalf("attempt %d, want %d: %+v, %v", e.Attempt, want, c, err)
		}
	}
	report(1, notice.OutcomeDeferred)
	report(1, notice.OutcomeRetry)
	report(2, notice.OutcomeDeferred)
	report(2, notice.OutcomeRetry)
	report(3, notice.OutcomeDelivered)
	f := w.until(t, key(1), notice.Delivered)
	if f.Used != 3 || f.Attempts[0].Reason != notice.ReasonRejected || f.Attempts[2].Reason != "" {
		t.Errorf("%+v", f.Notice)
	}
	if c, err := w.Report(ctx, key(1), 3, store.Verdict{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if f = w.until(t, key(1), notice.Dead); f.Used != 3 && f.Used != 4 {
		t.Errorf("%+v", f.Notice)
	}
	if n := srv.Client().LLen(ctx, "jobs").Val(); n != 0 {
		t.Errorf("%d entries of a dead notice", n)
	}
}

// A lock that is never freed costs an attempt in the end.
func TestPuttingOffIsBounded(t *testing.T) {
	srv := redistest.Shared(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	r.Timeout = time.Minute
	w := start(t, srv, &queue.Handler{}, nil, r)
	if _, err := w.Schedule(context.Background(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	for n := range maxPutOff + 1 {
		e := pop(t, srv.Client(), "jobs")
		if e.Attempt != 1 {
			t.Fatalf("put off %d times, it is attempt %d", n, e.Attempt)
		}
		v := store.Verdict{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked, After: time.Millisecond}
		if c, err := w.Report(context.Background(), e.Key, e.Attempt, v); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	if e := pop(t, srv.Client(), "jobs"); e.Attempt != 2 {
		t.Errorf("put off %d times, it is attempt %d, want 2", maxPutOff+1, e.Attempt)
	}
	if f, err := w.Find(context.Background(), key(1)); err != nil || f.Used != 2 || f.Attempts[0].Reason != notice.ReasonLocked {
		t.Errorf("%+v, %v", f.Notice, err)
	}
}

func TestAnEntryThatIsRefusedIsTriedAgain(t *testing.T) {
	srv := redistest.Shared(t)
	w := start(t, srv, &queue.Handler{}, nil,
		queueRoute("bad", "app1:bad", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport),
		queueRoute("dead", "app1:dead", route.Target{Kind: route.KindStream, Key: "jobs"}, route.Ack2xx))
	ctx := context.Background()
	if err := srv.Client().Set(ctx, "jobs", "somebody else's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{"bad", "dead"} {
		k := "app1:" + route + ":x:1"
		if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		f := w.until(t, k, notice.Dead)
		if f.Used != 3 || f.Handed || f.Reason != notice.ReasonQueue || len(f.Attempts) != 3 {
			t.Fatalf("%s: %+v", route, f.Notice)
		}
		for _, a := range f.Attempts {
			if a.Reason != notice.ReasonQueue || a.Response == "" {
				t.Errorf("%s: %+v", route, a)
			}
		}
	}
	if err := srv.Client().Del(ctx, "jobs").Err(); err != nil {
		t.Fatal(err)
	}
	if c, err := w.Redrive(ctx, "app1:bad:x:1"); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if e := pop(t, srv.Client(), "jobs"); e.Attempt != 4 {
		t.Errorf("%+v", e)
	}
}

// One batch holds an entry that is refused and others that have nothing to do
// with it: each must end as it would alone.
func TestARefusedEntryHarmsNoOther(t *testing.T) {
	srv := redistest.Shared(t)
	ctx := context.Background()
	w := start(t, srv, newSink(10), nil, queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.Ack2xx))
	w.dispatch.SetPaused(func(string) bool { return true })
	w.put(t, 3, func(i int) store.Request { return store.Request{Key: key(i)} })
	if err := srv.Client().Set(ctx, "wrong", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	c, err := w.Store().ClaimKeys(ctx, "app1", 0, "mine", time.Minute, []string{key(0), key(1), key(2)})
	if err != nil || len(c.Won) != 3 {
		t.Fatal(c, err)
	}
	list := []store.Settlement{
		{Claim: c.Won[0], Ending: store.EndDelivered, Push: &notice.Push{Key: "right", Entry: []string{"a"}}},
		{Claim: c.Won[1], Ending: store.EndDelivered, Push: &notice.Push{Key: "wrong", Entry: []string{"b"}}},
		{Claim: c.Won[2], Ending: store.EndDelivered, Push: &notice.Push{Key: "right", Entry: []string{"c"}}},
	}
	done, err := w.Store().Settle(ctx, "app1", 0, list)
	if err != nil || done[0].Refused != "" || done[1].Refused == "" || done[2].Refused != "" {
		t.Fatal(done, err)
	}
	if got := srv.Client().LRange(ctx, "right", 0, -1).Val(); fmt.Sprint(got) != "[a c]" {
		t.Errorf("%v", got)
	}
	// Made again, as after an answer that was lost: nothing is doubled.
	if done, err = w.Store().Settle(ctx, "app1", 0, list); err != nil || !done[0].Stale || !done[2].Stale {
		t.Fatal(done, err)
	}
	if n := srv.Client().LLen(ctx, "right").Val(); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if f, err := w.Find(ctx, key(1)); err != nil || f.State != notice.Claimed {
		t.Errorf("%+v, %v: want it still claimed", f, err)
	}
}
