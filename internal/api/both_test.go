package api_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/api/apitest"
	"notifier/internal/audit"
	"notifier/internal/dispatch"
	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// subject is an engine that a test can move notices on with.
type subject interface {
	api.Engine
	// Move puts a notice into a state, as a delivery would; Hand hands it to a
	// consumer, whose report is awaited, and returns its id.
	Move(key string, to notice.State, reason notice.Reason)
	Hand(key string) string
	// Trim trims a settled notice and leaves a tombstone.
	Trim(key string)
	// Fail makes every call fail with err, until it is called with nil.
	Fail(err error)
	SetReady(r api.Readiness)
	// Changes counts the writes that changed something.
	Changes() int
}

var _, _ subject = (*apitest.Engine)(nil), (*driven)(nil)

// maker makes an API over an engine that holds nothing.
type maker func(t testing.TB, change ...func(*api.Options)) *bench

// onBoth runs a test of what the API promises on the engine in memory, which
// other packages test with, and on the real one with a real Redis: so that the
// one cannot promise what the other does not keep. Of the makers' benches the
// last one made may be used.
func onBoth(t *testing.T, test func(t *testing.T, newBench maker)) {
	t.Run("in memory", func(t *testing.T) { test(t, newBench) })
	t.Run("on Redis", func(t *testing.T) {
		srv := redistest.Shared(t)
		stop := func() {}
		t.Cleanup(func() { stop() })
		test(t, func(t testing.TB, change ...func(*api.Options)) *bench {
			stop()
			if err := srv.Client().FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			var d *driven
			d, stop = drive(t, srv)
			b := newBench(t, append([]func(*api.Options){func(o *api.Options) { o.Engine = d }}, change...)...)
			b.engine = d
			return b
		})
	})
}

// driven is the real engine. It has no slots, so it claims nothing: what moves,
// the test moves by the scripts that a delivery runs.
type driven struct {
	*engine.Engine
	t     testing.TB
	table *route.Table
	conn  *wire.Conn
	space keys.Space

	mu      sync.Mutex
	fail    error
	ready   *api.Readiness
	changes int
	claims  int
}

func drive(t testing.TB, srv *redistest.Server) (d *driven, stop func()) {
	t.Helper()
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	d = &driven{t: t, table: routes(t), conn: conn, space: keys.Space{Namespace: srv.Namespace(), Shards: 1}}
	d.Engine = engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: d.table,
		Handler: nil, Instance: "test", Grace: time.Hour, Metrics: metrics.New(metrics.Options{Routes: d.table.All()}),
		Retention: time.Hour, Retain: 100_000, ConfigureRedis: true, Drain: time.Second, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		_ = conn.Close()
	})
	for limit := time.Now().Add(30 * time.Second); !d.Engine.Ready(ctx).Ready; time.Sleep(time.Millisecond) { // sleep: polls until the limit
		if time.Now().After(limit) {
			stop()
			t.Fatalf("not ready: %+v", d.Engine.Ready(ctx))
		}
	}
	return d, stop
}

func (d *driven) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *driven) SetReady(r api.Readiness) { d.ready = &r }

func (d *driven) Ready(ctx context.Context) api.Readiness {
	if d.ready != nil {
		return *d.ready
	}
	return d.Engine.Ready(ctx)
}

func (d *driven) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// attempt makes a call unless it is to fail, and counts what it says it changed.
func attempt[T any](d *driven, do func() (T, error), changed func(T) int) (T, error) {
	d.mu.Lock()
	err := d.fail
	d.mu.Unlock()
	if err != nil {
		var none T
		return none, err
	}
	v, err := do()
	if err == nil && changed != nil {
		d.mu.Lock()
		d.changes += changed(v)
		d.mu.Unlock()
	}
	return v, err
}

func created(r store.Reply) int { return map[bool]int{true: 1}[r.Created] }
func done(c store.Change) int   { return map[bool]int{true: 1}[c.Done] }

func (d *driven) Schedule(ctx context.Context, r store.Request) (store.Reply, error) {
	return attempt(d, func() (store.Reply, error) { return d.Engine.Schedule(ctx, r) }, created)
}

func (d *driven) Restore(ctx context.Context, letters []store.Letter) []store.Reply {
	out, err := attempt(d, func() ([]store.Reply, error) { return d.Engine.Restore(ctx, letters), nil }, func(all []store.Reply) (n int) {
		for _, r := range all {
			n += created(r)
		}
		return n
	})
	if err != nil {
		out = make([]store.Reply, len(letters))
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (d *driven) ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply {
	out, err := attempt(d, func() ([]store.Reply, error) { return d.Engine.ScheduleMany(ctx, rs), nil }, func(all []store.Reply) (n int) {
		for _, r := range all {
			n += created(r)
		}
		return n
	})
	if err != nil {
		out = make([]store.Reply, len(rs))
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (d *driven) Find(ctx context.Context, key string) (store.Found, error) {
	return attempt(d, func() (store.Found, error) { return d.Engine.Find(ctx, key) }, nil)
}

func (d *driven) Cancel(ctx context.Context, key string) (store.Change, error) {
	return attempt(d, func() (store.Change, error) { return d.Engine.Cancel(ctx, key) }, done)
}

func (d *driven) Fire(ctx context.Context, key string) (store.Change, error) {
	return attempt(d, func() (store.Change, error) { return d.Engine.Fire(ctx, key) }, done)
}

func (d *driven) Redrive(ctx context.Context, key string) (store.Change, error) {
	return attempt(d, func() (store.Change, error) { return d.Engine.Redrive(ctx, key) }, done)
}

func (d *driven) Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return attempt(d, func() (store.Change, error) { return d.Engine.Reschedule(ctx, key, due, delay) }, done)
}

func (d *driven) Report(ctx context.Context, key string, v notice.Report) (store.Change, error) {
	return attempt(d, func() (store.Change, error) { return d.Engine.Report(ctx, key, v) }, done)
}

func (d *driven) List(ctx context.Context, q store.Query) (store.Page, error) {
	return attempt(d, func() (store.Page, error) { return d.Engine.List(ctx, q) }, nil)
}

func (d *driven) RedriveAll(ctx context.Context, q store.Query, dryRun bool) (store.Redriven, error) {
	return attempt(d, func() (store.Redriven, error) { return d.Engine.RedriveAll(ctx, q, dryRun) }, func(r store.Redriven) int { return r.Redriven })
}

func (d *driven) turn(do func() error) error {
	_, err := attempt(d, func() (bool, error) { return true, do() }, func(bool) int { return 1 })
	return err
}

func (d *driven) Pause(ctx context.Context, prefix string) error {
	return d.turn(func() error { return d.Engine.Pause(ctx, prefix) })
}

func (d *driven) Resume(ctx context.Context, prefix string) error {
	return d.turn(func() error { return d.Engine.Resume(ctx, prefix) })
}

func (d *driven) Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error) {
	list, err = attempt(d, func() (list []store.Counts, err error) {
		list, missing, err = d.Engine.Counts(ctx)
		return list, err
	}, nil)
	return list, missing, err
}

func (d *driven) Instances(ctx context.Context) ([]fleet.Instance, error) {
	return attempt(d, func() ([]fleet.Instance, error) { return d.Engine.Instances(ctx) }, nil)
}

func (d *driven) Audit(ctx context.Context, e audit.Entry) error {
	_, err := attempt(d, func() (bool, error) { return true, d.Engine.Audit(ctx, e) }, nil)
	return err
}

func (d *driven) Audited(ctx context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	return attempt(d, func() ([]audit.Entry, error) { return d.Engine.Audited(ctx, r, limit) }, nil)
}

func (d *driven) KeepLink(ctx context.Context, id, text string, during time.Duration) error {
	_, err := attempt(d, func() (bool, error) { return true, d.Engine.KeepLink(ctx, id, text, during) }, func(bool) int { return 1 })
	return err
}

func (d *driven) Link(ctx context.Context, id string) (string, error) {
	return attempt(d, func() (string, error) { return d.Engine.Link(ctx, id) }, nil)
}

// claim claims a notice, whenever it is due.
func (d *driven) claim(key string) (*route.Route, store.Claim) {
	d.t.Helper()
	ctx, r := d.t.Context(), d.table.Match(key)
	if c, err := d.Engine.Fire(ctx, key); err != nil || !c.Done {
		d.t.Fatalf("%s cannot be moved: %+v, %v", key, c, err)
	}
	d.claims++
	c, err := d.Store().ClaimKeys(ctx, keys.Partition{Prefix: r.Prefix}, store.Lease{Token: fmt.Sprintf("test-%d", d.claims), For: r.Lease()}, []string{key})
	if err != nil || len(c.Won) != 1 {
		d.t.Fatalf("%s cannot be claimed: %+v, %v", key, c, err)
	}
	return r, c.Won[0]
}

func (d *driven) end(r *route.Route, c store.Claim, res notice.Result) {
	d.t.Helper()
	out, err := d.Store().Settle(d.t.Context(), keys.Partition{Prefix: r.Prefix}, []store.Settlement{dispatch.End(r, &c, res, notice.Attempt{At: time.Now(), Duration: 12 * time.Millisecond}, notice.Waits{})})
	if err != nil || out[0].Stale || out[0].Refused != "" {
		d.t.Fatalf("%s cannot be settled: %+v, %v", c.Key, out, err)
	}
}

func (d *driven) Move(key string, to notice.State, reason notice.Reason) {
	d.t.Helper()
	if to == notice.Cancelled {
		if c, err := d.Engine.Cancel(d.t.Context(), key); err != nil || !c.Done {
			d.t.Fatalf("%s cannot be cancelled: %+v, %v", key, c, err)
		}
		return
	}
	r, c := d.claim(key)
	switch to {
	case notice.Claimed:
	case notice.Delivered:
		d.end(r, c, notice.DeliveredResult(200))
	case notice.Dead:
		d.end(r, c, notice.DeadResult(reason, "no"))
	default:
		d.t.Fatalf("nothing moves to %s", to)
	}
}

func (d *driven) Trim(key string) {
	d.t.Helper()
	prefix := d.table.Match(key).Prefix
	s := store.New(store.Options{Client: d.conn.UniversalClient, Space: d.space, Prefixes: []string{prefix}, Retention: time.Hour,
		RepeatWindow: time.Hour, RepeatBytes: 1 << 20})
	if n, _, err := s.Trim(d.t.Context(), 0, []store.Trim{{Prefix: prefix}}, 10); err != nil || n == 0 {
		d.t.Fatalf("%s is not trimmed: %d, %v", key, n, err)
	}
}

func (d *driven) Hand(key string) string {
	d.t.Helper()
	r, c := d.claim(key)
	d.end(r, c, notice.Result{Outcome: notice.OutcomeDelivered, Push: &notice.Push{Key: r.Target.Key}})
	return c.ID()
}
