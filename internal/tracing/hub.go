package tracing

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/wire"
)

const (
	// renewEvery is how often a tap's member in Redis is renewed.
	renewEvery = ttl / 3
	// readyWait is how long a tap waits until all instances have seen it. A heartbeat is sent
	// every second.
	readyWait = 2 * time.Second
	// events and eventBytes limit the events that wait for the reader of a tap.
	events     = 256
	eventBytes = 1 << 20
	// maxInstances is the maximum number of instances that a tap stores.
	maxInstances = 1000
	// closeTimeout bounds the removal of a tap from Redis.
	closeTimeout = time.Second
	// checkEvery is the interval of PINGs on the subscription, which end it after maxSilence without an answer.
	checkEvery = 3 * time.Second
	maxSilence = 10 * time.Second
)

// HubOptions are the options of NewHub.
type HubOptions struct {
	Store *TapStore
	// Instances is how many instances are alive, this one included.
	Instances func() int
	// Share is how many taps a client may have. 0 means MaxOfClient, which is also the maximum.
	Share    int
	Observer CopyObserver
	Logger   *zap.Logger
}

// Hub hands the copies of all instances to the taps that are open at this instance. Its methods
// are safe for concurrent use.
type Hub struct {
	o HubOptions

	mu     sync.Mutex
	taps   map[*Tap]struct{}
	line   *line // nil without taps
	closed bool
}

// NewHub makes a Hub.
func NewHub(o HubOptions) *Hub {
	o.Share = min(cmp.Or(o.Share, MaxOfClient), MaxOfClient)
	return &Hub{o: o, taps: map[*Tap]struct{}{}}
}

// Event is an event of a Tap. Exactly one member is set.
type Event struct {
	Copy *Copy
	// Ready: Instances have seen the tap, of all Alive ones.
	Ready            bool
	Instances, Alive int
	// Dropped is how many copies were left out.
	Dropped int64
	// Interrupted: the connection to Redis was lost, and copies may be missing.
	Interrupted bool
}

// size is roughly how much memory an event keeps.
func (e *Event) size() int64 {
	if e.Copy == nil {
		return 0
	}
	return int64(len(e.Copy.Body) + len(e.Copy.Query) + 1024)
}

// Tap receives copies of the attempts on the keys under a prefix.
type Tap struct {
	hub    *Hub
	member member
	events chan Event
	gone   sync.Once

	mu      sync.Mutex
	waiting int64 // bytes of events
	dropped int64 // that the reader does not know of
	seen    map[string]bool
	ready   bool
	ended   bool
}

// Open opens a tap. The id must be unique; the client is empty where none is configured. The
// tap ends with Close, or when Run ends.
func (h *Hub) Open(ctx context.Context, client, id, prefix string) (*Tap, error) {
	t := &Tap{hub: h, member: member{client, id, prefix}, events: make(chan Event, events), seen: map[string]bool{}}
	l, err := h.add(t)
	if err != nil {
		return nil, err
	}

	if err = l.wait(ctx); err == nil {
		err = h.o.Store.open(ctx, t.member, h.o.Share)
	}

	if err != nil {
		h.remove(t)
		return nil, err
	}

	time.AfterFunc(readyWait, t.late)
	return t, nil
}

// add registers a tap, and makes the subscription for the first.
func (h *Hub) add(t *Tap) (*line, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, wire.ErrUnavailable
	}

	h.taps[t] = struct{}{}
	if h.line == nil {
		h.line = newLine()
		go h.follow(h.line)
	}

	return h.line, nil
}

// remove ends a tap, and the subscription with the last.
func (h *Hub) remove(t *Tap) {
	h.mu.Lock()
	delete(h.taps, t)
	last := h.line
	if len(h.taps) > 0 {
		last = nil
	} else {
		h.line = nil
	}

	h.mu.Unlock()
	t.end()
	if last != nil {
		last.cancel()
		<-last.done
	}
}

// Open taps at this instance.
func (h *Hub) list() []*Tap {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Tap, 0, len(h.taps))
	for t := range h.taps {
		out = append(out, t)
	}

	return out
}

// Count is how many taps are open at this instance.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.taps)
}

// Run renews the open taps until ctx ends, then ends them. No tap can be opened afterwards.
func (h *Hub) Run(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.mu.Lock()
			h.closed = true
			h.mu.Unlock()
			for _, t := range h.list() {
				t.end()
			}

			return nil
		case <-tick.C:
			h.renew(ctx)
		}
	}
}

func (h *Hub) renew(ctx context.Context) {
	for _, t := range h.list() {
		if err := h.o.Store.renew(ctx, t.member); err != nil {
			h.o.Logger.Debug("a tap was not renewed, retrying", zap.Error(err))
			return
		}
	}
}

// line is the subscription of a Hub.
type line struct {
	ctx    context.Context // ends with the last tap
	cancel context.CancelFunc
	up     chan struct{} // closed once it is confirmed
	once   sync.Once
	done   chan struct{}

	mu  sync.Mutex
	err error // of the last try
}

func newLine() *line {
	ctx, cancel := context.WithCancel(context.Background())
	return &line{ctx: ctx, cancel: cancel, up: make(chan struct{}), done: make(chan struct{})}
}

// lineWait is how long a tap that is opened waits for the subscription.
const lineWait = 3 * time.Second

// wait waits until the subscription is confirmed.
func (l *line) wait(ctx context.Context) error {
	late := time.NewTimer(lineWait)
	defer late.Stop()
	select {
	case <-l.up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}

	return wire.ErrUnavailable
}

func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// follow keeps a subscription until the last tap has ended.
func (h *Hub) follow(l *line) {
	defer close(l.done)
	again := pace.Loop{Min: 50 * time.Millisecond, Max: time.Second, Logger: h.o.Logger,
		Failure: "the subscription of the taps ended, retrying"}
	for l.ctx.Err() == nil {
		ps, err := h.o.Store.subscribe(l.ctx)
		if err == nil {
			l.once.Do(func() { close(l.up) })
			again.Succeed()
			err = h.read(l.ctx, ps)
		}

		if l.ctx.Err() != nil {
			return
		}

		l.fail(err)
		again.Wait(l.ctx, err)
		h.each(func(t *Tap) { t.send(Event{Interrupted: true}) })
	}
}

// read passes on the messages, until ctx ends or the connection is lost.
func (h *Hub) read(ctx context.Context, ps wire.Subscription) error {
	return wire.Follow(ctx, ps, checkEvery, maxSilence, func(v any, err error) error {
		if m, ok := v.(*redis.Message); ok {
			h.deliver(m.Payload)
		}
		return err
	})
}

func (h *Hub) each(f func(t *Tap)) {
	for _, t := range h.list() {
		f(t)
	}
}

// deliver takes a message. Anyone who may publish to this Redis can send one.
func (h *Hub) deliver(text string) {
	var m message
	if json.Unmarshal([]byte(text), &m) != nil {
		return
	}

	switch {
	case m.Copy != nil:
		c := m.Copy
		h.each(func(t *Tap) {
			if keys.HasPrefix(c.Key, t.member.prefix) {
				t.send(Event{Copy: c})
			}
		})
	case m.Seen != nil:
		h.each(func(t *Tap) {
			if m.Seen.Tap == t.member.id {
				t.seenBy(m.Seen.Instance)
			}
		})
	case m.Dropped != nil:
		h.each(func(t *Tap) { t.miss(m.Dropped[t.member.prefix]) })
	}
}

// Events are what the tap receives. The channel is closed when the tap ends. Received is to
// be called with each event.
func (t *Tap) Events() <-chan Event { return t.events }

// Received releases an event's memory, and returns how many copies were dropped before it.
func (t *Tap) Received(e *Event) (dropped int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting -= e.size()
	dropped, t.dropped = t.dropped, 0
	return dropped
}

// send queues an event. It does not block: a copy that a slow reader has no room for is
// dropped.
func (t *Tap) send(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}

	if t.waiting+e.size() <= eventBytes {
		select {
		case t.events <- e:
			t.waiting += e.size()
			return
		default:
		}
	}

	t.dropped += e.Dropped
	if e.Copy != nil {
		t.dropped++
		t.hub.count(Slow, 1)
	}
}

func (h *Hub) count(result string, n int) {
	if h.o.Observer != nil {
		h.o.Observer.Copied(result, n)
	}
}

// miss notes copies that instances have dropped.
func (t *Tap) miss(n int64) {
	if n > 0 {
		t.send(Event{Dropped: n})
	}
}

// seenBy notes that an instance has seen the tap.
func (t *Tap) seenBy(instance string) {
	t.mu.Lock()
	if len(t.seen) < maxInstances {
		t.seen[instance] = true
	}

	n, alive := len(t.seen), t.hub.o.Instances()
	first := n >= alive && !t.ready
	t.ready = t.ready || first
	t.mu.Unlock()
	if first {
		t.send(Event{Ready: true, Instances: n, Alive: alive})
	}
}

// late reports the tap as ready although not all instances have seen it.
func (t *Tap) late() {
	t.mu.Lock()
	n, first := len(t.seen), !t.ready
	t.ready = true
	t.mu.Unlock()
	if first {
		t.send(Event{Ready: true, Instances: n, Alive: t.hub.o.Instances()})
	}
}

// end closes the channel.
func (t *Tap) end() {
	t.gone.Do(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended = true
		close(t.events)
	})
}

// Close ends the tap, here and in Redis.
func (t *Tap) Close() {
	t.hub.remove(t)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.hub.o.Store.close(ctx, t.member); err != nil {
		t.hub.o.Logger.Debug("a tap was not removed from Redis; it ends there with its TTL", zap.Error(err))
	}
}
