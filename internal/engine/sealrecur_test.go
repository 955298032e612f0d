package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/callback"
	"notifier/internal/dispatch"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const books = "app1:a:b:books"

// plantedEvery is a paused definition with the card in each part that is sealed.
func plantedEvery(m *merchant, key string) recur.Definition {
	d := every(key, time.Hour)
	d.Content, d.Paused = m.planted(key).Content, true
	return d
}

// secretEvery is a definition with secret content and a tick each second.
func secretEvery(key, audience string) recur.Definition {
	d := every(key, time.Second)
	d.Content = sealedFor(audience, 0, 0).Content
	return d
}

// run schedules an occurrence now, and returns its key.
func (w *world) run(t *testing.T, key string) string {
	t.Helper()
	r, err := w.Recurrences().RunNow(t.Context(), key)
	if err != nil || !r.Created || r.Sealed == "" {
		t.Fatal(r, err)
	}
	return r.Key
}

// definition reads a definition.
func (w *world) definition(t *testing.T, key string) recur.Recurrence {
	t.Helper()
	x, err := w.Recurrences().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// recurring starts an instance whose attempts go to m, with service keys unless there are no names.
func (m *merchant) recurring(t *testing.T, srv *testkit.Redis, scope seal.Scope, names ...string) *world {
	t.Helper()
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(scope)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	return start(t, srv, calls, func(o *Options) {
		o.KeyAge, o.Logger, o.Space.Shards = forgottenAge, zap.NewNop(), 2
		if o.Instance += strings.Join(names, " "); len(names) > 0 {
			o.SealKeys = testkit.ServiceKeys(t, names...)
		}
	}, r)
}

func TestSealedRecurringNoticeIsNowhereInRedisAndTheLog(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			m := newMerchant(t, 200)
			calls := callback.New(callback.Options{})
			t.Cleanup(calls.Close)
			core, logs := logobserver.New(zap.DebugLevel)
			r := sealedRoute(scope)
			r.Allow, _ = route.ParseAllow("127.0.0.1")
			w := start(t, testkit.SharedRedis(t), calls, func(o *Options) {
				o.SealKeys, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), zap.New(core), 3
			}, r)
			d := plantedEvery(m, books)
			d.Spec.Every, d.Times, d.Paused = time.Second, 2, false
			w.define(t, d)
			for i := range 2 {
				f := w.until(t, recur.OccurrenceKey(books, i+1), notice.Delivered)
				if f.Sealed == "" || f.Attempts[0].Sealed == "" || f.Tick.IsZero() {
					t.Errorf("%+v", f.Notice)
				}
				if w.Open(t.Context(), &f); string(f.Body) != `{"card":"`+card+`"}` || f.Attempts[0].Response != string(f.Body) || f.Headers[0].Value != card {
					t.Errorf("opened: %+v", f.Notice)
				}
			}
			for _, got := range m.requests() {
				if got != plantedRequest {
					t.Errorf("request %q", got)
				}
			}
			x := w.definition(t, books)
			if o, at := w.Recurrences().Open(t.Context(), x); !at.IsZero() || string(o.Content.Body) != string(d.Content.Body) ||
				o.Content.URL != d.Content.URL || o.Content.Headers[0].Value != card || x.Content.Sealed == "" || len(x.Content.Body) > 0 {
				t.Errorf("opened: %+v of %+v", o.Content, x.Content)
			}
			texts := everything(t, w)
			for _, e := range logs.All() {
				texts = append(texts, fmt.Sprint(e.Message, e.ContextMap()))
			}
			testkit.CheckSecrets(t, []string{card, password}, texts...)
		})
	}
}

// A repeated call changes nothing. A change of the ticks, a pause and a resume keep the text.
func TestRepeatedPutKeepsTheSealedText(t *testing.T) {
	t.Parallel()
	w := startSealing(t, testkit.SharedRedis(t), newSink(1), seal.PerAudience)
	all, d := w.Recurrences(), secretEvery(books, "m_1")
	d.Spec.Every = time.Hour
	first := w.define(t, d)
	if again := w.define(t, d); again.Changes != first.Changes || again.Content.Sealed != first.Content.Sealed {
		t.Errorf("the same call again: %+v after %+v", again, first)
	}
	d.Spec.Every = 2 * time.Hour
	if x := w.define(t, d); x.Changes == first.Changes || x.Content.Sealed != first.Content.Sealed {
		t.Errorf("other ticks: %+v after %+v", x, first)
	}
	for _, turn := range []func() (recur.Recurrence, error){
		func() (recur.Recurrence, error) { return all.Pause(t.Context(), books) },
		func() (recur.Recurrence, error) { return all.Resume(t.Context(), books) },
	} {
		if x, err := turn(); err != nil || x.Content.Sealed != first.Content.Sealed {
			t.Errorf("%+v, %v", x, err)
		}
	}
	d.Content.Body = []byte(card + "1")
	x := w.define(t, d)
	if o, _ := all.Open(t.Context(), x); x.Content.Sealed == first.Content.Sealed || string(o.Content.Body) != card+"1" {
		t.Errorf("another body: %+v", x)
	}
	d.Content.Audience = "m_2" // another subject
	y := w.define(t, d)
	if o, _ := all.Open(t.Context(), y); y.Content.Sealed == x.Content.Sealed || string(o.Content.Body) != card+"1" {
		t.Errorf("another audience: %+v", y)
	}
}

// The instance without the key stores occurrences, pauses and resumes. It stores no definition, and leaves the attempts to the other one.
func TestInstanceWithoutTheKeyStoresSealedOccurrences(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	with := m.recurring(t, srv, seal.PerAudience, "k")
	d := plantedEvery(m, books)
	with.define(t, d)
	with.stop()

	without := m.recurring(t, srv, seal.PerAudience)
	d.Content.Body = nil
	if _, _, err := without.Recurrences().Put(t.Context(), d); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("a definition: %v", err)
	}
	for _, turn := range []func() (recur.Recurrence, error){
		func() (recur.Recurrence, error) { return without.Recurrences().Resume(t.Context(), books) },
		func() (recur.Recurrence, error) { return without.Recurrences().Pause(t.Context(), books) },
	} {
		if x, err := turn(); err != nil || x.Content.Sealed == "" {
			t.Errorf("%+v, %v", x, err)
		}
	}
	x := without.definition(t, books)
	if o, at := without.Recurrences().Open(t.Context(), x); o.Content.Sealed == "" || !at.IsZero() {
		t.Errorf("opened: %+v", o)
	}
	key := without.run(t, books)

	again := m.recurring(t, srv, seal.PerAudience, "k")
	if f := again.until(t, key, notice.Delivered); f.AttemptsMade != 1 {
		t.Errorf("%d attempts", f.AttemptsMade)
	}
	if got := m.requests(); len(got) != 1 || got[0] != plantedRequest {
		t.Errorf("%q", got)
	}
}

func TestForgottenRecurringNoticeHasNoOccurrences(t *testing.T) {
	t.Parallel()
	for _, overlap := range []recur.Overlap{recur.OverlapAllow, recur.OverlapSkip} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			srv := testkit.SharedRedis(t)
			w, other := startSealing(t, srv, newSink(1000), seal.PerAudience), startSealing(t, srv, newSink(1000), seal.PerAudience)
			all := other.Recurrences()
			gone, stays := secretEvery("app1:a:b:gone", "m_1"), secretEvery("app1:a:c:gone", "m_2") // of one shard
			gone.Overlap = overlap
			w.define(t, gone)
			w.define(t, stays)
			w.until(t, recur.OccurrenceKey(gone.Key, 1), notice.Delivered)
			at := w.forget(t, "m_1").At

			before := w.definition(t, gone.Key)
			number := w.definition(t, stays.Key).Number
			eventually(t, "ticks without occurrences", func() bool { return other.definition(t, gone.Key).State.Missed >= before.State.Missed+3 })
			after := other.definition(t, gone.Key)
			if after.Number > before.Number+1 || after.Paused { // one may have been stored before the keys were deleted
				t.Errorf("%+v after %+v", after.State, before.State)
			}
			eventually(t, "those of another audience", func() bool { return w.definition(t, stays.Key).Number >= number+2 })
			if _, err := all.RunNow(t.Context(), gone.Key); !vault.ForgottenAt(err).Equal(at) {
				t.Errorf("run: %v", err)
			}
			if _, _, err := all.Put(t.Context(), gone); !vault.ForgottenAt(err).Equal(at) {
				t.Errorf("put: %v", err)
			}
			if x, forgotten := all.Open(t.Context(), after); !forgotten.Equal(at) || x.Content.Sealed == "" {
				t.Errorf("opened: %+v, forgotten at %s", x, forgotten)
			}
			if x, err := all.Pause(t.Context(), gone.Key); err != nil || !x.Paused {
				t.Errorf("pause: %+v, %v", x, err)
			}
			if _, err := all.Resume(t.Context(), gone.Key); err != nil {
				t.Error(err)
			}

			if _, err := w.LiftSubject(t.Context(), seal.AudienceSubject("m_1")); err != nil {
				t.Fatal(err)
			}
			if _, err := all.RunNow(t.Context(), gone.Key); vault.ForgottenAt(err).IsZero() {
				t.Errorf("after the lift, the old content: %v", err)
			}
			if x, created, err := all.Put(t.Context(), gone); err != nil || created || x.Content.Sealed == after.Content.Sealed {
				t.Fatalf("after the lift, the same content: %+v, %v, %v", x, created, err)
			}
			w.until(t, w.run(t, gone.Key), notice.Delivered)
		})
	}
}

// takeKeys deletes the keys of all shards, as a Redis that was restored without them. Instances keep theirs in memory.
func (w *world) takeKeys(t *testing.T) (lost map[string]map[string]string) {
	t.Helper()
	lost = map[string]map[string]string{}
	for place := range w.store.Space().Places() {
		name := w.store.Space().Seals(place)
		lost[name] = w.srv.Client().HGetAll(t.Context(), name).Val()
		if err := w.srv.Client().Del(t.Context(), name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return lost
}

// A definition whose key Redis has lost is tried again after a minute, and holds back no other. It continues with the key, or with a new
// text.
func TestRecurringNoticeWithoutItsKeyIsPutBack(t *testing.T) {
	t.Parallel()
	core, logs := logobserver.New(zap.WarnLevel)
	w := start(t, testkit.SharedRedis(t), newSink(1000), func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger = testkit.ServiceKeys(t, "k"), forgottenAge, zap.New(core)
	}, sealedRoute(seal.PerAudience))
	d := secretEvery(books, "m_1")
	first := w.define(t, d)
	w.until(t, recur.OccurrenceKey(books, 1), notice.Delivered)
	lost := w.takeKeys(t)
	p := w.store.Space().Partition("app1", books)
	eventually(t, "the pause", func() bool {
		at, err := w.srv.Client().ZScore(t.Context(), w.store.Space().Ticks(p), books).Result()
		return err == nil && time.UnixMilli(int64(at)).After(w.Now().Add(lostPause/2))
	})
	if n := logs.FilterMessageSnippet("without its data key").Len(); n != 1 {
		t.Errorf("%d lines of the log", n)
	}
	if _, err := w.Recurrences().RunNow(t.Context(), books); !errors.Is(err, vault.ErrUnknownKey) {
		t.Errorf("run: %v", err)
	}
	other := secretEvery("app1:a:c:books", "m_2")
	w.define(t, other)
	w.until(t, recur.OccurrenceKey(other.Key, 2), notice.Delivered)

	for name, fields := range lost {
		if len(fields) == 0 {
			continue
		}
		if err := w.srv.Client().HSet(t.Context(), name, fields).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, w.run(t, books), notice.Delivered)

	w.takeKeys(t)
	eventually(t, "the text to be closed", func() bool {
		o, _ := w.Recurrences().Open(t.Context(), w.definition(t, books))
		return o.Content.Sealed != ""
	})
	if x := w.define(t, d); x.Content.Sealed == first.Content.Sealed {
		t.Error("the text that does not open was kept")
	}
	w.until(t, w.run(t, books), notice.Delivered)
}

// The entries of occurrences have the text of the definition, and the history has its key.
func TestRecurringNoticeTakesItsKeyFromTheHistory(t *testing.T) {
	t.Parallel()
	onDatabaseURLs(t, func(t *testing.T, url string) {
		h, _ := echo()
		d := openHistory(t, url)
		w := start(t, testkit.SharedRedis(t), h, func(o *Options) {
			o.SealKeys, o.KeyAge, o.Logger = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop()
			o.History = History{DB: d, Backlog: 1000}
		}, sealedRoute(seal.PerAudience))
		x := secretEvery(books, "m_1")
		x.Paused = true
		w.define(t, x)
		first := w.run(t, books)
		w.until(t, first, notice.Delivered)
		rowsOf(t, d, history.Query{}, 1)
		testkit.CheckSecrets(t, []string{card}, stored(t, url)...)
		w.takeKeys(t)
		w.until(t, w.run(t, books), notice.Delivered)
		if f := w.opened(t, d, first); string(f.Body) != card || f.Sealed != "" {
			t.Errorf("the entry of %s: %+v", first, f.Notice)
		}
		if _, err := w.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), ""); err != nil {
			t.Fatal(err)
		}
		w.takeKeys(t) // the marks of Redis too
		eventually(t, "the mark of the history", func() bool {
			_, err := w.Recurrences().RunNow(t.Context(), books)
			return !vault.ForgottenAt(err).IsZero()
		})
	})
}

// The instance seals with a key in memory that Redis has lost.
func TestDefinitionIsNotStoredWithoutItsKey(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newSink(10), func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger = testkit.ServiceKeys(t, "k"), time.Hour, zap.NewNop()
	}, sealedRoute(seal.PerRoute))
	for _, key := range []string{"app1:a:b:other", books} {
		d := secretEvery(key, "m_1")
		d.Paused = true
		w.define(t, d)
		if key != books {
			w.takeKeys(t)
		}
	}
	w.until(t, w.run(t, books), notice.Delivered)
}

// Where the setting is removed, sealed definitions stay as they are.
func TestSealedDefinitionOutlivesTheSetting(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	w := m.recurring(t, srv, seal.PerAudience, "k")
	w.define(t, plantedEvery(m, books))
	w.stop()
	w = m.recurring(t, srv, "", "k")
	if _, err := w.Recurrences().Resume(t.Context(), books); err != nil {
		t.Fatal(err)
	}
	w.until(t, w.run(t, books), notice.Delivered)
	if got := m.requests(); len(got) != 1 || got[0] != plantedRequest {
		t.Errorf("%q", got)
	}
	if x := w.define(t, plantedEvery(m, books)); x.Content.Sealed != "" { // as the route says
		t.Errorf("%+v", x)
	}
}

func TestExistingDefinitionsAreSealed(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
			old := m.recurring(t, srv, "", "k")
			d := plantedEvery(m, books)
			old.define(t, d)
			deleted := plantedEvery(m, "app1:a:b:deleted")
			old.define(t, deleted)
			if err := old.Recurrences().Delete(t.Context(), deleted.Key); err != nil {
				t.Fatal(err)
			}
			before := old.definition(t, books)
			old.stop()

			w := m.recurring(t, srv, scope, "k")
			dry := w.sealer()
			dry.DryRun = true
			for _, s := range []*jobs.Sealer{dry, w.sealer()} {
				if got, err := s.Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 1}) {
					t.Errorf("dry run %t: %+v, %v", s.DryRun, got, err)
				}
			}
			if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{}) {
				t.Errorf("the second run: %+v, %v", got, err)
			}
			testkit.CheckSecrets(t, []string{card, password}, everything(t, w)...)
			after := w.definition(t, books)
			if after.Changes <= before.Changes { // a step that was planned before is not made
				t.Errorf("%+v after %+v", after.State, before.State)
			}
			if x := w.define(t, d); x.Changes != after.Changes {
				t.Errorf("the same call again: %+v after %+v", x.State, after.State)
			}
			w.until(t, w.run(t, books), notice.Delivered)
			if got := m.requests(); len(got) != 1 || got[0] != plantedRequest {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestDefinitionsThatCannotBeSealedAreCounted(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	old := m.recurring(t, srv, "", "k")
	d := plantedEvery(m, books)
	d.Content.Audience = ""
	old.define(t, d)
	old.stop()
	w := m.recurring(t, srv, seal.PerAudience, "k")
	if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{Refused: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	var f recur.Fault
	if _, _, err := w.Recurrences().Put(t.Context(), d); !errors.As(err, &f) || f.Field != "audience" {
		t.Errorf("without an audience: %v", err)
	}
}

func TestSealedDefinitionOpensAfterARotation(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	old := m.recurring(t, srv, seal.PerID, "old")
	old.define(t, plantedEvery(m, books))
	old.stop()
	both := m.recurring(t, srv, seal.PerID, "new", "old")
	rewrap := vault.Rewrapper{Keys: both.o.SealKeys, Wire: both.store.Wire()}
	if done, err := rewrap.Run(t.Context()); err != nil || done.Under["old"] > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	both.stop()
	w := m.recurring(t, srv, seal.PerID, "new")
	w.until(t, w.run(t, books), notice.Delivered)
	if got := m.requests(); len(got) != 1 || got[0] != plantedRequest {
		t.Errorf("%q", got)
	}
}

// A definition without notices uses its key until it is deleted.
func TestKeyOfADefinitionIsUsed(t *testing.T) {
	t.Parallel()
	w := startSealing(t, testkit.SharedRedis(t), newSink(1), seal.PerID)
	d := secretEvery(books, "")
	d.Paused = true
	w.define(t, d)
	c := vault.Cleaner{Vault: w.vault, Prefixes: w.store.Layout.Prefixes, Keep: time.Hour}
	marks := func() (n int) {
		if _, err := c.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		for place := range w.store.Space().Places() {
			for name := range w.srv.Client().HGetAll(t.Context(), w.store.Space().Seals(place)).Val() {
				if strings.HasPrefix(name, "unused:") {
					n++
				}
			}
		}
		return n
	}
	if n := marks(); n != 0 {
		t.Errorf("%d keys are marked", n)
	}
	if err := w.Recurrences().Delete(t.Context(), books); err != nil {
		t.Fatal(err)
	}
	if n := marks(); n != 1 {
		t.Errorf("%d keys are marked after the deletion", n)
	}
}

// The entry of a list has the text of the definition, which opens with the key of the occurrence.
func TestSealedEntryOfARecurringNoticeOpens(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	r := queueRoute("r", "app1", route.Target{Kind: route.KindList, Key: "todo"}, route.AckReport)
	r.Seal = seal.PerID
	var h dispatch.Handler = handlers{queue: &queue.Handler{}}
	w := start(t, srv, h, func(o *Options) { o.SealKeys, o.Logger = testkit.ServiceKeys(t, "k"), zap.NewNop() }, r)
	d := every(books, time.Hour)
	d.Content.Body, d.Paused = []byte(`{"card":"`+card+`"}`), true
	w.define(t, d)
	key := w.run(t, books)
	e := sealedEntry(t, srv.Client(), route.KindList)
	if c, err := w.OpenText(t.Context(), e.Key, e.Sealed); err != nil || e.Key != key || string(c.Body) != string(d.Content.Body) {
		t.Errorf("%s: %+v, %v", e.Key, c, err)
	}
	if _, err := w.OpenText(t.Context(), "app1:a:b:other~1", e.Sealed); !errors.Is(err, seal.ErrForeign) {
		t.Errorf("as that of another notice: %v", err)
	}
}

// A notice with a number is not an occurrence, also if a definition has its key without the number.
func TestNumberedNoticeOfASealedRouteIsItsOwn(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, 200)
	w := m.recurring(t, testkit.SharedRedis(t), seal.PerID, "k")
	x := m.planted(recur.OccurrenceKey(books, 7))
	x.Delay = time.Hour
	w.scheduleSealed(t, x)
	w.define(t, plantedEvery(m, books))
	f := w.until(t, x.Key, notice.Scheduled)
	for _, key := range []string{books, recur.OccurrenceKey(books, 1)} {
		if _, err := w.OpenText(t.Context(), key, f.Sealed); !errors.Is(err, seal.ErrForeign) {
			t.Errorf("as that of %s: %v", key, err)
		}
	}
	if again, err := w.Schedule(t.Context(), x); err != nil || again.Created || len(again.Differs) > 0 {
		t.Errorf("the same call again: %+v, %v", again, err)
	}
	if _, err := w.Fire(t.Context(), x.Key); err != nil {
		t.Fatal(err)
	}
	w.until(t, x.Key, notice.Delivered)
	w.until(t, w.run(t, books), notice.Delivered)
	if got := m.requests(); len(got) != 2 || got[0] != plantedRequest || got[1] != plantedRequest {
		t.Errorf("%q", got)
	}
}

// A changed occurrence gets its own text. Others do not change.
func TestReaddressedOccurrenceIsSealedOnItsOwn(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, 200)
	w := m.recurring(t, testkit.SharedRedis(t), seal.PerID, "k")
	w.define(t, plantedEvery(m, books))
	w.pauseRoute(t, "app1")
	changed, other := w.run(t, books), w.run(t, books)
	headers := []notice.Header{{Name: "X-Card", Value: card + "2"}}
	if c, _, err := w.Readdress(t.Context(), changed, notice.Address{Headers: headers, SetHeaders: true}, nil); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	f := w.until(t, changed, notice.Scheduled)
	if _, err := w.OpenText(t.Context(), other, f.Sealed); !errors.Is(err, seal.ErrForeign) {
		t.Errorf("as that of another occurrence: %v", err)
	}
	testkit.CheckSecrets(t, []string{card, password}, everything(t, w)...)
	if err := w.Resume(t.Context(), "app1"); err != nil {
		t.Fatal(err)
	}
	w.until(t, changed, notice.Delivered)
	w.until(t, other, notice.Delivered)
	got := m.requests()
	if slices.Sort(got); len(got) != 2 || got[0] != plantedRequest || got[1] != password+" "+card+`2 {"card":"`+card+`"}` {
		t.Errorf("%q", got)
	}
}
