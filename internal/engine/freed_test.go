package engine

import (
	"context"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A notice is cancelled or replaced while its consumer has it. The consumer's report lets the next notice of the sequence start.
// Regression test: the next one waited until the time for the report had ended.
func TestReportOnACancelledNoticeFreesItsSequence(t *testing.T) {
	t.Parallel()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	cancel := func(ctx context.Context, w *world) error {
		_, err := w.Cancel(ctx, first)
		return err
	}
	replace := func(ctx context.Context, w *world) error {
		_, err := w.Schedule(ctx, store.Request{Key: first, Delay: time.Hour, OnDuplicate: store.Replace})
		return err
	}
	for name, x := range map[string]struct {
		retention time.Duration
		change    func(context.Context, *world) error
	}{"cancelled": {time.Hour, cancel}, "cancelled, without retention": {0, cancel}, "replaced": {time.Hour, replace}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, ctx := testkit.SharedRedis(t), t.Context()
			r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
			r.Timeout, r.Order = 10*time.Minute, route.OrderSkip
			w := start(t, srv, &queue.Handler{}, func(o *Options) { o.Retention = x.retention }, r)
			for _, k := range []string{first, second} {
				if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
					t.Fatal(err)
				}
			}
			e := pop(t, srv.Client(), "jobs")
			if e.Key != first {
				t.Fatalf("the first entry is %+v", e)
			}
			if err := x.change(ctx, w); err != nil {
				t.Fatal(err)
			}

			v := notice.Report{ID: e.ID, Attempt: e.Attempt + 1, Result: notice.Result{Outcome: notice.OutcomeDelivered}}
			report := func() {
				t.Helper()
				if c, err := w.Report(ctx, first, v); c.Done || (err != nil) != (x.retention == 0) {
					t.Errorf("%+v, %v", c, err)
				}
			}
			report() // on another attempt
			if q, err := testkit.ReadSequences(ctx, srv.Client(), w.store.Space().Base(0), r.Prefix); err != nil || len(q.Markers) != 1 {
				t.Errorf("after a report on another attempt the markers are %v, %v", q.Markers, err)
			}
			v.Attempt--
			report()
			if e := pop(t, srv.Client(), "jobs"); e.Key != second {
				t.Errorf("the second entry is %+v", e)
			}
		})
	}
}
