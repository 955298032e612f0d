package engine

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"
)

// The cause of an outage is logged again after each interval, and its end once.
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
