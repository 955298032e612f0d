package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Two instances deliver during two reshards. Scheduled notices and adopted timers are delivered
// once, with their bodies. Changes of those timers by producers are followed. In the end the old
// shards are empty.
func TestInstancesDeliverThroughAReshard(t *testing.T) {
	t.Parallel()
	srv, h := testkit.StartRedis(t), newGot(1000)
	adopts, plain := testRoute("r", "app1"), testRoute("s", "app2")
	adopts.Adopt = true
	a := start(t, srv, h, nil, adopts, plain)
	b := start(t, srv, h, nil, adopts, plain)
	<-a.Subscribed()
	<-b.Subscribed()
	const n = 40
	ctx, c := t.Context(), srv.Client()
	set := func(name string, value string, d time.Duration) {
		t.Helper()
		if err := c.Set(ctx, name, value, d).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		set(fmt.Sprintf("app1:a:b:%d", i), fmt.Sprint("body ", i), 4*time.Second)
		if _, err := a.Schedule(ctx, store.Request{Key: fmt.Sprintf("app2:a:b:%d", i), Delay: time.Duration(100*i) * time.Millisecond,
			Content: notice.Content{Body: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	set("app1:a:b:moved", "early", time.Hour)
	set("app1:a:b:gone", "never", time.Hour)
	adopted := func(key string) bool {
		f, err := b.Find(ctx, key)
		return err == nil && (f.Adopted || f.State == notice.Delivered)
	}
	eventually(t, "the timers are adopted", func() bool {
		return adopted("app1:a:b:0") && adopted(fmt.Sprintf("app1:a:b:%d", n-1)) && adopted("app1:a:b:moved") && adopted("app1:a:b:gone")
	})
	for _, to := range []int{5, 3} {
		done, err := move.Reshard(ctx, move.Options{Conn: a.o.Conn, Namespace: srv.Namespace(), To: to})
		if err != nil || !done.Changed || len(done.Silent) > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	set("app1:a:b:moved", "late", 2*time.Second) // its producer moves it, and changes it
	if err := c.Del(ctx, "app1:a:b:gone").Err(); err != nil {
		t.Fatal(err)
	}
	set("app1:a:b:new", "new", time.Second)
	if got := h.await(t, "app1:a:b:moved"); string(got.Body) != "late" {
		t.Errorf("%q", got.Body)
	}
	eventually(t, "all come", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.all) == 2*n+2
	})
	eventually(t, "a deleted timer is not cancelled", func() bool {
		f, err := b.Find(ctx, "app1:a:b:gone")
		return err == nil && f.State == notice.Cancelled
	})
	eventually(t, "a former shard holds something", func() bool {
		return len(a.store.Layout.OldShards()) == 0 && len(b.store.Layout.OldShards()) == 0
	})
	if now := a.store.Space(); now.Places() != 9 || now.First() != 6 || b.store.Space().Places() != 9 {
		t.Errorf("%+v", now.Now())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, list := range h.all {
		if len(list) != 1 {
			t.Errorf("%s came %d times", key, len(list))
		}
		if i, ok := strings.CutPrefix(key, "app1:a:b:"); ok && i != "moved" && i != "new" && string(list[0].Body) != "body "+i {
			t.Errorf("%s came with %q", key, list[0].Body)
		}
	}
	if f, err := a.Find(ctx, "app1:a:b:gone"); err != nil || f.State != notice.Cancelled {
		t.Errorf("%+v, %v", f, err)
	}
	var left int64
	for place := range 6 {
		for _, p := range []string{"app1", "app2"} {
			left += c.HLen(ctx, a.store.Space().Records(keys.Partition{Prefix: p, Shard: place})).Val()
		}
	}
	if left != 0 {
		t.Errorf("%d records in former shards", left)
	}
}
