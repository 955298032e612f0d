package testkit

import "testing"

func TestUntilAsksAgain(t *testing.T) {
	asked := 0
	Until(t, "asked three times", func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}
