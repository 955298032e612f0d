package embedded

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"notifier/internal/keys"
)

// Emulation is miniredis with what it lacks: a clock that expires keys to the
// millisecond, the events of it, and an answer to CONFIG. It is good for some
// thousand timers. Its clock is the system's, or that of the synctest bubble it
// is made in; Leap moves it by itself.
//
// A script sees the time pass. What miniredis keeps of a TTL is a duration,
// counted from when its clock was last moved: that is done before each command
// that comes from outside, in whole milliseconds.
type Emulation struct {
	m    *miniredis.Miniredis
	stop chan struct{}
	done chan struct{}
	wake chan struct{} // something has expired, or will earlier than was known

	mu      sync.Mutex // taken before miniredis's own
	pending []expiry   // their events are to be sent

	// What hooks of a script's commands read and write; they run while the
	// script holds miniredis's lock.
	clock struct {
		sync.Mutex
		offset time.Duration
		at     time.Time // how far TTLs have been forwarded, in whole ms
		coming instants
	}
}

// StartEmulated runs an Emulation that listens on an address of this machine.
func StartEmulated() (*Server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	e := newEmulation()
	if err := e.m.StartAddr(addr); err != nil {
		return nil, err
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	return &Server{URL: "redis://" + addr + "/0", Kind: "emulated in this process", Emulated: true, close: e.Close}, nil
}

// NewEmulation runs an Emulation that listens nowhere; Dial connects to it.
func NewEmulation() (*Emulation, error) {
	e := newEmulation()
	c, err := e.m.Dial() // which starts it
	if err != nil {
		return nil, err
	}
	_ = c.Close()
	if err := e.begin(); err != nil {
		return nil, err
	}
	return e, nil
}

func newEmulation() *Emulation {
	return &Emulation{m: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// begin sets up what miniredis lacks; it must have been started.
func (e *Emulation) begin() error {
	e.clock.at = time.Now().Truncate(time.Millisecond)
	e.m.SetTime(e.clock.at)
	flags := "Ex" // it sends no other events
	if err := e.m.Server().Register("CONFIG", func(c *server.Peer, _ string, args []string) {
		if len(args) > 1 && strings.EqualFold(args[0], "get") && strings.EqualFold(args[1], "notify-keyspace-events") {
			c.WriteMapLen(1)
			c.WriteBulk("notify-keyspace-events")
			c.WriteBulk(flags)
			return
		}
		c.WriteError("ERR the emulated Redis knows no other CONFIG")
	}); err != nil {
		e.m.Close()
		return err
	}
	// The hook runs before a script's own commands as well, while the script
	// holds miniredis's lock; those are told by the lock.
	e.m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd == "TIME" {
			now := e.now()
			c.WriteLen(2)
			c.WriteBulk(strconv.FormatInt(now.Unix(), 10))
			c.WriteBulk(strconv.Itoa(now.Nanosecond() / 1000))
			return true
		}
		if e.m.TryLock() {
			e.m.Unlock()
			e.step()
		}
		e.note(cmd, args)
		return false
	})
	go e.run()
	return nil
}

// Dial makes a connection within this process.
func (e *Emulation) Dial() (net.Conn, error) { return e.m.Dial() }

// Leap moves its clock forward, or back: what it calls the time, and when keys
// with an instant to expire at do so.
func (e *Emulation) Leap(d time.Duration) {
	e.clock.Lock()
	e.clock.offset += d
	e.clock.Unlock()
	e.step()
	e.rouse()
}

// Close ends it; what it held is gone.
func (e *Emulation) Close() {
	close(e.stop)
	e.m.Close() // first, since it ends a publish that waits for a subscriber
	<-e.done
}

func (e *Emulation) now() time.Time {
	e.clock.Lock()
	defer e.clock.Unlock()
	return time.Now().Add(e.clock.offset)
}

func (e *Emulation) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// note keeps the instants at which a command lets keys expire.
func (e *Emulation) note(cmd string, args []string) {
	e.clock.Lock()
	defer e.clock.Unlock()
	for _, x := range expiries(cmd, args, e.clock.at, e.clock.coming) {
		if e.clock.coming.add(x) {
			e.rouse()
		}
	}
}

func (e *Emulation) run() {
	defer close(e.done)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(e.left())
		select {
		case <-e.stop:
			return
		case <-t.C:
			e.step()
		case <-e.wake:
		}
		for _, k := range e.expired() {
			e.m.Publish(keys.Expired(0), k)
		}
	}
}

// left is how long the clock need not be moved, if no command does.
func (e *Emulation) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.Lock()
	defer e.clock.Unlock()
	left, now := time.Hour, time.Now().Add(e.clock.offset)
	if len(e.clock.coming) > 0 {
		left = e.clock.coming[0].at.Sub(now)
	}
	for _, p := range e.pending {
		left = min(left, p.at.Add(time.Millisecond).Sub(now))
	}
	return max(left, 0)
}

// step moves the clock to the present millisecond. It runs before commands, so
// it sends no events itself: a subscriber that does not read would stall the
// whole server.
func (e *Emulation) step() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.Lock()
	now := time.Now().Add(e.clock.offset).Truncate(time.Millisecond)
	elapsed := now.Sub(e.clock.at)
	e.clock.Unlock()
	if elapsed == 0 {
		return
	}
	db := e.m.DB(0)
	if elapsed < 0 { // it leapt back
		for _, k := range db.Keys() {
			if ttl := db.TTL(k); ttl > 0 {
				db.SetTTL(k, ttl-elapsed)
			}
		}
		for i := range e.pending { // the keys are gone already
			e.pending[i].at = now.Add(-time.Millisecond)
		}
	}
	e.m.SetTime(now)
	e.clock.Lock()
	e.clock.at = now
	due := e.clock.coming.due(now)
	e.clock.Unlock()
	for _, x := range due {
		if ttl := db.TTL(x.key); ttl > 0 && ttl <= elapsed {
			e.pending = append(e.pending, x)
		}
	}
	if elapsed > 0 {
		e.m.FastForward(elapsed)
	}
	if len(e.pending) > 0 {
		e.rouse()
	}
}

// expired takes the keys whose events are due: Redis sends them when the clock
// is past the millisecond at which the TTL reaches zero, not in it.
func (e *Emulation) expired() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.Lock()
	at := e.clock.at
	e.clock.Unlock()
	var due []string
	rest := e.pending[:0]
	for _, p := range e.pending {
		if p.at.Before(at) {
			due = append(due, p.key)
		} else {
			rest = append(rest, p)
		}
	}
	e.pending = rest
	return due
}
