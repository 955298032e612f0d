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

// Emulation is a Redis server in this process: miniredis with three additions. Keys expire to the millisecond, expired
// events are sent, and CONFIG GET returns that they are enabled. It is fast enough for some thousand timers.
//
// It uses the system clock, or that of the synctest bubble in which it was created. [Emulation.Leap] moves its clock.
type Emulation struct {
	m    *miniredis.Miniredis
	stop chan struct{}
	done chan struct{}
	wake chan struct{} // a key has expired, or expires earlier than known before

	mu      sync.Mutex // locked before miniredis's mutex
	pending []expiry   // expired keys whose events are not sent yet

	// clock is used by the hooks of a script's commands, which run while the script holds miniredis's lock.
	clock struct {
		sync.Mutex
		offset time.Duration
		at     time.Time // clock of the TTLs, in whole ms
		coming instants
	}
}

// StartEmulated runs an Emulation that listens on a local address.
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

// NewEmulation runs an Emulation without a listener; Dial connects to it.
func NewEmulation() (*Emulation, error) {
	e := newEmulation()
	c, err := e.m.Dial() // starts it
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

// begin adds the missing features to a started miniredis.
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
		c.WriteError("ERR the emulated Redis supports no other CONFIG")
	}); err != nil {
		e.m.Close()
		return err
	}

	// The hook also runs before the commands of a script, which holds miniredis's lock. The lock
	// distinguishes the two cases.
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

// Dial opens a connection within this process.
func (e *Emulation) Dial() (net.Conn, error) { return e.m.Dial() }

// Leap moves the clock forward or back. It changes the result of TIME, and when keys with an absolute expiry
// time expire.
func (e *Emulation) Leap(d time.Duration) {
	e.clock.Lock()
	e.clock.offset += d
	e.clock.Unlock()
	e.step()
	e.rouse()
}

// Close stops the emulation and deletes its data.
func (e *Emulation) Close() {
	close(e.stop)
	e.m.Close() // first, because it ends a publish that waits for a subscriber
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

// note records the times at which a command makes keys expire.
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

// left returns how long the clock can stand still if no command arrives.
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

// step moves the clock to the present millisecond. It runs before commands and sends no events, because a
// subscriber that does not read would block the whole server.
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
	if elapsed < 0 { // the clock leapt back
		for _, k := range db.Keys() {
			if ttl := db.TTL(k); ttl > 0 {
				db.SetTTL(k, ttl-elapsed)
			}
		}
		for i := range e.pending { // their keys are already deleted
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

// expired removes and returns the keys whose events are due. Redis sends an event after the millisecond in
// which the TTL reaches zero.
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
