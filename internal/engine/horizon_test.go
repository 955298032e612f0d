package engine

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Regression test: the latest due time was counted from the clock of this machine, which may differ from that of Redis.
func TestLatestDueTimeIsCountedFromRedisClock(t *testing.T) {
	t.Parallel()
	table, err := route.NewTable([]*route.Route{testRoute("orders", "app1")})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: "redis://127.0.0.1:1"}) // it is never called
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = conn.Close() }()
	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table, Handler: newSink(1),
		Logger: zap.NewNop()})
	from := time.Now()
	due := from.Add(notice.MaxHorizon + 24*time.Hour)
	wrong := func() (out []string) {
		for _, f := range e.Check(&store.Request{Key: "app1:orders:paid:1", Due: due}) {
			out = append(out, f.Field)
		}
		if _, err := e.Reschedule(t.Context(), "app1:orders:paid:1", due, 0); err != nil && strings.HasPrefix(err.Error(), "due: ") {
			out = append(out, "reschedule")
		}
		return out
	}
	if got := strings.Join(wrong(), " "); got != "due reschedule" {
		t.Errorf("a due time a day too late: errors of %q", got)
	}

	e.store.Wire().Clock.Learn(from.Add(48*time.Hour), from, from)
	if got := wrong(); len(got) > 0 {
		t.Errorf("two days later by the clock of Redis: errors of %q", got)
	}
}
