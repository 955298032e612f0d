package engine

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/route"
	"notifier/internal/testkit"
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

// The sweepers of all routes fail when Redis restarts: the log has one line of it, and one of the recovery.
func TestRestartIsOneLineOfAllSweeps(t *testing.T) {
	t.Parallel()
	core, logs := logged.New(zap.InfoLevel)
	srv := testkit.StartRedis(t)
	var routes []*route.Route
	for i := range 31 {
		routes = append(routes, testRoute(fmt.Sprintf("r%d", i), fmt.Sprintf("app%d", i)))
	}
	w := start(t, srv, newSink(1), func(o *Options) { o.Logger = zap.New(core) }, routes...)
	eventually(t, "ready", func() bool { return w.Ready(t.Context()).Ready })

	srv.Kill()
	eventually(t, "a failed sweep", func() bool { return logs.FilterMessage("sweep failed, retrying").Len() > 0 })
	srv.Restart()
	eventually(t, "the recovery", func() bool { return logs.FilterMessage("sweeping again").Len() > 0 })
	failed, again := logs.FilterMessage("sweep failed, retrying").Len(), logs.FilterMessage("sweeping again").Len()
	if failed != 1 || again != 1 {
		t.Errorf("%d lines of failed sweeps and %d of recoveries, want one each", failed, again)
	}
}
