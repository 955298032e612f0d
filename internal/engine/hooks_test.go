package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// hookLog is a handler that refuses the notices of app1, and records the calls of the hook's route.
type hookLog struct {
	mu   sync.Mutex
	hold chan struct{} // an attempt of app1 lasts until it is closed; nil = no time
	got  []map[string]any
	ids  map[string]int
}

func (l *hookLog) Handle(_ context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if r.Name != "alarms" {
		if l.hold != nil {
			<-l.hold
		}
		return notice.DeadResult(notice.ReasonGone, "gone")
	}
	var body map[string]any
	if err := json.Unmarshal(n.Body, &body); err != nil {
		return notice.DeadResult(notice.ReasonGone, err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[string]int{}
	}
	l.ids[n.Key]++
	l.got = append(l.got, body)
	return notice.DeliveredResult(200)
}

// await waits until the deaths of n notices have reached the hook, and fails if one came twice.
func (l *hookLog) await(t *testing.T, n int) {
	t.Helper()
	testkit.Await(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if have := len(l.ids); have < n {
			return fmt.Errorf("%d deaths reached the hook, want %d", have, n)
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := map[any]int{}
	for _, body := range l.got {
		keys[body["key"]]++
	}
	if len(l.got) != n || len(l.ids) != n || len(keys) != n {
		t.Errorf("%d calls with %d ids about %d notices, want %d", len(l.got), len(l.ids), len(keys), n)
	}
}

func hooked() []*route.Route {
	orders, alarms := testRoute("orders", "app1"), testRoute("alarms", "ops:x")
	orders.OnDead = alarms
	return []*route.Route{orders, alarms}
}

// An entry stays in its outbox although its notice was scheduled, as after a kill between the two steps.
func TestDeathIsSentOnceAfterAKill(t *testing.T) {
	t.Parallel()
	srv, l := testkit.SharedRedis(t), &hookLog{}
	a := start(t, srv, l, nil, hooked()...)
	const n = 50
	var texts []any
	for i := range n {
		texts = append(texts, fmt.Sprintf(`%d %016x-1 ops:x {"key":"k%d"}`, time.Now().UnixMicro(), i, i))
	}
	for range 2 {
		if err := srv.Client().RPush(t.Context(), a.store.Space().Deaths(0), texts...).Err(); err != nil {
			t.Fatal(err)
		}
		a.emptied(t)
		l.await(t, n)
		start(t, srv, l, nil, hooked()...)
	}
}

// emptied waits until all outboxes of hooks are empty.
func (w *world) emptied(t *testing.T) {
	t.Helper()
	testkit.Await(t, func() error {
		left := int64(0)
		for shard := range w.store.Space().Places() {
			n, err := w.store.DeathsWaiting(t.Context(), shard)
			if err != nil {
				return err
			}
			left += n
		}
		if left > 0 {
			return fmt.Errorf("%d deaths are left", left)
		}
		return nil
	})
}

func TestDeadLettersReachTheHook(t *testing.T) {
	t.Parallel()
	srv, l := testkit.SharedRedis(t), &hookLog{}
	a := start(t, srv, l, nil, hooked()...)
	start(t, srv, l, nil, hooked()...)
	start(t, srv, l, nil, hooked()...)
	const n = 200
	a.put(t, n, func(i int) store.Request { return store.Request{Key: key(i)} })
	l.await(t, n)
	a.emptied(t)
	l.await(t, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	body := l.got[0]
	if body["route"] != "orders" || body["reason"] != "gone" || body["attempts_made"] != 1.0 || body["body_base64"] != nil ||
		body["settled_at"] == "" ||
		body["last_attempt"].(map[string]any)["response"] != "gone" {
		t.Errorf("%v", body)
	}
	for id := range l.ids {
		if !strings.HasPrefix(id, "ops:x:dead:") {
			t.Errorf("key %s", id)
		}
	}
}

// A notice that is in flight during a reshard dies in its old shard.
func TestDeathInOldShardReachesTheHook(t *testing.T) {
	t.Parallel()
	srv, l := testkit.StartRedis(t), &hookLog{hold: make(chan struct{})}
	a := start(t, srv, l, nil, hooked()...)
	const n = 10
	a.put(t, n, func(i int) store.Request { return store.Request{Key: key(i)} })
	a.until(t, key(0), notice.Claimed)
	done, err := move.Reshard(t.Context(), move.Options{Conn: a.o.Conn, Namespace: srv.Namespace(), To: 3})
	if err != nil || !done.Changed {
		t.Fatalf("%+v, %v", done, err)
	}
	close(l.hold)
	l.await(t, n)
	a.emptied(t)
	l.await(t, n)
}

// downLog is a handler that refuses the notices of app1 until the receiver answers, and records the calls of the hook's route.
type downLog struct {
	hookLog
	answers atomic.Bool
}

func (l *downLog) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	switch {
	case r.Name == "alarms":
		return l.hookLog.Handle(ctx, r, n)
	case l.answers.Load():
		result := notice.DeliveredResult(200)
		result.Host = "shop.example:443"
		return result
	}
	result := notice.DeadResult(notice.ReasonStatus5xx, "down")
	result.Host = "shop.example:443"
	return result
}

func (l *downLog) told() (events []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range l.got {
		if event, ok := body["event"].(string); ok {
			events = append(events, event)
		}
	}
	return events
}

func TestHookLearnsOnceThatReceiverIsDownAndUp(t *testing.T) {
	t.Parallel()
	srv, l := testkit.SharedRedis(t), &downLog{}
	routes := func() []*route.Route {
		list := hooked()
		list[0].OnDown = time.Millisecond
		return list
	}
	a := start(t, srv, l, nil, routes()...)
	b := start(t, srv, l, nil, routes()...)
	b.put(t, 1, func(int) store.Request { return store.Request{Key: key(1)} })
	eventually(t, "the hook learns that the receiver is down", func() bool { return slices.Equal(l.told(), []string{"down"}) })
	a.stop()
	l.answers.Store(true)
	b.put(t, 1, func(int) store.Request { return store.Request{Key: key(2)} })
	eventually(t, "the hook learns that the receiver answers", func() bool { return slices.Equal(l.told(), []string{"down", "up"}) })
	b.stop()

	c := start(t, srv, l, nil, routes()...)
	eventually(t, "no outage is left", func() bool {
		list, _, err := c.receivers.store().Outages(t.Context(), "app1")
		return err == nil && len(list) == 0
	})
	if events := l.told(); !slices.Equal(events, []string{"down", "up"}) {
		t.Errorf("events %q, want one down and one up", events)
	}
}
