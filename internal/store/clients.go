package store

import (
	"context"
	_ "embed"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"notifier/internal/layout"
	"notifier/internal/wire"
)

//go:embed lua/client.lua
var clientSource string

// A full Redis numbers clients too: it has notices to change.
var clientScript = wire.NewScript("client", clientSource, false).Anywhere()

// maxClient is the highest number of a client.
const maxClient = 1<<16 - 1

// clientsKept is how long numbers and names are used before Redis is asked again, and
// clientsPause the least time between two calls for an unknown one.
const (
	clientsKept  = time.Minute
	clientsPause = time.Second
)

// clients is the last known content of notifier:clients.
type clients struct {
	mu      sync.Mutex
	numbers map[string]clientNumber
	names   map[int]string
	learnt  int64     // as Layout.Learnt was: since then another Redis may answer
	next    time.Time // when names are read again, unless all are known
	until   time.Time // when names are read again in any case
}

type clientNumber struct {
	n     int       // 0 = unknown
	until time.Time // when Redis is asked again
}

// forget has Redis asked again at the next call.
func (c *clients) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, x := range c.numbers {
		c.numbers[name] = clientNumber{n: x.n}
	}
	c.next, c.until = time.Time{}, time.Time{}
}

// heard forgets what another Redis may have said, before the layout was learnt again.
func (c *clients) heard(learnt int64) {
	c.mu.Lock()
	again := c.learnt != learnt
	c.learnt = learnt
	c.mu.Unlock()
	if again {
		c.forget()
	}
}

// number returns the number of a name, and whether Redis need not be asked for it. One caller
// asks again for a known number, and the others use it meanwhile.
func (c *clients) number(name string, now time.Time) (n int, fresh bool) {
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

// numbered stores the reply for a name, 0 = there was none. It reports whether no other
// caller has stored a reply since now.
func (c *clients) numbered(name string, n int, now time.Time) (first bool) {
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

// clientStart is the number that a client gets if no other client has it. It depends on the
// name alone, so that the name gets it again if Redis loses the hash.
func clientStart(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32()%maxClient) + 1
}

// ClientNumber returns the number that stands for a client in records, and gives it one at
// the first call. If Redis does not answer, it is the last known number, or 0; the error is
// returned to one caller a second.
func (s *Store) ClientNumber(ctx context.Context, name string) (int, error) {
	s.clients.heard(s.Learnt())
	now := time.Now()
	n, fresh := s.clients.number(name, now)
	if fresh {
		return n, nil
	}
	// A caller that gives up may not leave the calls of others without a number.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), layout.KnownTimeout)
	defer cancel()
	got, err := s.w.Do(ctx, clientScript, []string{s.space.Clients()}, []any{name, clientStart(name), maxClient}).Int()
	if err == nil && (got < 1 || got > maxClient) {
		err = fmt.Errorf("%s holds no number for %s", s.space.Clients(), name)
	}
	if err != nil {
		if s.clients.numbered(name, 0, time.Now()) {
			return n, s.w.Fail(clientScript.Op, err)
		}
		return n, nil
	}
	s.clients.numbered(name, got, now)
	return got, nil
}

// ClientName returns the name of the client with a number, or # and the number if it is
// unknown.
func (s *Store) ClientName(ctx context.Context, n int) string {
	s.clients.heard(s.Learnt())
	if name, ok := s.clients.name(n, time.Now()); ok {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, layout.KnownTimeout)
	defer cancel()
	list, err := s.ClientNumbers(ctx)
	s.clients.named(list, err, time.Now())
	name, _ := s.clients.name(n, time.Now())
	return name
}

// ClientNumbers returns all numbers by name.
func (s *Store) ClientNumbers(ctx context.Context) (map[string]int, error) {
	all, err := s.c.HGetAll(ctx, s.space.Clients()).Result()
	if err != nil {
		return nil, s.w.Fail(clientScript.Op, err)
	}
	list := make(map[string]int, len(all))
	for name, text := range all {
		if n, err := strconv.Atoi(text); err == nil {
			list[name] = n
		}
	}
	return list, nil
}

// name returns the name for a number, and whether Redis need not be asked for it.
func (c *clients) name(n int, now time.Time) (name string, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.names[n]
	if !ok {
		return "#" + strconv.Itoa(n), now.Before(c.next)
	}
	return name, now.Before(c.until)
}

func (c *clients) named(list map[string]int, err error, now time.Time) {
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

// AddClientNumbers adds the numbers of another Redis, whose records are about to move here. It
// returns the names that have another number here, or whose number another name has.
func (s *Store) AddClientNumbers(ctx context.Context, list map[string]int) (differ []string, err error) {
	have, err := s.ClientNumbers(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[int]string{}
	for name, n := range have {
		taken[n] = name
	}
	var add []any
	for name, n := range list {
		was, ok := have[name]
		switch other, used := taken[n]; {
		case ok && was == n:
		case ok || used && other != name:
			differ = append(differ, name)
		default:
			add = append(add, name, n)
		}
	}
	if len(add) == 0 {
		return differ, nil
	}
	s.clients.forget()
	return differ, s.w.Wrapped(clientScript.Op, s.c.HSet(ctx, s.space.Clients(), add...).Err())
}
