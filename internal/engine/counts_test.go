package engine

import (
	"context"
	"testing"
	"time"

	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Notices under a prefix that is no longer configured were missing in all numbers of the API, which
// has a field for them. The metrics leave them out.
func TestCountsShowPrefixesThatNoRouteHas(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	old := start(t, srv, newSink(1), nil, testRoute("old", "app2"), testRoute("empty", "app3"))
	if _, err := old.Schedule(context.Background(), store.Request{Key: "app2:a:b:1", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	old.stop()
	w := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	counts, _, err := w.Counts(context.Background())
	if err != nil || len(counts) != 2 || counts[0].Prefix != "app1" || counts[1].Prefix != "app2" || counts[1].Pending != 1 ||
		counts[1].NextDue.IsZero() {
		t.Errorf("%+v, %v", counts, err)
	}
	if g, err := w.Gauges(context.Background()); err != nil || len(g.Routes) != 1 || g.Routes[0].Route != "r" {
		t.Errorf("%+v, %v", g, err)
	}
}
