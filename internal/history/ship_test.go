package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// queue is a Redis with entries in its outboxes.
type queue struct {
	Outbox
	c     redis.UniversalClient
	space keys.Space
}

func newQueue(t *testing.T, shards int) *queue {
	t.Helper()
	srv := testkit.SharedRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: shards}
	w := wire.New(wire.Options{Client: srv.Client(), Space: space})
	return &queue{Outbox{w}, srv.Client(), space}
}

// add appends entries from..to to the outboxes of their shards, as handover.lua does.
func (q *queue) add(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		key := fmt.Sprintf("app1:orders:paid:%d", i)
		text := fmt.Sprintf(`d %d app1 - %s {"due":%d,"made":%d,"json":{"order":%d},"n":1}`,
			noon.Add(time.Duration(i)*time.Millisecond).UnixMicro(), key, noon.UnixMilli(),
			185903985000000+i, i)
		if err := q.c.RPush(t.Context(), q.space.Ended(q.space.Shard(key)), text).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func (q *queue) left(t *testing.T) (sum int64) {
	t.Helper()
	all, err := q.Lengths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		sum += n
	}
	return sum
}

// counter is an Observer.
type counter struct {
	rows   atomic.Int64
	mu     sync.Mutex
	failed map[string]int
}

func (c *counter) HistoryRows(n int) { c.rows.Add(int64(n)) }

func (c *counter) HistoryFailed(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = map[string]int{}
	}
	c.failed[kind] += n
}

func (c *counter) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[kind]
}

// run runs a Shipper until the test ends or the returned function is called.
func run(t *testing.T, s *Shipper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func TestEightShippersWriteEachEntryOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		const n = 3000
		q := newQueue(t, 3)
		q.add(t, 0, n)
		seen := &counter{}
		for range 8 {
			run(t, NewShipper(ShipperOptions{Queue: q, Writer: open(t, Options{URL: url}), Shards: 3, Observer: seen, Logger: zap.NewNop()}))
		}
		q.add(t, n, n+100)
		testkit.Until(t, "nothing is left in Redis", func() bool { return q.left(t) == 0 })
		list := all(t, open(t, Options{URL: url}), Query{Limit: 1000})
		if len(list) != n+100 || seen.rows.Load() != n+100 {
			t.Fatalf("%d rows, %d counted; want %d", len(list), seen.rows.Load(), n+100)
		}
		for i, id := range list {
			if want := fmt.Sprintf("%d/1", n+100-1-i); id != want {
				t.Fatalf("row %d is %s, want %s", i, id, want)
			}
		}
	})
}

// dying fails after its writes, or before them, like a killed process.
type dying struct {
	Writer
	before, after atomic.Int64 // remaining failures
}

var errKilled = errors.New("killed")

func (d *dying) Write(ctx context.Context, rows []Row) (Written, error) {
	if d.before.Add(-1) >= 0 {
		return Written{}, errKilled
	}
	w, err := d.Writer.Write(ctx, rows)
	if err == nil && d.after.Add(-1) >= 0 {
		return w, errKilled
	}
	return w, err
}

func TestUnconfirmedEntryIsWrittenOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		q := newQueue(t, 1)
		q.add(t, 0, 50)
		d := open(t, Options{URL: url})
		w := &dying{Writer: d}
		w.after.Store(1)
		first := NewShipper(ShipperOptions{Queue: q, Writer: w, Shards: 1, Logger: zap.NewNop()})
		if err := first.Ship(t.Context(), 0); !errors.Is(err, errKilled) || q.left(t) != 50 {
			t.Fatalf("%v, %d left", err, q.left(t))
		}
		if got := len(all(t, d, Query{Limit: 100})); got != 50 {
			t.Fatalf("%d rows", got)
		}
		q.add(t, 50, 60)
		second := NewShipper(ShipperOptions{Queue: q, Writer: d, Shards: 1, Logger: zap.NewNop()})
		if err := second.Ship(t.Context(), 0); err != nil || q.left(t) != 0 {
			t.Fatalf("%v, %d left: the hold of a failed Shipper ends at once", err, q.left(t))
		}
		if got := len(all(t, d, Query{Limit: 100})); got != 60 {
			t.Fatalf("%d rows", got)
		}
	})
}

func TestInvalidEntryIsDropped(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.add(t, 0, 2)
	if err := q.c.RPush(t.Context(), q.space.Ended(0), "what is this").Err(); err != nil {
		t.Fatal(err)
	}
	q.add(t, 2, 4)
	core, logs := observer.New(zap.ErrorLevel)
	seen := &counter{}
	d := open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db"})
	s := NewShipper(ShipperOptions{Queue: q, Writer: d, Shards: 1, Observer: seen, Logger: zap.New(core)})
	if err := s.Ship(t.Context(), 0); err != nil || q.left(t) != 0 {
		t.Fatal(err, q.left(t))
	}
	if got := len(all(t, d, Query{Limit: 100})); got != 4 || seen.of(FailedEntry) != 1 || logs.Len() != 1 {
		t.Errorf("%d rows, %v, %d lines", got, seen.failed, logs.Len())
	}
}

func TestBatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	big := strings.Repeat("x", 1<<20)
	for i := range 12 {
		text := fmt.Sprintf(`d %d app1 - app1:orders:paid:%d {"due":%d,"made":%d,"text":"%s"}`, noon.Add(time.Duration(i)).UnixMicro()+int64(i),
			i, noon.UnixMilli(), 185903985000000+i, big)
		if err := q.c.RPush(t.Context(), q.space.Ended(0), text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db", Bodies: BodiesDrop})
	s := NewShipper(ShipperOptions{Queue: &counting{queue: q, t: t}, Writer: d, Bodies: BodiesDrop, Shards: 1, Logger: zap.NewNop()})
	if err := s.Ship(t.Context(), 0); err != nil || q.left(t) != 0 {
		t.Fatal(err)
	}
	if got := len(all(t, d, Query{Limit: 100})); got != 12 {
		t.Errorf("%d rows", got)
	}
}

// counting checks the requests of a batch.
type counting struct {
	*queue
	t     *testing.T
	bytes int
}

func (c *counting) Entries(ctx context.Context, shard, from, n int) ([]string, error) {
	if from == 0 {
		c.bytes = 0
	}
	if c.bytes > batchBytes {
		c.t.Errorf("%d bytes were read and more is requested", c.bytes)
	}
	list, err := c.queue.Entries(ctx, shard, from, n)
	for _, text := range list {
		c.bytes += len(text)
	}
	return list, err
}

// full is a Redis that is short of memory.
type full struct {
	*queue
	used atomic.Int64
}

func (f *full) Memory(context.Context, int) (used, most int64, err error) {
	return f.used.Load(), 1_000_000, nil
}

// The interval of checks depends on how fast Redis fills. A Redis that fills up between two checks would
// refuse notices before any entry was dropped.
func TestMemoryIsCheckedBeforeItIsFull(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	f := &full{queue: q}
	s := NewShipper(ShipperOptions{Queue: f, Writer: open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db"}), Shards: 1,
		Logger: zap.NewNop()})
	now := time.Unix(1_700_000_000, 0)
	for _, x := range []struct {
		what  string
		after time.Duration
		used  int64
		near  bool
	}{
		{"the first check cannot know the growth", 0, 100_000, true},
		{"it stands still", gather, 100_000, false},
		{"it shrinks", watchEvery, 50_000, false},
		{"two checks later it is at 650,000", watchEvery, 250_000, false},
		{"two checks later it is at 950,000", watchEvery, 483_000, true},
		{"in 200 ms it took 30,000: it will be full in 3 s", gather, 513_000, true},
		{"it stands still", gather, 513_000, false},
		{"less than an eighth is left to the bound", watchEvery, 701_000, true},
		{"nothing has been asked for long", time.Hour, 100_000, true},
	} {
		now = now.Add(x.after)
		f.used.Store(x.used)
		if near := s.relieve(t.Context(), 0, now); near != x.near {
			t.Errorf("%s: %d used: near is %t", x.what, x.used, near)
		}
	}
}

func TestOldestEntriesAreDroppedWithoutMemory(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.add(t, 0, 100)
	f := &full{queue: q}
	f.used.Store(799_000)
	w := &dying{Writer: open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db"})}
	w.before.Store(1 << 40)
	seen := &counter{}
	s := NewShipper(ShipperOptions{Queue: f, Writer: w, Shards: 1, Observer: seen, Logger: zap.NewNop()})
	if err := s.Ship(t.Context(), 0); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if s.relieve(t.Context(), 0, time.Now()); q.left(t) != 100 {
		t.Errorf("a fifth is free, and %d of 100 are left", q.left(t))
	}
	each := s.each.Load()
	f.used.Store(800_000 + 9*each + 1)
	if s.relieve(t.Context(), 0, time.Now()); q.left(t) != 90 || seen.of(FailedMemory) != 10 {
		t.Errorf("%d left, %v; want 90, because 10 entries of %d bytes are over", q.left(t), seen.failed, each)
	}
	if other := NewShipper(ShipperOptions{Queue: f, Writer: w, Shards: 1, Logger: zap.NewNop()}); other.Ship(t.Context(), 0) != nil ||
		q.left(t) != 90 {
		t.Error("two drop at a time")
	}
	_, _, lost, err := q.Backlog(t.Context(), 0)
	if err != nil || lost != 10 {
		t.Errorf("%d lost, %v", lost, err)
	}
}

func TestDatabaseOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.add(t, 0, 30)
	core, logs := observer.New(zap.WarnLevel)
	d := open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db"})
	w := &dying{Writer: d}
	w.before.Store(2)
	seen := &counter{}
	s := NewShipper(ShipperOptions{Queue: q, Writer: w, Shards: 1, Most: 20, Observer: seen, Logger: zap.New(core)})
	s.Wake(0, 1)
	run(t, s)
	testkit.Until(t, "all is written", func() bool { return q.left(t) == 0 })
	if got := len(all(t, d, Query{Limit: 100})); got != 30 || seen.of(FailedDatabase) != 2 ||
		logs.FilterMessageSnippet("cannot write to the history").Len() != 1 {
		t.Errorf("%d rows, %v, %v", got, seen.failed, logs.All())
	}
}

// skewed is a Redis with another clock, in front of a database that refuses to judge by it.
type skewed struct {
	*queue
	Writer
	now  time.Time
	seen []time.Time
	err  error
}

func (s *skewed) Now(context.Context) (time.Time, error) { return s.now, nil }

func (s *skewed) Expire(_ context.Context, now time.Time) (int64, error) {
	s.seen = append(s.seen, now)
	return 0, s.err
}

// Redis's clock decides what is old, not this instance's. A refusal of the database is reported once, until it ends.
func TestRetentionIsJudgedByRedisClock(t *testing.T) {
	t.Parallel()
	w := &skewed{queue: newQueue(t, 1), now: time.Now().AddDate(0, 0, -40), err: fmt.Errorf("%w: by 40 days", ErrClocks)}
	core, logs := observer.New(zap.InfoLevel)
	s := NewShipper(ShipperOptions{Queue: w, Writer: w, Shards: 1, Logger: zap.New(core)})
	_, _ = s.expireOnce(t.Context()), s.expireOnce(t.Context())
	if !w.seen[0].Equal(w.now) || !errors.Is(s.Refused(), ErrClocks) || logs.FilterLevelExact(zap.ErrorLevel).Len() != 1 {
		t.Errorf("%v, %v, %v", w.seen, s.Refused(), logs.All())
	}
	w.err = nil
	if err := s.expireOnce(t.Context()); err != nil || s.Refused() != nil || logs.FilterMessageSnippet("agree again").Len() != 1 {
		t.Errorf("%v, %v, %v", err, s.Refused(), logs.All())
	}
}
