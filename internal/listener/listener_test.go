package listener

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

func TestExpiredKeysAreHintedAndCounted(t *testing.T) {
	srv := testkit.SharedRedis(t)
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	if l.Alive() != 1 {
		t.Errorf("%d alive", l.Alive())
	}
	ctx := context.Background()
	expire := func(ks ...string) {
		t.Helper()
		for _, k := range ks {
			if err := srv.Client().Set(ctx, k, "1", time.Millisecond).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim := keys.Space{Namespace: srv.Namespace(), Shards: 1}.Claim("app1:m:t:1")
	expire("app1:m:t:1", "nobody:m:t:1", "session:1", "app1:m:t:", srv.Namespace()+":m:t:1", claim)
	e.until(t, "all events", func() bool {
		return e.counts[notice.EventDispatched] == 1 && e.counts[notice.EventUnrouted] == 1 && e.counts[notice.EventForeign] == 4
	})
	e.do(func() {
		if !slices.Equal(e.hints, []string{"app1 app1:m:t:1"}) {
			t.Errorf("hints %v", e.hints)
		}
		e.full = true
	})
	expire("app1:m:t:2")
	e.until(t, "the drop", func() bool { return e.counts[notice.EventDropped] == 1 })
}

func TestWakeMessagesAreParsed(t *testing.T) {
	srv := testkit.SharedRedis(t)
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	wake := keys.Space{Namespace: srv.Namespace()}.Wake()
	for _, m := range []string{"beat someone-else", "beat", "", "rubbish", "1763740800000 1 app1", "paused app1"} {
		if err := srv.Client().Publish(context.Background(), wake, m).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e.until(t, "both", func() bool { return e.paused == 1 && len(e.wakes) == 1 })
	e.do(func() {
		if e.wakes[0] != "1 app1 1763740800000" || len(e.counts) != 1 {
			t.Errorf("wakes %v, counts %v", e.wakes, e.counts)
		}
	})
}

func TestKeyspaceEventsOfAdoptingRoutes(t *testing.T) {
	srv := testkit.StartRedis(t)
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), func(o *Options) { o.Routes = routes(t, true) })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 && slices.Contains(e.adopting, true) })
	for _, k := range []string{"app1:m:t:1", "old:m:t:1", "old:m:t", "oldest:m:t:1"} {
		if err := srv.Client().Set(context.Background(), k, "1", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e.until(t, "the events of the key", func() bool { return slices.Contains(e.keyspace, "old old:m:t:1 expire") })
	e.do(func() {
		if want := []string{"old old:m:t:1 set", "old old:m:t:1 expire"}; !slices.Equal(e.keyspace, want) {
			t.Errorf("%q, want %q", e.keyspace, want)
		}
	})
}

// A closed subscription is replaced. Each new one is reported, so that missed notices are swept.
func TestEachSubscriptionIsReported(t *testing.T) {
	srv := testkit.StartRedis(t)
	l, e, logs := newListener(t, srv.Client(), srv.Namespace(), nil)
	run(t, l)
	for i := 1; i <= 3; i++ {
		e.until(t, "a subscription", func() bool { return e.begun >= i && e.counts["subscriptions"] >= i })
		if err := srv.Client().ClientKillByFilter(context.Background(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
	}
	e.until(t, "the last", func() bool { return e.begun >= 4 })
	if logs.FilterMessageSnippet("opening another").Len() < 3 {
		t.Errorf("logged: %v", logs.All())
	}
}

func TestUnreachableRedisIsLoggedOnce(t *testing.T) {
	srv := testkit.StartRedis(t)
	l, e, logs := newListener(t, srv.Client(), srv.Namespace(), func(o *Options) { o.Silence = time.Second })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	srv.Kill()
	logged := logs.FilterMessageSnippet
	e.until(t, "some attempts", func() bool { return l.Alive() == 0 && logged("opening another").Len() >= 4 })
	if n := logged("opening another").FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
	srv.Restart()
	e.until(t, "the next subscription", func() bool { return e.begun == 2 && l.Alive() == 1 })
	// The restarted server has lost its flags, and the listener sets them again.
	const flags = "notify-keyspace-events"
	if got := srv.Client().ConfigGet(context.Background(), flags).Val()[flags]; Missing(got, "Ex") != "" {
		t.Errorf("flags %q", got)
	}
}

// Again ends the wait before the next attempt.
func TestAgainEndsWait(t *testing.T) {
	srv := testkit.StartRedis(t)
	l, e, logs := newListener(t, srv.Client(), srv.Namespace(), func(o *Options) { o.Retry = time.Hour })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	srv.Kill()
	e.until(t, "its end", func() bool { return logs.FilterMessageSnippet("opening another").Len() == 1 })
	srv.Restart()
	l.Again()
	e.until(t, "the next subscription", func() bool { return e.begun == 2 })
}

func TestMissingFlagsAreAdded(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Kg"))
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	ctx := context.Background()
	flags := func() string {
		return srv.Client().ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]
	}
	if got := flags(); Missing(got, "KgEx") != "" {
		t.Errorf("flags %q", got)
	}
	// An operator removes them: the listener sets them again and reports it, so that notices are swept.
	if err := srv.Client().ConfigSet(ctx, "notify-keyspace-events", "").Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the sweep", func() bool { return e.begun == 2 })
	if got := flags(); Missing(got, "Ex") != "" {
		t.Errorf("flags %q", got)
	}
	e.do(func() {
		if slices.Contains(e.events, false) {
			t.Errorf("events %v", e.events)
		}
	})
}

// trips records the commands of each round trip.
type trips struct {
	redis.Hook
	mu    sync.Mutex
	alone map[string]int
	with  map[string]int // in one pipeline with PUBLISH
}

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		h.alone[cmd.Name()]++
		h.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.mu.Lock()
		for _, cmd := range cmds {
			if cmds[0].Name() == "publish" {
				h.with[cmd.Name()]++
			}
		}
		h.mu.Unlock()
		return next(ctx, cmds)
	}
}

// readsFlags is the Assignment of an instance that reads the flags of a node, if it is preferred.
type readsFlags struct {
	alone
	preferred bool
	addr      string
}

func (r readsFlags) ReadsFlags(addr string) bool { return r.preferred && addr == r.addr }

// Only the preferred instance of a node reads the flags with each beat, in the beat's round trip.
func TestPreferredInstanceReadsFlagsWithEachBeat(t *testing.T) {
	ctx := context.Background()
	start := func(t *testing.T, preferred bool) (*testkit.Redis, *recorder, *trips) {
		srv := testkit.StartRedis(t)
		h := &trips{alone: map[string]int{}, with: map[string]int{}}
		c := redis.NewClient(&redis.Options{Addr: srv.Addr(), DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(h)
		l, e, _ := newListener(t, c, srv.Namespace(), func(o *Options) {
			o.Check, o.Flags = time.Hour, time.Hour
			o.Assignment = readsFlags{preferred: preferred, addr: srv.Addr()}
		})
		run(t, l)
		e.until(t, "the subscription", func() bool { return e.begun == 1 })
		if err := srv.Client().ConfigSet(ctx, flagsParameter, "").Err(); err != nil {
			t.Fatal(err)
		}
		return srv, e, h
	}
	t.Run("preferred", func(t *testing.T) {
		srv, e, h := start(t, true)
		e.until(t, "the flags", func() bool { return e.begun == 2 })
		if got := srv.Client().ConfigGet(ctx, flagsParameter).Val()[flagsParameter]; Missing(got, "Ex") != "" {
			t.Errorf("flags %q", got)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.with["config"] == 0 || h.alone["publish"] > 0 || h.alone["config"] != 2 { // CONFIG SET at the beginning and now
			t.Errorf("with the beat %v, alone %v", h.with, h.alone)
		}
	})
	t.Run("another is preferred", func(t *testing.T) {
		srv, _, h := start(t, false)
		beats := func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.with["publish"]
		}
		from := beats()
		testkit.Until(t, "ten beats", func() bool { return beats() >= from+10 })
		if got := srv.Client().ConfigGet(ctx, flagsParameter).Val()[flagsParameter]; got != "" {
			t.Errorf("flags %q", got)
		}
	})
	if l := New(Options{Routes: routes(t, false)}); l.o.Beat != time.Second || l.o.Flags != 10*time.Second || l.o.Check != 5*time.Second {
		t.Errorf("by default every %s, %s, %s", l.o.Beat, l.o.Flags, l.o.Check)
	}
}

// Where CONFIG is refused, it is not asked for with each beat: each refusal is counted in the ACL log.
func TestRefusedConfigIsNotReadWithEachBeat(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		srv := testkit.StartRedis(t, testkit.WithConfig(`rename-command CONFIG ""`))
		h := &trips{alone: map[string]int{}, with: map[string]int{}}
		c := redis.NewClient(&redis.Options{Addr: srv.Addr(), DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(h)
		l, e, _ := newListener(t, c, srv.Namespace(), func(o *Options) { o.Flags, o.Routes = time.Hour, routes(t, adopt) })
		run(t, l)
		e.until(t, "beats", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.with["publish"] > 5
		})
		h.mu.Lock()
		if h.with["config"] > 0 || h.alone["config"] > 0 {
			t.Errorf("with the beat %v, alone %v", h.with, h.alone)
		}
		h.mu.Unlock()
	}
}

func TestUnsetFlagsAreReported(t *testing.T) {
	for _, c := range []struct {
		name, says string
		start      []testkit.Option
		change     func(*Options)
	}{
		{"CONFIG is forbidden", "CONFIG is refused, and the event", []testkit.Option{testkit.WithConfig(`rename-command CONFIG ""`)}, nil},
		{"not wanted", "NOTIFIER_CONFIGURE_REDIS is false", nil, func(o *Options) { o.Configure = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := testkit.StartRedis(t, c.start...)
			l, e, logs := newListener(t, srv.Client(), srv.Namespace(), c.change)
			run(t, l)
			e.until(t, "the verdict", func() bool { return e.begun == 1 && len(e.events) > 0 })
			e.do(func() {
				if slices.Contains(e.events, true) {
					t.Errorf("events %v", e.events)
				}
			})
			logged := logs.FilterMessageSnippet("expired events do not arrive")
			if logged.Len() != 1 || !strings.Contains(logged.All()[0].ContextMap()["why"].(string), c.says) {
				t.Errorf("logged %v", logged.All())
			}
			if l.Alive() != 1 {
				t.Errorf("%d alive; the wake channel works without flags", l.Alive())
			}
		})
	}
}

func TestReplicaIsNotFollowed(t *testing.T) {
	master := testkit.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	srv := testkit.StartRedis(t)
	l, e, logs := newListener(t, srv.Client(), srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	// A failover makes it a replica and does not close its connections.
	ctx := context.Background()
	if err := srv.Client().Do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the end", func() bool { return l.Alive() == 0 })
	e.until(t, "the word", func() bool {
		return logs.FilterField(zap.String("redis", srv.Addr())).FilterMessageSnippet("opening another").Len() > 0
	})
	said := false
	for _, entry := range logs.All() {
		text, _ := entry.ContextMap()["error"].(string)
		said = said || strings.Contains(text, errNotMaster.Error())
	}
	if !said {
		t.Errorf("logged %v", logs.All())
	}
	if err := srv.Client().Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the next subscription", func() bool { return e.begun == 2 })
}

// proxy forwards connections to Redis. It can drop the replies.
type proxy struct {
	l       net.Listener
	to      string
	mu      sync.Mutex
	swallow map[net.Conn]bool // connections whose replies are dropped
	inject  string            // sent before the next replies, once
	conns   []net.Conn
	wg      sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, swallow: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve(c net.Conn) {
	r, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, c, r)
	p.mu.Unlock()
	p.wg.Go(func() {
		_, _ = io.Copy(r, c)
		_ = r.Close()
	})
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		if err != nil {
			_ = c.Close()
			return
		}
		p.mu.Lock()
		gone, first := p.swallow[c], ""
		if bytes.Contains(b[:n], []byte("beat ")) { // of a subscription
			first, p.inject = p.inject, ""
		}
		p.mu.Unlock()
		if !gone {
			if _, err := c.Write(append([]byte(first), b[:n]...)); err != nil {
				_ = r.Close()
				return
			}
		}
	}
}

// silence drops all further replies on the open connections.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		p.swallow[c] = true
	}
}

// A connection without replies is replaced, although it is neither closed nor has an error.
func TestSilentConnectionIsReplaced(t *testing.T) {
	srv := testkit.StartRedis(t)
	p := newProxy(t, srv.Addr())
	c := redis.NewClient(&redis.Options{Addr: p.l.Addr().String(), DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Second})
	defer func() { _ = c.Close() }()
	l, e, logs := newListener(t, c, srv.Namespace(), func(o *Options) { o.Silence = time.Second })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun >= 1 })
	var before int
	e.do(func() { before = e.begun })
	p.silence()
	e.until(t, "another subscription", func() bool { return e.begun > before && l.Alive() == 1 })
	if logs.FilterField(zap.String("redis", p.l.Addr().String())).FilterMessageSnippet("opening another").Len() == 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// go-redis panics over such a message, which would end the process.
func TestMalformedMessageEndsConnectionOnly(t *testing.T) {
	srv := testkit.StartRedis(t)
	p := newProxy(t, srv.Addr())
	c := redis.NewClient(&redis.Options{Addr: p.l.Addr().String(), DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	l, e, logs := newListener(t, c, srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun >= 1 })
	for _, text := range []string{"*0\r\n", "*1\r\n:1\r\n", "*2\r\n$7\r\nmessage\r\n:1\r\n"} {
		var before int
		e.do(func() { before = e.begun })
		p.mu.Lock()
		p.inject = text
		p.mu.Unlock()
		e.until(t, "another subscription", func() bool { return e.begun > before && l.Alive() == 1 })
	}
	if n := logs.FilterLevelExact(zap.ErrorLevel).FilterMessageSnippet("opening another").Len(); n != 3 {
		t.Errorf("%d error lines, want 3: %v", n, logs.All())
	}
}

func TestMissingReturnsUnsetFlags(t *testing.T) {
	for _, c := range []struct{ set, needed, want string }{
		{"", "Ex", "Ex"}, {"Ex", "Ex", ""}, {"xE", "Ex", ""}, {"AE", "Ex", ""}, {"A", "Ex", "E"}, {"Kx", "Ex", "E"}, {"E", "Ex", "x"},
		{"AKE", "KEg$x", ""}, {"Ex", "KEg$x", "Kg$"}, {"KEA", "KEnx", "n"}, {"AKE", "m", "m"},
	} {
		if got := Missing(c.set, c.needed); got != c.want {
			t.Errorf("Missing(%q, %q) = %q, want %q", c.set, c.needed, got, c.want)
		}
	}
}

func TestRunNeedsMastersInCluster(t *testing.T) {
	l, _, _ := newListener(t, nil, "n", func(o *Options) { o.Client = redis.NewClusterClient(&redis.ClusterOptions{}) })
	if err := l.Run(t.Context()); err == nil {
		t.Error("no error")
	}
	_ = l.o.Client.(io.Closer).Close()
}

// An announced group of events is for one instance: as many events as announced, of that route. Other
// events are assigned by their keys, and so is the group if its announcement does not count.
func TestAnnouncedGroupIsForOneInstance(t *testing.T) {
	groups := &forGroups{counts: true}
	l, e, _ := newListener(t, nil, "notifier", func(o *Options) { o.Assignment = groups })
	next := &group{}
	said := func(text string) { l.message(&redis.Message{Channel: l.o.Space.Wake(), Payload: text}, next) }
	taken := func(key string) bool {
		e.do(func() { e.hints = nil })
		l.message(&redis.Message{Channel: keys.Expired(0), Payload: key}, next)
		return len(e.hints) == 1
	}
	const mine, theirs = "app1:m:t:mine", "app1:m:t:theirs"
	check := func(what, key string, want bool) {
		t.Helper()
		if taken(key) != want {
			t.Errorf("%s: taken %t, want %t", what, !want, want)
		}
	}
	said("for me 2 app1")
	check("the first of two", theirs, true)
	check("another route's in between", "old:m:t:theirs", false)
	check("a foreign key in between", "session", false)
	check("the second", mine, true)
	check("a third", theirs, false)
	said("for you 2 app1")
	check("for another", mine, false)
	said("for me 1 app1")
	check("the last announcement counts", theirs, true)
	check("and is used up", theirs, false)
	said("for you 1 app1")
	groups.counts = false
	check("the announcement does not count", mine, true)
	check("but is used up", mine, true)
}

// forGroups is the Assignment of the instance "me"; counts says whether announcements do.
type forGroups struct {
	alone
	counts bool
}

func (*forGroups) LeavesToPeer(_ *route.Route, key string) bool {
	return strings.HasSuffix(key, "theirs")
}
func (g *forGroups) OwnsGroup(_ *route.Route, id string) (mine, ok bool) {
	return id == "me", g.counts
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{"1763740800000 0 app1",
		"paused app1", "beat x", "-9223372036854775808 0 app1", "1 -1 app1", "1 2 app1", "1 0", " ",
		"for aaaaaaaaaaaa 3 app1", "for a -1 app1", "for a 1", "1 0 ", "9999999999999999999999 0 app1", "1  0 app1", "\x00", "paused",
		"app1:m:t:1", "1 1 \xff"} {
		f.Add(s)
	}
	l, e, _ := newListener(f, nil, "notifier", nil)
	f.Fuzz(func(t *testing.T, s string) {
		e.do(func() { e.wakes, e.hints, e.counts = nil, nil, map[notice.EventResult]int{} })
		next := &group{}
		l.message(&redis.Message{Channel: l.o.Space.Wake(), Payload: s}, next)
		l.message(&redis.Message{Channel: keys.Expired(0), Payload: s}, next)
		l.message(&redis.Message{Channel: s, Pattern: "__keyspace@0__:old:*", Payload: "set"}, next)
		if len(e.wakes) > 1 || e.counts[notice.EventDispatched]+e.counts[notice.EventUnrouted]+e.counts[notice.EventForeign] != 1 ||
			len(e.keyspace) != 0 {
			t.Errorf("%q: wakes %v, counts %v, keyspace %v", s, e.wakes, e.counts, e.keyspace)
		}
		if len(e.wakes) == 1 && !strings.HasPrefix(e.wakes[0], "0 ") && !strings.HasPrefix(e.wakes[0], "1 ") {
			t.Errorf("%q woke an unknown shard: %v", s, e.wakes)
		}
		for _, h := range e.hints {
			if h != "app1 "+s && h != "old "+s || !keys.Valid(s) {
				t.Errorf("%q became the hint %q", s, h)
			}
		}
	})
}
