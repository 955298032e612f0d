package engine

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/wire"
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

func TestOutageNamesMaxclientsAndUnexpectedReplies(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"redis has reached maxclients (10)": &wire.ConnectError{Said: true, Most: 10},
		"may have reached maxclients":       &wire.ConnectError{Err: io.EOF},
		"unexpected replies":                wire.BadReply("probe", "%d answers", 0),
	} {
		if got := trouble(wire.Wrap("probe", err)); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
