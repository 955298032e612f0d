package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Another program writes a value of another type to one of a route's keys. That route stops, all
// others in the same shard continue, and the route continues when the value is gone.
func TestAWrongTypeUnderOneRoutesKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	space, p := keys.Space{Shards: 1}, keys.Partition{Prefix: "app1"}
	for name, key := range map[string]func(keys.Space) string{
		"shadow":  func(s keys.Space) string { return s.Shadow(p) },
		"records": func(s keys.Space) string { return s.Records(p) },
		"dead":    func(s keys.Space) string { return s.Dead(p) },
		"settled": func(s keys.Space) string { return s.Settled(p) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testkit.StartRedis(t)
			g := newGot(1000)
			w := start(t, srv, g, func(o *Options) { o.Logger = zap.NewNop() }, testRoute("r", "app1"), testRoute("other", "app2"))
			ctx, c := context.Background(), srv.Client()
			space := space
			space.Namespace = srv.Namespace()
			if _, err := w.Schedule(ctx, store.Request{Key: "app1:a:b:before", Delay: time.Second}); err != nil {
				t.Fatal(err)
			}
			const kept = "kept aside"
			moved := c.Rename(ctx, key(space), kept).Err() == nil
			if err := c.Set(ctx, key(space), "a stranger's", 0).Err(); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				other := fmt.Sprintf("app2:a:b:%d", i)
				if _, err := w.Schedule(ctx, store.Request{Key: other, Delay: time.Duration(i*100) * time.Millisecond}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 20 {
				f := w.until(t, fmt.Sprintf("app2:a:b:%d", i), notice.Delivered)
				if late := f.Attempts[0].At.Sub(f.Due); late > 5*time.Second { // the grace, on a loaded machine
					t.Errorf("another route's notice was delivered %s late", late)
				}
			}
			if err := c.Del(ctx, key(space)).Err(); err != nil {
				t.Fatal(err)
			}
			if moved {
				if err := c.Rename(ctx, kept, key(space)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			w.until(t, "app1:a:b:before", notice.Delivered)
		})
	}
}
