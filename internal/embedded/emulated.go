package embedded

import (
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"notifier/internal/keys"
)

// emulation is miniredis with what it lacks: a clock that expires keys, the
// events of it, and an answer to CONFIG. It is good for some thousand timers.
type emulation struct {
	m    *miniredis.Miniredis
	stop chan struct{}
	done chan struct{}
	kick chan struct{} // something has expired

	mu      sync.Mutex
	at      time.Time // how far TTLs have been forwarded, in whole ms
	pending []expiry
}

// expiry is a key whose TTL has reached zero. Redis sends the event when the
// clock is past that millisecond, not in it.
type expiry struct {
	key string
	at  time.Time
}

// tick is how often the clock moves when no command moves it.
const tick = 2 * time.Millisecond

// StartEmulated runs the emulation.
func StartEmulated() (*Server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	e := &emulation{m: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{}), kick: make(chan struct{}, 1),
		at: time.Now().Truncate(time.Millisecond)}
	if err := e.m.StartAddr(addr); err != nil {
		return nil, err
	}
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
		return nil, err
	}
	// A plain ticker would let keys expire up to a tick early or late: the
	// clock also moves before the commands that set or touch timers. The hook
	// runs before a script's own commands as well, while the script holds
	// miniredis's lock; those are told by the lock.
	e.m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		switch cmd {
		case "EVALSHA", "EVAL":
			e.step()
		case "EXISTS", "SET", "EXPIRE", "PEXPIREAT", "PEXPIRE", "EXPIREAT", "GET", "TTL", "PTTL":
			if e.m.TryLock() {
				e.m.Unlock()
				e.step()
			}
		}
		return false
	})
	go e.run()
	return &Server{URL: "redis://" + addr + "/0", Kind: "emulated in this process", Emulated: true, close: func() {
		close(e.stop)
		e.m.Close() // first, since it ends a publish that waits for a subscriber
		<-e.done
	}}, nil
}

func (e *emulation) run() {
	defer close(e.done)
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
			e.step()
		case <-e.kick:
		}
		for _, k := range e.expired() {
			e.m.Publish(keys.Expired(0), k)
		}
	}
}

// step moves the clock to the present millisecond. It runs before commands, so
// it sends no events itself: a subscriber that does not read would stall the
// whole server.
func (e *emulation) step() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond)
	elapsed := now.Sub(e.at)
	if elapsed <= 0 {
		return
	}
	db := e.m.DB(0)
	for _, k := range db.Keys() {
		if ttl := db.TTL(k); ttl > 0 && ttl <= elapsed {
			// TTLs were taken from a clock with a fraction; the instants are whole.
			whole := e.at.Add(ttl + time.Millisecond - 1).Truncate(time.Millisecond)
			e.pending = append(e.pending, expiry{k, whole})
		}
	}
	e.m.FastForward(elapsed)
	e.at = now
	if len(e.pending) > 0 {
		select {
		case e.kick <- struct{}{}:
		default:
		}
	}
}

// expired takes the keys whose events are due.
func (e *emulation) expired() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var due []string
	rest := e.pending[:0]
	for _, p := range e.pending {
		if p.at.Before(e.at) {
			due = append(due, p.key)
		} else {
			rest = append(rest, p)
		}
	}
	e.pending = rest
	return due
}
