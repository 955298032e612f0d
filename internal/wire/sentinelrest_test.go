package wire

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"notifier/internal/testkit"
)

// resting is a Watch that records its log texts.
type resting struct {
	*Watch
	mu   sync.Mutex
	said []string
}

// rester returns a resting with a maximum duration of rests, after all sentinels have answered.
func rester(t *testing.T, most time.Duration, sentinels ...*fake) *resting {
	t.Helper()
	r := &resting{}
	note := func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, text)
	}
	o := WatchOptions{Master: "m", DialTimeout: 30 * time.Second, OnRest: note, OnResume: note,
		OnSwitch: func(from, to string) { note("switch " + from + " " + to) }}
	for _, f := range sentinels {
		o.Addrs = append(o.Addrs, f.addr())
	}
	r.Watch = NewWatch(o)
	r.most = most
	t.Cleanup(r.Close)
	return r
}

// heard dials, and waits until each sentinel has answered and accepts subscriptions.
func (r *resting) heard(t *testing.T, sentinels ...*fake) net.Conn {
	t.Helper()
	c := r.must(t)
	for _, f := range sentinels {
		testkit.Until(t, "it is heard", func() bool {
			r.Watch.mu.Lock()
			defer r.Watch.mu.Unlock()
			return !r.sentinels[f.addr()].at.IsZero() && (f.plain || f.subscribers() > 0)
		})
	}
	return c
}

// refuses fails the test unless nothing is sent to the master, and the errors show that nothing was sent.
func (r *resting) refuses(t *testing.T) {
	t.Helper()
	c, err := r.Dial(t.Context())
	if err == nil {
		_ = c.Close()
	}
	var dial *net.OpError
	if !errors.Is(err, ErrFailover) || !errors.As(err, &dial) || dial.Op != "dial" {
		t.Fatalf("a dial during the failover: %v", err)
	}
}

// serves waits until connections to a master are made.
func (r *resting) serves(t *testing.T, addr string) net.Conn {
	t.Helper()
	var c net.Conn
	testkit.Until(t, "it is connected", func() bool {
		if r.Master() != addr {
			return false
		}
		var err error
		if c, err = r.Dial(t.Context()); err != nil && !errors.Is(err, ErrFailover) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	if now := c.RemoteAddr().String(); now != addr {
		t.Fatalf("connected to %s, want %s", now, addr)
	}
	return c
}

// tells fails the test unless exactly these texts were logged, given by their beginnings.
func (r *resting) tells(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.said, want, strings.Contains) {
		t.Errorf("logged %q, want %q", r.said, want)
	}
}

// again triggers a question to a sentinel, and waits until the answer was observed.
func (f *fake) again(t *testing.T) {
	t.Helper()
	asked := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.asked }
	for n, end := asked(), asked()+3; n < end; n = asked() {
		f.mu.Lock()
		f.tell("+switch-master", "m 127.0.0.1 1 127.0.0.1 2")
		f.mu.Unlock()
		testkit.Until(t, "it is asked", func() bool { return asked() > n })
	}
}

// A failover ends in a switch, which the sentinel that began it names, or another one.
func TestRestEndsWithASwitch(t *testing.T) {
	for _, c := range []struct {
		name  string
		names func(a, b *fake, next master)
	}{
		{"promoted", func(a, _ *fake, next master) { a.promote(next) }},
		{"switched", func(a, _ *fake, next master) { a.name(next) }},
		{"another tells", func(_, b *fake, next master) { b.name(next) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, next := listening(t), listening(t)
			a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
			r := rester(t, time.Hour, a, b)
			first, second := r.heard(t, a, b), r.must(t)
			a.begin()
			broken(t, first)
			broken(t, second)
			r.refuses(t)
			if r.Master() != old {
				t.Errorf("the master is %s before anybody has named another", r.Master())
			}
			c.names(a, b, master{next, 2})
			r.serves(t, next)
			// The sentinel that began it reports it until the other replicas follow.
			a.again(t)
			r.serves(t, next)
			r.tells(t, "sentinel "+a.addr()+" has begun a failover: nothing is sent to the master "+old, "switch "+old+" "+next)
		})
	}
}

func TestRestEndsWithAnAbortedFailover(t *testing.T) {
	for _, why := range []string{"no-good-slave", "not-elected", "slave-timeout"} {
		t.Run(why, func(t *testing.T) {
			old := listening(t)
			a := newFake(t, master{old, 1})
			r := rester(t, time.Hour, a)
			conn := r.heard(t, a)
			a.begin()
			broken(t, conn)
			r.refuses(t)
			a.abort(why)
			conn = r.serves(t, old)
			r.tells(t, "has begun a failover", "the master "+old+" is used again: sentinel "+a.addr()+" has given its failover up")
			a.begin() // once more
			broken(t, conn)
			r.refuses(t)
		})
	}
}

// A rest lasts until the last of several failovers has ended.
func TestRestLastsForTheLastFailover(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b, c := newFake(t, master{old, 1}), newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b, c)
	conn := r.heard(t, a, b, c)
	knows := func(f *fake, fails bool) {
		testkit.Until(t, "it is asked", func() bool {
			r.Watch.mu.Lock()
			defer r.Watch.mu.Unlock()
			return r.sentinels[f.addr()].failing.addr != "" == fails
		})
	}
	a.begin()
	broken(t, conn)
	b.begin()
	knows(b, true)
	r.refuses(t)
	a.abort("not-elected")
	knows(a, false)
	r.refuses(t)
	a.begin()
	knows(a, true)
	b.abort("not-elected")
	knows(b, false)
	r.refuses(t)
	a.name(master{next, 2})
	r.serves(t, next)
	r.tells(t, "has begun a failover", "switch "+old+" "+next)
}

// A silent sentinel may go on with its failover, so the rest lasts for its maximum.
func TestRestContinuesWhileSentinelIsSilent(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b)
	conn := r.heard(t, a, b)
	a.begin()
	broken(t, conn)
	a.hang(t)
	testkit.Until(t, "its silence is noted", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.sentinels[a.addr()].lost
	})
	r.refuses(t)
	b.name(master{next, 2})
	r.serves(t, next)
	r.tells(t, "has begun a failover", "switch "+old+" "+next)
}

// The rest for a silent sentinel is bounded.
func TestRestForSilentSentinelIsBounded(t *testing.T) {
	old := listening(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, 3*time.Second, a, b)
	conn := r.heard(t, a, b)
	a.begin()
	broken(t, conn)
	a.hang(t)
	r.serves(t, old)
	r.tells(t, "has begun a failover", "the master "+old+" is used again: sentinel "+a.addr()+" has named no other for 3s")
}

// A sentinel that ends publishes no end of its failover.
func TestRestEndsWithItsSentinel(t *testing.T) {
	old := listening(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b)
	conn := r.heard(t, a, b)
	a.begin()
	broken(t, conn)
	r.refuses(t)
	addr := a.addr()
	a.Close()
	conn = r.serves(t, old)
	r.tells(t, "has begun a failover", "the master "+old+" is used again: sentinel "+addr+" has ended")
	// After a restart it knows of no failover.
	s, err := server.NewServer(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	again := &fake{Server: s, now: master{old, 1}}
	again.register(t)
	testkit.Until(t, "it is heard", func() bool { return again.subscribers() > 0 })
	again.begin()
	broken(t, conn)
	r.refuses(t)
}

// A failover that does not end causes a rest of at most restMost. The next failover is a separate one.
func TestRestForEndlessFailoverIsBounded(t *testing.T) {
	old := listening(t)
	a := newFake(t, master{old, 1})
	const most = 300 * time.Millisecond
	r := rester(t, most, a)
	conn := r.heard(t, a)
	begun := time.Now()
	a.begin()
	broken(t, conn)
	conn = r.serves(t, old)
	if took := time.Since(begun); took < most {
		t.Errorf("the master was used %s after the failover had begun", took)
	}
	r.tells(t, "has begun a failover", "the master "+old+" is used again: sentinel "+a.addr()+" has named no other for 300ms")
	a.abort("slave-timeout")
	testkit.Until(t, "the end is heard", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.sentinels[a.addr()].failing.addr == ""
	})
	a.begin()
	broken(t, conn)
}

// An election is over after 11 s, and the steps after it take some seconds more.
func TestRestIsLongerThanAnElection(t *testing.T) {
	if NewWatch(WatchOptions{}).most < 13*time.Second || restMost > 20*time.Second {
		t.Errorf("a rest lasts %s at most", restMost)
	}
}

func TestWatchStartedDuringFailoverRests(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	a.begin()
	r := rester(t, time.Hour, a, b)
	if c, err := r.Dial(t.Context()); err == nil { // b answered first
		t.Cleanup(func() { _ = c.Close() })
		broken(t, c)
	}
	r.refuses(t)
	a.name(master{next, 2})
	r.serves(t, next)
}

// A failover of an earlier master causes no rest of the present one, even if that sentinel has not seen the
// switch, and even if the earlier one is the master again.
func TestFailoverOfEarlierMasterCausesNoRest(t *testing.T) {
	old, next := listening(t), listening(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b)
	r.heard(t, a, b)
	b.name(master{next, 2})
	conn := r.serves(t, next)
	a.begin()
	testkit.Until(t, "it is asked", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.sentinels[a.addr()].failing.addr == old
	})
	r.serves(t, next)
	b.name(master{old, 3})
	broken(t, conn)
	conn = r.serves(t, old)
	a.again(t)
	r.serves(t, old)
	r.tells(t, "switch "+old+" "+next, "switch "+next+" "+old)
	b.begin()
	broken(t, conn)
	r.refuses(t)
}

// A user without access to the failover channels still gets switches, and the Watch polls.
func TestUserLimitedToSwitchesIsPolled(t *testing.T) {
	old, next := listening(t), listening(t)
	a := newFake(t, master{old, 1})
	a.narrow = true
	r := rester(t, time.Hour, a)
	conn := r.heard(t, a)
	a.begin()
	broken(t, conn)
	r.refuses(t)
	a.name(master{next, 2})
	r.serves(t, next)
	if n := a.subscribers(); n != 1 {
		t.Errorf("subscribed %d times", n)
	}
}
