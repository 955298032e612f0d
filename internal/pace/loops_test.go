package pace

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// severe is an error that is logged as one.
type severe struct{ error }

func (severe) Severe() {}

func TestGroupWarnsOnceForAllLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		var g Loops
		list := make([]*Loop, 31)
		for i := range list {
			list[i] = &Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "sweep failed, retrying", Recovered: "sweeping again", Group: &g}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := logged(logs); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		fail := func(seconds int) {
			for range seconds {
				for _, l := range list {
					l.Fail(errDown)
				}
				time.Sleep(time.Second) // sleep: virtual
			}
		}

		fail(30)
		expect("at the start", "warn sweep failed, retrying")
		fail(150)
		expect("within the next minutes", "warn sweep failed, retrying") // of those that failed after the first one
		for i, l := range list {
			if l.Succeed(); i < len(list)-1 {
				expect("before the last recovery")
			}
		}
		expect("after the last recovery", "info sweeping again")

		time.Sleep(groupEvery) // sleep: virtual
		fail(1)
		for _, l := range list {
			l.Succeed()
		}
		expect("the next time", "warn sweep failed, retrying", "info sweeping again")
		list[0].Fail(errDown)
		list[1].Fail(severe{errors.New("not of Redis")})
		list[2].Fail(severe{errors.New("not of Redis")})
		expect("within a minute after a warning", "error sweep failed, retrying")
	})
}

func TestGroupWarnsAgainOfLoopWithWarnEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		var g Loops
		for range 3 { // each settle has a Loop of its own
			l := &Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "settle failed, retrying", WarnEvery: groupEvery, Group: &g}
			for range 50 {
				l.Fail(errDown)
				time.Sleep(time.Second) // sleep: virtual
			}
			l.Succeed()
		}
		if n := logs.Len(); n != 3 {
			t.Errorf("%d lines in 150 s, want 3: %v", n, logged(logs))
		}
	})
}
