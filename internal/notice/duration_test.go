package notice

import (
	"testing"
	"time"
)

func TestParseDurationTakesDaysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"7d": 7 * day, "30d": 30 * day, "2w": 14 * day, "1w1d": 8 * day, "1d12h": 36 * time.Hour,
		"1.5d": 36 * time.Hour, "0d": 0, "24h": day, "90": 90 * time.Second} {
		if d, err := ParseDuration(text); err != nil || d != want {
			t.Errorf("%q is %s, %v; want %s", text, d, err, want)
		}
	}

	for _, text := range []string{"-7d", "7d-1h", "7d+1h", "1d1w", "d", "7dd", "7d 1h", "999999999w", "400d99999h", "7 days", ""} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %s; want an error", text, d)
		}
	}
}

// Each schedule call with a delay reads one.
func TestParseDurationOfUsualUnitsAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseDuration("1h30m") }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
