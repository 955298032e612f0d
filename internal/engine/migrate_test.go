package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/testkit"
)

// Producers of plain timers that go on as ever on the old side keep the new one from
// opening no longer than a pass or two: their timers come from the old side, or by the
// next run.
func TestAMigrationEndsThoughPlainTimersAreSetAllTheTime(t *testing.T) {
	t.Parallel()
	from, to, h := testkit.StartRedis(t), testkit.StartRedis(t), newGot(100_000)
	adopts := testRoute("r", "app1")
	adopts.Adopt = true
	a, b := start(t, from, h, nil, adopts), start(t, to, h, nil, adopts)
	<-a.Subscribed()
	<-b.Subscribed()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stop, n := make(chan struct{}), 0
	var producer sync.WaitGroup
	producer.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if err := from.Client().Set(ctx, fmt.Sprintf("app1:a:b:%d", n), "plain", time.Hour).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		producer.Wait()
	})
	defer end()
	eventually(t, "20 notices are pending", func() bool {
		return from.Client().ZCard(ctx, a.store.Space().Shadow(keys.Partition{Prefix: "app1"})).Val() >= 20
	})
	o := move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: from.Namespace(),
		MaxSkew: 50 * time.Millisecond, Wait: time.Second}
	done, err := move.Migrate(ctx, o)
	if err != nil || !done.Open || done.Moved == 0 || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	end()
	arrived := func() int64 {
		return to.Client().HLen(ctx, b.store.Space().Records(keys.Partition{Prefix: "app1"})).Val()
	}
	for arrived() < int64(n) {
		if done, err := move.Migrate(ctx, o); err != nil || done.MissingN > 0 {
			t.Fatalf("%d of %d have come: %+v, %v", arrived(), n, done, err)
		}
	}
	if left := from.Client().HLen(ctx, a.store.Space().Records(keys.Partition{Prefix: "app1"})).Val(); left != 0 {
		t.Errorf("%d are left", left)
	}
}
