package engine

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// told records the calls of a handler, by replay.
type told struct {
	mu   sync.Mutex
	got  map[string]map[string]int // replay → webhook-id → how often
	key  map[string]string         // of a webhook-id
	last map[string]notice.Notice  // by key
}

func (x *told) note(n *notice.Notice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.got == nil {
		x.got, x.key, x.last = map[string]map[string]int{}, map[string]string{}, map[string]notice.Notice{}
	}
	if x.got[n.Replay] == nil {
		x.got[n.Replay] = map[string]int{}
	}
	x.got[n.Replay][n.ID()]++
	x.key[n.ID()], x.last[n.Key] = n.Key, *n
}

func (x *told) of(replay string) map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.got[replay])
}

func outcomes(list ...notice.Ending) []notice.Ending { return list }

// asked is a replay of all that ended within the last day.
func asked(change func(r *history.Replay)) *history.Replay {
	r := &history.Replay{ID: history.NewReplayID(), ReplayAbout: history.ReplayAbout{Since: time.Now().Add(-24 * time.Hour), Rate: 5000,
		Outcomes: outcomes(notice.EndDelivered, notice.EndDead)}}
	if change != nil {
		change(r)
	}
	return r
}

func (w *world) replay(t *testing.T, r *history.Replay, dry bool) *jobs.ReplayPlan {
	t.Helper()
	p, err := w.Replays().Make(t.Context(), r, dry)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readReplay reads the replay of a name.
func (w *world) readReplay(t *testing.T, name string) history.Replay {
	t.Helper()
	list, err := w.Replays().Find(t.Context(), history.ReplayQuery{Name: name})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d replays are named %s, %v", len(list), name, err)
	}
	return list[0]
}

// over waits until a replay is.
func (w *world) over(t *testing.T, id string) history.Replay {
	t.Helper()
	var r history.Replay
	eventually(t, "the replay is over", func() bool {
		r = w.readReplay(t, id)
		return r.State != history.ReplayRunning
	})
	return r
}

// onDatabases runs a test with a history in SQLite and in PostgreSQL.
func onDatabases(t *testing.T, f func(t *testing.T, d *history.DB)) {
	onDatabaseURLs(t, func(t *testing.T, url string) { f(t, openHistory(t, url)) })
}

func openHistory(t *testing.T, url string) *history.DB {
	t.Helper()
	d, err := history.Open(history.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func onDatabaseURLs(t *testing.T, f func(t *testing.T, url string)) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite://" + t.TempDir() + "/history.db" },
		"postgres": func(t *testing.T) string { return testkit.PostgresDatabase(t) },
	} {
		if name == "postgres" && !withPostgres {
			continue
		}
		t.Run(name, func(t *testing.T) { f(t, url(t)) })
	}
}

func TestAReplaySendsEachNoticeOnceMore(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		var x told
		s := newSink(1000)
		s.answer = func(n *notice.Notice) notice.Result {
			x.note(n)
			if n.Route == "app1:own" && n.Replay == "" {
				return notice.DeadResult(notice.ReasonGone, "no")
			}
			return notice.DeliveredResult(200)
		}
		own := testRoute("own", "app1:own")
		own.Target.Kind = route.KindNotice
		traced := newSpans()
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) {
			o.History, o.Space.Shards, o.Tracer = History{DB: d, Backlog: 10000}, 3, traced.tracer()
		}, testRoute("fixed", "app1:fixed"), own)
		const n = 120
		w.put(t, n, func(i int) store.Request {
			if i%2 == 0 {
				return store.Request{Key: fmt.Sprintf("app1:fixed:t:%d", i), Content: notice.Content{Body: fmt.Appendf(nil, `{"n":%d}`, i)}}
			}
			return store.Request{Key: fmt.Sprintf("app1:own:t:%d", i), Content: notice.Content{URL: "https://shop.example/x", Body: []byte("text")}}
		})
		s.await(t, n)
		rowsOf(t, d, history.Query{}, n)
		first := x.of("")

		dry := w.replay(t, asked(nil), true)
		if dry.Found != n || dry.Total != n || len(dry.Differs) != 0 {
			t.Fatalf("%+v %+v", dry, dry.Replay)
		}
		if list, err := w.Replays().List(t.Context(), "", 10); err != nil || len(list) != 0 {
			t.Fatalf("a dry run is kept: %+v, %v", list, err)
		}
		p := w.replay(t, asked(nil), false)
		r := w.over(t, p.ID)
		s.await(t, n)
		if r.State != history.ReplayDone || r.Counts[jobs.Sent] != dry.Total || len(r.Counts) != 1 {
			t.Errorf("%+v", r)
		}
		if got := x.of(p.ID); !maps.Equal(got, first) {
			t.Errorf("the replay has sent %d notices, not exactly the %d of before once each", len(got), len(first))
		}
		if sent, written := traced.sum("replay"), traced.sum("history write"); sent != n || written < n {
			t.Errorf("spans of replays have %d notices, and those of writes %d entries; want %d, and %d or more", sent, written, n, n)
		}
		// The numbers go on, and the second ending has its row.
		rowsOf(t, d, history.Query{}, 2*n)
		for _, key := range []string{"app1:fixed:t:0", "app1:own:t:1"} {
			list := rowsOf(t, d, history.Query{Key: key}, 2)
			if list[0].ID() != list[1].ID() || list[0].Number != 2 || list[1].Number != 1 || list[0].AttemptsMade != 2 ||
				list[0].Outcome != notice.EndDelivered {
				t.Errorf("%s: %+v %+v", key, list[0], list[1])
			}
		}
		if last := x.last["app1:fixed:t:4"]; string(last.Body) != `{"n":4}` || last.NextAttempt() != 2 || last.Replay != p.ID {
			t.Errorf("%+v", last)
		}
		// All have been delivered by now, whatever they came to in the window before.
		if _, err := w.Replays().Make(t.Context(), asked(func(r *history.Replay) { r.Outcomes = outcomes(notice.EndDead) }), false); err == nil {
			t.Error("dead ones were found that were delivered since")
		}
		// Again, with new ids, of one host.
		p = w.replay(t, asked(func(r *history.Replay) { r.Host, r.NewIDs = "shop.example", true }), false)
		if r = w.over(t, p.ID); r.Counts[jobs.Sent] != n/2 || p.Found != n/2 {
			t.Errorf("%+v", r)
		}
		s.await(t, n/2)
		for id := range x.of(p.ID) {
			if first[id] != 0 {
				t.Errorf("%s is not new", id)
			}
		}
		if got := len(x.of(p.ID)); got != n/2 {
			t.Errorf("%d, want %d", got, n/2)
		}
		for shard := range 3 {
			if ttl := w.srv.Client().PTTL(t.Context(), w.Store().Space().Replay(shard, p.Mark())).Val(); ttl < 80*24*time.Hour {
				t.Errorf("how far it is in shard %d is kept for %s", shard, ttl)
			}
		}
	})
}

func TestWhatAReplaySkips(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		var x told
		s := newSink(1000)
		s.answer = func(n *notice.Notice) notice.Result {
			x.note(n)
			if string(n.Body) == `"die"` {
				return notice.DeadResult(notice.ReasonGone, "no")
			}
			return notice.DeliveredResult(200)
		}
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, testRoute("r", "app1"))
		put := func(id, body string, change func(*store.Request)) {
			t.Helper()
			r := store.Request{Key: "app1:a:b:" + id, OnDuplicate: store.Replace, Content: notice.Content{Body: []byte(body)}}
			if change != nil {
				change(&r)
			}
			if _, err := w.Schedule(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"plain", "pending", "other-dead", "other-sent"} {
			put(id, `1`, nil)
		}
		put("dead", `"die"`, nil)
		put("cancelled", `"die"`, nil)
		put("secret", `1`, func(r *store.Request) { r.Headers = []notice.Header{{Name: "X-Token", Value: "abc"}} })
		s.await(t, 7)
		rowsOf(t, d, history.Query{}, 7)
		until := time.Now()
		put("pending", `2`, func(r *store.Request) { r.Delay = time.Hour })
		put("other-dead", `"die"`, nil)
		put("other-sent", `2`, nil)
		put("replaced", `1`, func(r *store.Request) { r.Delay = time.Hour })
		put("replaced", `2`, func(r *store.Request) { r.Delay = time.Hour })
		if _, err := w.Cancel(t.Context(), "app1:a:b:cancelled"); err != nil {
			t.Fatal(err)
		}
		s.await(t, 2)
		rowsOf(t, d, history.Query{}, 11)

		p := w.replay(t, asked(func(r *history.Replay) { r.Until = until }), false)
		if p.Found != 6 || p.Total != 5 || p.Refused[jobs.SecretLost] != 1 {
			t.Errorf("%+v %+v", p, p.Replay)
		}
		r := w.over(t, p.ID)
		if want := map[string]int64{jobs.Sent: 3, jobs.Pending: 1, jobs.Dead: 1}; !maps.Equal(r.Counts, want) {
			t.Errorf("%v, want %v", r.Counts, want)
		}
		s.await(t, 3)
		for id := range x.of(p.ID) {
			if k := x.key[id]; k != "app1:a:b:plain" && k != "app1:a:b:dead" && k != "app1:a:b:other-sent" {
				t.Errorf("%s was sent", k)
			}
		}
		if f, err := w.Find(t.Context(), "app1:a:b:pending"); err != nil || f.State != notice.Scheduled || string(f.Body) != "2" {
			t.Errorf("%+v, %v", f, err)
		}
		if f, err := w.Find(t.Context(), "app1:a:b:other-dead"); err != nil || f.State != notice.Dead || f.Replay != "" {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

func TestAReplayIsStoppedAndResumed(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		var x told
		s := newSink(1000)
		s.answer = func(n *notice.Notice) notice.Result { x.note(n); return notice.DeliveredResult(200) }
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History, o.Space.Shards = History{DB: d, Backlog: 10000}, 2 },
			testRoute("r", "app1"))
		const n = 40
		w.put(t, n, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
		s.await(t, n)
		rowsOf(t, d, history.Query{}, n)
		p := w.replay(t, asked(func(r *history.Replay) { r.Rate = 10 }), false)
		eventually(t, "it has begun", func() bool {
			return w.readReplay(t, p.ID).Counts[jobs.Sent] > 0
		})
		if ok, err := w.Replays().Stop(t.Context(), p.ID); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if ok, err := w.Replays().Stop(t.Context(), p.ID); err != nil || ok {
			t.Error("stopped twice", err)
		}
		// One remaining key is erased, and one row has been deleted.
		var gone []string
		for i := range 2 {
			key := fmt.Sprintf("app1:a:b:%d", n-1-i)
			if _, err := w.Erase(t.Context(), history.Erasure{Key: key}); err != nil {
				t.Fatal(err)
			}
			gone = append(gone, key)
		}
		if ok, err := w.Replays().Resume(t.Context(), p.ID); err != nil || !ok {
			t.Fatal(ok, err)
		}
		r := w.over(t, p.ID)
		if r.State != history.ReplayDone || r.Counts[jobs.Sent]+r.Counts[jobs.Gone] != n || r.Counts[jobs.Gone] > 2 {
			t.Errorf("%+v", r)
		}
		s.await(t, int(r.Counts[jobs.Sent]))
		got := x.of(p.ID)
		if len(got) != int(r.Counts[jobs.Sent]) {
			t.Errorf("%d notices came, %d were sent", len(got), r.Counts[jobs.Sent])
		}
		for id, times := range got {
			if times != 1 {
				t.Errorf("%s came %d times", x.key[id], times)
			}
		}
		if r.Counts[jobs.Gone] == 2 {
			for id := range got {
				if x.key[id] == gone[0] || x.key[id] == gone[1] {
					t.Errorf("%s was erased, and was sent", x.key[id])
				}
			}
		}
	})
}

// The same call, made at once by several and again when it is over, begins one
// replay; in other words it is refused.
func TestACallThatIsRepeatedBeginsOneReplay(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		var x told
		s := newSink(1000)
		s.answer = func(n *notice.Notice) notice.Result { x.note(n); return notice.DeliveredResult(200) }
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, testRoute("r", "app1"))
		const n, callers = 30, 6
		w.put(t, n, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
		s.await(t, n)
		rowsOf(t, d, history.Query{}, n)
		since := time.Now().Add(-time.Hour)
		call := func(change func(r *history.Replay)) (*jobs.ReplayPlan, error) {
			return w.Replays().Make(t.Context(), asked(func(r *history.Replay) {
				if r.Name, r.Since = "mine", since; change != nil {
					change(r)
				}
			}), false)
		}
		var wg sync.WaitGroup
		var made, known atomic.Int32
		for range callers {
			wg.Go(func() {
				p, err := call(nil)
				switch {
				case err != nil || p.Name != "mine" || p.Total != n:
					t.Errorf("%+v, %v", p, err)
				case p.Known:
					known.Add(1)
				default:
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 || known.Load() != callers-1 {
			t.Errorf("%d made, %d known, of %d calls", made.Load(), known.Load(), callers)
		}
		w.over(t, "mine")
		s.await(t, n)
		rowsOf(t, d, history.Query{}, 2*n)
		if p, err := call(nil); err != nil || !p.Known || p.State != history.ReplayDone || p.Counts[jobs.Sent] != n {
			t.Errorf("%+v, %v", p, err)
		}
		for name, change := range map[string]func(r *history.Replay){
			"since":    func(r *history.Replay) { r.Since = since.Add(time.Second) },
			"until":    func(r *history.Replay) { r.Until = time.Now() },
			"prefix":   func(r *history.Replay) { r.Prefix = "app1" },
			"host":     func(r *history.Replay) { r.Host = "shop.example" },
			"outcome":  func(r *history.Replay) { r.Outcomes = outcomes(notice.EndDead) },
			"rate":     func(r *history.Replay) { r.Rate = 1 },
			"new ids?": func(r *history.Replay) { r.NewIDs = true },
		} {
			if _, err := call(change); !errors.Is(err, jobs.ErrOtherReplay) {
				t.Errorf("another %s: %v", name, err)
			}
		}
		for id, times := range x.of("mine") {
			if times != 1 {
				t.Errorf("%s came %d times", x.key[id], times)
			}
		}
		if list, err := w.Replays().List(t.Context(), "", 10); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		// Another client's id is another id.
		if p, err := call(func(r *history.Replay) { r.Client = "other" }); err != nil || p.Known || p.ID == "mine" {
			t.Errorf("of another client: %+v, %v", p, err)
		}
	})
}

// A deleted id may be used again, although Redis has the progress of the first replay with that id.
func TestAnIDServesAgainWhenItsReplayIsForgotten(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/history.db"
	d, err := history.Open(history.Options{URL: "sqlite://" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s := newSink(1000)
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, testRoute("r", "app1"))
	w.put(t, 5, func(i int) store.Request { return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i)} })
	s.await(t, 5)
	for turn := range 2 {
		rowsOf(t, d, history.Query{}, 5*(turn+1))
		r := asked(func(r *history.Replay) { r.ID = "again" })
		w.replay(t, r, false)
		if x := w.over(t, r.ID); x.Counts[jobs.Sent] != 5 {
			t.Errorf("turn %d: %+v", turn, x)
		}
		s.await(t, 5)
		raw, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.ExecContext(t.Context(), "DELETE FROM history_replays"); err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
	}
}

// A body that the history does not have, for whatever reason and since whenever, is
// refused and never sent empty; one that was empty is sent.
func TestABodyThatIsNotThereIsNeverSent(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/history.db"
	d, err := history.Open(history.Options{URL: "sqlite://" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	var x told
	s := newSink(100)
	s.answer = func(n *notice.Notice) notice.Result { x.note(n); return notice.DeliveredResult(200) }
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 1000} }, testRoute("r", "app1"))
	for _, id := range []string{"kept", "empty", "lost", "hashed", "lost-later", "hashed-later"} {
		r := store.Request{Key: "app1:a:b:" + id}
		if id != "empty" {
			r.Body = []byte(`{"sum":1}`)
		}
		if _, err := w.Schedule(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, 6)
	rowsOf(t, d, history.Query{}, 6)
	raw, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	lose := func(when string) {
		t.Helper()
		if _, err := raw.ExecContext(t.Context(), `UPDATE history SET body_text = NULL, body_sha256 = CASE WHEN name LIKE 'hashed%' THEN x'00' END
			WHERE name IN ('lost' || ?, 'hashed' || ?)`, when, when); err != nil {
			t.Fatal(err)
		}
	}
	lose("")
	p := w.replay(t, asked(func(r *history.Replay) { r.Rate = 0.5 }), false) // the first one at once
	if want := map[string]int64{jobs.BodyDropped: 1, jobs.BodyHashed: 1}; p.Total != 4 || !maps.Equal(p.Refused, want) {
		t.Errorf("%+v", p.Replay)
	}
	if _, err := w.Replays().Stop(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	lose("-later")
	if _, err := raw.ExecContext(t.Context(), "UPDATE history_replays SET about = replace(about, '\"rate\":0.5', "+
		"'\"rate\":5000')"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Replays().Resume(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	r := w.over(t, p.ID)
	if r.Counts[jobs.Sent] < 2 || r.Counts[jobs.BodyDropped]+r.Counts[jobs.BodyHashed]+r.Counts[jobs.Sent] != 4 {
		t.Errorf("%v", r.Counts)
	}
	s.await(t, int(r.Counts[jobs.Sent]))
	for _, id := range x.of(p.ID) {
		if id != 1 {
			t.Error("a notice came more than once")
		}
	}
	for key, n := range x.last {
		if want := map[bool]string{true: "", false: `{"sum":1}`}[key == "app1:a:b:empty"]; string(n.Body) != want {
			t.Errorf("%s came with the body %q, want %q", key, n.Body, want)
		}
	}
	for _, key := range []string{"app1:a:b:kept", "app1:a:b:empty"} {
		if x.last[key].Replay != p.ID {
			t.Errorf("%s was not sent", key)
		}
	}
}
