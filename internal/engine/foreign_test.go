package engine

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A notice whose name is a key of another program is delivered by a sweep. The key stays, and the log names the route once.
func TestNoticesBesideKeysOfOtherProgramsAreDelivered(t *testing.T) {
	t.Parallel()
	const n = 20
	core, lines := observer.New(zap.WarnLevel)
	s, srv := newSink(n), testkit.SharedRedis(t)
	w := start(t, srv, s, func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
	ctx, c := context.Background(), srv.Client()
	for i := range n {
		if err := c.HSet(ctx, key(i), "paid", i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w.put(t, n, func(i int) store.Request { return store.Request{Key: key(i), Delay: time.Second} })
	s.await(t, n)
	for i := range n {
		w.until(t, key(i), notice.Delivered)
		if c.HGet(ctx, key(i), "paid").Val() == "" {
			t.Errorf("the hash %s was changed", key(i))
		}
	}
	w.stop()
	s.once(t, n)
	found := lines.FilterMessageSnippet("other programs have keys with the names of notices").All()
	if len(found) != 1 || found[0].ContextMap()["route"] != "r" {
		t.Errorf("%d lines: %v", len(found), found)
	}
}
