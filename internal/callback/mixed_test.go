package callback

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

const (
	ok200  = okEmpty
	say429 = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
	say500 = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
)

// mixture is a receiver that answers most requests in 20 ms. Shares of the requests are answered 429,
// answered 500, or hang for 3 s before the 500.
type mixture struct {
	mu                 sync.Mutex
	rnd                *rand.Rand
	busy, broken, hang float64
	limit              float64 // requests per second above which it answers 429; 0 = none
	tokens             float64 // left for the limit
	at                 time.Time
}

// exceeded reports whether a request is above the limit.
func (m *mixture) exceeded() bool {
	if m.limit == 0 {
		return false
	}
	now := time.Now()
	m.tokens = min(m.limit/20, m.tokens+m.limit*now.Sub(m.at).Seconds())
	m.at = now
	if m.tokens < 1 {
		return true
	}
	m.tokens--
	return false
}

func (m *mixture) draw() (wait time.Duration, answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait, answer = 20*time.Millisecond, ok200
	if m.exceeded() {
		return wait, say429
	}
	switch x := m.rnd.Float64(); {
	case x < m.busy:
		answer = say429
	case x < m.busy+m.broken:
		answer = say500
	case x < m.busy+m.broken+m.hang:
		wait, answer = 3*time.Second, say500
	}
	return wait, answer
}

// serve answers the requests of one connection.
func (m *mixture) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for in := bufio.NewReader(c); testkit.ReadRequest(in) == nil; {
		wait, answer := m.draw()
		time.Sleep(wait)
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// routeOf simulates a minute of a route with 64 slots and 300 notices per second for the receiver. Failed
// attempts are retried after 15 s. It returns how many notices were acknowledged, failed and were deferred,
// per second, in the second half of the minute.
func (m *mixture) routeOf(t *testing.T) (acknowledged, failed, postponed float64) {
	t.Helper()
	const slots, rate, settled, end = 64, 300, 30 * time.Second, 60 * time.Second
	h := New(Options{})
	var conns sync.WaitGroup
	h.dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		conns.Go(func() { m.serve(there) })
		return here, nil
	}
	r := fixedRoute("http://shop.test/")
	r.Timeout, r.Concurrency, r.HostConcurrency = 10*time.Second, slots, slots
	ctx, cancel := context.WithCancelCause(t.Context())
	free := make(chan struct{}, slots)
	var mu sync.Mutex
	counts := map[notice.Outcome]float64{}
	start := time.Now()
	var all sync.WaitGroup
	deliver := func() {
		for ctx.Err() == nil {
			free <- struct{}{}
			res := h.Handle(ctx, r, testNotice(""))
			<-free
			if since := time.Since(start); since > settled && since < end {
				mu.Lock()
				counts[res.Outcome]++
				mu.Unlock()
			}
			switch res.Outcome {
			case notice.OutcomeDelivered:
				return
			case notice.OutcomeDeferred:
				time.Sleep(res.After)
			default:
				time.Sleep(max(15*time.Second, res.After))
			}
		}
	}
	for range rate * int(end/time.Second) {
		all.Go(deliver)
		time.Sleep(time.Second / rate)
	}
	cancel(errors.New("the end"))
	all.Wait()
	h.Close()
	conns.Wait()
	seconds := (end - settled).Seconds()
	return counts[notice.OutcomeDelivered] / seconds, counts[notice.OutcomeRetry] / seconds, counts[notice.OutcomeDeferred] / seconds
}

// A receiver that answers 429 above 200 requests per second gets nearly that many, and few more.
func TestReceiverWithALimitGetsFewerCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mixture{rnd: rand.New(rand.NewPCG(1, 2)), limit: 200}
		acknowledged, failed, postponed := m.routeOf(t)
		t.Logf("%.0f acknowledged, %.0f failed, %.0f postponed a second", acknowledged, failed, postponed)
		if acknowledged < 180 || failed > 50 {
			t.Errorf("%.0f acknowledged and %.0f failed a second", acknowledged, failed)
		}
	})
}
