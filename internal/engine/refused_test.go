package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// Log and readiness say what Redis refuses and the remedy; once that is put
// right the engine begins by itself.
func TestWhatRedisRefusesIsNamed(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	ctx := context.Background()
	set := func(rules ...any) {
		t.Helper()
		if err := srv.Client().Do(ctx, append([]any{"ACL", "SETUSER", "service"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("on", ">another", "~*", "&*", "+@all")
	table, err := route.NewTable([]*route.Route{testRoute("r", "app1")})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: strings.Replace(srv.URL(), "redis://", "redis://service:secret@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := logged.New(zap.ErrorLevel)
	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table,
		Handler: newSink(1), Instance: "i", Concurrency: 8, ConfigureRedis: true, Logger: zap.New(core)})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = conn.Close()
	})
	told := func(kind error) {
		t.Helper()
		eventually(t, kind.Error(), func() bool {
			r := e.Ready(ctx)
			found := false
			for _, l := range logs.All() {
				err, _ := l.ContextMap()["error"].(string)
				found = found || strings.Contains(err, kind.Error())
			}
			return found && !r.Ready && strings.Contains(strings.Join(r.Reasons, "; "), kind.Error())
		})
		if _, err := e.Schedule(ctx, store.Request{Key: key(1)}); !errors.Is(err, kind) {
			t.Errorf("%v, want %v", err, kind)
		}
	}
	told(wire.ErrLogin)
	set(">secret", "-@all", "+ping", "+hello", "+auth")
	told(wire.ErrRights)
	set("+@all")
	eventually(t, "ready", func() bool { return e.Ready(ctx).Ready })
}
