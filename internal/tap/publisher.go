package tap

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/mask"
)

// What all instances together may publish in a second.
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

// Observer counts copies. Its methods must not block.
type Observer interface {
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
	Observer Observer
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

	mu     sync.Mutex
	copies bucket
	bytes  bucket
}

// watched are the open taps of all instances.
type watched struct {
	ids      []string
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

	p := &Publisher{o: o, queue: make(chan []byte, queued), changed: make(chan *watched, 1)}
	p.setShare(1)
	return p
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

	p.setShare(instances)
	now := watchedOf(taps, before)
	p.watched.Store(now)
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

		w.ids = append(w.ids, m.id)
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

// Take reserves room for one copy of an attempt on the key. If there is none, the copy is
// counted as dropped, and need not be made.
func (p *Publisher) Take(key string) bool {
	p.mu.Lock()
	now := p.o.Now()
	ok := p.bytes.at(now) > 0 && p.copies.at(now) >= 1
	if ok {
		p.copies.left--
	}

	p.mu.Unlock()
	if !ok {
		p.drop(key)
	}

	return ok
}

// Publish queues a copy that Take has reserved room for. It does not block.
func (p *Publisher) Publish(c *Copy) {
	text := (&message{Copy: masked(p.o.Mask, c)}).encode()
	p.mu.Lock()
	p.bytes.left -= float64(len(text)) // below 0 for one long copy: the next ones wait for it
	p.mu.Unlock()
	select {
	case p.queue <- text:
	default:
		p.drop(c.Key)
	}
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

// setShare divides the limits among instances.
func (p *Publisher) setShare(instances int) {
	share := float64(max(1, instances))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copies.set(max(1, Copies/share))
	p.bytes.set(Bytes / share)
}

// Run publishes until ctx ends. self is this instance's id.
func (p *Publisher) Run(ctx context.Context, s *Store, self func() string) error {
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
func (p *Publisher) send(ctx context.Context, s *Store, list [][]byte, copies bool) {
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

// bucket is a token bucket that holds what one second allows.
type bucket struct {
	rate, left float64
	last       time.Time
}

// set changes the rate. A bucket that is new is full.
func (b *bucket) set(rate float64) {
	if b.rate == 0 {
		b.left = rate
	}

	b.rate = rate
	b.left = min(b.left, rate)
}

// at returns the content of the bucket at a time.
func (b *bucket) at(now time.Time) float64 {
	if !b.last.IsZero() {
		b.left = min(b.rate, b.left+b.rate*max(0, now.Sub(b.last).Seconds()))
	}

	b.last = now
	return b.left
}
