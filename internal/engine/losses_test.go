package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/history"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
)

// urgent returns the urgent reasons of /readyz.
func (w *world) urgent() string {
	var list []string
	for _, c := range w.Ready(context.Background()).Degraded {
		if c.Urgent {
			list = append(list, c.Reason)
		}
	}
	return strings.Join(list, "\n")
}

// counted returns the number of pending notices when they were last counted.
func (w *world) counted() int64 {
	w.losses.mu.Lock()
	defer w.losses.mu.Unlock()
	c, _ := w.losses.pendingIn(-1)
	return c.n
}

// Regression test: FLUSHALL removed all notices without a word, and the history kept the identity of the lost data.
func TestEmptiedRedisIsReportedByEachInstance(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	var all []*world
	var logs []*logged.ObservedLogs
	s := newSink(100)
	url := "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	for range 2 {
		core, seen := logged.New(zap.InfoLevel)
		w := start(t, srv, s, func(o *Options) {
			o.Logger, o.History = zap.New(core), History{DB: openHistory(t, url), Backlog: 1000}
		}, testRoute("r", "app1"))
		all, logs = append(all, w), append(logs, seen)
	}
	w, d := all[0], all[0].o.History.DB
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:first:x:1"} })
	s.await(t, 1)
	w.until(t, "app1:first:x:1", "delivered")
	w.put(t, 28, func(i int) store.Request { return store.Request{Key: key(i), Delay: time.Hour} })
	for i, w := range all {
		testkit.Until(t, fmt.Sprintf("instance %d has counted 28 pending notices", i), func() bool { return w.counted() == 28 })
		eventually(t, "the owner of the history is known", func() bool {
			_, err := w.o.History.DB.Find(t.Context(), history.Query{Limit: 1})
			return err == nil
		})
	}
	was, err := w.store.Layout.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for i, w := range all {
		w.checkData()
		eventually(t, "the report", func() bool { return w.urgent() != "" })
		if got := w.urgent(); !strings.HasPrefix(got, "Redis no longer has this service's data; 28 notices were pending at ") {
			t.Errorf("instance %d: %s", i, got)
		}
		if n := logs[i].FilterMessage("Redis no longer has this service's data").FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
			t.Errorf("instance %d: %d lines", i, n)
		}
		if got := w.figures(); !strings.Contains(string(got), `"lost":["Redis no longer`) {
			t.Errorf("instance %d publishes %s", i, got)
		}
	}

	// New notices are delivered, and their entries follow into the history.
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:again:x:1"} })
	s.await(t, 1)
	eventually(t, "the entry of a new notice", func() bool {
		page, err := d.Find(t.Context(), history.Query{Key: "app1:again:x:1", Limit: 1})
		return err == nil && len(page.Rows) == 1
	})
	if has, _, err := d.Owner(t.Context()); err != nil || has.ID == was {
		t.Errorf("the history belongs to %+v (%v), the lost data had %s", has, err, was)
	}
}

// Regression test: after a restart of all instances, none knew that the owner of the history had lost its data.
func TestHistoryFollowsAfterRestartOfAllInstances(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := newSink(10)
	url := "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	begin := func() *world {
		return start(t, srv, s, func(o *Options) {
			o.Logger, o.History = zap.NewNop(), History{DB: openHistory(t, url), Backlog: 1000}
		}, testRoute("r", "app1"))
	}
	w := begin()
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:first:x:1"} })
	s.await(t, 1)
	is := func(w *world, key string) func() bool {
		return func() bool {
			page, err := w.o.History.DB.Find(t.Context(), history.Query{Key: key, Limit: 1})
			return err == nil && len(page.Rows) == 1
		}
	}
	eventually(t, "the first entry", is(w, "app1:first:x:1"))
	w.o.History.DB.FollowLost(func(string) bool { return false }, func(string) {}) // as if it ended before it could claim
	if err := srv.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w.checkData()
	eventually(t, "the report", func() bool { return w.urgent() != "" && len(w.losses.unmarked()) == 0 })
	w.stop()

	w = begin()
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:again:x:1"} })
	s.await(t, 1)
	eventually(t, "the entry of a new notice", is(w, "app1:again:x:1"))
}

// Regression test: a service whose address led to an empty Redis for some seconds lost the calls of that time silently.
func TestVisitToAnotherRedisIsReported(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	core, logs := logged.New(zap.InfoLevel)
	w := start(t, srv, newSink(10), func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
	w.put(t, 3, func(i int) store.Request { return store.Request{Key: key(i), Delay: time.Hour} })
	away := func(want string) {
		t.Helper()
		if err := srv.Client().Do(t.Context(), "SWAPDB", 0, 1).Err(); err != nil { // as if another Redis answered
			t.Fatal(err)
		}
		w.checkData()
		eventually(t, "the report: "+want, func() bool {
			got := w.urgent()
			return strings.Contains(got, want) && (got == "") == (want == "")
		})
	}
	away("Redis no longer has this service's data")
	away("") // nothing was accepted meanwhile: the return ends the report
	if n := logs.FilterMessage("Redis has the lost data again").Len(); n != 1 {
		t.Errorf("%d lines tell of the return", n)
	}
	away("Redis no longer has this service's data")
	eventually(t, "the count of the other Redis", w.losses.isCounted)
	w.put(t, 5, func(i int) store.Request {
		return store.Request{Key: "app1:away:x:" + key(i)[len("app1:trans:notice:"):], Delay: time.Hour}
	})
	away("5 notices") // pending when last counted, or accepted since
	if f, err := w.Find(t.Context(), key(1)); err != nil || f.State != "scheduled" {
		t.Errorf("after the return: %+v, %v", f, err)
	}
}

// setCounts sets the counts of some shards.
func setCounts(l *losses, by map[int]int64) {
	since, reports := l.began()
	l.setPending(by, since, reports)
}

// Regression test: notices that were accepted during a count, after Redis had counted, were missing in the report.
func TestNoticesAcceptedDuringACountAreReported(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{Routes: []*route.Route{testRoute("r", "app1")}})
	l := newLosses(m, zap.NewNop())
	since, reports := l.began()
	m.Scheduled("r", 3)
	l.setPending(map[int]int64{0: 2}, since, reports)
	l.replaced(store.Replaced{Place: -1, Was: "a", Now: "b"})
	got := strings.Join(l.texts(), "|")
	if !strings.Contains(got, "2 notices were pending") || !strings.Contains(got, "accepted 3 notices since") {
		t.Errorf("%q", got)
	}
}

// A loss is reported for an hour.
func TestLossIsReportedForAnHour(t *testing.T) {
	t.Parallel()
	l := newLosses(telemetry.NewMetrics(telemetry.MetricsOptions{}), zap.NewNop())
	now := time.Date(2026, 1, 2, 12, 0, 3, 0, time.UTC)
	l.now = func() time.Time { return now }
	setCounts(l, map[int]int64{0: 1, 1: 2})
	l.replaced(store.Replaced{Place: 1, Was: "a", Now: "b"})
	if got := l.texts(); len(got) != 1 || got[0] != "Redis no longer has the data of shard 1; 2 notices were pending at 12:00:03 UTC" {
		t.Errorf("%q", got)
	}
	now = now.Add(lossKept - time.Second)
	l.replaced(store.Replaced{Place: 0, Was: "c", Now: "d"})
	if got := l.texts(); len(got) != 2 {
		t.Errorf("%q", got)
	}
	now = now.Add(time.Second)
	if got := l.texts(); len(got) != 1 || !strings.Contains(got[0], "shard 0; 1 notice was pending at 12:00:03 UTC") {
		t.Errorf("%q", got)
	}
}

// Regression test: the count of an emptied Redis replaced the count of the lost data, and a round without a node's shards
// removed their counts.
func TestCountsOfLostDataAreKept(t *testing.T) {
	t.Parallel()
	l := newLosses(telemetry.NewMetrics(telemetry.MetricsOptions{}), zap.NewNop())
	now := time.Date(2026, 1, 2, 12, 0, 3, 0, time.UTC)
	l.now = func() time.Time { return now }
	setCounts(l, map[int]int64{0: 1, 1: 2})
	now = now.Add(time.Second)
	setCounts(l, map[int]int64{1: 5}) // the node of shard 0 does not answer

	since, began := l.began()
	l.replaced(store.Replaced{Place: -1, Was: "a", Now: "b"})
	if got := l.texts(); len(got) != 1 || got[0] != "Redis no longer has this service's data; 6 notices were pending at 12:00:03 UTC" {
		t.Errorf("%q", got)
	}
	if l.setPending(map[int]int64{0: 1, 1: 5}, since, began) {
		t.Error("a count of the lost data replaces that of the present data")
	}
	setCounts(l, map[int]int64{0: 0, 1: 3})
	now = now.Add(time.Second)
	l.replaced(store.Replaced{Place: 1, Was: "c", Now: "d"})
	if got := l.texts(); len(got) != 2 || got[1] != "Redis no longer has the data of shard 1; 3 notices were pending at 12:00:04 UTC" {
		t.Errorf("%q", got)
	}
}

// Regression test: evicted notices vanished without a word.
func TestEvictedKeysAreReported(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	core, logs := logged.New(zap.InfoLevel)
	w := start(t, srv, newSink(10), func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
	c := srv.Client()
	w.watchEvictions(t.Context())
	evict := func(policy string) {
		t.Helper()
		for _, setting := range [][2]string{{"maxmemory-policy", policy}, {"maxmemory", "1mb"}} {
			if err := c.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Set(t.Context(), "big", strings.Repeat("x", 100<<10), 0).Err() // refused without a policy that evicts
		if err := c.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		w.watchEvictions(t.Context())
	}
	evict("noeviction")
	if got := w.urgent(); strings.Contains(got, "evicts") { // it may say that Redis is full, which a write of the engine met
		t.Errorf("without evictions: %s", got)
	}
	evict("allkeys-random")
	eventually(t, "the reason of evictions", func() bool {
		return strings.Contains(w.urgent(), "Redis evicts notices under maxmemory-policy allkeys-random: ")
	})
	if n := logs.FilterMessage("Redis evicts keys, notices are lost").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// Regression test: nothing but the log said that the history cannot be written.
func TestUnwritableHistoryIsACondition(t *testing.T) {
	t.Parallel()
	s := newSink(10)
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) {
		o.Logger = zap.NewNop()
		o.History = History{DB: openHistory(t, "sqlite://"+filepath.Join(t.TempDir(), "none", "history.db")), Backlog: 3}
	}, testRoute("r", "app1"))
	w.put(t, 2, func(i int) store.Request { return store.Request{Key: key(i)} })
	s.await(t, 2)
	reason := func() string { return strings.Join(w.Ready(context.Background()).AllReasons(), "\n") }
	eventually(t, "two entries that wait", func() bool { return strings.Contains(reason(), "; 2 finalized notices wait in Redis until") })
	if got := reason(); !strings.HasPrefix(got, "the history cannot be written: ") ||
		!strings.Contains(got, "above 3 (NOTIFIER_HISTORY_BACKLOG)") {
		t.Errorf("%s", got)
	}
	if got := w.urgent(); got != "" {
		t.Errorf("nothing is lost yet: %s", got)
	}
	if got := string(w.figures()); !strings.Contains(got, `"unwritten":"`) {
		t.Errorf("publishes %s", got)
	}
	w.put(t, 2, func(i int) store.Request { return store.Request{Key: key(i + 2)} })
	s.await(t, 2)
	eventually(t, "an urgent condition once the outbox is full", func() bool {
		return strings.Contains(w.urgent(), "3 finalized notices wait")
	})
}
