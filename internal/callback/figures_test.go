package callback

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHostsReturnsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // sleep: of the test's own clock
		l := testLimits(16, 0)
		must(t, l, "good:443").end(good, false)
		must(t, l, "good:443").end(refused, false)
		for range breakerFailures {
			p := must(t, l, "dead:443")
			time.Sleep(2 * time.Second) // sleep: of the test's own clock
			p.end(timeout, true)
		}
		held := must(t, l, "slow:443")
		by := map[string]HostState{}
		for _, s := range l.hostStates("app1") {
			by[s.Host] = s
		}
		if s := by["good:443"]; s.Calls != 2 || s.Failed != 1 || s.Breaker != "closed" || s.InFlight != 0 || s.Slots != 16 || s.Prefix != "app1" {
			t.Errorf("good: %+v", s)
		}
		if s := by["dead:443"]; s.Breaker != "open" || s.Failed != breakerFailures || s.Until.IsZero() || s.Mean < time.Second ||
			trouble(s) <= trouble(by["good:443"]) {
			t.Errorf("dead: %+v", s)
		}
		if s := by["slow:443"]; s.InFlight != 1 {
			t.Errorf("slow: %+v", s)
		}
		held.end(good, false)
		time.Sleep(3 * time.Minute) // sleep: of the test's own clock
		left := l.hostStates("app1")
		if len(left) != 1 || left[0].Host != "dead:443" || left[0].Calls != 0 {
			t.Errorf("three minutes later: %+v", left)
		}
	})
}
