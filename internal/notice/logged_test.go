package notice

import (
	"strconv"
	"testing"
)

func TestLogAttempts(t *testing.T) {
	for _, bad := range []string{"", "none", "1", "1/", "1/0", "1/-3", "2/100", "1/1000001", "1/many"} {
		if _, err := ParseLogAttempts(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for setting, want := range map[string][2]int{"all": {10_000, 10_000}, "failed": {0, 0}, "1/1": {10_000, 10_000}, "1/100": {60, 140},
		"1/1000000": {0, 2}} {
		l, err := ParseLogAttempts(setting)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range 10_000 {
			one := &Notice{Key: "app1:trans:notice:" + strconv.Itoa(i), Made: Made(i) + leastMicros}
			if l.Includes(one, OutcomeDelivered) {
				n++
			}
			if l.Includes(one, OutcomeDelivered) != l.Includes(one, OutcomeHanded) {
				t.Fatalf("%s: handed and delivered differ", setting)
			}
			for _, failure := range []Outcome{OutcomeRetry, OutcomeDead, OutcomeDeferred} {
				if !l.Includes(one, failure) {
					t.Fatalf("%s leaves out %s", setting, failure)
				}
			}
		}
		if n < want[0] || n > want[1] {
			t.Errorf("%s: %d of 10,000 deliveries", setting, n)
		}
	}
}

func TestTraceID(t *testing.T) {
	c := Content{Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	if id := c.TraceID(); id != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Error(id)
	}
	if id := (&Content{}).TraceID(); id != "" {
		t.Error(id)
	}
}
