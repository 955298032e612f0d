package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/redistest"
)

// An outage was told once by each part, in the words of that part, and never
// that it lasts, or that it is over.
func TestAnOutageIsToldAgainWhileItLastsAndItsEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	core, logs := logged.New(zap.InfoLevel)
	start(t, srv, newSink(1), func(o *Options) {
		o.Logger, o.OutageEvery = zap.New(core), 1500*time.Millisecond // for a minute
	}, testRoute("r", "app1"))
	srv.Pause()
	const begun, still = "Redis does not answer as it must: nothing is delivered and calls are refused until it does",
		"Redis still does not answer as it must: nothing is delivered and calls are refused"
	eventually(t, "told three times", func() bool {
		return logs.FilterMessage(begun).Len() == 1 && logs.FilterMessage(still).Len() >= 2
	})
	srv.Unpause()
	eventually(t, "its end", func() bool { return logs.FilterMessage("Redis answers again").Len() == 1 })
	for _, l := range logs.All() {
		if l.Level >= zap.WarnLevel {
			t.Log(l.Level, l.Message, l.ContextMap())
		}
	}
	first, last := logs.FilterMessage(begun).All()[0], logs.FilterMessage("Redis answers again").All()[0]
	if first.Level != zap.ErrorLevel || last.Level != zap.WarnLevel || last.ContextMap()["after"] == nil {
		t.Errorf("%v %v", first, last)
	}
	for _, l := range logs.FilterMessage(still).All() {
		if d, err := time.ParseDuration(fmt.Sprint(l.ContextMap()["for"])); err != nil || d < time.Second || l.ContextMap()["cause"] != "redis does not answer" {
			t.Errorf("%v", l.ContextMap())
		}
	}
}

// Where Redis refuses, too, the cause is told again, and the end once.
func TestAnOutageIsToldWhenItIsTime(t *testing.T) {
	t.Parallel()
	core, logs := logged.New(zap.InfoLevel)
	o := &outage{logger: zap.New(core), every: time.Hour}
	for range 3 {
		o.failed(context.DeadlineExceeded)
	}
	o.every = 0
	o.failed(context.DeadlineExceeded)
	o.over()
	o.over()
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines: %v", n, logs.All())
	}
}
