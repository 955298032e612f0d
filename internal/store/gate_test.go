package store

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// lateArrival imports a notice before the first check of its mark.
type lateArrival struct {
	once   bool
	arrive func()
}

func (a *lateArrival) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *lateArrival) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *lateArrival) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hexists" && !a.once {
			a.once = true
			a.arrive()
		}
		return next(ctx, cmd)
	}
}

// A notice may arrive from the other side of a migration after a call without a route has searched it under all prefixes, and
// before the call checks its mark.
func TestAmendFindsNoticeThatArrives(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:0", Delay: time.Hour})
	if _, err := s.Layout.SetSide(t.Context(), Side{}, Side{State: SideOpened, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	mark := s.space.Elsewhere(0)
	if err := s.c.HSet(t.Context(), mark, key, "?").Err(); err != nil {
		t.Fatal(err)
	}
	by := on(t, srv.URL(), srv.Namespace())
	s.c.AddHook(&lateArrival{arrive: func() {
		if err := by.c.HDel(t.Context(), mark, key).Err(); err != nil {
			t.Error(err)
		}
		by.put(t, Request{Key: key, Delay: time.Hour})
	}})
	if c, err := s.Amend(t.Context(), "", key, Cancel, When{}); err != nil || !c.Done {
		t.Errorf("%+v, %v; want it cancelled", c, err)
	}
	if got := by.state(t, key); got != notice.Cancelled {
		t.Errorf("its state is %q", got)
	}
}
