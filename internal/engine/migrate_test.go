package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Two sides deliver while everything moves from one to the other: what was scheduled, and
// plain timers that were adopted, come once each, with their bodies, from either side; a
// timer that its producer sets anew on the old side after it has moved takes the place of
// the one that has; and a producer on the new side moves and deletes those that came.
func TestBothSidesDeliverThroughAMigration(t *testing.T) {
	t.Parallel()
	from, to, h := redistest.Start(t), redistest.Start(t), newGot(1000)
	adopts, plain := testRoute("r", "app1"), testRoute("s", "app2")
	adopts.Adopt = true
	a := start(t, from, h, nil, adopts, plain)
	b := start(t, to, h, nil, adopts, plain)
	<-a.Subscribed()
	<-b.Subscribed()
	const n = 40
	ctx, old, fresh := t.Context(), from.Client(), to.Client()
	set := func(name string, value string, d time.Duration) {
		t.Helper()
		if err := old.Set(ctx, name, value, d).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		set(fmt.Sprintf("app1:a:b:%d", i), fmt.Sprint("body ", i), 6*time.Second)
		if _, err := a.Schedule(ctx, store.Request{Key: fmt.Sprintf("app2:a:b:%d", i), Delay: time.Duration(200*i) * time.Millisecond, Content: notice.Content{Body: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"again", "moved", "gone"} {
		set("app1:a:b:"+name, "first", time.Hour)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) { // sleep: the step of a poll that has a deadline
			if time.Now().After(until) {
				t.Fatal(what)
			}
		}
	}
	adopted := func(e *world, key string) bool {
		f, err := e.Find(ctx, key)
		return err == nil && f.Adopted
	}
	await("the timers are not adopted", func() bool {
		return adopted(a, "app1:a:b:0") && adopted(a, fmt.Sprintf("app1:a:b:%d", n-1)) && adopted(a, "app1:a:b:gone") && adopted(a, "app1:a:b:moved")
	})
	migrate := func() move.Migrated {
		t.Helper()
		done, err := move.Migrate(ctx, move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: from.Namespace(),
			MaxSkew: 50 * time.Millisecond, Wait: time.Minute, Say: func(text string) { t.Log(text) }, OnMoved: func(int, int64) {}})
		if err != nil || !done.Open || done.MissingN > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		return done
	}
	if done := migrate(); done.Claimed+done.Reported+done.Soon > 0 {
		t.Errorf("%+v", done)
	}
	if _, err := a.Cancel(ctx, "app1:a:b:gone"); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("the old side cancels what has moved: %v", err)
	}
	if body := fresh.Get(ctx, "app1:a:b:moved").Val(); body != "first" || !adopted(b, "app1:a:b:moved") {
		t.Errorf("the timer has %q", body)
	}
	set("app1:a:b:again", "second", time.Hour) // on the old side still
	await("the timer set anew is not adopted", func() bool { return adopted(a, "app1:a:b:again") })
	if done := migrate(); done.Moved != 1 {
		t.Errorf("%+v", done)
	}
	if f, err := b.Find(ctx, "app1:a:b:again"); err != nil || string(f.Body) != "second" || fresh.Get(ctx, "app1:a:b:again").Val() != "second" {
		t.Errorf("%+v, %v", f, err)
	}
	if err := fresh.Del(ctx, "app1:a:b:gone").Err(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Set(ctx, "app1:a:b:moved", "late", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if got := h.await(t, "app1:a:b:moved"); string(got.Body) != "late" {
		t.Errorf("%q", got.Body)
	}
	await("not all came", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.all) == 2*n+1
	})
	await("what was deleted is not cancelled", func() bool {
		f, err := b.Find(ctx, "app1:a:b:gone")
		return err == nil && f.State == notice.Cancelled
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range n {
		list := h.all[fmt.Sprintf("app1:a:b:%d", i)]
		if len(list) != 1 || string(list[0].Body) != fmt.Sprint("body ", i) {
			t.Errorf("%d: %d times, %v", i, len(list), list)
		}
		if list := h.all[fmt.Sprintf("app2:a:b:%d", i)]; len(list) != 1 {
			t.Errorf("app2 %d came %d times", i, len(list))
		}
	}
	for _, prefix := range []string{"app1", "app2"} {
		if left := old.HLen(ctx, a.store.Space().Records(keys.Partition{Prefix: prefix})).Val(); left != 0 {
			t.Errorf("%d records of %s are on the old side", left, prefix)
		}
	}
}

// Producers of plain timers that go on as ever on the old side keep the new one from
// opening no longer than a pass or two: their timers come from the old side, or by the
// next run.
func TestAMigrationEndsThoughPlainTimersAreSetAllTheTime(t *testing.T) {
	t.Parallel()
	from, to, h := redistest.Start(t), redistest.Start(t), newGot(100_000)
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
	for from.Client().ZCard(ctx, a.store.Space().Shadow(keys.Partition{Prefix: "app1"})).Val() < 20 {
		time.Sleep(time.Millisecond) // sleep: the step of a poll that ends with the test
	}
	o := move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: from.Namespace(),
		MaxSkew: 50 * time.Millisecond, Wait: time.Second, Say: func(text string) { t.Log(text) }, OnMoved: func(int, int64) {}}
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
