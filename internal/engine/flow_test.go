package engine

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
)

// holder holds back what Redis sends on connections that have subscribed.
type holder struct {
	mu   sync.Mutex
	held chan struct{} // closed by release; nil = nothing is held
}

func (h *holder) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = make(chan struct{})
}

func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.held)
	h.held = nil
}

func (h *holder) waits() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

func (h *holder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &heldConn{Conn: c, h: h, closed: make(chan struct{})}, nil
	}
}

func (h *holder) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *holder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type heldConn struct {
	net.Conn
	h      *holder
	is     bool
	mu     sync.Mutex
	once   sync.Once
	closed chan struct{}
}

func (c *heldConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nsubscribe\r\n")) {
		c.mu.Lock()
		c.is = true
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	is := c.is
	c.mu.Unlock()
	if held := c.h.waits(); is && held != nil {
		select {
		case <-held:
		case <-c.closed:
		}
	}
	return n, err
}

func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// claims reads how many claims each source has won.
type claims struct {
	e             *Engine
	events, swept float64 // read before
}

// take waits for n more claims and returns how many each source won. A claim is counted after its attempt has started.
func (c *claims) take(t *testing.T, n int) (event, sweep int) {
	t.Helper()
	var events, swept float64
	eventually(t, fmt.Sprintf("%d claims are counted", n), func() bool {
		events, swept = c.won()
		return events+swept-c.events-c.swept >= float64(n)
	})
	event, sweep = int(events-c.events), int(swept-c.swept)
	c.events, c.swept = events, swept
	return event, sweep
}

// won reads the counters.
func (c *claims) won() (events, swept float64) {
	m := samples(c.e)
	return m[`notifier_claims_total{result="won",source="event"}`], m[`notifier_claims_total{result="won",source="sweep"}`]
}

// samples returns an engine's metrics: the values by name and labels.
func samples(e *Engine) map[string]float64 {
	w := httptest.NewRecorder()
	e.o.Metrics.(*telemetry.Metrics).Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	m := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = f
		}
	}
	return m
}

// TestEventsTriggerClaims: while the subscription's bytes are held back, no notice is claimed
// before the grace, and the sweep claims all. Once the instance has detected that, it informs the
// others. When the bytes arrive again, events trigger claims. Redis expires nothing by itself here,
// so each event follows from a touch.
func TestEventsTriggerClaims(t *testing.T) {
	t.Parallel()
	const n, grace = 100, time.Second
	srv := testkit.StartRedis(t, testkit.WithConfig("enable-debug-command yes"))
	if err := srv.Client().Do(t.Context(), "DEBUG", "SET-ACTIVE-EXPIRE", "0").Err(); err != nil {
		t.Fatal(err)
	}
	h, proxy, r := newSink(16*n), &holder{}, testRoute("orders", "app1")
	r.Concurrency = 2 * n // what there is no room for is swept without a grace
	w := start(t, srv, h, func(o *Options) {
		o.Conn.AddHook(proxy)
		o.Grace = grace
	}, r)
	count := &claims{e: w.Engine}
	serial := 0
	send := func(known func()) (event, sweep int) {
		t.Helper()
		from := time.Now().Add(300 * time.Millisecond)
		w.put(t, n, func(i int) store.Request {
			serial++
			return store.Request{Key: fmt.Sprintf("app1:m:t:%d", serial), Due: from.Add(time.Duration(i) * 2 * time.Millisecond)}
		})
		known()
		h.await(t, n)
		eventually(t, "all settled", func() bool {
			c, _, err := w.store.Counts(t.Context(), []string{"app1"})
			return err == nil && c[0].Pending == 0
		})
		return count.take(t, n)
	}
	events := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("events: %t", want), func() bool {
			signs, err := signsOf(t, w)
			return w.events.Load() == want && err == nil && len(signs) == 1 && signs[0].NoEvents == !want
		})
	}

	if event, sweep := send(func() {}); event < n*99/100 {
		t.Errorf("events flow: %d claims by event, %d by sweep", event, sweep)
	}
	if event, sweep := send(proxy.hold); event != 0 || sweep != n {
		t.Errorf("held back: %d claims by event, %d by sweep", event, sweep)
	}
	h.mu.Lock()
	for i := range n {
		k := fmt.Sprintf("app1:m:t:%d", n+1+i)
		if late := h.got[k][0].Sub(h.due[k]); late < grace {
			t.Errorf("%s was claimed %s after its due time, within the grace", k, late)
		}
	}
	h.mu.Unlock()
	events(false)
	if event, sweep := send(func() {}); event != 0 || sweep != n {
		t.Errorf("noticed: %d claims by event, %d by sweep", event, sweep)
	}
	proxy.release()
	events(true)
	if event, sweep := send(func() {}); event < n*99/100 {
		t.Errorf("released: %d claims by event, %d by sweep", event, sweep)
	}
	h.once(t, 4*n)
}

// signsOf are the heartbeats of the fleet.
func signsOf(t *testing.T, w *world) ([]fleet.LastHeartbeat, error) {
	t.Helper()
	_, signs, err := fleet.NewStore(w.store.Layout).Heartbeats(t.Context())
	return signs, err
}

// TestNoticesWithoutEventsAreClaimedBySweep: a notice that is due at once has no timer, so no
// event triggers its claim. The same goes for one that is fired or redriven.
func TestNoticesWithoutEventsAreClaimedBySweep(t *testing.T) {
	t.Parallel()
	h := newSink(16)
	w := start(t, testkit.SharedRedis(t), h, nil, testRoute("orders", "app1"))
	count := &claims{e: w.Engine}
	if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:m:t:1"}); err != nil {
		t.Fatal(err)
	}
	h.await(t, 1)
	if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:m:t:2", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fire(t.Context(), "app1:m:t:2"); err != nil {
		t.Fatal(err)
	}
	h.await(t, 1)
	if event, sweep := count.take(t, 2); event != 0 || sweep != 2 {
		t.Errorf("%d claims by event, %d by sweep", event, sweep)
	}
}
