package store

import (
	"strings"
	"testing"

	"notifier/internal/wire"
)

// Redis creates each function of a script anew at each call, which takes 0.1 µs. So the scripts that every notice passes have few
// more than before their rules stood in parts.
func TestScriptsHaveFewFunctions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script *wire.Script
		most   int // at layout 2 plus 5
	}{{scheduleScript, 38 + 5}, {claimScript, 41 + 5}, {sweepScript, 40 + 5}, {settleScript, 40 + 5}} {
		if n := strings.Count(c.script.Source(), "function "); n > c.most {
			t.Errorf("%s has %d functions, at most %d", c.script.Op, n, c.most)
		}
	}
}
