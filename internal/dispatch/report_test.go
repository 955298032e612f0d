package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// fakeReports is a ReportStore with one notice.
type fakeReports struct {
	f       store.Found
	looks   int
	onLook  func(d *fakeReports)
	settle  func(d *fakeReports) error // before a settle
	settled func() error               // after a settle
	ended   []store.Settlement
}

func (d *fakeReports) Find(context.Context, string) (store.Found, error) {
	d.looks++
	if d.onLook != nil {
		d.onLook(d)
	}
	n := *d.f.Notice
	return store.Found{Notice: &n, State: d.f.State}, nil
}

func (d *fakeReports) Settle(_ context.Context, _ keys.Partition, list []store.Settlement) ([]store.Settled, error) {
	if d.settle != nil {
		if err := d.settle(d); err != nil {
			return nil, err
		}
	}
	if d.f.State != notice.Claimed || !d.f.AwaitsReport || d.f.Made != list[0].Claim.Made {
		return []store.Settled{{Stale: true}}, nil
	}
	d.write(list[0])
	if d.settled != nil {
		return []store.Settled{{}}, d.settled()
	}
	return []store.Settled{{}}, nil
}

func (d *fakeReports) Reopen(context.Context, store.Found, store.Settlement) (store.Change, error) {
	return store.Change{}, errors.New("not delivered")
}

func (d *fakeReports) FreeReported(context.Context, string, string, string, int) error { return nil }

func (d *fakeReports) write(t store.Settlement) {
	d.f.Notice, d.ended = t.Claim.Notice, append(d.ended, t)
	d.f.State = map[store.Ending]notice.State{store.EndDelivered: notice.Delivered, store.EndDead: notice.Dead,
		store.EndRetry: notice.Scheduled, store.EndDeferred: notice.Scheduled}[t.Ending]
}

func reportRoute() *route.Route {
	r := testRoute("p", 4)
	r.Target.Kind, r.Ack.Kind = route.KindList, route.AckReport
	return r
}

// handed returns a store whose notice is handed to its consumer.
func handed() *fakeReports {
	n := &notice.Notice{Key: "p:m:t:1", Route: "p", Made: 1, AwaitsReport: true}
	n.Add(notice.Attempt{Number: 1})
	return &fakeReports{f: store.Found{Notice: n, State: notice.Claimed}}
}

func (d *fakeReports) reports(o *counts) *Reports {
	return &Reports{Store: d, Notices: d, Observer: o, Logger: zap.NewNop()}
}

// In a cluster an entry is pushed before its settle. Regression test: a fast consumer's report was
// refused for good.
func TestReportWaitsForTheSettleOfItsPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := handed()
		v := notice.Report{ID: d.f.ID(), Attempt: 1, Result: notice.Result{Outcome: notice.OutcomeDelivered}}
		pushed := d.f
		d.f.Notice = &notice.Notice{Key: pushed.Key, Route: "p", Made: pushed.Made}
		d.onLook = func(d *fakeReports) {
			if d.looks == 3 {
				d.f = pushed
			}
		}
		p := d.reports(newCounts())
		p.Ahead = true
		if c, err := p.Take(t.Context(), reportRoute(), pushed.Key, v); err != nil || !c.Done || c.State != notice.Delivered {
			t.Errorf("%+v, %v", c, err)
		}
		// The push is never settled: the consumer may retry its report.
		d.f, d.onLook = store.Found{Notice: &notice.Notice{Key: pushed.Key, Route: "p", Made: pushed.Made}, State: notice.Claimed}, nil
		if c, err := p.Take(t.Context(), reportRoute(), pushed.Key, v); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%+v, %v, want ErrUnavailable", c, err)
		}
		p.Ahead = false
		if c, err := p.Take(t.Context(), reportRoute(), pushed.Key, v); err != nil || c.Done || c.Repeated || c.Before != notice.Claimed {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// A notice may be replaced between its read and the write; the answer then shows the new notice.
func TestReportReadsAgainAfterAConcurrentChange(t *testing.T) {
	d := handed()
	v := notice.Report{ID: d.f.ID(), Attempt: 1, Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}}
	d.settle = func(d *fakeReports) error {
		n := *d.f.Notice
		n.Made++
		d.f.Notice = &n
		return nil
	}
	c, err := d.reports(newCounts()).Take(t.Context(), reportRoute(), d.f.Key, v)
	if err != nil || c.Done || c.Repeated || c.ID() == v.ID || len(d.ended) != 0 {
		t.Errorf("%+v, %v, %d settled", c, err, len(d.ended))
	}
}

// A write whose reply is lost counts once and is not a failure.
func TestReportWithALostReplyCountsOnce(t *testing.T) {
	d := handed()
	v := notice.Report{ID: d.f.ID(), Attempt: 1, Result: notice.Result{Outcome: notice.OutcomeDead, Reason: notice.ReasonRejected}}
	lost := true
	d.settled = func() error {
		if lost {
			return errUnanswered
		}
		return nil
	}
	o := newCounts()
	p := d.reports(o)
	if c, err := p.Take(t.Context(), reportRoute(), d.f.Key, v); err != nil || !c.Done || c.State != notice.Dead {
		t.Errorf("%+v, %v", c, err)
	}
	lost = false
	if c, err := p.Take(t.Context(), reportRoute(), d.f.Key, v); err != nil || c.Done || !c.Repeated {
		t.Errorf("again: %+v, %v", c, err)
	}
	if o.attempts[notice.OutcomeDead] != 1 || len(d.ended) != 1 {
		t.Errorf("%v, %d settled", o.attempts, len(d.ended))
	}
	// Nothing was written: that is an error and counts as nothing.
	d, o = handed(), newCounts()
	d.settle = func(*fakeReports) error { return errDown }
	if c, err := d.reports(o).Take(t.Context(), reportRoute(), d.f.Key, v); !errors.Is(err, errDown) || len(o.attempts) != 0 {
		t.Errorf("%+v, %v, %v", c, err, o.attempts)
	}
}
