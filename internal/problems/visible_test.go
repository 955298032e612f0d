package problems

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// forecasts is an Engine that counts the calls of Forecast.
type forecasts struct {
	Engine
	n, routes int
	due       int64 // in the first minute, for each route
}

func (*forecasts) Instances(context.Context) ([]fleet.Instance, error) { return nil, nil }

func (*forecasts) Recorded(context.Context) ([]fleet.Recorded, error) { return nil, nil }

func (*forecasts) Minutes(context.Context, string, time.Time) ([]fleet.Minute, string, error) {
	return nil, "", nil
}

func (f *forecasts) Counts(context.Context) ([]store.Counts, []wire.Lost, error) {
	list := make([]store.Counts, max(f.routes, 1))
	for i := range list {
		list[i] = store.Counts{Prefix: fmt.Sprintf("app%d", i), Pending: 1}
	}
	return list, nil, nil
}

func (f *forecasts) Forecast(context.Context, string, time.Duration, int) ([]int64, []wire.Lost, error) {
	f.n++
	list := make([]int64, Spans)
	list[0] = f.due
	return list, nil, nil
}

func (*forecasts) Shards() int { return 1 }

func (*forecasts) Ready(context.Context) fleet.Readiness { return fleet.Readiness{} }

func (*forecasts) Holds(context.Context) (*receivers.HoldTable, error) {
	return &receivers.HoldTable{}, nil
}

func (*forecasts) HeldCounts(context.Context, []string) ([]map[string]int64, error) { return nil, nil }

func (*forecasts) Redirects(context.Context) ([]jobs.Job, error) { return nil, nil }

func (*forecasts) RouteChanges(context.Context) (map[string]audit.Change, error) { return nil, nil }

// The forecast is read only for the page that shows it, which then gets it at once.
func TestSamplerReadsTheForecastForNow(t *testing.T) {
	e := &forecasts{}
	s := NewSampler(SamplerOptions{Engine: e, Routes: &route.Table{}, Now: time.Now})
	_, leave := s.Watch("receivers")
	if s.Read(t.Context(), s.shows("now")); e.n != 0 {
		t.Errorf("%d forecasts for Receivers", e.n)
	}
	leave()
	_, leave = s.Watch("now")
	defer leave()
	if b := s.Read(t.Context(), s.shows("now")); e.n != 1 || b.ForecastAt.IsZero() {
		t.Errorf("%d forecasts for Now", e.n)
	}
	if s.Read(t.Context(), true); e.n != 1 {
		t.Errorf("%d forecasts of one sample", e.n)
	}
}

// Regression test: the forecast of 30 routes was 5 minutes old although each takes two commands as long as few notices are due.
func TestForecastOfManyRoutesIsFresh(t *testing.T) {
	for _, c := range []struct {
		due         int64
		least, most time.Duration
	}{{1000, 10 * time.Second, 30 * time.Second}, {1001, 5 * time.Minute, 5 * time.Minute}} {
		e := &forecasts{routes: 30, due: c.due}
		now := time.Now()
		s := &Sampler{engine: e, prefixes: 30, now: func() time.Time { return now }, watchers: map[chan *Board]string{}}
		s.Read(t.Context(), true)
		first := now
		for ; e.n == 30 && now.Before(first.Add(time.Hour)); now = now.Add(sampleEvery) {
			s.Read(t.Context(), true)
		}
		if age := now.Sub(first); age < c.least || age > c.most+2*sampleEvery || e.n != 60 {
			t.Errorf("%d due in each route: read again after %v", c.due, age)
		}
	}
}
