package engine

import (
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A producer that set plain timers under a route without adoption waited for callbacks without any
// log message. A timer that remains of a cancelled notice is not reported.
func TestAPlainTimerWhereNobodyAdoptsIsToldOncePerPrefix(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	core, logs := logged.New(zap.WarnLevel)
	adopts := testRoute("adopts", "app2")
	adopts.Adopt = true
	w := start(t, srv, newSink(10), func(o *Options) { o.Logger = zap.New(core) }, testRoute("plain", "app1"), adopts,
		testRoute("own", "app3"))
	ctx := t.Context()
	if _, err := w.Schedule(ctx, store.Request{Key: "app3:m:t:1", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Cancel(ctx, "app3:m:t:1"); err != nil {
		t.Fatal(err)
	}
	w.unadopted.stale(w.o.Routes.Prefix("app3"), []string{"app3:m:t:1"})
	for _, key := range []string{"app2:m:t:1", "app1:m:t:1", "app1:m:t:2"} {
		if err := srv.Client().Set(ctx, key, `{"a":1}`, 20*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const line = "a plain timer expired under a route that does not adopt: nothing is delivered, and later ones of the route are not logged"
	eventually(t, line, func() bool {
		srv.Client().Exists(ctx, "app1:m:t:1", "app1:m:t:2") // as sweeps do: a touch sends the event
		return logs.FilterMessage(line).Len() > 0
	})
	w.until(t, "app2:m:t:1", notice.Delivered)
	w.unadopted.next["app1"] = time.Time{}
	w.unadopted.stale(w.o.Routes.Prefix("app1"), []string{"app1:m:t:2"})
	if n := len(w.unadopted.look); n != 0 {
		t.Error("it is looked up again although it was logged before")
	}
	if all := logs.FilterMessage(line).All(); len(all) != 1 || all[0].ContextMap()["route"] != "plain" {
		t.Errorf("%v", all)
	}
}
