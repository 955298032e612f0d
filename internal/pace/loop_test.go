package pace

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var errDown = errors.New("down")

func TestLoopDoublesItsDelayUpToMax(t *testing.T) {
	shorter := false
	for range 100 {
		l := Loop{Min: 20 * time.Millisecond, Max: 100 * time.Millisecond}
		for i, want := range []time.Duration{20, 40, 80, 100, 100} {
			want *= time.Millisecond
			d := l.Fail(errDown)
			if d < want*3/4 || d > want {
				t.Fatalf("failure %d: delay %s, want %s to %s", i+1, d, want*3/4, want)
			}
			shorter = shorter || d < want*9/10
		}

		l.Succeed()
		if d := l.Fail(errDown); d > 20*time.Millisecond {
			t.Fatalf("delay %s after a success, want at most Min", d)
		}
	}
	if !shorter {
		t.Error("no delay in 500 was shorter by more than a tenth: there is no jitter")
	}
}

func TestWaitTakesTheDelayOrEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Min: time.Second, Max: time.Minute}
		from := time.Now()
		if !l.Wait(t.Context(), errDown) {
			t.Error("false although the context lives")
		}
		if took := time.Since(from); took < time.Second*3/4 || took > time.Second {
			t.Errorf("waited %s, want 0.75 to 1 s", took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		from = time.Now()
		if l.Wait(ctx, errDown) || time.Since(from) != time.Millisecond {
			t.Errorf("did not end with the context: %s", time.Since(from))
		}

		core, logs := observer.New(zapcore.DebugLevel)
		l = &Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "f"}
		if l.Wait(ctx, errDown) || l.Failing() || logs.Len() != 0 {
			t.Errorf("noted a failure after the context's end: failing %v, log %v", l.Failing(), logged(logs))
		}
	})
}

// logged returns the levels and messages of a log since the last call.
func logged(logs *observer.ObservedLogs) (out []string) {
	for _, e := range logs.TakeAll() {
		out = append(out, e.Level.String()+" "+e.Message)
	}
	return out
}

func TestLoopLogsTheFirstFailureAndTheRecovery(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	l := Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "read failed, retrying", Recovered: "reading again"}
	l.Succeed()
	for range 3 {
		l.Fail(errDown, zap.String("node", "a"))
	}
	l.Hurry()
	l.Fail(errDown)
	l.Succeed()
	l.Succeed()
	l.Fail(errDown)

	want := []string{"warn read failed, retrying", "info reading again", "warn read failed, retrying"}
	got := logs.All()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(got), len(want), logged(logs))
	}
	if fields := got[0].ContextMap(); fields["node"] != "a" || fields["error"] != "down" {
		t.Errorf("fields %v", fields)
	}
	for i, line := range logged(logs) {
		if line != want[i] {
			t.Errorf("line %d: %q, want %q", i+1, line, want[i])
		}
	}
}

func TestLoopBoundsItsWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		l := Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "write failed, retrying", WarnEvery: time.Minute}
		for range 150 {
			l.Fail(errDown)
			time.Sleep(time.Second) // sleep: virtual
		}
		if n := logs.Len(); n != 3 {
			t.Errorf("%d warnings in 150 s, want 3", n)
		}

		logs.TakeAll()
		for range 150 {
			l.Succeed()
			l.Fail(errDown)
			time.Sleep(time.Second) // sleep: virtual
		}
		if n := logs.Len(); n != 2 {
			t.Errorf("%d warnings in 150 s of failures and successes, want 2: the last was 30 s before", n)
		}
	})
}

func TestSilentFailuresHaveNoLoggedRecovery(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	l := Loop{Min: 1, Max: 1, Logger: zap.New(core), Failure: "f", Recovered: "r"}
	if l.Next(); !l.Failing() {
		t.Error("not failing after a failure")
	}
	if l.Succeed(); l.Failing() || logs.Len() != 0 {
		t.Errorf("failing %v, logged %v", l.Failing(), logged(logs))
	}
}

func TestLoopHasConcurrentUsers(t *testing.T) {
	l := Loop{Min: time.Millisecond, Max: time.Hour, Logger: zap.NewNop(), Failure: "f"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { l.Fail(errDown) })
	}
	wg.Wait()
	if d := l.Next(); d < 192*time.Millisecond {
		t.Errorf("delay %s after 8 failures", d)
	}
}

func TestDoubled(t *testing.T) {
	for n, want := range []time.Duration{3, 6, 12, 20, 20} {
		if d := doubled(3, n, 20); d != want {
			t.Errorf("%d times: %d, want %d", n, d, want)
		}
	}
	if d := doubled(time.Hour, math.MaxInt, 30*time.Minute); d != 30*time.Minute {
		t.Errorf("least above most: %s", d)
	}
	if d := doubled(time.Second, 1000, math.MaxInt64); d != math.MaxInt64 {
		t.Errorf("overflow: %s", d)
	}
}
