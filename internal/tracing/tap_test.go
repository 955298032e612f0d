package tracing

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"notifier/client/webhook"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts is an Observer.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counts) Copied(result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[result] += n
}

func (c *counts) of(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[result]
}

// node is one instance: a Publisher and a Hub.
type node struct {
	*Publisher
	hub    *Hub
	store  *TapStore
	counts *counts
}

// instances starts instances on one Redis. Their heartbeats are those of beat.
func instances(t *testing.T, n int) []*node {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return instancesOn(t, srv, srv.Namespace(), nil, n)
}

// instancesOn starts instances with a namespace in the database of srv.
func instancesOn(t *testing.T, srv *testkit.Redis, namespace string, rules *mask.Rules, n int) []*node {
	t.Helper()
	out := make([]*node, n)
	for i := range out {
		conn, err := wire.Open(wire.Address{URL: srv.URL()})
		if err != nil {
			t.Fatal(err)
		}
		c := &counts{by: map[string]int{}}
		s := NewTapStore(wire.New(wire.Options{Client: conn.Commander, Space: keys.Space{Namespace: namespace, Shards: 1}}))
		x := &node{store: s, counts: c, Publisher: NewPublisher(PublisherOptions{Mask: rules, Observer: c, Logger: zap.NewNop()}),
			hub: NewHub(HubOptions{Store: s, Instances: func() int { return n }, Observer: c, Logger: zap.NewNop()})}
		out[i] = x

		ctx, cancel := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() { _ = x.Run(ctx, s, func() string { return fmt.Sprint("instance", i) }) })
		done.Go(func() { _ = x.hub.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			done.Wait()
			_ = conn.Close()
		})
	}
	return out
}

// beat does what a heartbeat does for taps.
func beat(t *testing.T, list []*node) {
	t.Helper()
	for _, x := range list {
		taps, err := x.store.w.Redis.ZRange(t.Context(), x.store.w.Space.Taps(), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		x.Watch(taps, len(list))
	}
}

// opened opens a tap, which ends with the test.
func opened(t *testing.T, x *node, client, id, prefix string) *Tap {
	t.Helper()
	tap, err := x.hub.Open(t.Context(), client, id, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	return tap
}

// next is the next event of a tap.
func next(t *testing.T, tap *Tap) Event {
	t.Helper()
	e := testkit.Next(t, "an event", tap.Events())
	if e == (Event{}) {
		t.Fatal("the tap has ended")
	}
	return e
}

// attempted publishes a copy of an attempt, as a handler does.
func (x *node) attempted(key string, body []byte) bool {
	if !x.Wants(key) || !x.Take(key) {
		return false
	}
	c := &Copy{Key: key, Route: "orders", ID: "msg_1", Attempt: 1, Target: route.KindFixed, Method: http.MethodPost, Standard: true,
		Outcome: notice.OutcomeDelivered}
	c.SetBody(body)
	return x.Publish(c)
}

func TestTapReceivesCopiesOfEveryInstance(t *testing.T) {
	t.Parallel()
	list := instances(t, 2)
	tap := opened(t, list[0], "shop", "a", "app1:orders")
	if list[1].attempted("app1:orders:x:1", nil) {
		t.Error("an instance publishes before it has seen the tap")
	}

	beat(t, list)
	if e := next(t, tap); !e.Ready || e.Instances != 2 || e.Alive != 2 {
		t.Fatalf("%+v, want ready with 2 of 2", e)
	}
	list[0].attempted("app1:orders:x:1", []byte("one"))
	if e := next(t, tap); e.Copy == nil || string(e.Copy.Body) != "one" {
		t.Fatalf("%+v", e)
	}
	list[0].attempted("app2:orders:x:1", nil)
	list[1].attempted("app1:orders:x:2", []byte("two"))
	if e := next(t, tap); e.Copy == nil || e.Copy.Key != "app1:orders:x:2" || string(e.Copy.Body) != "two" {
		t.Fatalf("%+v, want the copy of the other instance", e)
	}

	tap.Close()
	beat(t, list)
	for _, x := range list {
		if x.Wants("app1:orders:x:3") {
			t.Error("an instance still publishes for a tap that was closed")
		}
	}
}

// Two databases of one server share the channels of pub/sub, and may have the same namespace.
func TestTapReceivesNoCopiesOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	production, staging := testkit.SharedRedis(t), testkit.SharedRedis(t)
	theirs := instancesOn(t, production, production.Namespace(), nil, 1)[0]
	ours := instancesOn(t, staging, production.Namespace(), nil, 1)[0]
	tap := opened(t, ours, "shop", "a", "")
	watching := opened(t, theirs, "shop", "b", "")
	beat(t, []*node{ours, theirs})
	if e := next(t, tap); !e.Ready || e.Instances != 1 {
		t.Fatalf("%+v, want ready", e)
	}
	next(t, watching)
	theirs.attempted("app1:orders:x:1", []byte("theirs"))
	if e := next(t, watching); e.Copy == nil { // it is published now
		t.Fatalf("%+v", e)
	}
	ours.attempted("app1:orders:x:2", []byte("ours"))
	if e := next(t, tap); e.Copy == nil || string(e.Copy.Body) != "ours" {
		t.Errorf("%+v, want the copy of the own database", e)
	}
}

// A copy is masked before it reaches Redis, also for a reader whose instance has no rules.
func TestCopiesAreMaskedBeforeTheyArePublished(t *testing.T) {
	t.Parallel()
	rules, err := mask.New(false, "$.card")
	if err != nil {
		t.Fatal(err)
	}
	srv := testkit.SharedRedis(t)
	x := instancesOn(t, srv, srv.Namespace(), rules, 1)[0]
	without := instancesOn(t, srv, srv.Namespace(), nil, 1)[0]
	tap := opened(t, without, "shop", "a", "")
	beat(t, []*node{x})
	next(t, tap)
	raw := srv.Client().Subscribe(t.Context(), x.store.w.Space.TapChannel(srv.DB()))
	defer func() { _ = raw.Close() }()
	if _, err := raw.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.attempted("app1:orders:x:1", []byte(`{"card":"4111111111","total":5}`))
	m, err := raw.ReceiveMessage(t.Context())
	if err != nil || strings.Contains(m.Payload, base64.StdEncoding.EncodeToString([]byte(`{"card":"4111`))) {
		t.Errorf("%v, %v", m, err)
	}
	e := next(t, tap)
	if e.Copy == nil {
		t.Fatalf("%+v", e)
	}
	if s := NewView(nil).Show(e.Copy); strings.Contains(s.Body, "4111") || !strings.Contains(s.Body, `"total":5`) || !s.Masked || s.Signed ||
		s.Why != "masked" {
		t.Errorf("%+v", s)
	}
}

// The tap is reported as ready after some time, also if an instance says nothing.
func TestTapIsReadyWithoutAnInstance(t *testing.T) {
	t.Parallel()
	list := instances(t, 2)
	tap := opened(t, list[0], "shop", "a", "")
	beat(t, list[:1])
	if e := next(t, tap); !e.Ready || e.Instances != 1 || e.Alive != 2 {
		t.Errorf("%+v, want ready with 1 of 2", e)
	}
}

func TestTapsAreLimited(t *testing.T) {
	t.Parallel()
	list := instances(t, 2)
	var full *TapsFullError
	var last *Tap
	for i := range MaxOfClient {
		last = opened(t, list[i%2], "shop", fmt.Sprint("a", i), "")
	}
	if _, err := list[0].hub.Open(t.Context(), "shop", "one-more", ""); !errors.As(err, &full) || full.All || full.Most != MaxOfClient {
		t.Errorf("a fifth tap of a client: %v", err)
	}
	for i := MaxOfClient; i < MaxOfAll; i++ {
		opened(t, list[i%2], fmt.Sprint("client", i), "x", "app1")
	}
	if _, err := list[1].hub.Open(t.Context(), "another", "x", ""); !errors.As(err, &full) || !full.All {
		t.Errorf("a tap too many: %v", err)
	}
	last.Close()
	opened(t, list[1], "shop", "in its place", "")
}

// With many clients, the share of each is less than the maximum of one.
func TestTapsOfAClientAreItsShare(t *testing.T) {
	t.Parallel()
	x := instances(t, 1)[0]
	x.hub.o.Share = 1
	opened(t, x, "shop", "a", "")
	var full *TapsFullError
	if _, err := x.hub.Open(t.Context(), "shop", "b", ""); !errors.As(err, &full) || full.Most != 1 {
		t.Errorf("a second tap of a client: %v", err)
	}
	opened(t, x, "till", "a", "")
}

// A tap whose instance has died ends in Redis by itself.
func TestTapEndsInRedisWithoutRenewal(t *testing.T) {
	t.Parallel()
	x := instances(t, 1)[0]
	opened(t, x, "shop", "a", "")
	r, key := x.store.w.Redis, x.store.w.Space.Taps()
	if d := r.PTTL(t.Context(), key).Val(); d <= 0 || d > ttl {
		t.Errorf("the key ends in %s, want at most %s", d, ttl)
	}
	member := r.ZRange(t.Context(), key, 0, -1).Val()[0]
	if err := r.ZAdd(t.Context(), key, zAt(1, member)).Err(); err != nil { // it has ended long ago
		t.Fatal(err)
	}
	opened(t, x, "shop", "b", "")
	if n := r.ZCard(t.Context(), key).Val(); n != 1 {
		t.Errorf("%d taps, want the one that lives", n)
	}
	x.hub.renew(t.Context())
	if n := r.ZCard(t.Context(), key).Val(); n != 2 {
		t.Errorf("%d taps after both were renewed", n)
	}
}

func TestTapsEndWithTheirHub(t *testing.T) {
	t.Parallel()
	x := instances(t, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	hub := NewHub(HubOptions{Store: x.store, Instances: func() int { return 1 }, Logger: zap.NewNop()})
	tap, err := hub.Open(t.Context(), "shop", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	cancel()
	_ = hub.Run(ctx)
	for e := range tap.Events() {
		t.Logf("%+v before the end", e)
	}
	if _, err := hub.Open(t.Context(), "shop", "b", ""); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("a tap was opened after the end: %v", err)
	}
}

func TestSlowReaderLosesOnlyItsOwnCopies(t *testing.T) {
	t.Parallel()
	x := instances(t, 1)[0]
	slow, quick := opened(t, x, "shop", "slow", ""), opened(t, x, "shop", "quick", "")
	beat(t, []*node{x})
	next(t, quick)

	body := make([]byte, MaxBody)
	const n = 2 * eventBytes / MaxBody
	for i := range n {
		x.hub.deliver(string((&message{Copy: &Copy{Key: fmt.Sprint("app1:a:b:", i), Body: body}}).encode()))
		e := next(t, quick)
		if e.Copy == nil || quick.Received(&e) != 0 {
			t.Fatalf("the quick reader got %+v", e)
		}
	}
	if e := next(t, slow); !e.Ready {
		t.Fatalf("%+v", e)
	}
	e := next(t, slow)
	if e.Copy == nil || e.Copy.Key != "app1:a:b:0" {
		t.Fatalf("the slow reader got %+v first", e)
	}
	lost := slow.Received(&e)
	if lost < 1 || lost >= n || int(lost) != x.counts.of(Slow) {
		t.Errorf("%d of %d lost, %d counted", lost, n, x.counts.of(Slow))
	}
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if slow.waiting > eventBytes {
		t.Errorf("%d bytes wait, at most %d may", slow.waiting, eventBytes)
	}
}

// The number of copies that instances dropped reaches a reader whose queue is full.
func TestFullQueueKeepsTheNumberOfDroppedCopies(t *testing.T) {
	t.Parallel()
	h := NewHub(HubOptions{Instances: func() int { return 1 }, Logger: zap.NewNop()})
	tap := &Tap{hub: h, member: member{"", "a", "app1"}, events: make(chan Event, 1), seen: map[string]bool{}}
	h.taps[tap] = struct{}{}
	h.deliver(string((&message{Copy: &Copy{Key: "app1:a:b:1"}}).encode()))
	h.deliver(string((&message{Dropped: map[string]int64{"app1": 3}}).encode()))
	e := next(t, tap)
	if n := tap.Received(&e); n != 3 {
		t.Errorf("%d copies are reported as dropped, want 3", n)
	}
}

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestPublisherWithoutTapsAllocatesNothing(t *testing.T) {
	p := NewPublisher(PublisherOptions{Logger: zap.NewNop()})
	if n := testing.AllocsPerRun(1000, func() {
		if p.Wants("app1:orders:x:1") {
			t.Error("it wants a copy")
		}
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// A full queue drops copies and never blocks.
func TestPublisherDoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	seen := &counts{by: map[string]int{}}
	p := NewPublisher(PublisherOptions{Observer: seen, Logger: zap.NewNop()})
	p.Watch([]string{"shop a "}, 1)
	x := &node{Publisher: p}
	for range queued + 10 { // nothing reads the queue
		x.attempted("app1:orders:x:1", nil)
	}
	if n := seen.of(Dropped); n != 10 {
		t.Errorf("%d dropped, want 10", n)
	}
}

func TestMembersAreRead(t *testing.T) {
	t.Parallel()
	for _, m := range []member{{"shop", "A1", ""}, {"shop", "A1", "app1:orders"}, {"", "A1", "app1"}} {
		want := m
		if m.client == "" {
			want.client = noClient
		}
		if got, ok := parseMember(m.String()); !ok || got != want {
			t.Errorf("%q is read as %+v", m.String(), got)
		}
	}
	for _, text := range []string{"", "shop", "shop a", "shop  app1", "shop a app1:", "shop a b c"} {
		if m, ok := parseMember(text); ok {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

// headersOf are a shown copy's headers for net/http.
func headersOf(s *ShownCopy) http.Header {
	h := http.Header{}
	for _, x := range s.Headers {
		h.Set(x.Name, x.Value)
	}
	return h
}

func sample() *Copy {
	c := &Copy{Key: "app1:orders:x:1", ID: "msg_1", Attempt: 1, Target: route.KindFixed, Method: http.MethodPost,
		Standard: true, Schemes: "standard", URL: "https://shop.example/hook?card=4111111111",
		Headers: []notice.Header{{Name: "content-type", Value: "application/json"},
			{Name: "webhook-id", Value: "msg_1"}, {Name: "x-card", Value: "4111111111"}}}
	c.SetBody([]byte(`{"card":"4111111111","total":5}`))
	return c
}

func TestViewSignsWithTheKeyOfTheStream(t *testing.T) {
	t.Parallel()
	v, other := NewView(nil), NewView(nil)
	c := sample()
	s := v.Show(c)
	if !s.Signed || s.Why != "" {
		t.Fatalf("%+v", s)
	}
	if err := webhook.Verify(headersOf(&s), []byte(s.Body), v.Secret()); err != nil {
		t.Error(err)
	}
	if webhook.Verify(headersOf(&s), []byte(s.Body), other.Secret()) == nil {
		t.Error("the key of another stream verifies it")
	}

	c.Body, c.Query, c.Method = nil, "a=1&b=2", http.MethodGet
	if s = v.Show(c); webhook.Verify(headersOf(&s), []byte(s.Query), v.Secret()) != nil {
		t.Errorf("a GET is not signed by its query: %+v", s)
	}
}

func TestViewSaysWhyACopyIsNotSigned(t *testing.T) {
	t.Parallel()
	all, err := mask.New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	for why, change := range map[string]func(c *Copy) *mask.Rules{
		"masked":                      func(*Copy) *mask.Rules { return all },
		"the body is cut":             func(c *Copy) *mask.Rules { c.SetBody(make([]byte, MaxBody+1)); return nil },
		"an entry of a list":          func(c *Copy) *mask.Rules { c.Target = route.KindList; return nil },
		"the route does not sign":     func(c *Copy) *mask.Rules { c.Standard, c.Schemes = false, ""; return nil },
		"the route signs with stripe": func(c *Copy) *mask.Rules { c.Standard, c.Schemes = false, "stripe"; return nil },
	} {
		c := sample()
		v := NewView(change(c))
		if s := v.Show(c); s.Signed || s.Why != why || headersOf(&s).Get("Webhook-Signature") != "" {
			t.Errorf("%s: signed %t, %q", why, s.Signed, s.Why)
		}
	}
}

func TestViewMasks(t *testing.T) {
	t.Parallel()
	paths, err := mask.New(false, "$.card")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mask.New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, rules := range []*mask.Rules{paths, all} {
		v := NewView(rules)
		s := v.Show(sample())
		if text := fmt.Sprintf("%+v", s); strings.Contains(text, "4111111111") {
			t.Errorf("the masked value is in %s", text)
		}
		if v.Secret() != "" || !s.Masked || s.ID != "msg_1" || headersOf(&s).Get("webhook-id") != "msg_1" {
			t.Errorf("%q, %+v", v.Secret(), s)
		}
		long := sample()
		long.Body, long.Cut = []byte(`{"card":"4111111111","x":"`), true
		long.Query = "card=4111111111"
		if s = v.Show(long); strings.Contains(fmt.Sprintf("%+v", s), "4111111111") {
			t.Errorf("a cut copy shows %+v", s)
		}
	}
	if s := NewView(paths).Show(sample()); !strings.Contains(s.Body, `"total":5`) {
		t.Errorf("too much is masked: %s", s.Body)
	}
}

func TestViewShowsBytesInBase64(t *testing.T) {
	t.Parallel()
	c := sample()
	c.SetBody([]byte{0xff, 0})
	if s := NewView(nil).Show(c); s.Body != "" || base64.StdEncoding.EncodeToString(s.Base64) != "/wA=" {
		t.Errorf("%+v", s)
	}
}

// Anyone who may publish to this Redis can send a message.
func FuzzMessages(f *testing.F) {
	f.Add(`{"copy":{"key":"app1:a:b:c","target":"url","body":"eA=="}}`)
	f.Add(`{"seen":{"tap":"a","instance":"b"}}`)
	f.Add(`{"dropped":{"":-1,"app1":3}}`)
	f.Add(`{"copy":null,"dropped":null}`)
	h := NewHub(HubOptions{Instances: func() int { return 1 }, Logger: zap.NewNop()})
	t := &Tap{hub: h, member: member{"", "a", ""}, events: make(chan Event, 2), seen: map[string]bool{}}
	h.taps[t] = struct{}{}
	v := NewView(nil)
	f.Fuzz(func(_ *testing.T, text string) {
		h.deliver(text)
		for len(t.events) > 0 {
			e := <-t.events
			t.Received(&e)
			if e.Copy != nil {
				v.Show(e.Copy)
			}
		}
	})
}

func zAt(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }
