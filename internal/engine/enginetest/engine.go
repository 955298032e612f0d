package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// Engine is the real engine of one instance, with faults that a test asks for. It may be used by many goroutines.
type Engine struct {
	*engine.Engine
	t     testing.TB
	table *route.Table
	redis *testkit.Redis
	conn  *wire.Conn
	space keys.Space
	taps  *tracing.Publisher

	mu      sync.Mutex
	fail    error
	ready   *fleet.Readiness
	missing []wire.Lost
	answer  string // of receivers
	changes int
	claims  int
	figures []byte
	others  []fleet.Instance
}

// startTimeout is how long an engine may take to be ready.
const startTimeout = 30 * time.Second

// New runs an engine on an empty database until the test ends.
func New(t testing.TB, table *route.Table) *Engine {
	t.Helper()
	srv := testkit.SharedRedis(t)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}

	e := &Engine{t: t, table: table, redis: srv, conn: conn, space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, answer: "ok",
		taps: tracing.NewPublisher(tracing.PublisherOptions{Logger: zap.NewNop()})}
	e.Engine = engine.New(engine.Options{Conn: conn, Space: e.space, Routes: table, Instance: "test", Grace: time.Hour, Limits: "fleet",
		Takeover: 3 * time.Second, Metrics: telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()}), Retention: time.Hour,
		Retain: 100_000, ConfigureRedis: true, Drain: time.Second, Taps: e.taps, Logger: zap.NewNop(), SealKeys: testkit.ServiceKeys(t, "test"),
		KeyAge: time.Millisecond})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}

		_ = conn.Close()
	})
	select {
	case <-e.Subscribed():
	case <-time.After(startTimeout):
		t.Fatalf("not ready: %+v", e.Engine.Ready(ctx))
	}

	return e
}

// SealText returns the sealed text of a notice's content, with the key of an audience.
func (e *Engine) SealText(audience, key string, c notice.Content) string {
	e.t.Helper()
	v := vault.New(testkit.ServiceKeys(e.t, "test"), wire.New(wire.Options{Client: e.conn.Commander, Space: e.space, Conn: e.conn}))
	if err := v.Seal(context.Background(), e.space.Shard(key), seal.AudienceSubject(audience), key, &c); err != nil {
		e.t.Fatal(err)
	}

	return c.Sealed
}

// Copied publishes a copy of an attempt for taps, and reports whether there is one for its key.
func (e *Engine) Copied(c *tracing.Copy) bool {
	if !e.taps.Wants(c.Key) || !e.taps.Take(c.Key) {
		return false
	}

	return e.taps.Publish(c)
}

// Use makes t the test that errors are reported to, for a fuzz target that shares the engine of its fuzz test.
func (e *Engine) Use(t testing.TB) { e.t = t }

// Fail makes every call fail with err until it is called with nil.
func (e *Engine) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

// Miss makes listings, numbers and changes of many notices report nodes of Redis as missing, until it is called without
// any. Nothing is left out.
func (e *Engine) Miss(nodes ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing = nil
	for i, n := range nodes {
		e.missing = append(e.missing, wire.Lost{Node: n, Shards: []int{i}, Err: wire.ErrUnavailable})
	}
}

// Answers sets the text of receivers' answers; it is ok at first.
func (e *Engine) Answers(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = text
}

// SetReady sets the result of Ready.
func (e *Engine) SetReady(r fleet.Readiness) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = &r
}

// Ready is the engine's readiness, or that of SetReady.
func (e *Engine) Ready(ctx context.Context) fleet.Readiness {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready != nil {
		return *e.ready
	}

	return e.Engine.Ready(ctx)
}

// Changes counts the writes that changed something.
func (e *Engine) Changes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes
}

// attempt makes a call unless it is to fail, and counts the writes in its result.
func attempt[T any](e *Engine, do func() (T, error), changed func(T) int) (T, error) {
	e.mu.Lock()
	err := e.fail
	e.mu.Unlock()
	if err != nil {
		var none T
		return none, err
	}

	v, err := do()
	if err == nil && changed != nil {
		e.mu.Lock()
		e.changes += changed(v)
		e.mu.Unlock()
	}

	return v, err
}

// turn is attempt for a call without a result, which counts as so many writes.
func (e *Engine) turn(writes int, do func() error) error {
	_, err := attempt(e, func() (int, error) { return writes, do() }, func(n int) int { return n })
	return err
}

// lost adds the nodes of Miss.
func (e *Engine) lost(missing []wire.Lost) []wire.Lost {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(missing, e.missing...)
}
