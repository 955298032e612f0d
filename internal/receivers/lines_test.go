package receivers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A receiver that answers 500 at once opens no breaker: the log had nothing of it until notices were dead.
func TestLogHasBeginAndEndOfFailingReceiver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures []int // seconds
		want     []string
	}{
		"one failure":            {[]int{1}, nil},
		"four at once":           {[]int{1, 1, 1, 1}, nil},
		"five at once":           {[]int{1, 1, 1, 1, 1, 1, 2}, []string{"receiver fails, retrying its notices", "receiver succeeds again"}},
		"two within ten seconds": {[]int{1, 10}, nil},
		"a retry fails too":      {[]int{1, 16}, []string{"receiver fails, retrying its notices", "receiver succeeds again"}},
	} {
		core, logs := observer.New(zapcore.WarnLevel)
		i := &instance{t, nil, NewTracker(), time.Now()}
		i.Logger = zap.New(core)
		i.answers("x:80", 0)
		i.fails("x:80", c.failures...)
		i.answers("x:80", 20, 21)
		var got []string
		for _, e := range logs.All() {
			got = append(got, e.Message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(got) == 0 {
			continue
		}
		begin, end := logs.All()[0].ContextMap(), logs.All()[1].ContextMap()
		if begin["prefix"] != prefix || begin["receiver"] != "x:80" || begin["reason"] != "status_5xx" || end["after"] != "19s" {
			t.Errorf("%s: %v, then %v", name, begin, end)
		}
	}
}

func TestLogOfReceiversIsLimited(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	i := &instance{t, nil, NewTracker(), time.Now()}
	i.Logger = zap.New(core)
	for _, second := range []int{0, 61} {
		for n := range 400 {
			i.fails(fmt.Sprintf("h%d-%d:443", second, n), second, second, second, second, second)
		}
		if n, all := logs.FilterMessage("receiver fails, retrying its notices").Len(), logs.Len(); n != mostLines || all != mostLines+1 {
			t.Errorf("at second %d: %d lines, of which %d name a receiver; want %d and %d", second, all, n, mostLines+1, mostLines)
		}
		logs.TakeAll()
	}
}
