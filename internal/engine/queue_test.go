package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func queueRoute(name, prefix string, target route.Target, ack route.AckKind) *route.Route {
	r := testRoute(name, prefix)
	r.Target, r.Ack = target, route.Ack{Kind: ack}
	return r
}

// entry is an entry of a list.
type entry struct {
	ID, Key string
	Attempt int
	Due     time.Time
	Body    json.RawMessage
}

// pop takes one entry from a list.
func pop(t *testing.T, c *redis.Client, list string) entry {
	t.Helper()
	v, err := c.BLPop(context.Background(), 30*time.Second, list).Result()
	if err != nil {
		t.Fatalf("nothing came to the list %s: %v", list, err)
	}
	var e entry
	if err := json.Unmarshal([]byte(v[1]), &e); err != nil {
		t.Fatalf("%s: %v", v[1], err)
	}
	return e
}

func TestListAndStreamTakeNotices(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, nil,
		queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.Ack2xx),
		queueRoute("s", "app2", route.Target{Kind: route.KindStream, Key: "events", MaxLen: 100}, route.Ack2xx))
	ctx := context.Background()
	at := time.Now().Add(100 * time.Millisecond)
	var due []time.Time // later than at if the call was
	for _, k := range []string{"app1:a:b:1", "app2:a:b:1"} {
		out, err := w.Schedule(ctx, store.Request{Key: k, Due: at, Content: notice.Content{Body: []byte(`{"a": 1}`)}})
		if err != nil {
			t.Fatal(err)
		}
		due = append(due, out.Due)
	}
	e := pop(t, srv.Client(), "jobs")
	f := w.until(t, "app1:a:b:1", notice.Delivered)
	if e.Key != f.Key || e.ID != f.ID() || e.Attempt != 1 || !e.Due.Equal(due[0]) || string(e.Body) != `{"a": 1}` {
		t.Errorf("%+v", e)
	}
	f = w.until(t, "app2:a:b:1", notice.Delivered)
	got, err := srv.Client().XRange(ctx, "events", "-", "+").Result()
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	v := got[0].Values
	if v["key"] != f.Key || v["id"] != f.ID() || v["attempt"] != "1" || v["body"] != `{"a": 1}` || v["content_type"] != "application/json" {
		t.Errorf("%v", v)
	}
	w.put(t, 1500, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app2:a:many:%d", i)} })
	for i := range 1500 {
		w.until(t, fmt.Sprintf("app2:a:many:%d", i), notice.Delivered)
	}
	// Trimmed by whole nodes, of 100 entries each.
	if n := srv.Client().XLen(ctx, "events").Val(); n < 100 || n > 300 {
		t.Errorf("the stream holds %d entries, want about 100", n)
	}
}

func TestAnEntryThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := start(t, srv, &queue.Handler{}, nil,
		queueRoute("bad", "app1:bad", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport),
		queueRoute("dead", "app1:dead", route.Target{Kind: route.KindStream, Key: "jobs"}, route.Ack2xx))
	ctx := context.Background()
	if err := srv.Client().Set(ctx, "jobs", "somebody else's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{"bad", "dead"} {
		k := "app1:" + route + ":x:1"
		if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		f := w.until(t, k, notice.Dead)
		if f.AttemptsMade != 3 || f.AwaitsReport || f.Reason != notice.ReasonQueue || len(f.Attempts) != 3 {
			t.Fatalf("%s: %+v", route, f.Notice)
		}
		for _, a := range f.Attempts {
			if a.Reason != notice.ReasonQueue || a.Response == "" {
				t.Errorf("%s: %+v", route, a)
			}
		}
	}
	if err := srv.Client().Del(ctx, "jobs").Err(); err != nil {
		t.Fatal(err)
	}
	if c, err := w.Redrive(ctx, "app1:bad:x:1", notice.Expiry{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if e := pop(t, srv.Client(), "jobs"); e.Attempt != 4 {
		t.Errorf("%+v", e)
	}
}
