package telemetry

import (
	"testing"
	"time"

	"notifier/internal/notice"
)

// A shortage that has just begun is not 0: the alert reads any value.
func TestShortagesAreCollected(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	m.ObserveShortages(func() map[notice.Shortage]time.Time {
		return map[notice.Shortage]time.Time{notice.ShortPorts: time.Now().Add(-time.Hour), notice.ShortMemory: time.Now()}
	})
	all, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[notice.Shortage]float64{}
	for _, f := range all {
		if f.GetName() != "notifier_local_shortage_seconds" {
			continue
		}
		for _, s := range f.GetMetric() {
			got[notice.Shortage(s.GetLabel()[0].GetValue())] = s.GetGauge().GetValue()
		}
	}
	if len(got) != 2 || got[notice.ShortPorts] < 3600 || got[notice.ShortPorts] > 7200 || got[notice.ShortMemory] < 1 {
		t.Errorf("%v", got)
	}
}
