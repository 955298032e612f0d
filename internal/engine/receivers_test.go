package engine

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The receiver of a list is the list: it fails while its consumer rejects notices.
func TestHealthOfListIsThatOfItsTarget(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "rejects"}, route.AckReport)
	w := start(t, srv, &queue.Handler{}, nil, r)
	if _, err := w.Schedule(t.Context(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	e := pop(t, srv.Client(), "rejects")
	if _, err := w.Report(t.Context(), e.Key, notice.Report{ID: e.ID, Attempt: e.Attempt,
		Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}}); err != nil {
		t.Fatal(err)
	}
	var got receivers.Health
	eventually(t, "the health of the list", func() bool {
		list, err := w.Health(t.Context())
		if err != nil || len(list[0].Receivers) == 0 {
			return false
		}
		got = list[0].Receivers[0]
		return true
	})
	if got.Name != "rejects" || !got.Failing() || got.Reason != string(notice.ReasonRejected) {
		t.Errorf("%+v", got)
	}
}

// Of two instances at which receivers fail, one counts the waiting notices; the other one counts if no count
// ended for two minutes.
func TestOneInstanceCountsWaitingNotices(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	a := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	b := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	counts := func(counted time.Time) (n int) {
		for _, w := range []*world{a, b} {
			n += len(w.receivers.mine([]receivers.RouteHealth{{Prefix: "app1", Counted: counted}}))
		}
		return n
	}
	eventually(t, "one of two instances counts", func() bool { return counts(time.Now()) == 1 })
	if n := counts(time.Now().Add(-scanLate - time.Second)); n != 2 {
		t.Errorf("%d instances count what none has counted for long", n)
	}
}

// The metric counts receivers that have failed for more than 15 minutes.
func TestFailingLongCountsReceivers(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newSink(1), nil, testRoute("r", "app1"))
	now := time.Now()
	fails := receivers.NewTracker()
	for name, since := range map[string]time.Duration{"long:443": receivers.FailingLong + time.Second,
		"short:443": receivers.FailingLong - time.Minute} {
		fails.Observe("app1", name, receivers.Attempt{At: now.Add(-since), Failed: true})
	}
	if err := w.receivers.store().Write(t.Context(), fails); err != nil {
		t.Fatal(err)
	}
	if n := w.receivers.failingLong(t.Context())("app1"); n != 1 {
		t.Errorf("%d receivers fail for long, want 1", n)
	}
}

// Receivers that failed once and recovered just before the instance stops are not failing afterwards.
func TestStopWritesHealthOfAllReceivers(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	const hosts = 400
	eventually(t, "the instance writes", func() bool {
		w.receivers.tracker.Observe("app1", "first:443", receivers.Attempt{At: time.Now(), Failed: true})
		list, err := w.Health(t.Context())
		return err == nil && len(list[0].Receivers) == 1
	})
	now := time.Now()
	for i := range hosts {
		w.receivers.tracker.Observe("app1", fmt.Sprintf("h%d:443", i), receivers.Attempt{At: now.Add(-time.Second), Failed: true})
	}
	for i := range hosts {
		w.receivers.tracker.Observe("app1", fmt.Sprintf("h%d:443", i), receivers.Attempt{At: now, Status: 200})
	}
	w.stop()

	other := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	list, err := other.Health(t.Context())
	for err != nil {
		list, err = other.Health(t.Context())
	}
	if n := len(list[0].Receivers); n != hosts+1 || list[0].Failing(time.Now()) != 1 {
		t.Errorf("%d receivers are stored, of which %d fail; want %d and 1", n, list[0].Failing(time.Now()), hosts+1)
	}
}
