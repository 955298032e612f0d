package tracing

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/mask"
)

// The maximum number of copies, and of their bytes, of all instances together in any second. Both are divided equally among the
// instances, and then among the clients that have taps open. A client's share of an instance allows one copy of any length.
const (
	Copies = 200
	Bytes  = 1 << 20
)

const (
	// queued is how many messages may wait for Redis.
	queued = 64
	// publishTimeout bounds one round trip.
	publishTimeout = 2 * time.Second
)

// CopyObserver counts copies. Its methods must not block.
type CopyObserver interface {
	Copied(result string, n int)
}

// The results of copies. A Slow copy was dropped because the reader of its Tap was too slow.
const (
	Published = "published"
	Dropped   = "dropped"
	Slow      = "slow"
)

// PublisherOptions are the options of NewPublisher.
type PublisherOptions struct {
	// Mask are the rules by which copies are masked before they are published. Nil: they are not.
	Mask     *mask.Rules
	Observer CopyObserver
	Logger   *zap.Logger
	Now      func() time.Time // nil: time.Now
}

// Publisher publishes copies of attempts while taps are open. Its methods are safe for
// concurrent use; a nil Publisher publishes nothing.
type Publisher struct {
	o       PublisherOptions
	watched atomic.Pointer[watched]
	queue   chan []byte
	changed chan *watched

	mu      sync.Mutex
	windows map[string]*window // by client
}

// watched are the open taps of all instances.
type watched struct {
	ids      []string
	members  []member
	clients  int
	prefixes []prefix
}

// prefix is a prefix that one or more taps have, and how many of its copies were dropped since
// that was published.
type prefix struct {
	name    string
	dropped *atomic.Int64
}

// NewPublisher makes a Publisher.
func NewPublisher(o PublisherOptions) *Publisher {
	if o.Now == nil {
		o.Now = time.Now
	}

	return &Publisher{o: o, queue: make(chan []byte, queued), changed: make(chan *watched, 1), windows: map[string]*window{}}
}

// Watch sets the open taps, and among how many instances the limits are divided. It is called
// after each heartbeat, and does not block.
func (p *Publisher) Watch(taps []string, instances int) {
	if p == nil {
		return
	}

	before := p.watched.Load()
	if len(taps) == 0 && before == nil {
		return
	}

	now := watchedOf(taps, before)
	p.watched.Store(now)
	p.divide(now, instances)
	if now == nil {
		now = &watched{}
	}

	select { // an older one that was not read is replaced
	case <-p.changed:
	default:
	}

	select {
	case p.changed <- now:
	default:
	}
}

// watchedOf reads the members of the zset. It is nil without any.
func watchedOf(taps []string, before *watched) *watched {
	w := &watched{}
	for _, text := range taps {
		m, ok := parseMember(text)
		if !ok {
			continue
		}

		if !slices.ContainsFunc(w.members, func(x member) bool { return x.client == m.client }) {
			w.clients++
		}

		w.ids, w.members = append(w.ids, m.id), append(w.members, m)
		if slices.ContainsFunc(w.prefixes, func(x prefix) bool { return x.name == m.prefix }) {
			continue
		}

		w.prefixes = append(w.prefixes, prefix{m.prefix, before.counter(m.prefix)})
	}

	if len(w.ids) == 0 {
		return nil
	}

	return w
}

// counter is the counter of a prefix that was watched before, or a new one.
func (w *watched) counter(name string) *atomic.Int64 {
	if w != nil {
		for _, x := range w.prefixes {
			if x.name == name {
				return x.dropped
			}
		}
	}
	return new(atomic.Int64)
}

// Wants reports whether a tap is open that covers the key.
func (p *Publisher) Wants(key string) bool {
	if p == nil {
		return false
	}

	w := p.watched.Load()
	if w == nil {
		return false
	}

	for _, x := range w.prefixes {
		if keys.HasPrefix(key, x.name) {
			return true
		}
	}

	return false
}

// Take reserves room for one copy of an attempt on the key, in the share of a client with a tap that covers the key. If no share
// has room, the copy is counted as dropped, and need not be made.
func (p *Publisher) Take(key string) bool {
	ok := p.inShare(key, (*window).take)
	if !ok {
		p.drop(key)
	}

	return ok
}

// inShare reports whether f succeeds with the window of a client that has a tap that covers the key. It stops at the first one.
func (p *Publisher) inShare(key string, f func(*window, time.Time) bool) bool {
	w := p.watched.Load()
	if w == nil {
		return false
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	now := p.o.Now()
	return slices.ContainsFunc(w.members, func(m member) bool {
		x := p.windows[m.client]
		return x != nil && keys.HasPrefix(key, m.prefix) && f(x, now)
	})
}

// Publish queues a copy that Take has reserved room for, and reports whether the copy is queued and not dropped because of its
// length. It does not block.
func (p *Publisher) Publish(c *Copy) bool {
	text := (&message{Copy: masked(p.o.Mask, c)}).encode()
	if p.inShare(c.Key, func(w *window, now time.Time) bool { return w.add(now, len(text)) }) {
		select {
		case p.queue <- text:
			return true
		default:
		}
	}

	p.drop(c.Key)
	return false
}

// drop counts a copy as dropped, for each prefix that covers its key.
func (p *Publisher) drop(key string) {
	p.count(Dropped, 1)
	w := p.watched.Load()
	if w == nil {
		return
	}

	for _, x := range w.prefixes {
		if keys.HasPrefix(key, x.name) {
			x.dropped.Add(1)
		}
	}
}

func (p *Publisher) count(result string, n int) {
	if p.o.Observer != nil {
		p.o.Observer.Copied(result, n)
	}
}

// divide divides the limits among instances and clients.
func (p *Publisher) divide(w *watched, instances int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	windows := map[string]*window{}
	if w != nil {
		shares := max(1, instances) * w.clients
		for _, m := range w.members {
			x := cmp.Or(p.windows[m.client], &window{})
			x.copies, x.bytes = max(1, Copies/shares), Bytes/shares
			windows[m.client] = x
		}
	}

	p.windows = windows
}

// Run publishes until ctx ends. self is this instance's id.
func (p *Publisher) Run(ctx context.Context, s *TapStore, self func() string) error {
	if p == nil {
		return nil
	}

	announced := map[string]bool{}
	last := time.NewTimer(ttl)
	defer last.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case text := <-p.queue:
			p.send(ctx, s, p.more(text), true)
		case w := <-p.changed:
			last.Reset(ttl)
			if news := w.news(announced, self()); len(news) > 0 {
				p.send(ctx, s, news, false)
			}
		case <-last.C: // no heartbeat has arrived: the taps may have ended
			p.watched.Store(nil)
			last.Reset(ttl)
		}
	}
}

// more adds the queued messages to one message.
func (p *Publisher) more(first []byte) [][]byte {
	list := [][]byte{first}
	for len(list) < queued {
		select {
		case text := <-p.queue:
			list = append(list, text)
		default:
			return list
		}
	}

	return list
}

// news are the taps that this instance has seen for the first time, and the copies that were
// dropped since the last call.
func (w *watched) news(announced map[string]bool, self string) (list [][]byte) {
	for id := range announced {
		if !slices.Contains(w.ids, id) {
			delete(announced, id)
		}
	}

	for _, id := range w.ids {
		if !announced[id] {
			announced[id] = true
			list = append(list, (&message{Seen: &seen{id, self}}).encode())
		}
	}

	dropped := map[string]int64{}
	for _, x := range w.prefixes {
		if n := x.dropped.Swap(0); n > 0 {
			dropped[x.name] = n
		}
	}

	if len(dropped) > 0 {
		list = append(list, (&message{Dropped: dropped}).encode())
	}

	return list
}

// send publishes messages. They are not published again after an error.
func (p *Publisher) send(ctx context.Context, s *TapStore, list [][]byte, copies bool) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err := s.publish(ctx, list)
	switch {
	case err != nil:
		p.o.Logger.Debug("copies for taps were not published", zap.Int("messages", len(list)), zap.Error(err))
		if copies {
			p.count(Dropped, len(list))
		}
	case copies:
		p.count(Published, len(list))
	}
}

// window is the copies of the last second that count for a client.
type window struct {
	copies, bytes int // the maximum of each in a second
	list          []taken
}

// taken is a copy. Its bytes are not known before it has been made.
type taken struct {
	at    time.Time
	bytes int
}

// size removes the copies that are older than a second, and returns the bytes of the others.
func (w *window) size(now time.Time) (sum int) {
	w.list = slices.DeleteFunc(w.list, func(x taken) bool { return now.Sub(x.at) >= time.Second })
	for _, x := range w.list {
		sum += x.bytes
	}

	return sum
}

// take reserves room for a copy.
func (w *window) take(now time.Time) bool {
	if w.size(now) >= w.bytes || len(w.list) >= w.copies {
		return false
	}

	w.list = append(w.list, taken{at: now})
	return true
}

// add adds the bytes of a copy for which take has reserved room. A copy that is too long for the rest of the second gives its room up,
// unless it is the only one.
func (w *window) add(now time.Time, n int) bool {
	sum := w.size(now)
	i := slices.IndexFunc(w.list, func(x taken) bool { return x.bytes == 0 })
	if i < 0 {
		return false
	}

	if sum > 0 && sum+n > w.bytes {
		w.list = slices.Delete(w.list, i, i+1)
		return false
	}

	w.list[i] = taken{now, n}
	return true
}
