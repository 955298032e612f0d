package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"
)

// A lost description is published with the next heartbeat, and not half a minute later.
func TestLostDescriptionIsPublishedAgain(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.heartbeats, n.described = map[string]LastHeartbeat{}, map[string]string{} })
		time.Sleep(1500 * time.Millisecond) // sleep: virtual
		n.do(func() {
			if len(n.described) != 3 {
				t.Errorf("%d of 3 have a description", len(n.described))
			}
		})
		nobodyGone(t, ps)
	})
}

// The clock of a machine is compared with Redis's.
func TestClockAheadIsMeasured(t *testing.T) {
	plays(t, 1, func(t *testing.T, n *node, ps []*player) {
		for _, offset := range []time.Duration{0, time.Hour, -3 * time.Second} {
			n.do(func() { n.offset = offset })
			time.Sleep(1500 * time.Millisecond) // sleep: virtual
			if got := ps[0].ClockAhead(); (got + offset).Abs() > 10*time.Millisecond {
				t.Errorf("%s ahead of a clock that is %s ahead", got, offset)
			}
		}
	})
}

// A heartbeat that finds Redis's clock set logs the size of the step once. A slow drift is no step.
func TestStepOfRedisClockIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := logobserver.New(zap.WarnLevel)
		n := newNode()
		p := play(t, n, func(o *Options) { o.Logger = zap.New(core) })
		<-p.Joined()
		for _, step := range []time.Duration{0, -2 * time.Minute, 2 * time.Minute, 100 * time.Millisecond} {
			n.do(func() { n.offset += step })
			time.Sleep(5 * time.Second) // sleep: virtual
			got := logs.FilterMessageSnippet("Redis's clock was set").TakeAll()
			if want := step.Abs() >= clockStep; len(got) > 1 || (len(got) == 1) != want {
				t.Errorf("step of %s: %v", step, got)
			} else if want && (got[0].ContextMap()["step"].(time.Duration)-step).Abs() > 20*time.Millisecond {
				t.Errorf("step of %s: %v", step, got[0].ContextMap())
			}
			logs.TakeAll()
		}
		p.end()
		<-p.done
	})
}
