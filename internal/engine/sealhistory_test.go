package engine

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// remembering starts an engine that seals for each audience, and whose delivered notices are in the history only.
func remembering(t *testing.T, srv *testkit.Redis, h *sink, d *history.DB, change func(*Options)) *world {
	t.Helper()
	return start(t, srv, h, func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop(), 2
		o.History, o.Retention = History{DB: d, Backlog: 1000}, 0
		if change != nil {
			change(o)
		}
	}, sealedRoute(seal.PerAudience))
}

// echo is a handler that answers each notice with its body.
func echo() (*sink, *told) {
	h, x := newSink(1000), &told{}
	h.answer = func(n *notice.Notice) notice.Result {
		x.note(n)
		r := notice.DeliveredResult(200)
		r.Response = string(n.Body)
		return r
	}
	return h, x
}

// body returns the last body that the handler got for a key.
func (x *told) body(key string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.last[key].Body)
}

// loseKeys deletes the data keys in Redis, as the loss of its data does.
func (w *world) loseKeys(t *testing.T) {
	t.Helper()
	for place := range w.store.Space().Places() {
		if err := w.store.Wire().Redis.Del(t.Context(), w.store.Space().Seals(place)).Err(); err != nil {
			t.Fatal(err)
		}
		w.vault.Forget(place)
	}
}

// opened returns the last entry of a key, opened.
func (w *world) opened(t *testing.T, d *history.DB, key string) store.Found {
	t.Helper()
	row, ok, err := d.Latest(t.Context(), key)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	f := store.Found{Notice: row.Notice}
	w.Open(t.Context(), &f)
	return f
}

// stored returns all that the database of a url has.
func stored(t *testing.T, url string) (texts []string) {
	t.Helper()
	if file, ok := strings.CutPrefix(url, "sqlite://"); ok {
		for _, name := range []string{file, file + "-wal"} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(b))
		}
		return texts
	}

	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	list := func(query string) (all []string) {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, table := range list("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") {
		texts = append(texts, list("SELECT x::text FROM "+table+" x")...)
	}
	return texts
}

func TestSealedContentIsNowhereInTheHistory(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, ""} {
		onDatabaseURLs(t, func(t *testing.T, url string) {
			h, _ := echo()
			d := openHistory(t, url)
			r := sealedRoute(scope)
			w := start(t, testkit.SharedRedis(t), h, func(o *Options) {
				o.SealKeys, o.History = testkit.ServiceKeys(t, "k"), History{DB: d, Backlog: 1000}
			}, r)
			request := sealedFor("m_1", 1, 0)
			request.URL = "https://user:" + password + "@shop.example/"
			request.Headers = []notice.Header{{Name: "X-Card", Value: card}}
			w.scheduleSealed(t, request)
			rowsOf(t, d, history.Query{}, 1)
			texts := stored(t, url)
			if scope == "" {
				if !strings.Contains(strings.Join(texts, ""), card) {
					t.Error("without the seal, the card is not found")
				}
				return
			}
			testkit.CheckSecrets(t, []string{card, password}, texts...)
			f := w.opened(t, d, key(1))
			if string(f.Body) != card || f.URL != request.URL || len(f.Headers) != 1 || f.Attempts[0].Response != card {
				t.Errorf("opened: %+v", f.Notice)
			}
		})
	}
}

func TestInstanceWithoutServiceKeysWritesSealedRows(t *testing.T) {
	t.Parallel()
	srv, url := testkit.SharedRedis(t), "sqlite://"+t.TempDir()+"/history.db"
	h, _ := echo()
	with := remembering(t, srv, h, nil, func(o *Options) { o.Retention = time.Hour })
	without := remembering(t, srv, newSink(1), openHistory(t, url), func(o *Options) {
		o.SealKeys, o.Instance = nil, "without"
		o.Routes.Prefix("app1").Seal = ""
	})
	eventually(t, "the outbox begins", func() bool { return with.store.Layout.HandsOver() })
	if _, err := with.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), ""); !errors.Is(err, jobs.ErrHistoryElsewhere) {
		t.Errorf("forget at an instance without the history: %v", err)
	}
	if _, err := with.LiftSubject(t.Context(), seal.AudienceSubject("m_1")); !errors.Is(err, jobs.ErrHistoryElsewhere) {
		t.Errorf("lift at an instance without the history: %v", err)
	}
	with.scheduleSealed(t, sealedFor("m_1", 1, 0))
	d := without.o.History.DB
	row := rowsOf(t, d, history.Query{}, 1)[0]
	if value, err := d.SealKey(t.Context(), row.DataKeys()[0]); err != nil || vault.SubjectOf(value) != "audience:m_1" {
		t.Errorf("the key: %q, %v", value, err)
	}
	if f := without.opened(t, d, key(1)); f.Sealed == "" || len(f.Body) > 0 {
		t.Errorf("opened without a key: %+v", f.Notice)
	}
}

func TestSealedRowsAreSentAgainAfterRedisHasLostTheirKeys(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		h, x := echo()
		w := remembering(t, testkit.SharedRedis(t), h, d, nil)
		w.scheduleSealed(t, sealedFor("m_1", 1, 0), sealedFor("m_2", 2, 0))
		was := rowsOf(t, d, history.Query{}, 2)[1]
		w.loseKeys(t)
		if f := w.opened(t, d, key(1)); string(f.Body) != card || f.Attempts[0].Response != card {
			t.Errorf("opened: %+v", f.Notice)
		}

		if n := w.resends(t, was.Key, was.ID(), 1, 1); n != 1 {
			t.Fatal("not resent")
		}
		resent := rowsOf(t, d, history.Query{Key: was.Key}, 2)[0]
		if resent.Sealed != was.Sealed || resent.Same != was.Same || x.body(was.Key) != card {
			t.Errorf("resent: %+v, body %q", resent.Notice, x.body(was.Key))
		}

		w.loseKeys(t)
		r := asked(nil)
		if p := w.replay(t, r, false); p.Total != 2 || len(p.Refused) > 0 {
			t.Fatalf("%+v", p)
		}
		if r := w.over(t, r.ID); r.State != history.ReplayDone || r.Counts[jobs.Sent] != 2 {
			t.Errorf("%+v", r)
		}
		rowsOf(t, d, history.Query{}, 5)
		if n := len(x.of(r.ID)); n != 2 || x.body(key(1)) != card || x.body(key(2)) != card {
			t.Errorf("%d notices, bodies %q and %q", n, x.body(key(1)), x.body(key(2)))
		}
	})
}

func TestForgottenRowsAreNeitherReadNorSentAgain(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		h, x := echo()
		w := remembering(t, testkit.SharedRedis(t), h, d, nil)
		w.scheduleSealed(t, sealedFor("m_1", 1, 0), sealedFor("m_2", 2, 0))
		rowsOf(t, d, history.Query{}, 2)
		rows := rowsOf(t, d, history.Query{Key: key(1)}, 1)
		w.forget(t, "m_1")
		for _, when := range []string{"forgotten", "forgotten, and lost by Redis"} {
			if f := w.opened(t, d, key(1)); f.Forgotten.IsZero() || f.Sealed == "" || len(f.Body) > 0 {
				t.Errorf("%s: %+v", when, f)
			}
			if f := w.opened(t, d, key(2)); string(f.Body) != card {
				t.Errorf("%s: another audience: %+v", when, f)
			}
			w.refuses(t, key(1), rows[0].ID(), 1, notice.Delivered)
			w.loseKeys(t)
		}
		planned := asked(nil)
		if p := w.replay(t, planned, false); p.Total != 2 {
			t.Fatalf("%+v", p)
		}
		want := map[string]int64{jobs.Sent: 1, jobs.KeyForgotten: 1}
		if r := w.over(t, planned.ID); r.State != history.ReplayDone || !maps.Equal(r.Counts, want) {
			t.Errorf("%+v, want %v", r, want)
		}
		rowsOf(t, d, history.Query{}, 3) // the delivery ends after the replay
		if n := len(x.of(planned.ID)); n != 1 {
			t.Errorf("%d notices were sent", n)
		}

		if _, err := w.LiftSubject(t.Context(), seal.AudienceSubject("m_1")); err != nil {
			t.Fatal(err)
		}
		w.scheduleSealed(t, sealedFor("m_1", 3, 0))
		rowsOf(t, d, history.Query{Key: key(3)}, 1)
		w.loseKeys(t)
		if f := w.opened(t, d, key(3)); string(f.Body) != card {
			t.Errorf("after the lift: %+v", f)
		}
		if f := w.opened(t, d, key(1)); f.Forgotten.IsZero() {
			t.Errorf("the old entry after the lift: %+v", f)
		}
	})
}

// Neither Redis nor the history has the key, and no mark says why.
func TestSealedRowWithoutItsKeyIsNotSent(t *testing.T) {
	t.Parallel()
	h, x := echo()
	d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	w := remembering(t, testkit.SharedRedis(t), h, d, nil)
	d.KeepKeys(func(context.Context, int, []string) (map[string]string, error) { return nil, nil })
	w.scheduleSealed(t, sealedFor("m_1", 1, 0))
	row := rowsOf(t, d, history.Query{}, 1)[0]
	w.loseKeys(t)
	w.refuses(t, key(1), row.ID(), 1, notice.Delivered)
	r := asked(nil)
	w.replay(t, r, false)
	if r := w.over(t, r.ID); !maps.Equal(r.Counts, map[string]int64{jobs.KeyLost: 1}) || len(x.of(r.ID)) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestSealedRowsWithoutTheirTextAreNotSent(t *testing.T) {
	t.Parallel()
	for bodies, reason := range map[history.Bodies]string{history.BodiesHash: jobs.BodyHashed, history.BodiesDrop: jobs.BodyDropped} {
		h, _ := echo()
		d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
		w := remembering(t, testkit.SharedRedis(t), h, d, func(o *Options) { o.History.Bodies = bodies })
		w.scheduleSealed(t, sealedFor("m_1", 1, 0))
		row := rowsOf(t, d, history.Query{}, 1)[0]
		if row.Sealed != "" || (row.Same != "") != (bodies == history.BodiesHash) {
			t.Errorf("%s: %+v", bodies, row)
		}
		w.refuses(t, key(1), row.ID(), 1, notice.Delivered)
		if p := w.replay(t, asked(nil), true); !maps.Equal(p.Refused, map[string]int64{reason: 1}) {
			t.Errorf("%s: %+v", bodies, p.Refused)
		}
		if f := w.opened(t, d, key(1)); len(f.Attempts) != 1 || f.Attempts[0].Response != card {
			t.Errorf("%s: the answer: %+v", bodies, f.Attempts)
		}
	}
}

// An entry from before the setting must not bring clear text into Redis.
func TestReplaySealsRowsFromBeforeTheSeal(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	h, x := echo()
	clear := remembering(t, srv, h, d, func(o *Options) { o.Routes.Prefix("app1").Seal = "" })
	clear.scheduleSealed(t, sealedFor("m_1", 1, 0))
	row := rowsOf(t, d, history.Query{}, 1)[0]
	clear.stop()
	w := remembering(t, srv, h, d, nil)
	if n := w.resends(t, key(1), row.ID(), 1, 1); n != 1 {
		t.Fatal("not resent")
	}
	rows := rowsOf(t, d, history.Query{}, 2)
	if rows[0].Sealed == "" || len(rows[0].Body) > 0 || x.body(key(1)) != card {
		t.Errorf("%+v", rows[0].Notice)
	}
	r := asked(func(r *history.Replay) { r.NewIDs = true })
	w.replay(t, r, false)
	w.over(t, r.ID)
	if rows := rowsOf(t, d, history.Query{}, 3); rows[0].Sealed == "" || x.body(key(1)) != card {
		t.Errorf("%+v", rows[0].Notice)
	}
}

func TestErasedSealedNoticeLeavesOnlyItsKey(t *testing.T) {
	t.Parallel()
	onDatabaseURLs(t, func(t *testing.T, url string) {
		d := openHistory(t, url)
		h, _ := echo()
		w := remembering(t, testkit.SharedRedis(t), h, d, nil)
		w.scheduleSealed(t, sealedFor("m_1", 1, 0))
		row := rowsOf(t, d, history.Query{}, 1)[0]
		text, answer := row.Sealed[len(row.Sealed)-40:], row.Attempts[0].Sealed
		if !strings.Contains(strings.Join(stored(t, url), ""), text) {
			t.Error("the sealed text is not found")
		}
		if done, err := w.Erase(t.Context(), history.Erasure{Key: key(1)}); err != nil || done.Rows != 1 {
			t.Fatal(done, err)
		}
		testkit.CheckSecrets(t, []string{text, answer, row.ID()}, stored(t, url)...)
		if value, err := d.SealKey(t.Context(), row.DataKeys()[0]); err != nil || value == "" {
			t.Errorf("the key: %q, %v", value, err)
		}
	})
}

func TestForgetNamesAHistoryThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h, _ := echo()
	d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	w := remembering(t, testkit.SharedRedis(t), h, d, nil)
	w.scheduleSealed(t, sealedFor("m_1", 1, time.Hour))
	away := openHistory(t, "sqlite:///missing/history.db")
	w.o.History.DB = away
	if f, err := w.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), ""); !errors.Is(err, jobs.ErrHistoryKeeps) || f.Keys == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	w.o.History.DB = d
	if f := w.forget(t, "m_1"); f.Job.Redirected != 1 {
		t.Errorf("again: %+v", f)
	}
}

func TestRestoredBackupSettlesSealedNotices(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	url := "sqlite://" + t.TempDir() + "/history.db"
	h, x := echo()
	w := remembering(t, srv, h, openHistory(t, url), func(o *Options) { o.Retention = time.Hour })
	w.scheduleSealed(t, sealedFor("m_1", 1, time.Hour), sealedFor("m_1", 2, time.Hour))
	backup := backUp(t, srv.Client())
	if _, err := w.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	rowsOf(t, w.o.History.DB, history.Query{}, 1)
	w.stop()
	restore(t, srv.Client(), backup)
	w = remembering(t, srv, h, openHistory(t, url), func(o *Options) { o.Retention = time.Hour })
	if err := w.store.Layout.Pause(t.Context(), "app1"); err != nil {
		t.Fatal(err)
	}
	if done, err := w.o.History.DB.Settle(t.Context(), w.store, false); err != nil || done != (history.Settled{Checked: 2, Delivered: 1}) {
		t.Fatal(done, err)
	}
	f := w.until(t, key(1), notice.Delivered)
	if f.Sealed == "" || f.Attempts[0].Sealed == "" {
		t.Errorf("settled: %+v", f.Notice)
	}
	if w.Open(t.Context(), &f); string(f.Body) != card || f.Attempts[0].Response != card || len(x.of("")) != 1 {
		t.Errorf("settled and opened: %+v, %d delivered", f.Notice, len(x.of("")))
	}
	if reply, err := w.Schedule(t.Context(), sealedFor("m_1", 1, time.Hour)); err != nil || reply.Created ||
		slices.Contains(reply.Differs, "content") {
		t.Errorf("the same call again: %v, %v", reply.Differs, err)
	}
}

// Overdue notices of a restored backup are delivered at once, but not those of a subject that was forgotten after it.
func TestSubjectsForgottenAfterABackupAreSoAfterItsRestore(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	url := "sqlite://" + t.TempDir() + "/history.db"
	h, x := echo()
	w := remembering(t, srv, h, openHistory(t, url), nil)
	if err := w.store.Layout.Pause(t.Context(), "app1"); err != nil {
		t.Fatal(err)
	}
	w.scheduleSealed(t, sealedFor("m_1", 1, 0), sealedFor("m_2", 2, 0))
	backup := backUp(t, srv.Client())
	at := w.forget(t, "m_1").At
	w.stop()

	restore(t, srv.Client(), backup)
	if err := srv.Client().SRem(t.Context(), w.store.Space().Paused(), "app1").Err(); err != nil { // else nothing is delivered
		t.Fatal(err)
	}
	w = remembering(t, srv, h, openHistory(t, url), nil)
	w.until(t, key(1), notice.Dead)
	testkit.Until(t, "the delivery of the other notice", func() bool { return x.body(key(2)) != "" })
	if x.body(key(1)) != "" {
		t.Error("the forgotten notice was delivered")
	}
	if _, err := w.Schedule(t.Context(), sealedFor("m_1", 3, 0)); !vault.ForgottenAt(err).Equal(at) {
		t.Errorf("a new notice: %v", err)
	}

	restore(t, srv.Client(), backup) // under a running instance, which then has another connection
	w.checkData()
	testkit.Until(t, "the subject is forgotten", func() bool {
		_, err := w.Schedule(t.Context(), sealedFor("m_1", 4, time.Hour))
		return vault.ForgottenAt(err).Equal(at)
	})
}

// A history that was restored from before a forget has the keys, until an instance compares it with Redis.
func TestInstanceForgetsInARestoredHistory(t *testing.T) {
	t.Parallel()
	srv, file := testkit.SharedRedis(t), t.TempDir()+"/history.db"
	h, _ := echo()
	begin := func() (*world, *history.DB) {
		d := openHistory(t, "sqlite://"+file)
		return remembering(t, srv, h, d, nil), d
	}
	w, d := begin()
	w.scheduleSealed(t, sealedFor("m_1", 1, 0))
	id := rowsOf(t, d, history.Query{}, 1)[0].DataKeys()[0]
	w.stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w, d = begin()
	w.forget(t, "m_1")
	w.stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(file, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	d = openHistory(t, "sqlite://"+file)
	if value, err := d.SealKey(t.Context(), id); err != nil || value == "" {
		t.Fatalf("the restored history has the key %q, %v", value, err)
	}
	w = remembering(t, srv, h, d, nil)
	testkit.Until(t, "the history forgets the key", func() bool {
		_, err := d.SealKey(t.Context(), id)
		return !vault.ForgottenAt(err).IsZero()
	})
	if f := w.opened(t, d, key(1)); f.Forgotten.IsZero() || len(f.Body) > 0 {
		t.Errorf("the entry opens: %s", f.Body)
	}
}
