package sentinel

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// resting is a Watch that keeps what it tells of.
type resting struct {
	*Watch
	mu   sync.Mutex
	said []string
}

// rester makes one whose rests last a time at most, once all sentinels have been heard.
func rester(t *testing.T, most time.Duration, sentinels ...*fake) *resting {
	t.Helper()
	r := &resting{}
	note := func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, text)
	}
	o := Options{Master: "m", DialTimeout: 30 * time.Second, OnRest: note, OnResume: note,
		OnSwitch: func(from, to string) { note("switch " + from + " " + to) }}
	for _, f := range sentinels {
		o.Addrs = append(o.Addrs, f.addr())
	}
	r.Watch = New(o)
	r.most = most
	t.Cleanup(r.Close)
	return r
}

// heard dials, and waits until each sentinel has answered and takes subscriptions.
func (r *resting) heard(t *testing.T, sentinels ...*fake) net.Conn {
	t.Helper()
	c := r.must(t)
	for _, f := range sentinels {
		until(t, "it is heard", func() bool {
			r.Watch.mu.Lock()
			defer r.Watch.mu.Unlock()
			return !r.told[f.addr()].at.IsZero() && (f.plain || f.subscribers() > 0)
		})
	}
	return c
}

// refuses fails the test unless nothing is sent to the master, and those who would know
// that nothing was.
func (r *resting) refuses(t *testing.T) {
	t.Helper()
	c, err := r.Dial(t.Context())
	if err == nil {
		_ = c.Close()
	}
	var dial *net.OpError
	if !errors.Is(err, ErrFailover) || !errors.As(err, &dial) || dial.Op != "dial" {
		t.Fatalf("a dial amid the failover: %v", err)
	}
}

// serves waits until connections to a master are made.
func (r *resting) serves(t *testing.T, addr string) net.Conn {
	t.Helper()
	var c net.Conn
	until(t, "it is connected", func() bool {
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

// tells fails the test unless it has told of this alone: the beginnings of texts.
func (r *resting) tells(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.said, want, strings.Contains) {
		t.Errorf("told of %q, want %q", r.said, want)
	}
}

// again has it asked again, and waits until what it answered has been heard.
func (f *fake) again(t *testing.T) {
	t.Helper()
	asked := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.asked }
	for n, end := asked(), asked()+3; n < end; n = asked() {
		f.mu.Lock()
		f.tell("+switch-master", "m 127.0.0.1 1 127.0.0.1 2")
		f.mu.Unlock()
		until(t, "it is asked", func() bool { return asked() > n })
	}
}

// A failover that was begun ends in a switch, of which the sentinel that has begun it
// tells, or another one.
func TestNothingIsSentToAMasterThatIsFailedOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		names func(a, b *fake, next master)
	}{
		{"promoted", func(a, _ *fake, next master) { a.promote(next) }},
		{"switched", func(a, _ *fake, next master) { a.name(next) }},
		{"another tells", func(_, b *fake, next master) { b.name(next) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, next := node(t), node(t)
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
			// The one that has begun it tells of it until the other replicas follow.
			a.again(t)
			r.serves(t, next)
			r.tells(t, "sentinel "+a.addr()+" has begun a failover: nothing is sent to the master "+old, "switch "+old+" "+next)
		})
	}
}

func TestAFailoverThatIsGivenUp(t *testing.T) {
	for _, why := range []string{"no-good-slave", "not-elected", "slave-timeout"} {
		t.Run(why, func(t *testing.T) {
			old := node(t)
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

// Whoever goes on is waited for, whoever of several gives up.
func TestSeveralSentinelsFailOver(t *testing.T) {
	old, next := node(t), node(t)
	a, b, c := newFake(t, master{old, 1}), newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b, c)
	conn := r.heard(t, a, b, c)
	knows := func(f *fake, fails bool) {
		until(t, "it is asked", func() bool {
			r.Watch.mu.Lock()
			defer r.Watch.mu.Unlock()
			return r.told[f.addr()].failing.addr != "" == fails
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

// One that is silent may go on with its failover: the rest lasts for as long as it may.
func TestTheSentinelThatFailsOverIsSilent(t *testing.T) {
	old, next := node(t), node(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b)
	conn := r.heard(t, a, b)
	a.begin()
	broken(t, conn)
	a.hang(t)
	until(t, "its silence is noted", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.told[a.addr()].lost
	})
	r.refuses(t)
	b.name(master{next, 2})
	r.serves(t, next)
	r.tells(t, "has begun a failover", "switch "+old+" "+next)
}

// And no longer.
func TestASilentSentinelIsNotWaitedForForEver(t *testing.T) {
	old := node(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, 3*time.Second, a, b)
	conn := r.heard(t, a, b)
	a.begin()
	broken(t, conn)
	a.hang(t)
	r.serves(t, old)
	r.tells(t, "has begun a failover", "the master "+old+" is used again: sentinel "+a.addr()+" has named no other for 3s")
}

// A sentinel that ends tells of no end.
func TestTheSentinelThatFailsOverIsLost(t *testing.T) {
	old := node(t)
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
	// When it is back it knows of none.
	s, err := server.NewServer(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	again := &fake{Server: s, now: master{old, 1}}
	again.register(t)
	until(t, "it is heard", func() bool { return again.subscribers() > 0 })
	again.begin()
	broken(t, conn)
	r.refuses(t)
}

// A failover that does not end is waited for no longer than the bound. The next one is
// another.
func TestAFailoverWithoutEnd(t *testing.T) {
	old := node(t)
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
	until(t, "the end is heard", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.told[a.addr()].failing.addr == ""
	})
	a.begin()
	broken(t, conn)
}

// An election is over after 11 s, and those that come after it take some seconds more.
func TestARestIsLongerThanAnElection(t *testing.T) {
	if New(Options{}).most < 13*time.Second || restMost > 20*time.Second {
		t.Errorf("a rest lasts %s at most", restMost)
	}
}

func TestAWatchThatBeginsAmidAFailover(t *testing.T) {
	old, next := node(t), node(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	a.begin()
	r := rester(t, time.Hour, a, b)
	if c, err := r.Dial(t.Context()); err == nil { // b has answered first
		t.Cleanup(func() { _ = c.Close() })
		broken(t, c)
	}
	r.refuses(t)
	a.name(master{next, 2})
	r.serves(t, next)
}

// What replaces a former master is none of the present one's, even if the sentinel that
// does it has not heard of the switch, and even if the former one is the master again.
func TestTheFailoverOfAFormerMaster(t *testing.T) {
	old, next := node(t), node(t)
	a, b := newFake(t, master{old, 1}), newFake(t, master{old, 1})
	r := rester(t, time.Hour, a, b)
	r.heard(t, a, b)
	b.name(master{next, 2})
	conn := r.serves(t, next)
	a.begin()
	until(t, "it is asked", func() bool {
		r.Watch.mu.Lock()
		defer r.Watch.mu.Unlock()
		return r.told[a.addr()].failing.addr == old
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

// Who may not hear of beginnings hears of switches as ever, and asks.
func TestAUserThatMayHearOfSwitchesAlone(t *testing.T) {
	old, next := node(t), node(t)
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
