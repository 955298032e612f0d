package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// handleFunc is a dispatch.Handler.
type handleFunc func(n *notice.Notice) notice.Result

func (f handleFunc) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	return f(n)
}

// Notices that the machine's shortages defer use no attempt, with and without order, and are delivered when the shortage is
// over. Until then the instance is degraded and not urgent.
func TestShortageOfMachineDegrades(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	var calls atomic.Int64
	h := handleFunc(func(*notice.Notice) notice.Result {
		if calls.Add(1); over.Load() {
			return notice.DeliveredResult(200)
		}
		return notice.LocalResult(notice.ShortResolver, "no resolver")
	})
	ordered := testRoute("o", "app2")
	ordered.Order = route.OrderSkip
	w := start(t, testkit.StartRedis(t), h, nil, testRoute("r", "app1"), ordered)
	all := []string{key(1), "app2:a:b:1~1", "app2:a:b:1~2"}
	for _, k := range all {
		if _, err := w.Schedule(t.Context(), store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "deferrals", func() bool { return calls.Load() >= 4 }) // each notice that is not parked, twice
	r := w.Ready(t.Context())
	if !r.Ready || len(r.Degraded) != 1 || r.Degraded[0].Urgent || !strings.Contains(r.Degraded[0].Reason, "(resolver)") ||
		!strings.Contains(r.Degraded[0].Reason, "/etc/resolv.conf") {
		t.Errorf("%+v", r)
	}
	if since := w.ShortSince(); len(since) != 1 || time.Since(since[notice.ShortResolver]) > time.Minute {
		t.Errorf("%v", since)
	}
	f, err := w.Find(t.Context(), key(1))
	if err != nil || f.AttemptsMade != 0 || f.State == notice.Scheduled && f.HeldLocal(time.Now()) == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	over.Store(true)
	for _, k := range all {
		eventually(t, k, func() bool {
			f, err := w.Find(t.Context(), k)
			return err == nil && f.State == notice.Delivered && f.AttemptsMade == 1
		})
	}
}
