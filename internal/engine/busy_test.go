package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// A host with few slots is called without pauses by a real handler: each notice once, and its
// lateness is observed once, as busy. The times are those of virtual time in package dispatch;
// here they are only logged.
func TestBusyHostIsCalledWithoutPauses(t *testing.T) {
	t.Parallel()
	const slots, notices, took = 16, 160, 200 * time.Millisecond
	srv := redistest.Shared(t)
	var mu sync.Mutex
	came, last, all := map[string]int{}, time.Time{}, make(chan struct{})
	merchant := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(took) // sleep: the call takes as long
		mu.Lock()
		defer mu.Unlock()
		came[r.Header.Get("Notifier-Key")]++
		if last = time.Now(); len(came) == notices {
			select {
			case <-all:
			default:
				close(all)
			}
		}
	}))
	defer merchant.Close()
	h := callback.New(callback.Options{})
	defer h.Close()
	allow, err := route.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	r := &route.Route{Name: "shops", Prefix: "app1", Target: route.Target{Kind: route.KindNotice}, Ladder: notice.DefaultLadder,
		Timeout: 10 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, Concurrency: 64, HostConcurrency: slots, Allow: allow}
	table, err := route.NewTable([]*route.Route{r})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New(metrics.Options{Routes: table.All()})
	e := engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: table,
		Handler: h, Instance: t.Name(), Concurrency: 512, Grace: 50 * time.Millisecond,
		Retention: time.Minute, Retain: 1000, ConfigureRedis: true, Drain: 10 * time.Second, Metrics: m, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	select {
	case <-e.Subscribed():
	case <-time.After(30 * time.Second):
		t.Fatal("no subscription")
	}
	due := time.Now().Add(time.Second).Truncate(time.Millisecond)
	var reqs []store.Request
	for i := range notices {
		reqs = append(reqs, store.Request{Key: fmt.Sprintf("app1:pay:busy:%d", i), Due: due, Content: notice.Content{URL: merchant.URL}})
	}
	for _, x := range e.ScheduleMany(ctx, reqs) {
		if x.Err != nil || !x.Created {
			t.Fatalf("schedule: %+v", x)
		}
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Errorf("%d of %d notices came", len(came), notices)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	for key, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
	s := m.Stats("shops")
	t.Logf("%s of at least %s; %v; lateness p50 %s, p99 %s", last.Sub(due), notices/slots*took, s.Outcomes, s.LatenessP50, s.LatenessP99)
	if s.LatenessP99 < took {
		t.Errorf("lateness p99 %s: postponed notices are not observed from their promise", s.LatenessP99)
	}
}
