package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// teamLog is the address of a team. It refuses the first messages.
type teamLog struct {
	mu      sync.Mutex
	refuses int
	bodies  []string
	calls   int
}

func (l *teamLog) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.calls <= l.refuses {
		return notice.RetryResult(notice.ReasonAckMismatch, `{"errcode":310000}`)
	}
	l.bodies = append(l.bodies, string(n.Body))
	return notice.DeliveredResult(200)
}

func testAlarms(t *testing.T, l *teamLog) *alarms {
	t.Helper()
	r := testRoute("alarm", "alarm")
	r.Robot = route.NewRobot(route.AlarmJSON, nil, "")
	return newAlarms(&Options{AlarmRoute: r, Handler: l, Instance: "a", Logger: zaptest.NewLogger(t)})
}

func TestAlarmIsSentOnceForEachCause(t *testing.T) {
	l := &teamLog{refuses: 2}
	a, at := testAlarms(t, l), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	look := func(after time.Duration, full string) {
		a.look(at.Add(after), full)
		a.send(t.Context(), at.Add(after))
	}
	a.failed(at, "redis does not answer")
	look(14*time.Second, "")
	a.over()
	look(15*time.Second, "") // shorter than a failover
	a.failed(at, "redis does not answer")
	look(16*time.Second, "")
	look(17*time.Second, "") // refused: waits
	look(50*time.Second, "")
	if l.calls != 2 || len(l.bodies) > 0 {
		t.Fatalf("%d calls, %q", l.calls, l.bodies)
	}
	look(90*time.Second, "Redis is full")
	look(91*time.Second, "Redis is full")
	a.over()
	a.dataLost("lost 7 notices")
	look(92*time.Second, "")
	look(93*time.Second, "")
	want := []string{
		`{"event":"redis_unavailable","instance":"a","since":"2026-11-29T12:00:00Z","text":"redis does not answer"}`,
		`{"event":"redis_full","instance":"a","since":"2026-11-29T12:01:30Z","text":"Redis is full"}`,
		`{"event":"data_lost","instance":"a","since":"2026-11-29T12:01:32Z","text":"lost 7 notices"}`,
		`{"event":"redis_full_over","instance":"a"}`, `{"event":"redis_unavailable_over","instance":"a"}`}
	if !slices.Equal(l.bodies, want) {
		t.Errorf("%q, want\n%q", l.bodies, want)
	}
}

// A message that is never acknowledged holds up others for an hour at most.
func TestRefusedAlarmIsGivenUp(t *testing.T) {
	l := &teamLog{refuses: 1 << 30}
	a, at := testAlarms(t, l), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		a.dataLost(fmt.Sprint(i))
	}
	a.look(at, "")
	for after := time.Duration(0); after <= 61*time.Minute; after += 31 * time.Second {
		a.send(t.Context(), at.Add(after))
	}
	if len(a.waiting) > 0 || l.calls > 130 {
		t.Errorf("%d messages wait after %d calls", len(a.waiting), l.calls)
	}
	var none *alarms
	none.failed(at, "x")
	none.dataLost("x")
	none.start(nil)()
}

// Redis is unavailable from the start.
func TestAlarmNeedsNoRedis(t *testing.T) {
	l := &teamLog{}
	a := testAlarms(t, l)
	a.every, a.after = time.Millisecond, 0
	a.failed(time.Now(), "redis does not answer")
	stop := a.start(func() string { return "" })
	eventually(t, "the message is sent", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.bodies) == 1
	})
	stop()
}
