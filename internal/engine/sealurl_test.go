package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
)

// paid is the path and query of a url with the card.
const paid = "/paid?card=" + card

// shop is a receiver that answers one request after the other with the next of its answers, and then with 200.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	answers []http.HandlerFunc
	got     []string // path and query of each request
}

func newShop(t *testing.T, answers ...http.HandlerFunc) *shop {
	t.Helper()
	s := &shop{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.got = append(s.got, r.URL.RequestURI())
		answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok ", r.URL) }
		if len(s.answers) > 0 {
			answer, s.answers = s.answers[0], s.answers[1:]
		}
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns the paths and queries of the requests since the last call.
func (s *shop) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

func (s *shop) check(t *testing.T, want ...string) {
	t.Helper()
	if got := s.requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func refuse(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no such page: "+r.URL.String(), status) }
}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = c.Close()
	}
}

// elsewhere answers with a redirect that keeps the query.
func elsewhere(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "#there")
	w.WriteHeader(http.StatusFound)
}

// urlRoute returns a route that seals the queries of urls.
func urlRoute(scope seal.Scope) *route.Route {
	r := sealedRoute(scope)
	r.SealURL = true
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	return r
}

// startURL starts an engine with a route of urlRoute, which change may change.
func startURL(t *testing.T, srv *testkit.Redis, change func(*Options, *route.Route)) *world {
	t.Helper()
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := urlRoute(seal.PerAudience)
	return start(t, srv, calls, func(o *Options) {
		o.SealKeys, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), zap.NewNop(), 2
		if change != nil {
			change(o, r)
		}
	}, r)
}

// plainURL makes an instance without the setting.
func plainURL(o *Options, r *route.Route) { r.SealURL, o.Instance = false, "plain" }

func (s *shop) paid(i int, delay time.Duration) store.Request {
	return store.Request{Key: key(i), Delay: delay, Content: notice.Content{URL: s.URL + paid, Audience: "m_1", Body: []byte("{}")}}
}

// fires delivers a scheduled notice.
func (w *world) fires(t *testing.T, i int) store.Found {
	t.Helper()
	if _, err := w.Fire(t.Context(), key(i)); err != nil {
		t.Fatal(err)
	}
	return w.until(t, key(i), notice.Delivered)
}

// repeats makes a schedule call again, and fails unless it is recognised or differs as wanted.
func (w *world) repeats(t *testing.T, r store.Request, differs bool) {
	t.Helper()
	reply, err := w.Schedule(t.Context(), r)
	if err != nil || reply.Created || (len(reply.Differs) > 0) != differs {
		t.Errorf("%s again with %s: created %v, differs in %q, %v; want differs %v", r.Key, r.URL, reply.Created, reply.Differs, err, differs)
	}
}

// The card is in the query and the fragment. The receiver gets the query, and so may write it into its answer, its redirect and errors.
func TestSealedQueryIsNowhereInRedisHistoryLogSpansAndMetrics(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			srv := testkit.StartRedis(t)
			for name, value := range map[string]string{"rdbcompression": "no", "appendonly": "yes", "appendfsync": "always"} {
				if err := srv.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			file := "sqlite://" + t.TempDir() + "/history.db"
			d, traced := openHistory(t, file), newSpans()
			core, logs := logobserver.New(zap.DebugLevel)
			calls := callback.New(callback.Options{})
			t.Cleanup(calls.Close)
			r := urlRoute(scope)
			r.OnDead = testRoute("hook", "ops:x")
			counted := telemetry.NewMetrics(telemetry.MetricsOptions{})
			w := start(t, srv, calls, func(o *Options) {
				o.SealKeys, o.Logger, o.Tracer, o.History = testkit.ServiceKeys(t, "k"), zap.New(core), traced.tracer(), History{DB: d, Backlog: 1000}
				o.Metrics = counted
			}, r, r.OnDead)
			s := newShop(t, refuse(500), elsewhere, hangUp)
			address := strings.Replace(s.URL, "://", "://user:"+password+"@", 1) + paid + "#" + card
			request := store.Request{Key: key(1), Content: notice.Content{URL: address, Audience: "m_1"}}
			reply, err := w.Schedule(t.Context(), request)
			if err != nil || reply.URL != s.URL+"/paid" || !reply.URLSealed {
				t.Fatalf("%+v, %v", reply.Notice, err)
			}
			f := w.until(t, key(1), notice.Dead)
			if f.URL != s.URL+"/paid" || !f.URLSealed || len(f.Attempts) != 3 {
				t.Errorf("%+v", f.Notice)
			}
			w.Open(t.Context(), &f)
			if f.URL != address || f.URLSealed || !strings.Contains(f.Attempts[0].Response, card) ||
				!strings.Contains(f.Attempts[1].Response, card) {
				t.Errorf("opened: %+v", f.Notice)
			}
			if _, err := w.Redrive(t.Context(), key(1), notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, key(1), notice.Delivered)
			s.check(t, paid, paid, paid, paid)

			rows := rowsOf(t, d, history.Query{Key: key(1)}, 2)
			if rows[0].URL != s.URL+"/paid" || !rows[0].URLSealed || rows[0].Host != "127.0.0.1" {
				t.Errorf("the entry of the history: %+v", rows[0].Notice)
			}
			if f := w.opened(t, d, key(1)); f.URL != address || !strings.Contains(f.Attempts[3].Response, card) {
				t.Errorf("opened: %+v", f.Notice)
			}
			var shown []string
			for _, e := range logs.All() {
				shown = append(shown, fmt.Sprint(e.Message, e.ContextMap()))
			}
			for _, span := range traced.Ended() {
				shown = append(shown, fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status()))
			}
			if len(logs.FilterMessage("attempt").All()) < 4 || len(traced.Ended()) < 4 {
				t.Errorf("%d log lines and %d spans", logs.Len(), len(traced.Ended()))
			}
			answer := httptest.NewRecorder()
			counted.Page().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			shown = append(shown, answer.Body.String())
			shown = append(append(shown, stored(t, file)...), append(savedFiles(t, srv), everything(t, w)...)...)
			testkit.CheckSecrets(t, []string{card, password}, shown...)
		})
	}
}

// Changes of the address: the receiver gets the query of the last one, and no place shows one.
func TestSealedQueryStaysSealedWhenTheAddressChanges(t *testing.T) {
	t.Parallel()
	old, s := newShop(t), newShop(t)
	w := startURL(t, testkit.SharedRedis(t), nil)
	first := old.paid(1, time.Hour)
	w.scheduleSealed(t, first, old.paid(2, time.Hour), old.paid(3, time.Hour))
	change := func(i int, a notice.Address) {
		t.Helper()
		if c, _, err := w.Readdress(t.Context(), key(i), a, nil); err != nil || !c.Done || c.URL != strings.Split(c.URL, "?")[0] {
			t.Fatalf("%+v, %v", c.Notice, err)
		}
		testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	}
	change(1, notice.Address{URL: s.URL + "/other?card=" + card + "2"})
	w.repeats(t, first, false)
	w.repeats(t, old.paid(1, time.Hour), false)
	other := old.paid(1, time.Hour)
	other.URL += "7"
	w.repeats(t, other, true)
	change(2, notice.Address{SetHeaders: true, Headers: []notice.Header{{Name: "X-Shop", Value: "7"}}})

	r, err := w.MakeRedirect(t.Context(), jobs.Rule{From: old.URL, To: s.URL + "/new"}, "")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the redirect is done", func() bool {
		r, err = w.ReadRedirect(t.Context(), r.ID)
		return err == nil && r.State == jobs.Done
	})
	if r.Redirected != 2 {
		t.Errorf("%+v", r)
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	w.repeats(t, old.paid(3, time.Hour), false)
	for i, want := range []string{"/other?card=" + card + "2", "/new" + paid, "/new" + paid} {
		f := w.fires(t, i+1)
		s.check(t, want)
		if w.Open(t.Context(), &f); f.URL != s.URL+want {
			t.Errorf("%s, want %s", f.URL, s.URL+want)
		}
	}
	old.check(t)
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
}

// A repeated call is compared with the query, while the notice is stored and when only its tombstone is. The instances may have different
// settings.
func TestRepeatedCallIsComparedWithTheSealedQuery(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		for _, creator := range []string{"sealing", "plain"} {
			t.Run(fmt.Sprintf("tombstone %v created by %s", gone, creator), func(t *testing.T) {
				t.Parallel()
				srv, s := testkit.SharedRedis(t), newShop(t)
				trims := func(o *Options, _ *route.Route) {
					if o.RepeatWindow, o.RepeatBytes = time.Hour, 1<<20; gone {
						o.Retain = 0
					}
				}
				all := map[string]*world{"sealing": startURL(t, srv, trims),
					"plain": startURL(t, srv, func(o *Options, r *route.Route) { trims(o, r); plainURL(o, r) })}
				w, delay := all[creator], time.Hour
				if gone {
					delay = 0
				}
				w.scheduleSealed(t, s.paid(1, delay))
				if gone {
					w.until(t, key(1), notice.Delivered)
					for shard := range 2 {
						if _, _, err := w.store.Trim(t.Context(), shard, []store.Trim{{Prefix: "app1"}}, 10); err != nil {
							t.Fatal(err)
						}
					}
					if reply, err := w.Schedule(t.Context(), s.paid(1, 0)); err != nil || reply.State != notice.Settled {
						t.Fatal(reply, err)
					}
				}
				for _, w := range all {
					w.repeats(t, s.paid(1, delay), false)
					other := s.paid(1, delay)
					other.URL += "7"
					w.repeats(t, other, true)
					other.URL = s.URL + "/paid"
					w.repeats(t, other, true)
					other = s.paid(1, delay)
					other.Body = []byte("[]")
					w.repeats(t, other, true)
				}
			})
		}
	}
}

// An instance without the setting delivers and changes notices whose query is sealed, and does not write the query in clear text.
func TestInstanceWithoutTheSettingKeepsTheQuerySealed(t *testing.T) {
	t.Parallel()
	srv, s := testkit.SharedRedis(t), newShop(t)
	sealing := startURL(t, srv, nil)
	sealing.scheduleSealed(t, s.paid(1, time.Hour))
	sealing.stop()
	w := startURL(t, srv, plainURL)
	headers := []notice.Header{{Name: "X-Shop", Value: "7"}}
	if c, _, err := w.Readdress(t.Context(), key(1), notice.Address{SetHeaders: true, Headers: headers}, nil); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	w.fires(t, 1)
	s.check(t, paid)
}

// Notices that were sealed before the setting keep their clear query until a change of the address or seal --existing.
func TestExistingQueriesAreSealed(t *testing.T) {
	t.Parallel()
	srv, s := testkit.SharedRedis(t), newShop(t, refuse(410))
	clear := startURL(t, srv, func(o *Options, r *route.Route) { r.Seal = ""; plainURL(o, r) })
	clear.scheduleSealed(t, s.paid(1, time.Hour))
	clear.stop()
	old := startURL(t, srv, plainURL)
	old.scheduleSealed(t, s.paid(2, 0))
	old.until(t, key(2), notice.Dead)
	old.scheduleSealed(t, s.paid(3, time.Hour), s.paid(4, time.Hour), s.paid(5, time.Hour))
	if c, _, err := old.Readdress(t.Context(), key(3), notice.Address{URL: s.URL + "/other?card=" + card}, nil); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	old.stop()

	w := startURL(t, srv, nil)
	w.repeats(t, s.paid(4, time.Hour), false)
	if c, _, err := w.Readdress(t.Context(), key(5), notice.Address{URL: s.URL + "/other?card=" + card}, nil); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if f, err := w.Find(t.Context(), key(5)); err != nil || strings.Contains(f.Record(), card) {
		t.Errorf("after a change of the address: %s, %v", f.Record(), err)
	}
	dry := w.sealer()
	dry.DryRun = true
	if got, err := dry.Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 4}) {
		t.Errorf("a dry run: %+v, %v", got, err)
	}
	for _, want := range []jobs.SealedExisting{{Sealed: 4}, {}} {
		if got, err := w.sealer().Run(t.Context()); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)

	for _, i := range []int{1, 3, 4, 5} { // as scheduled, before and after the change of the address
		w.repeats(t, s.paid(i, time.Hour), false)
	}
	s.requests()
	for i, want := range map[int]string{1: paid, 3: "/other?card=" + card, 4: paid, 5: "/other?card=" + card} {
		w.fires(t, i)
		s.check(t, want)
	}
	f, err := w.Find(t.Context(), key(2))
	if err != nil {
		t.Fatal(err)
	}
	if w.Open(t.Context(), &f); f.URL != s.URL+paid || !strings.Contains(f.Attempts[0].Response, card) {
		t.Errorf("the dead letter: %+v", f.Notice)
	}
}

// Replays and resends send the query, also of an entry that was written before the setting, and store it sealed only.
func TestReplayAndResendSendTheSealedQuery(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"sealed with the query", "sealed without the query", "clear"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			srv, s := testkit.SharedRedis(t), newShop(t)
			d := openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
			begin := func(change func(*Options, *route.Route)) *world {
				return startURL(t, srv, func(o *Options, r *route.Route) {
					if o.History, o.Retention = (History{DB: d, Backlog: 1000}), 0; change != nil {
						change(o, r)
					}
				})
			}
			old := begin(func(o *Options, r *route.Route) {
				if plainURL(o, r); before == "clear" {
					r.Seal = ""
				}
				r.SealURL = before == "sealed with the query"
			})
			old.scheduleSealed(t, s.paid(1, 0))
			row := rowsOf(t, d, history.Query{}, 1)[0]
			old.stop()
			w := begin(nil)
			if n := w.resends(t, key(1), row.ID(), 1, 1); n != 1 {
				t.Fatal("not resent")
			}
			rowsOf(t, d, history.Query{}, 2)
			r := asked(func(r *history.Replay) { r.NewIDs = true })
			if p := w.replay(t, r, false); p.Total != 1 || p.Hosts[0].Name != "127.0.0.1" {
				t.Fatalf("%+v", p)
			}
			w.over(t, r.ID)
			rows := rowsOf(t, d, history.Query{}, 3)
			s.check(t, paid, paid, paid)
			if f := w.opened(t, d, key(1)); f.URL != s.URL+paid {
				t.Errorf("%+v", f.Notice)
			}
			for i := range 2 {
				if !rows[i].URLSealed || rows[i].URL != s.URL+"/paid" {
					t.Errorf("entry %d: %+v", i, rows[i].Notice)
				}
			}
		})
	}
}

// A dead letter that was downloaded is restored with its query sealed.
func TestRestoredQueryIsSealed(t *testing.T) {
	t.Parallel()
	s := newShop(t, refuse(410))
	old, w := startURL(t, testkit.SharedRedis(t), nil), startURL(t, testkit.SharedRedis(t), nil)
	old.scheduleSealed(t, s.paid(1, 0))
	f := old.until(t, key(1), notice.Dead)
	old.Open(t.Context(), &f)
	for _, created := range []bool{true, false} {
		if got := w.Restore(t.Context(), []store.Letter{{Notice: f.Notice, Died: f.SettledAt}})[0]; got.Err != nil || got.Created != created {
			t.Fatalf("%+v, want created %v", got, created)
		}
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	if _, err := w.Redrive(t.Context(), key(1), notice.Expiry{}); err != nil {
		t.Fatal(err)
	}
	w.until(t, key(1), notice.Delivered)
	s.check(t, paid, paid)
}

// Without the setting, and for urls without a query, a record has the same members as before.
func TestSettingChangesOnlyRecordsWithAQuery(t *testing.T) {
	t.Parallel()
	var lengths []int
	for _, sealing := range []bool{false, true} {
		w := startURL(t, testkit.SharedRedis(t), func(_ *Options, r *route.Route) { r.SealURL = sealing })
		r := store.Request{Key: key(1), Delay: time.Hour, Content: notice.Content{URL: "https://shop.example/paid", Audience: "m_1"}}
		w.scheduleSealed(t, r)
		f, err := w.Find(t.Context(), key(1))
		if err != nil || f.URLSealed || f.URL != r.URL || strings.Contains(f.Record(), "url_sealed") {
			t.Errorf("%s, %v", f.Record(), err)
		}
		lengths = append(lengths, len(f.Record()))
	}
	if lengths[0] != lengths[1] {
		t.Errorf("records of %d bytes without the setting and with it", lengths)
	}
}

// A definition is sealed with its query when it is stored, and one of before by seal --existing. Its notices have the same text.
func TestQueryOfARecurringNoticeIsSealed(t *testing.T) {
	t.Parallel()
	srv, h, urls := testkit.SharedRedis(t), newSink(10), make(chan string, 10)
	h.answer = func(n *notice.Notice) notice.Result {
		urls <- n.URL
		return notice.DeliveredResult(200)
	}
	begin := func(query bool) *world {
		r := sealedRoute(seal.PerAudience)
		r.SealURL = query
		return start(t, srv, h, func(o *Options) { o.SealKeys, o.Logger = testkit.ServiceKeys(t, "k"), zap.NewNop() }, r)
	}
	url := "https://shop.example/paid?card=" + card
	d := every(books, time.Hour)
	d.Content, d.Paused = notice.Content{URL: url, Audience: "m_1"}, true
	old := begin(false)
	old.define(t, d)
	if x := old.definition(t, books); x.Content.URL != url || x.Content.Sealed == "" {
		t.Errorf("without the setting: %+v", x.Content)
	}
	old.stop()

	w := begin(true)
	check := func(what string) {
		t.Helper()
		if x := w.definition(t, books); !x.Content.URLSealed || x.Content.URL != "https://shop.example/paid" {
			t.Errorf("%s: %+v", what, x.Content)
		}
		f := w.until(t, w.run(t, books), notice.Delivered)
		if got := <-urls; got != url || !f.URLSealed {
			t.Errorf("%s: called %s, stored %+v", what, got, f.Content)
		}
		testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	}
	if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	check("sealed later")
	before := w.definition(t, books)
	w.define(t, d)
	if x := w.definition(t, books); x.Content.Sealed != before.Content.Sealed {
		t.Error("the same definition again is sealed anew")
	}
	if err := w.Recurrences().Delete(t.Context(), books); err != nil {
		t.Fatal(err)
	}
	w.define(t, d)
	check("sealed at once")
}
