package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// A worker that was declared dead by others ends its handlers. Their notices are handled again, by any worker.
func TestHandlerLearnsThatItsLeaseIsLost(t *testing.T) {
	srv := testkit.SharedRedis(t)
	began, cause := make(chan struct{}), make(chan error, 1)
	again := newHandled()
	var calls atomic.Int32
	w := newWorker(t, srv)
	w.Handle("app:t:t", func(ctx context.Context, n *Notice) error {
		if calls.Add(1) > 1 {
			return again.notice(ctx, n)
		}

		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return errors.New("too late")
	}, Timeout(10*time.Minute))
	start(t, w)
	if _, err := w.Schedule(t.Context(), Request{Key: "app:t:t:1"}); err != nil {
		t.Fatal(err)
	}

	<-began
	other := newWorker(t, srv)
	other.Handle("app:t:t", again.notice, Timeout(10*time.Minute))
	start(t, other)

	// As the script depart does it for an instance without connections: a heartbeat between the commands would undo it.
	c, space, id := srv.Client(), w.engine.Store().Space(), w.engine.Self()
	now := float64(c.Time(t.Context()).Val().UnixMilli())
	if _, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.ZRem(t.Context(), space.FleetSigns(), id)
		p.ZAdd(t.Context(), space.FleetEnded(), redis.Z{Score: now, Member: id})
		p.Publish(t.Context(), space.FleetChannel(c.Options().DB), "gone "+id)
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	if err := <-cause; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("%v, want ErrLeaseLost", err)
	}

	again.want(t, 1)
	r := ended(t, other, "app:t:t:1", "delivered")
	if strings.Contains(r.Response, "too late") {
		t.Errorf("%+v has the result of the handler whose lease was lost", r)
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestHandlerThatIgnoresItsContextIsCountedAndRefused(t *testing.T) {
	srv := testkit.SharedRedis(t)
	var log lockedBuffer
	w, err := New(Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}

	var calls atomic.Int32
	free := make(chan struct{})
	w.Handle("app:t:t", func(context.Context, *Notice) error {
		calls.Add(1)
		<-free
		return Dead(errors.New("too late"))
	}, Timeout(20*time.Millisecond), Concurrency(2))
	start(t, w)
	for _, k := range keysOf("app:t:t", 3) {
		if _, err := w.Schedule(t.Context(), Request{Key: k}); err != nil {
			t.Fatal(err)
		}
	}

	want := func(s Stats) {
		t.Helper()
		testkit.Await(t, func() error {
			if got := w.Stats(); got != s {
				return fmt.Errorf("%+v, want %+v", got, s)
			}
			return nil
		})
	}
	want(Stats{Running: 2, Overrunning: 2, Overran: 2})
	if n := calls.Load(); n != 2 {
		t.Errorf("%d handlers began; the two that ignore their contexts keep both slots", n)
	}

	// When the leases have ended, another worker handles all three notices.
	byOther := newHandled()
	other := newWorker(t, srv)
	other.Handle("app:t:t", byOther.notice)
	start(t, other)
	byOther.want(t, 3)
	for _, k := range keysOf("app:t:t", 3) {
		ended(t, other, k, "delivered")
	}

	close(free)
	want(Stats{Overran: 2})
	for _, k := range keysOf("app:t:t", 3) {
		if r, err := other.Find(t.Context(), k); err != nil || r.State != "delivered" {
			t.Errorf("%+v, %v: the late result was not refused", r, err)
		}
	}

	if n := strings.Count(log.String(), "ignores the end of its context"); n != 1 {
		t.Errorf("%d lines in less than a minute, want 1:\n%s", n, log.String())
	}
}
