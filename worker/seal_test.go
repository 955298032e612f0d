package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// scheduleSealed lets an instance of the service, which then ends, store a sealed notice.
func scheduleSealed(t *testing.T, srv *testkit.Redis, k *seal.ServiceKeys, key string) {
	t.Helper()
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	table, err := route.NewTable([]*route.Route{{Name: "r", Prefix: closing, Target: route.Target{Kind: route.KindLog}, Seal: seal.PerRoute,
		Ladder: notice.DefaultLadder, Timeout: time.Second, Concurrency: 16}})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace()}, Routes: table, Handler: newHandled(),
		Instance: "s", Version: "v1", Concurrency: 64,
		Grace: grace, Retention: time.Hour, Retain: retain, ConfigureRedis: true, Takeover: takeover,
		Drain: time.Second, SealKeys: k, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	<-e.Subscribed()
	r, err := e.Schedule(t.Context(), store.Request{Key: key, Delay: time.Second, Content: notice.Content{Body: []byte(`{"card":1}`)}})
	if err != nil || r.Sealed == "" {
		t.Errorf("%+v, %v", r, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A notice that the service sealed before a worker took the prefix over.
func TestWorkerOpensSealedNoticesWithItsKeys(t *testing.T) {
	srv := testkit.SharedRedis(t)
	serviceKeys := testkit.SealKeys("k")
	const key = closing + ":1"
	scheduleSealed(t, srv, testkit.ServiceKeys(t, "k"), key)
	for name, value := range map[string]string{"REDIS_URL": srv.URL(), "NAMESPACE": srv.Namespace(), "SEAL_KEYS": serviceKeys,
		"SHUTDOWN_TIMEOUT": "1s"} {
		t.Setenv("NOTIFIER_"+name, value)
	}
	fromEnv, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}

	for name, o := range map[string]Options{"option": {Redis: srv.URL(), Namespace: srv.Namespace(), SealKeys: serviceKeys,
		ShutdownTimeout: time.Second}, "environment": fromEnv} {
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		bodies := make(chan string, 1)
		w.Handle(closing, func(_ context.Context, n *Notice) error {
			select {
			case bodies <- string(n.Body):
			default:
			}
			return Defer(10 * time.Millisecond)
		})
		stop := start(t, w)
		if got := <-bodies; got != `{"card":1}` {
			t.Errorf("%s: the handler got %s", name, got)
		}
		stop()
		_ = w.Close(t.Context())
	}
}

func TestWrongSealKeysAreNotShown(t *testing.T) {
	_, err := New(Options{SealKeys: "k=c2VjcmV0"})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Options.SealKeys: (not shown)") || strings.Contains(err.Error(), "c2Vj") {
		t.Error(err)
	}
}
