package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// card and password are planted in everything that a producer and a receiver write.
const card, password = "4111111111111111", "q7jK9vZr2LwXb8Tn"

func sealedRoute(scope seal.Scope) *route.Route {
	r := testRoute("r", "app1")
	r.Target, r.Seal = route.Target{Kind: route.KindNotice}, scope
	return r
}

// merchant is a receiver that answers with the body that it got.
type merchant struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []string // authorization, header and body of each request
}

func newMerchant(t *testing.T, status int) *merchant {
	t.Helper()
	m := &merchant{status: status}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, given, _ := r.BasicAuth()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.got = append(m.got, fmt.Sprintf("%s %s %s", given, r.Header.Get("X-Card"), body))
		w.WriteHeader(m.status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *merchant) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.got...)
}

func (m *merchant) answer(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = status
}

// planted returns a request with the card in each part that is sealed.
func (m *merchant) planted(key string) store.Request {
	return store.Request{Key: key, Content: notice.Content{URL: strings.Replace(m.URL, "://", "://user:"+password+"@", 1), Audience: "m_1",
		Body: []byte(`{"card":"` + card + `"}`), Headers: []notice.Header{{Name: "X-Card", Value: card}}}}
}

const plantedRequest = password + " " + card + ` {"card":"` + card + `"}`

// everything returns the names and values of all keys of a database's namespace.
func everything(t *testing.T, w *world) []string {
	t.Helper()
	c := w.srv.Client()
	all, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	texts := all
	for _, k := range all {
		switch c.Type(t.Context(), k).Val() {
		case "hash":
			texts = append(texts, fmt.Sprint(c.HGetAll(t.Context(), k).Val()))
		case "zset":
			texts = append(texts, fmt.Sprint(c.ZRange(t.Context(), k, 0, -1).Val()))
		case "list":
			texts = append(texts, fmt.Sprint(c.LRange(t.Context(), k, 0, -1).Val()))
		case "set":
			texts = append(texts, fmt.Sprint(c.SMembers(t.Context(), k).Val()))
		case "stream":
			texts = append(texts, fmt.Sprint(c.XRange(t.Context(), k, "-", "+").Val()))
		default:
			texts = append(texts, c.Get(t.Context(), k).Val())
		}
	}
	return texts
}

func TestSealedContentIsNowhereInRedisAndTheLog(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			m := newMerchant(t, 500)
			calls := callback.New(callback.Options{})
			t.Cleanup(calls.Close)
			core, logs := logobserver.New(zap.DebugLevel)
			r := sealedRoute(scope)
			r.Allow, _ = route.ParseAllow("127.0.0.1")
			r.OnDead = testRoute("hook", "ops:x")
			w := start(t, testkit.SharedRedis(t), calls, func(o *Options) {
				o.SealKeys, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), zap.New(core), 3
			}, r, r.OnDead)
			at := key(1)
			for i := 2; w.store.Space().Shard(at) == 0; i++ {
				at = key(i)
			}
			reply, err := w.Schedule(t.Context(), m.planted(at))
			if err != nil || !reply.Created || reply.Sealed == "" {
				t.Fatal(reply, err)
			}
			if w.Open(t.Context(), &reply.Found); string(reply.Body) != `{"card":"`+card+`"}` {
				t.Errorf("the reply opened: %+v", reply.Notice)
			}
			f := w.until(t, at, notice.Dead)
			if len(f.Attempts) != 3 || f.Attempts[0].Sealed == "" || f.Attempts[0].Response != "" || f.Sealed == "" {
				t.Errorf("%+v", f.Notice)
			}
			w.Open(t.Context(), &f)
			if f.Attempts[2].Response != `{"card":"`+card+`"}` || string(f.Body) != f.Attempts[2].Response || f.Sealed != "" {
				t.Errorf("opened: %+v", f.Notice)
			}

			m.answer(200)
			if c, err := w.Redrive(t.Context(), at, notice.Expiry{}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
			w.until(t, at, notice.Delivered)
			for i, got := range m.requests() {
				if got != plantedRequest {
					t.Errorf("request %d: %s", i, got)
				}
			}
			if n := len(m.requests()); n != 4 {
				t.Errorf("%d requests", n)
			}

			texts := everything(t, w)
			for _, e := range logs.All() {
				texts = append(texts, fmt.Sprint(e.Message, e.ContextMap()))
			}
			testkit.CheckSecrets(t, []string{card, password}, texts...)
		})
	}
}

// The receiver of a hook gets the stored text, which opens with the key of the dead letter.
func TestHookHasTheSealedContent(t *testing.T) {
	t.Parallel()
	h, bodies := newSink(1000), make(chan []byte, 1)
	h.answer = func(n *notice.Notice) notice.Result {
		if strings.HasPrefix(n.Key, "ops:") {
			bodies <- n.Body
			return notice.DeliveredResult(200)
		}
		r := notice.DeadResult(notice.ReasonGone, "")
		r.Response = string(n.Body)
		return r
	}
	r := sealedRoute(seal.PerAudience)
	r.OnDead, r.OnDeadBody = testRoute("hook", "ops:x"), 4<<10
	w := start(t, testkit.SharedRedis(t), h, func(o *Options) { o.SealKeys = testkit.ServiceKeys(t, "k") }, r, r.OnDead)
	w.scheduleSealed(t, sealedFor("m_1", 1, 0))
	got := <-bodies
	testkit.CheckSecrets(t, []string{card}, append(everything(t, w), string(got))...)
	var facts struct {
		Key, Sealed string
		Body        *string `json:"body_base64"`
	}
	if err := json.Unmarshal(got, &facts); err != nil || facts.Key != key(1) || facts.Body != nil {
		t.Fatalf("%s, %v", got, err)
	}
	if c, err := w.OpenText(t.Context(), facts.Key, facts.Sealed); err != nil || string(c.Body) != card {
		t.Errorf("%s, %v", c.Body, err)
	}
}

func TestSealedNoticeChangesItsAddressAndHeaders(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, 200)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(seal.PerRoute)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	w := start(t, testkit.SharedRedis(t), calls, func(o *Options) { o.SealKeys = testkit.ServiceKeys(t, "k") }, r)
	first := m.planted(key(1))
	first.Delay = time.Hour
	if _, err := w.Schedule(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	other := []notice.Header{{Name: "X-Card", Value: card + "2"}}
	c, _, err := w.Readdress(t.Context(), key(1), notice.Address{Headers: other, SetHeaders: true}, nil)
	if err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if f, err := w.Find(t.Context(), key(1)); err != nil || f.Scheduled == nil || f.Sealed == "" || strings.Contains(f.Record(), card) {
		t.Fatalf("%s, %v", f.Record(), err)
	}
	first.Delay, first.Due = time.Hour, time.Time{}
	if reply, err := w.Schedule(t.Context(), first); err != nil || reply.Created || len(reply.Differs) > 0 { // as scheduled
		t.Errorf("the same call again: %v, %v", reply.Differs, err)
	}
	first.Body = []byte(`{}`)
	if reply, err := w.Schedule(t.Context(), first); err != nil || len(reply.Differs) == 0 {
		t.Errorf("another body: %+v, %v", reply, err)
	}
	if _, err := w.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	w.until(t, key(1), notice.Delivered)
	if got := m.requests(); len(got) != 1 || got[0] != password+" "+card+`2 {"card":"`+card+`"}` {
		t.Errorf("%q", got)
	}
}

// An instance without the key uses no attempt, and leaves the notice to the one that has it.
func TestInstanceWithoutTheKeyLeavesSealedNotices(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(seal.PerRoute)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	blank := *r
	blank.Seal = ""
	quiet := func(o *Options) { o.Logger = zap.NewNop() }
	start(t, srv, calls, func(o *Options) { quiet(o); o.Instance = "without" }, &blank)
	with := start(t, srv, calls, func(o *Options) { quiet(o); o.SealKeys, o.Instance = testkit.ServiceKeys(t, "k"), "with" }, r)
	const n = 20
	with.put(t, n, func(i int) store.Request { return m.planted(key(i)) })
	for i := range n {
		if f := with.until(t, key(i), notice.Delivered); f.AttemptsMade != 1 {
			t.Errorf("%s: %d attempts", f.Key, f.AttemptsMade)
		}
	}
}

// A text that was changed in Redis opens nowhere: it must not be tried for ever.
func TestChangedSealedTextBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, 200)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	r := sealedRoute(seal.PerRoute)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	w := start(t, testkit.SharedRedis(t), calls, func(o *Options) { o.SealKeys = testkit.ServiceKeys(t, "k") }, r)
	x := m.planted(key(1))
	x.Delay = time.Hour
	if _, err := w.Schedule(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	f, err := w.Find(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(f.Sealed)
	changed[len(changed)-10] = map[bool]byte{true: 'B', false: 'A'}[changed[len(changed)-10] == 'A']
	record := strings.Replace(f.Record(), f.Sealed, string(changed), 1)
	records := w.store.Space().Records(w.store.Space().Partition("app1", key(1)))
	if err := w.srv.Client().HSet(t.Context(), records, key(1), record).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	if f := w.until(t, key(1), notice.Dead); f.Reason != notice.ReasonUnreadable || len(m.requests()) > 0 {
		t.Errorf("%+v, %q", f.Notice, m.requests())
	}
}

// A dead letter that was downloaded is restored into an emptied Redis: sealed, once, and with its answers.
func TestRestoredDeadLetterIsSealed(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			m, calls := newMerchant(t, 400), callback.New(callback.Options{})
			t.Cleanup(calls.Close)
			r := sealedRoute(scope)
			r.Allow, _ = route.ParseAllow("127.0.0.1")
			begin := func() *world {
				return start(t, testkit.SharedRedis(t), calls, func(o *Options) {
					o.SealKeys, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), zap.NewNop(), 2
				}, r)
			}
			old, w := begin(), begin()
			if _, err := old.Schedule(t.Context(), m.planted(key(1))); err != nil {
				t.Fatal(err)
			}
			f := old.until(t, key(1), notice.Dead)
			old.Open(t.Context(), &f)

			letters := []store.Letter{{Notice: f.Notice, Died: f.SettledAt}}
			for _, created := range []bool{true, false} {
				if got := w.Restore(t.Context(), letters)[0]; got.Err != nil || got.Created != created {
					t.Fatalf("%+v, want created %v", got, created)
				}
			}
			testkit.CheckSecrets(t, []string{card, password}, everything(t, w)...)
			again := w.until(t, key(1), notice.Dead)
			if w.Open(t.Context(), &again); again.Attempts[0].Response != f.Attempts[0].Response || f.Attempts[0].Response == "" {
				t.Errorf("the answer was %q, and is %q", f.Attempts[0].Response, again.Attempts[0].Response)
			}

			m.answer(200)
			if _, err := w.Redrive(t.Context(), key(1), notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, key(1), notice.Delivered)
			if got := m.requests(); got[len(got)-1] != plantedRequest {
				t.Errorf("requests %q", got)
			}
			missing := *f.Notice
			if missing.Audience = ""; scope == seal.PerAudience {
				if got := w.Restore(t.Context(), []store.Letter{{Notice: &missing}})[0]; !errors.Is(got.Err, notice.ErrInvalid) {
					t.Errorf("without an audience: %+v", got)
				}
			}
		})
	}
}

// A key without a notice has nothing to open.
func TestNothingIsOpenedOfAMissingNotice(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(1), func(o *Options) { o.SealKeys = testkit.ServiceKeys(t, "k") }, sealedRoute(seal.PerRoute))
	var f store.Found
	w.Open(t.Context(), &f)
	w.FindForgotten(t.Context(), &f)
	if f.Notice != nil || !f.Forgotten.IsZero() {
		t.Errorf("%+v", f)
	}
}

// startKeepingKeys starts an instance whose route seals its notices, and that has their keys in memory for an hour. It also returns a
// function that schedules one.
func startKeepingKeys(t *testing.T) (*world, func(i int) store.Found) {
	t.Helper()
	w := start(t, testkit.SharedRedis(t), newSink(10), func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger = testkit.ServiceKeys(t, "k"), time.Hour, zap.NewNop()
	}, sealedRoute(seal.PerRoute))
	return w, func(i int) store.Found {
		t.Helper()
		if _, err := w.Schedule(t.Context(), store.Request{Key: key(i), Delay: time.Hour,
			Content: notice.Content{URL: "https://shop.example/", Body: []byte(`{}`)}}); err != nil {
			t.Fatal(err)
		}
		f, err := w.Find(t.Context(), key(i))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
}

// Redis loses the newest keys of a subject, as in a failover, while the instance has them in memory.
func TestNoticeIsNotWrittenWithALostKey(t *testing.T) {
	t.Parallel()
	at := notice.Address{Headers: []notice.Header{{Name: "X-Card", Value: card}}, SetHeaders: true}
	for name, write := range map[string]func(t *testing.T, w *world){
		"readdress": func(t *testing.T, w *world) {
			if c, _, err := w.Readdress(t.Context(), key(1), at, nil); err != nil || !c.Done {
				t.Fatal(c, err)
			}
		},
		"restore": func(t *testing.T, w *world) {
			n := &notice.Notice{Key: key(1), Due: w.Now().Add(time.Hour), Made: 1, Content: notice.Content{URL: "https://shop.example/",
				Headers: at.Headers, Body: []byte(`{}`)}}
			if got := w.Restore(t.Context(), []store.Letter{{Notice: n}}); got[0].Err != nil || !got[0].Created {
				t.Fatal(got[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, schedule := startKeepingKeys(t)
			c, seals := w.srv.Client(), w.store.Space().Seals(0)
			lose := func(names ...string) {
				t.Helper()
				if n, err := c.HDel(t.Context(), seals, names...).Result(); err != nil || int(n) != len(names) {
					t.Fatal(n, err)
				}
			}
			of := string(seal.RouteSubject("app1"))
			if name == "readdress" { // its present text has an older key, which stays
				schedule(1)
				lose(of)
				w.vault.Forget(0)
			}
			f := schedule(2)
			lose(of, seal.DataKeyOf(f.Sealed))
			write(t, w)
			w.vault.Forget(0) // as another instance reads the notice
			f, err := w.Find(t.Context(), key(1))
			if err != nil {
				t.Fatal(err)
			}
			if w.Open(t.Context(), &f); f.Sealed != "" || len(f.Headers) != 1 || f.Headers[0].Value != card {
				t.Errorf("the notice does not open: %+v", f.Notice)
			}
		})
	}
}

// before runs a function before each call that has an argument with a prefix.
type before struct {
	prefix string
	do     func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, a := range cmd.Args() {
			if text, ok := a.(string); ok && strings.HasPrefix(text, b.prefix) {
				b.do()
			}
		}
		return next(ctx, cmd)
	}
}

// Redis loses the newest key between two tries: the first one has met another change of the notice.
func TestReaddressAfterAConflictSealsAgain(t *testing.T) {
	t.Parallel()
	w, schedule := startKeepingKeys(t)
	c, seals, of := w.srv.Client(), w.store.Space().Seals(0), string(seal.RouteSubject("app1"))
	schedule(1) // its present text has an older key, which stays
	if err := c.HDel(t.Context(), seals, of).Err(); err != nil {
		t.Fatal(err)
	}
	w.vault.Forget(0)
	newest, tries := seal.DataKeyOf(schedule(2).Sealed), 0
	w.store.Wire().Redis.AddHook(before{prefix: "readdress ", do: func() {
		switch tries++; tries {
		case 1:
			if got, err := w.Reschedule(t.Context(), key(1), time.Time{}, 2*time.Hour); err != nil || !got.Done {
				t.Error(got, err)
			}
		case 2:
			if n := c.HDel(t.Context(), seals, of, newest).Val(); n != 2 {
				t.Errorf("%d keys lost", n)
			}
		}
	}})
	at := notice.Address{Headers: []notice.Header{{Name: "X-Card", Value: card}}, SetHeaders: true}
	if got, _, err := w.Readdress(t.Context(), key(1), at, nil); err != nil || !got.Done || tries != 3 {
		t.Errorf("%+v, %v after %d tries", got, err, tries)
	}
}
