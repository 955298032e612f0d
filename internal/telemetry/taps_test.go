package telemetry

import (
	"strings"
	"testing"
)

func TestTapsAndTheirCopiesAreCounted(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{})
	m.ObserveTaps(func() int { return 3 })
	m.Copied("published", 2)
	m.Copied("unheard of", 1)
	m.Copied("slow", 0)
	page := scrape(t, m)
	for _, want := range []string{"notifier_taps 3", `notifier_tap_copies_total{result="published"} 2`, `notifier_tap_copies_total{result="other"} 1`} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(page, `result="slow"`) {
		t.Error("no copy makes a series")
	}
}
