package engine

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/reconcile"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestConsumersReport(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
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
	report := func(e entry, v notice.Report) store.Change {
		t.Helper()
		v.ID, v.Attempt = e.ID, e.Attempt
		c, err := w.Report(ctx, e.Key, v)
		if err != nil || !c.Done {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}

	e := put("app1:a:b:acked")
	report(e, notice.Report{Result: notice.Result{Outcome: notice.OutcomeDelivered, Response: "fine"}})
	if f := w.until(t, e.Key, notice.Delivered); f.AttemptsMade != 1 || f.Attempts[0].Response != "fine" {
		t.Errorf("acked: %+v", f.Notice)
	}

	e = put("app1:a:b:nacked")
	for n := 1; n <= 3; n++ {
		if e.Attempt != n {
			t.Errorf("attempt %d, want %d", e.Attempt, n)
		}
		report(e, notice.Report{Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}})
		if n < 3 {
			e = pop(t, srv.Client(), "jobs")
		}
	}
	if f := w.until(t, e.Key, notice.Dead); f.AttemptsMade != 3 || f.Reason != notice.ReasonRejected {
		t.Errorf("nacked: %+v", f.Notice)
	}

	e = put("app1:a:b:deferred")
	for range 3 {
		report(e, notice.Report{Result: notice.Result{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked, After: time.Millisecond}})
		if e = pop(t, srv.Client(), "jobs"); e.Attempt != 1 {
			t.Errorf("a deferral used an attempt: %+v", e)
		}
	}
	report(e, notice.Report{Result: notice.Result{Outcome: notice.OutcomeDelivered}})
	if f := w.until(t, e.Key, notice.Delivered); f.AttemptsMade != 1 {
		t.Errorf("deferred: %+v", f.Notice)
	}

	e = put("app1:a:b:silent")
	for range 2 {
		e = pop(t, srv.Client(), "jobs") // it is delivered again without a report
	}
	if f := w.until(t, e.Key, notice.Dead); e.Attempt != 3 || f.AttemptsMade != 3 || f.Reason != notice.ReasonUnreported {
		t.Errorf("silent: %+v", f.Notice)
	}
}

// Redis is unavailable when a consumer reports, until after the time for the report. The consumer
// repeats its report every second, which settles the same attempt.
func TestOutageLeavesTimeToReport(t *testing.T) {
	srv := testkit.StartRedis(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	r.Timeout = 2 * time.Second
	w := start(t, srv, &queue.Handler{}, nil, r)
	if _, err := w.Schedule(t.Context(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	e := pop(t, srv.Client(), "jobs")
	srv.Pause()
	back := time.AfterFunc(r.Timeout+2*time.Second, srv.Unpause)
	defer back.Stop()
	v := notice.Report{ID: e.ID, Attempt: e.Attempt, Result: notice.Result{Outcome: notice.OutcomeDelivered}}
	failed, c := 0, store.Change{}
	for end := time.Now().Add(30 * time.Second); ; failed++ {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		var err error
		c, err = w.Report(ctx, e.Key, v)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // sleep: the consumer's pause
	}
	if failed == 0 || !c.Done && !c.Repeated {
		t.Errorf("after %d reports that failed: %+v", failed, c)
	}
	if f := w.until(t, e.Key, notice.Delivered); f.AttemptsMade != 1 || f.Attempts[0].Reason != "" {
		t.Errorf("%+v", f.Notice)
	}
}

// Without awaited reports a push is a delivery, and a report of failure opens it
// again.
func TestADeliveredPushIsOpenedAgain(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, nil, queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, ""))
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
		c, err := w.Report(ctx, e.Key, notice.Report{ID: e.ID, Attempt: e.Attempt,
			Result: notice.Result{Outcome: o, Reason: reason, After: time.Millisecond}})
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
	if f.AttemptsMade != 3 || f.Attempts[0].Reason != notice.ReasonRejected || f.Attempts[2].Reason != "" {
		t.Errorf("%+v", f.Notice)
	}
	v := notice.Report{ID: f.ID(), Attempt: 3, Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}}
	if c, err := w.Report(ctx, key(1), v); err != nil || !c.Done || c.State != notice.Dead {
		t.Fatal(c, err)
	}
	if f = w.until(t, key(1), notice.Dead); f.AttemptsMade != 3 || f.Reason != notice.ReasonRejected {
		t.Errorf("%+v, want the last attempt refused and no other", f.Notice)
	}
	if n := srv.Client().LLen(ctx, "jobs").Val(); n != 0 {
		t.Errorf("%d entries of a dead notice", n)
	}
}

// A lock that is never freed uses an attempt in the end. A late nack was lost with "not found" if
// its notice moved to another route's prefix between its read and its write.
func TestALateNackFollowsANoticeThatIsMoved(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, space := t.Context(), keys.Space{Namespace: srv.Namespace(), Shards: 1}
	const key, old, now = "app1:a:b:1", "app1", "app1:a"
	s := store.New(store.Options{Client: srv.Client(), Space: space, Prefixes: []string{old, now}, Retention: time.Hour, Retain: 1000})
	if _, err := s.Schedule(ctx, space.Partition(old, key), []store.Request{{Key: key}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.ClaimKeys(ctx, space.Partition(old, key), store.Lease{Token: "t", For: time.Minute}, []string{key})
	if err != nil || len(got.Won) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	c := got.Won[0]
	c.Add(notice.Attempt{Number: 1, At: time.Now()})
	if _, err := s.Settle(ctx, c.Partition(), []store.Settlement{{Claim: c, Ending: store.EndDelivered}}); err != nil {
		t.Fatal(err)
	}
	moved := 0
	reports := dispatch.Reports{Store: s, Notices: found(func(ctx context.Context, key string) (store.Found, error) {
		f, err := s.Find(ctx, now, key)
		if moved == 0 {
			if moved, _, err = (reconcile.Redis{Store: s}).Rehome(ctx, space.Partition(old, key), now, []string{key}); err != nil || moved != 1 {
				t.Errorf("%d moved, %v", moved, err)
			}
		}
		return f, err
	}), Logger: zap.NewNop()}
	r := queueRoute("l", now, route.Target{Kind: route.KindList, Key: "jobs"}, "")
	change, err := reports.Take(ctx, r, key, notice.Report{ID: c.ID(), Attempt: 1,
		Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}})
	if err != nil || !change.Done || change.State != notice.Scheduled || change.Route != now {
		t.Errorf("%+v, %v", change, err)
	}
}

// found is a dispatch.Finder that calls it.
type found func(ctx context.Context, key string) (store.Found, error)

func (f found) Find(ctx context.Context, key string) (store.Found, error) { return f(ctx, key) }

func TestPuttingOffIsBounded(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	r.Timeout = time.Minute
	w := start(t, srv, &queue.Handler{}, nil, r)
	if _, err := w.Schedule(context.Background(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	const most = 100
	for n := range most + 1 {
		e := pop(t, srv.Client(), "jobs")
		if e.Attempt != 1 {
			t.Fatalf("put off %d times, it is attempt %d", n, e.Attempt)
		}
		v := notice.Report{ID: e.ID, Attempt: e.Attempt, Result: notice.Result{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked,
			After: time.Millisecond}}
		if c, err := w.Report(context.Background(), e.Key, v); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	if e := pop(t, srv.Client(), "jobs"); e.Attempt != 2 {
		t.Errorf("put off %d times, it is attempt %d, want 2", most+1, e.Attempt)
	}
	if f, err := w.Find(context.Background(), key(1)); err != nil || f.AttemptsMade != 2 || f.Attempts[0].Reason != notice.ReasonLocked {
		t.Errorf("%+v, %v", f.Notice, err)
	}
}

// reports are the reports by the names of their calls.
var reports = map[string]notice.Report{
	"ack":   {Result: notice.Result{Outcome: notice.OutcomeDelivered}},
	"nack":  {Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}},
	"final": {Result: notice.Result{Outcome: notice.OutcomeDead, Reason: notice.ReasonRejected}},
	"defer": {Result: notice.Result{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked}},
}

// queues are a list whose consumers' reports are awaited, and one where the
// push is the delivery.
func queues() []*route.Route {
	awaited := queueRoute("awaited", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	awaited.Timeout, awaited.Ladder = time.Minute, notice.Ladder{time.Hour}
	pushed := queueRoute("pushed", "app2", route.Target{Kind: route.KindList, Key: "jobs"}, "")
	pushed.Ladder = notice.Ladder{time.Hour}
	return []*route.Route{awaited, pushed}
}

// An ack of the first notice under a key settled the one that had taken its
// place, which was then never worked on; a late nack opened it again.
func TestAReportDoesNotConcernTheNoticeThatReplacedItsOwn(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, nil, queues()...)
	ctx := context.Background()
	for app, state := range map[string]notice.State{"app1": notice.Claimed, "app2": notice.Delivered} {
		for name, v := range reports {
			k := app + ":a:b:" + name
			var e [2]entry
			for i := range e {
				if _, err := w.Schedule(ctx, store.Request{Key: k, OnDuplicate: store.Replace}); err != nil {
					t.Fatal(err)
				}
				e[i] = pop(t, srv.Client(), "jobs")
			}
			before := w.until(t, k, state)
			v.ID, v.Attempt = e[0].ID, e[0].Attempt
			c, err := w.Report(ctx, k, v)
			if err != nil || c.Done || c.Repeated || c.ID() != e[1].ID {
				t.Errorf("%s of the replaced notice under %s: %+v, %v", name, k, c, err)
			}
			if after := w.until(t, k, state); after.AttemptsMade != before.AttemptsMade || after.Attempts[0].Reason != "" ||
				after.ID() != before.ID() {
				t.Errorf("%s of the replaced notice changed %s: %+v", name, k, after.Notice)
			}
			v.ID = e[1].ID
			if c, err = w.Report(ctx, k, v); err != nil || c.Done == c.Repeated {
				t.Errorf("%s of the current notice under %s: %+v, %v", name, k, c, err)
			}
		}
	}
}

// The same report again was a conflict, as if it had been refused.
func TestTheSameReportAgainChangesNothing(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, nil, queues()...)
	ctx := context.Background()
	states := map[string]notice.State{"ack": notice.Delivered, "nack": notice.Scheduled, "final": notice.Dead, "defer": notice.Scheduled}
	// What contradicts a report that was made is neither done nor taken for its repetition.
	contrary := map[string][]string{"ack": {"nack", "final", "defer"}, "nack": {"ack", "final", "defer"}, "final": {"ack", "defer"},
		"defer": {"ack", "nack", "final"}}
	for _, app := range []string{"app1", "app2"} {
		for name, v := range reports {
			k := app + ":a:b:" + name
			if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
				t.Fatal(err)
			}
			e := pop(t, srv.Client(), "jobs")
			with := func(v notice.Report) store.Change {
				t.Helper()
				v.ID, v.Attempt, v.After = e.ID, e.Attempt, time.Hour
				c, err := w.Report(ctx, k, v)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			pushed := app == "app2" && name == "ack" // the push was the delivery
			if c := with(v); c.Done == pushed || c.Repeated != pushed || c.State != states[name] {
				t.Errorf("%s of %s: %+v", name, k, c)
			}
			if c := with(v); c.Done || !c.Repeated || c.State != states[name] {
				t.Errorf("%s of %s again: %+v", name, k, c)
			}
			if pushed {
				continue // there, a nack opens it again
			}
			for _, other := range contrary[name] {
				if c := with(reports[other]); c.Done || c.Repeated || c.State != states[name] {
					t.Errorf("%s of %s after %s: %+v", other, k, name, c)
				}
			}
		}
	}
}

// Without retention the acknowledged notice is gone, which was answered as if it
// had never been.
func TestAnAckWithoutRetentionIsDone(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, func(o *Options) { o.Retention = 0 }, queues()[0])
	ctx := context.Background()
	if _, err := w.Schedule(ctx, store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	e := pop(t, srv.Client(), "jobs")
	c, err := w.Report(ctx, e.Key, notice.Report{ID: e.ID, Attempt: 1, Result: notice.Result{Outcome: notice.OutcomeDelivered}})
	if err != nil || !c.Done || c.State != notice.Delivered || c.ID() != e.ID {
		t.Errorf("%+v, %v", c, err)
	}
}

// Three nacks end in dead; the metrics counted three delivered and no dead, no
// alert fired, and the log said nothing.
func TestWhatReportsLedToIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	rs := queues()
	for _, r := range rs {
		r.Ladder = notice.Ladder{time.Millisecond, time.Millisecond}
	}
	core, logs := logobserver.New(zap.InfoLevel)
	w := start(t, srv, &queue.Handler{}, func(o *Options) { o.Logger = zap.New(core) }, rs...)
	ctx := context.Background()
	type line struct {
		attempt int64
		outcome string
		reason  any
	}
	for i, c := range []struct {
		key     string
		reports []string
		state   notice.State
		counted map[notice.Outcome]int64
		last    line
	}{
		{"app1:a:b:1", []string{"nack", "nack", "nack"}, notice.Dead, map[notice.Outcome]int64{"handed": 3, "retry": 2, "dead": 1},
			line{3, "dead", "rejected"}},
		{"app1:a:b:2", []string{"nack", "final"}, notice.Dead, map[notice.Outcome]int64{"handed": 2, "retry": 1, "dead": 1},
			line{2, "dead", "rejected"}},
		{"app1:a:b:3", []string{"defer", "ack"}, notice.Delivered, map[notice.Outcome]int64{"handed": 2, "deferred": 1, "delivered": 1},
			line{1, "delivered", nil}},
		{"app2:a:b:1", []string{"nack", "nack", "nack"}, notice.Dead, map[notice.Outcome]int64{"delivered": 3, "retry": 2, "dead": 1},
			line{3, "dead", "rejected"}},
	} {
		stats := func() map[notice.Outcome]int64 { return w.Stats()[map[bool]int{true: 0, false: 1}[i < 3]].Outcomes }
		before := stats()
		if _, err := w.Schedule(ctx, store.Request{Key: c.key}); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.reports {
			e := pop(t, srv.Client(), "jobs")
			if i == 3 {
				w.until(t, c.key, notice.Delivered)
			}
			v := reports[name]
			v.ID, v.Attempt, v.After = e.ID, e.Attempt, time.Millisecond
			if ch, err := w.Report(ctx, e.Key, v); err != nil || !ch.Done {
				t.Fatalf("%s of %s: %+v, %v", name, e.Key, ch, err)
			}
			if name == "defer" {
				continue // it is delivered again as the same attempt
			}
			if ch, err := w.Report(ctx, e.Key, v); err != nil || ch.Done { // which counts nothing
				t.Fatalf("%s of %s again: %+v, %v", name, e.Key, ch, err)
			}
		}
		w.until(t, c.key, c.state)
		// A consumer may answer before the push that it pops from has returned and
		// is counted, so that the counts are not complete at once.
		testkit.Await(t, func() error {
			counted := map[notice.Outcome]int64{}
			for o, n := range stats() {
				if n -= before[o]; n != 0 {
					counted[o] = n
				}
			}
			if !maps.Equal(counted, c.counted) {
				return fmt.Errorf("%s: %v after %v, want %v", c.key, counted, c.reports, c.counted)
			}
			return nil
		})
		var last line
		for _, l := range logs.FilterMessage("attempt").FilterField(zap.String("key", c.key)).FilterField(zap.String("source", "report")).All() {
			m := l.ContextMap()
			last = line{m["attempt"].(int64), m["outcome"].(string), m["reason"]}
		}
		if last != c.last {
			t.Errorf("%s: the last line on a report is %+v, want %+v", c.key, last, c.last)
		}
	}
}
