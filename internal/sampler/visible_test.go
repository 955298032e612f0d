package sampler

import (
	"context"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/holds"
	"notifier/internal/redirect"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// forecasts is an Engine that counts the calls of Forecast.
type forecasts struct {
	Engine
	n int
}

func (*forecasts) Instances(context.Context) ([]fleet.Instance, error) { return nil, nil }

func (*forecasts) Minutes(context.Context, string, time.Time) ([]fleet.Minute, string, error) {
	return nil, "", nil
}

func (*forecasts) Counts(context.Context) ([]store.Counts, []wire.Lost, error) {
	return []store.Counts{{Prefix: "app1", Pending: 1}}, nil, nil
}

func (f *forecasts) Forecast(context.Context, string, time.Duration, int) ([]int64, []wire.Lost, error) {
	f.n++
	return make([]int64, Spans), nil, nil
}

func (*forecasts) Shards() int { return 1 }

func (*forecasts) Ready(context.Context) Readiness { return Readiness{} }

func (*forecasts) Holds(context.Context) (*holds.Table, error) { return &holds.Table{}, nil }

func (*forecasts) HeldCounts(context.Context, []string) ([]map[string]int64, error) { return nil, nil }

func (*forecasts) Redirects(context.Context) ([]redirect.Redirect, error) { return nil, nil }

func (*forecasts) RouteChanges(context.Context) (map[string]audit.Change, error) { return nil, nil }

// The forecast is read only for the page that shows it, which then gets it at once.
func TestSamplerReadsTheForecastForNow(t *testing.T) {
	e := &forecasts{}
	s := New(Options{Engine: e, Routes: &route.Table{}, Now: time.Now})
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
