package adopt

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/route"
	"notifier/internal/store"
)

// A late event of a notice that has just ended is no new timer; one that comes
// long after it is.
func TestAnExpiredTimerUnderAnEndedNoticesName(t *testing.T) {
	srv := redistest.Shared(t)
	ctx, c := t.Context(), srv.Client()
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	s := store.New(store.Options{Client: c, Space: space, Retention: 24 * time.Hour, Retain: 1000})
	table, err := route.NewTable([]*route.Route{{Name: "r", Prefix: "app1", Adopt: true}})
	if err != nil {
		t.Fatal(err)
	}
	adopted, lost := 0, 0
	a := New(Options{Store: s, Routes: table, Space: space, MaxBody: 1 << 10, OnAdopted: func(_ string, n int) { adopted += n },
		OnBodyLost: func(_ string, n int) { lost += n }, Logger: zaptest.NewLogger(t)})
	r := table.All()[0]
	put := func(key string) {
		t.Helper()
		if _, err := s.Schedule(ctx, keys.Partition{Prefix: "app1"}, []store.Request{{Key: key, Delay: time.Hour, Content: notice.Content{Body: []byte("first")}}}); err != nil {
			t.Fatal(err)
		}
	}
	end := func(key string, ago time.Duration) {
		t.Helper()
		if _, err := s.Amend(ctx, "app1", key, store.Cancel, store.When{}); err != nil {
			t.Fatal(err)
		}
		at := float64(time.Now().Add(-ago).UnixMilli()) + .5
		if err := c.ZAddXX(ctx, space.Settled(keys.Partition{Prefix: "app1"}), redis.Z{Score: at, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]notice.State{}
	for key, ago := range map[string]time.Duration{"app1:a:b:long": time.Hour, "app1:a:b:just": time.Minute} {
		put(key)
		end(key, ago)
		want[key] = notice.Cancelled
	}
	put("app1:a:b:pending")
	want["app1:a:b:pending"], want["app1:a:b:long"], want["app1:a:b:new"] = notice.Scheduled, notice.Scheduled, notice.Scheduled
	for key := range want {
		a.Event(r, key, "expired")
		a.Event(r, key, "expired")
	}
	if err := a.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for key, state := range want {
		f, err := s.Find(ctx, "app1", key)
		isLost := key == "app1:a:b:long" || key == "app1:a:b:new"
		if err != nil || f.State != state || f.Lost != isLost || (len(f.Body) == 0) != isLost {
			t.Errorf("%s: %+v, %v; want it %s, lost %v", key, f, err, state, isLost)
		}
	}
	if adopted != 2 || lost != 2 {
		t.Errorf("%d adopted, %d lost; want 2 and 2", adopted, lost)
	}
}
