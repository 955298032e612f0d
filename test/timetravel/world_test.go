package timetravel

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"notifier/internal/embedded"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/telemetry"
	"notifier/internal/wire"
)

// standard is the ladder that a route has unless it says otherwise.
var standard = notice.Ladder{15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

// attempt is one call of the handler, at instants of Redis's clock.
type attempt struct {
	n          int
	due        time.Time
	began      time.Time
	ended      time.Time
	instance   string
	begunAlone time.Time // by the bubble's clock, which never leaps
}

// peak is what Redis's clock said before it leapt back.
type peak struct{ at, clock time.Time }

// world is an emulated Redis and the instances on it.
type world struct {
	em        *embedded.Emulation
	redis     *redis.Client // the test's own
	retention time.Duration
	takeover  time.Duration
	shards    int
	calls     atomic.Int64 // commands and pipelines that the instances sent
	made      int          // instances so far
	running   []*instance  // not stopped or killed
	// answer decides an attempt and how long it takes.
	answer func(key string, n int) (time.Duration, notice.Result)

	mu     sync.Mutex
	offset time.Duration
	peaks  []peak
	log    map[string][]attempt
}

// epoch is what Redis's clock says at the beginning. The bubble's begins in the
// year 2000 and stays 26 years behind: nothing may depend on the two being alike.
var epoch = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// slots is more than all notices need at once: a claim call holds slots until it is answered.
const slots = 2 * perJourney

// probeEnds is longer than the pause between two probes of a client's pool. After PoolSize failed dials, a pool begins to
// probe, and its goroutine ends only after the pause in which the client was closed.
const probeEnds = 2 * time.Second

// travel runs f in a bubble.
func travel(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		em, err := embedded.NewEmulation()
		if err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(probeEnds) // sleep: virtual; a goroutine that outlives the bubble is a deadlock
		defer em.Close()
		own := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return em.Dial() },
			MaxRetries: -1, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
		defer func() { _ = own.Close() }()
		w := &world{em: em, redis: own, retention: 24 * time.Hour, takeover: 3 * time.Second, shards: 1, log: map[string][]attempt{},
			answer: func(string, int) (time.Duration, notice.Result) { return 0, notice.DeliveredResult(200) }}
		w.leap(time.Until(epoch))
		f(t, w)
	})
}

var (
	space     = keys.Space{Namespace: "notifier", Shards: 1}
	partition = keys.Partition{Prefix: "pay"}
)

// now is the time by Redis's clock.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

func (w *world) leap(d time.Duration) {
	w.mu.Lock()
	if d < 0 {
		w.peaks = append(w.peaks, peak{at: time.Now(), clock: time.Now().Add(w.offset)})
	}
	w.offset += d
	w.mu.Unlock()
	w.em.Leap(d)
}

// attempts of a notice so far.
func (w *world) attempts(key string) []attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]attempt(nil), w.log[key]...)
}

// instance is one engine.
type instance struct {
	*engine.Engine
	name    string
	metrics *telemetry.Metrics
	wire    *cable
	conn    *wire.Conn
	end     context.CancelFunc
	done    chan error
}

// sent counts the round trips of a client.
type sent struct{ n *atomic.Int64 }

func (s sent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmd)
	}
}

func (s sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmds)
	}
}

type handler struct {
	w    *world
	name string
}

func (h handler) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	a := attempt{n: n.NextAttempt(), due: n.Due, began: h.w.now(), begunAlone: time.Now(), instance: h.name}
	takes, result := h.w.answer(n.Key, a.n)
	time.Sleep(takes)
	a.ended = h.w.now()
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.log[n.Key] = append(h.w.log[n.Key], a)
	return result
}

// start runs an instance and waits for its subscription.
func (w *world) start(t *testing.T) *instance {
	t.Helper()
	w.made++
	i := &instance{name: fmt.Sprint("i", w.made), wire: newWire(w.em), done: make(chan error, 1)}
	i.conn = &wire.Conn{Commander: i.wire.client()}
	i.conn.AddHook(sent{&w.calls})
	table, err := route.NewTable([]*route.Route{{Name: "r", Prefix: partition.Prefix, Target: route.Target{Kind: route.KindLog},
		Ladder:  standard,
		Timeout: 10 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, Concurrency: slots, HostConcurrency: 16}})
	if err != nil {
		t.Fatal(err)
	}
	i.metrics = telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()})
	i.Engine = engine.New(engine.Options{Conn: i.conn, Space: keys.Space{Namespace: space.Namespace, Shards: w.shards}, Routes: table,
		Handler: handler{w, i.name}, Instance: i.name, Concurrency: slots,
		Grace: 50 * time.Millisecond, Metrics: i.metrics, Retention: w.retention, Retain: 100000,
		ConfigureRedis: true, Takeover: w.takeover, Drain: 25 * time.Second, Alarm: pace.Portable, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	i.end = cancel
	go func() { i.done <- i.Run(ctx) }()
	select {
	case <-i.Subscribed():
	case <-time.After(time.Minute):
		t.Fatal("no subscription")
	}
	w.running = append(w.running, i)
	return i
}

// stop ends an instance in order.
func (i *instance) stop(t *testing.T) {
	t.Helper()
	i.end()
	if err := <-i.done; err != nil {
		t.Errorf("%s: %v", i.name, err)
	}
	i.Close(context.Background())
	_ = i.conn.Close()
}

// stop ends all instances in order.
func (w *world) stop(t *testing.T) {
	t.Helper()
	for _, i := range w.running {
		i.stop(t)
	}
	w.running = nil
}

func key(k int) string { return fmt.Sprint("pay:x:y:", k) }

// kill ends an instance as kill -9 does: Redis hears no more of it.
func (i *instance) kill() {
	i.wire.kill()
	i.end()
	<-i.done
	i.Close(context.Background())
	_ = i.conn.Close()
}
