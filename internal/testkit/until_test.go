package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilAsksAgain(t *testing.T) {
	asked := 0
	Until(t, "asked three times", func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestWithinReportsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		if Within(time.Second, func() bool { asked++; return false }) {
			t.Error("a condition that never holds is reported as true")
		}
		if took := time.Since(begun); took < time.Second || took > 1010*time.Millisecond {
			t.Errorf("the limit of 1 s ended after %s", took)
		}
		if asked < 2 || !Within(0, func() bool { return true }) {
			t.Errorf("checked %d times", asked)
		}
	})
}
