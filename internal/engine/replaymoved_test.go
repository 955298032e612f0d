package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A replay that runs when notices begin to move to another Redis fails with the reason. So
// does one that was stopped before and is resumed on the other side, where its progress is
// not stored. While they move, none is made or resumed.
func TestMigrationEndsReplays(t *testing.T) {
	t.Parallel()
	from, to := testkit.StartRedis(t), testkit.StartRedis(t)
	url := "sqlite://" + t.TempDir() + "/history.db"
	s := newSink(1000)
	s.answer = func(*notice.Notice) notice.Result { return notice.DeliveredResult(200) }
	with := func(o *Options) { o.History = History{DB: openHistory(t, url), Backlog: 10000} }
	a := start(t, from, s, with, testRoute("r", "app1"))
	const n = 60
	a.put(t, n, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
	s.await(t, n)
	rowsOf(t, a.o.History.DB, history.Query{}, n)
	slowly := func(r *history.Replay) { r.Rate = 2 }
	stopped, running := a.replay(t, asked(slowly), false), a.replay(t, asked(slowly), false)
	for _, p := range []string{stopped.ID, running.ID} {
		eventually(t, "the replay has begun", func() bool {
			r := a.readReplay(t, p)
			return r.Counts[jobs.Sent]+r.Counts["pending"] > 0
		})
	}
	if ok, err := a.Replays().Stop(t.Context(), stopped.ID); err != nil || !ok {
		t.Fatal(ok, err)
	}

	// The new side delivers without a history until its identity is that of the old one.
	b := start(t, to, s, nil, testRoute("r", "app1"))
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
		Namespace: from.Namespace(), MaxSkew: time.Minute, Wait: time.Minute})
	if err != nil || !done.Open {
		t.Fatalf("%+v, %v", done, err)
	}
	if r := a.over(t, running.ID); r.State != history.ReplayFailed || !strings.Contains(r.Reason, "another Redis") {
		t.Errorf("%+v", r)
	}
	if _, err := a.Replays().Make(t.Context(), asked(nil), false); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("a replay is made on the side that was left: %v", err)
	}
	if _, err := a.Replays().Resume(t.Context(), stopped.ID); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("a replay is resumed on the side that was left: %v", err)
	}

	c := start(t, to, s, with, testRoute("r", "app1"))
	if ok, err := c.Replays().Resume(t.Context(), stopped.ID); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if r := c.over(t, stopped.ID); r.State != history.ReplayFailed || !strings.Contains(r.Reason, "another Redis") {
		t.Errorf("%+v", r)
	}
	p := c.replay(t, asked(nil), false)
	if r := c.over(t, p.ID); r.State != history.ReplayDone {
		t.Errorf("a replay that is made on the new side: %+v", r)
	}
}
