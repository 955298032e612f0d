package store

import (
	"context"
	_ "embed"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"notifier/internal/wire"
)

//go:embed lua/client.lua
var clientSource string

// A full Redis must number clients too, since they change existing notices.
var clientScript = wire.NewScript("client", clientSource, false).Anywhere()

// maxClient is the highest number of a client.
const maxClient = 1<<16 - 1

// clientsKept is how long a number or name is cached. clientsPause is the minimum time between two calls
// for an unknown one.
const (
	clientsKept  = time.Minute
	clientsPause = time.Second
)

// Clients numbers clients, so that records can name them in a few bytes. It caches notifier:clients.
type Clients struct {
	l *Layout

	mu      sync.Mutex
	numbers map[string]clientNumber
	names   map[int]string
	learnt  int64     // Layout.learnt at that time; if it has changed, another Redis may answer
	next    time.Time // when names may be read again for an unknown number
	until   time.Time // when the cache of names expires
}

func newClients(l *Layout) *Clients { return &Clients{l: l} }

type clientNumber struct {
	n     int       // 0 = unknown
	until time.Time // when the number expires
}

// forget makes all cached numbers and names expire.
func (c *Clients) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, x := range c.numbers {
		c.numbers[name] = clientNumber{n: x.n}
	}

	c.next, c.until = time.Time{}, time.Time{}
}

// check makes the cache expire if the layout was learnt again: another Redis may answer.
func (c *Clients) check(learnt int64) {
	c.mu.Lock()
	again := c.learnt != learnt
	c.learnt = learnt
	c.mu.Unlock()
	if again {
		c.forget()
	}
}

// cachedNumber returns the cached number of a name, and whether it is valid. If it has expired, one
// caller asks Redis, and the others continue to use it.
func (c *Clients) cachedNumber(name string, now time.Time) (n int, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.numbers[name]
	if now.Before(x.until) {
		return x.n, true
	}

	if x.n > 0 {
		c.numbers[name] = clientNumber{x.n, now.Add(clientsPause)}
	}

	return x.n, false
}

// storeNumber stores Redis's reply for a name; 0 = no reply. It reports whether no other caller has
// stored a reply since now.
func (c *Clients) storeNumber(name string, n int, now time.Time) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.numbers == nil {
		c.numbers = map[string]clientNumber{}
	}

	x := c.numbers[name]
	first = !now.Before(x.until) || x.n > 0
	switch {
	case n > 0:
		c.numbers[name] = clientNumber{n, now.Add(clientsKept)}
	case first:
		c.numbers[name] = clientNumber{x.n, now.Add(clientsPause)}
	}

	return first
}

// clientStart returns the number that a client gets if no other client has it. It is derived from
// the name, so the name gets the same number again if Redis loses the hash.
func clientStart(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32()%maxClient) + 1
}

// Number returns the number that stands for an API client's name in the records of notices. The first call for a name
// assigns its number. If Redis cannot give the number, Number returns the last known one, or 0 if none is known, and an
// error about once a second for each name.
func (c *Clients) Number(ctx context.Context, name string) (int, error) {
	c.check(c.l.learnt.Load())
	now := time.Now()
	n, fresh := c.cachedNumber(name, now)
	if fresh {
		return n, nil
	}

	// The result is for all callers, so this caller's cancellation must not end the call.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), KnownTimeout)
	defer cancel()
	got, err := c.l.Wire().Do(ctx, clientScript, []string{c.l.Space().Clients()}, []any{name, clientStart(name), maxClient}).Int()
	if err == nil && (got < 1 || got > maxClient) {
		err = fmt.Errorf("%s contains no valid number for %s", c.l.Space().Clients(), name)
	}

	if err != nil {
		// To keep the log short, about one call a second for each name returns the error.
		if c.storeNumber(name, 0, time.Now()) {
			return n, c.l.Wire().Fail(clientScript.Op, err)
		}
		return n, nil
	}

	c.storeNumber(name, got, now)
	return got, nil
}

// Name returns the name of the client with a number; "#" and the number if it is unknown.
func (c *Clients) Name(ctx context.Context, n int) string {
	c.check(c.l.learnt.Load())
	if name, ok := c.cachedName(n, time.Now()); ok {
		return name
	}

	ctx, cancel := context.WithTimeout(ctx, KnownTimeout)
	defer cancel()
	list, err := c.Numbers(ctx)
	c.storeNames(list, err, time.Now())
	name, _ := c.cachedName(n, time.Now())
	return name
}

// Numbers returns all numbers by name.
func (c *Clients) Numbers(ctx context.Context) (map[string]int, error) {
	all, err := c.l.Wire().Redis.HGetAll(ctx, c.l.Space().Clients()).Result()
	if err != nil {
		return nil, c.l.Wire().Fail(clientScript.Op, err)
	}

	list := make(map[string]int, len(all))
	for name, text := range all {
		if n, err := strconv.Atoi(text); err == nil {
			list[name] = n
		}
	}

	return list, nil
}

// cachedName returns the cached name for a number, and whether it is valid.
func (c *Clients) cachedName(n int, now time.Time) (name string, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.names[n]
	if !ok {
		return "#" + strconv.Itoa(n), now.Before(c.next)
	}

	return name, now.Before(c.until)
}

// storeNames stores all numbers by name, unless reading them has failed with err.
func (c *Clients) storeNames(list map[string]int, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.until = now.Add(clientsPause), now.Add(clientsPause)
	if err != nil {
		return
	}

	c.until = now.Add(clientsKept)
	c.names = make(map[int]string, len(list))
	for name, n := range list {
		c.names[n] = name
	}
}
