package wire

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"go.uber.org/goleak"

	"notifier/internal/testkit"
)

// go-redis checks an address once more, a second later.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// fake is a sentinel.
type fake struct {
	*server.Server
	mu     sync.Mutex
	now    master
	others []string
	subs   []*server.Peer
	plain  bool          // without SENTINEL MASTER and subscriptions
	heir   string        // address of a replica that is promoted and not the master yet
	fails  bool          // a failover is in progress
	narrow bool          // its user may subscribe to switches only
	hung   chan struct{} // no question is answered until this is closed
	asked  int
}

func newFake(t *testing.T, m master, others ...string) *fake {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f := &fake{Server: s, now: m, others: others}
	f.register(t)
	return f
}

func (f *fake) register(t *testing.T) {
	t.Helper()
	for name, cmd := range map[string]server.Cmd{"SENTINEL": f.sentinel, "SUBSCRIBE": f.subscribe, "PSUBSCRIBE": f.subscribe} {
		if err := f.Register(name, cmd); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fake) sentinel(c *server.Peer, _ string, args []string) {
	f.mu.Lock()
	hung := f.hung
	f.mu.Unlock()
	if hung != nil {
		<-hung
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	host, port, _ := net.SplitHostPort(f.now.addr)
	switch what := strings.ToLower(args[0]); {
	case what == "master" && !f.plain:
		f.asked++
		flags := "master"
		if f.fails {
			flags += ",failover_in_progress,force_failover"
		}
		c.WriteStrings([]string{"name", args[1], "ip", host, "port", port, "flags", flags, "config-epoch", string(rune('0' + f.now.epoch))})
	case what == "get-master-addr-by-name":
		if f.heir != "" {
			host, port, _ = net.SplitHostPort(f.heir)
		}
		c.WriteStrings([]string{host, port})
	case what == "sentinels" && !f.plain:
		c.WriteLen(len(f.others))
		for _, o := range f.others {
			host, port, _ := net.SplitHostPort(o)
			c.WriteStrings([]string{"ip", host, "port", port})
		}
	default:
		c.WriteError("ERR unknown command")
	}
}

func (f *fake) subscribe(c *server.Peer, cmd string, args []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.plain:
		c.WriteError("ERR unknown command")
		return
	case f.narrow && (args[0] != "+switch-master" || len(args) > 2):
		c.WriteError("NOPERM this user has no permissions to access one of the channels used as arguments")
		return
	case args[0] == "+switch-master":
		f.subs = append(f.subs, c)
	}
	c.Block(func(w *server.Writer) {
		for i, channel := range args {
			w.WritePushLen(3)
			w.WriteBulk(strings.ToLower(cmd))
			w.WriteBulk(channel)
			w.WriteInt(i + 1)
		}
	})
}

// name changes the master that it names, and publishes the switch.
func (f *fake) name(m master) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.heir, f.fails = m, "", false
	f.tell("+switch-master", "m 127.0.0.1 1 127.0.0.1 2")
}

// promote changes the master that it names to clients, and publishes the promotion.
func (f *fake) promote(m master) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.epoch, f.heir = m.epoch, m.addr
	f.tell("+promoted-slave", "slave 127.0.0.1:2 127.0.0.1 2 @ m 127.0.0.1 1")
}

// hang makes it read questions without answering.
func (f *fake) hang(t *testing.T) {
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hung = hung
}

// begin begins a failover, and publishes it.
func (f *fake) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = true
	if !f.narrow {
		f.tell("+try-failover", "master m 127.0.0.1 1")
	}
}

// abort ends its failover, and publishes the end.
func (f *fake) abort(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = false
	f.tell("-failover-abort-"+why, "master m 127.0.0.1 1")
}

func (f *fake) tell(channel, text string) {
	for _, c := range f.subs {
		c.Block(func(w *server.Writer) {
			if strings.HasPrefix(channel, "-failover-abort-") {
				w.WritePushLen(4)
				w.WriteBulk("pmessage")
				w.WriteBulk("-failover-abort-*")
			} else {
				w.WritePushLen(3)
				w.WriteBulk("message")
			}
			w.WriteBulk(channel)
			w.WriteBulk(text)
		})
		c.Flush()
	}
}

func (f *fake) subscribers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.subs)
}

func (f *fake) addr() string { return f.Addr().String() }

// listening is a server that accepts connections and sends nothing.
func listening(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

func watch(t *testing.T, addrs ...string) *Watch {
	t.Helper()
	w := NewWatch(WatchOptions{Master: "m", Addrs: addrs, DialTimeout: 30 * time.Second})
	t.Cleanup(w.Close)
	return w
}

func (w *Watch) must(t *testing.T) net.Conn {
	t.Helper()
	c, err := w.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// broken waits until a connection is closed from this side.
func broken(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Fatalf("the connection is open: %v", err)
	}
}

// One sentinel switches while the others are cut off together with the old master.
func TestSwitchOfOneSentinelSuffices(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b, c := newFake(t, master{old, 1}), newFake(t, master{old, 1}), newFake(t, master{old, 1})
	w := watch(t, a.addr(), b.addr(), c.addr())
	first, second := w.must(t), w.must(t)
	if first.RemoteAddr().String() != old {
		t.Fatalf("the master is %s", first.RemoteAddr())
	}
	for _, f := range []*fake{a, b, c} {
		testkit.Until(t, "all are heard", func() bool { return f.subscribers() > 0 })
	}
	began := time.Now()
	c.name(master{next, 2})
	broken(t, first)
	broken(t, second)
	t.Logf("the old master's connections were closed after %s", time.Since(began))
	for range 5 {
		if now := w.must(t).RemoteAddr().String(); now != next {
			t.Fatalf("connected to %s, want %s", now, next)
		}
	}
	// The watch polls them again in this time, and they still name the old one.
	asked := func() int { a.mu.Lock(); defer a.mu.Unlock(); return a.asked }
	n := asked()
	testkit.Until(t, "three more questions", func() bool { return asked() >= n+3 })
	if w.Master() != next {
		t.Errorf("the master is %s, want that of the later epoch", w.Master())
	}
}

// Until the other replicas follow the new master, a sentinel returns its epoch with the old address.
func TestPromotedReplicaIsTheMaster(t *testing.T) {
	old, next := listening(t), listening(t)
	a := newFake(t, master{old, 1})
	w := watch(t, a.addr())
	conn := w.must(t)
	testkit.Until(t, "it is heard", func() bool { return a.subscribers() > 0 })
	a.promote(master{next, 2})
	broken(t, conn)
	if now := w.must(t).RemoteAddr().String(); now != next {
		t.Errorf("connected to %s", now)
	}
	a.name(master{next, 2})
	if now := w.must(t).RemoteAddr().String(); now != next {
		t.Errorf("connected to %s after the switch", now)
	}
}

// Sentinels that are set up again begin with an epoch of 0.
func TestSentinelsSetUpAgainAreFollowed(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b, c := newFake(t, master{old, 5}), newFake(t, master{old, 5}), newFake(t, master{old, 5})
	var mu sync.Mutex
	var switches []string
	w := NewWatch(WatchOptions{Master: "m", Addrs: []string{a.addr(), b.addr(), c.addr()}, DialTimeout: 30 * time.Second,
		OnSwitch: func(from, to string) {
			mu.Lock()
			defer mu.Unlock()
			switches = append(switches, from+" "+to)
		}})
	t.Cleanup(w.Close)
	conn := w.must(t)
	for _, f := range []*fake{a, b, c} {
		testkit.Until(t, "all are heard", func() bool { return f.subscribers() > 0 })
	}
	testkit.Until(t, "each has answered", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.sentinels {
			if s.at.IsZero() {
				return false
			}
		}
		return true
	})
	for i, f := range []*fake{a, b} {
		f.name(master{next, 0})
		testkit.Until(t, "it is asked", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.sentinels[f.addr()].addr == next })
		if w.Master() != old {
			t.Fatalf("%d of three made %s the master", i+1, w.Master())
		}
	}
	c.name(master{next, 0})
	broken(t, conn)
	if w.Master() != next {
		t.Errorf("the master is %s", w.Master())
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(switches, []string{old + " " + next}) {
		t.Errorf("switches %v", switches)
	}
}

// Sentinels know each other, so one address is enough to begin.
func TestSentinelsAreDiscovered(t *testing.T) {
	old, next := listening(t), listening(t)
	b := newFake(t, master{old, 1})
	a := newFake(t, master{old, 1}, b.addr())
	w := watch(t, a.addr())
	conn := w.must(t)
	testkit.Until(t, "the other is found", func() bool { return b.subscribers() > 0 })
	if got := w.Sentinels(); len(got) != 2 {
		t.Errorf("%v", got)
	}
	b.name(master{next, 2})
	broken(t, conn)
}

// A sentinel without subscriptions and epochs is polled more often.
func TestSentinelWithoutSubscriptionIsPolled(t *testing.T) {
	old, next := listening(t), listening(t)
	a := newFake(t, master{old, 0})
	a.plain = true
	w := watch(t, a.addr())
	conn := w.must(t)
	a.name(master{next, 0})
	broken(t, conn)
	if now := w.must(t).RemoteAddr().String(); now != next {
		t.Errorf("connected to %s", now)
	}
}

func TestDialFailsWithoutSentinels(t *testing.T) {
	w := NewWatch(WatchOptions{Master: "m", Addrs: []string{"127.0.0.1:1"}, DialTimeout: 200 * time.Millisecond})
	if _, err := w.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), `no sentinel names the master "m"`) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Dial(ctx); err == nil {
		t.Error("dialled without a caller")
	}
	w.Close()
	if _, err := w.Dial(t.Context()); err == nil {
		t.Error("dialled after the end")
	}
}

// A sentinel that becomes reachable is polled again, and its answers count.
func TestReturningSentinelCounts(t *testing.T) {
	old, next := listening(t), listening(t)
	a := newFake(t, master{old, 1})
	addr := a.addr()
	w := watch(t, addr)
	conn := w.must(t)
	a.Close()
	s, err := server.NewServer(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b := &fake{Server: s, now: master{next, 2}}
	b.register(t)
	broken(t, conn)
}
