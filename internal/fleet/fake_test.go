package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	if helper() {
		return
	}
	goleak.VerifyTestMain(m)
}

// node is a Redis that stores heartbeats, in virtual time.
type node struct {
	mu            sync.Mutex
	offset        time.Duration // of its clock
	heartbeats    map[string]LastHeartbeat
	ended         map[string]int64 // odd = left by itself
	described     map[string]string
	lines         map[*fakeLine]string
	down          bool
	blocked       chan struct{} // calls wait while it is open
	withoutEvents bool          // PUBSUB NUMSUB is forbidden
	commands      int
	slow          time.Duration // so long a subscription takes
	late          time.Duration // so long the answer to a beat takes
	thinks        time.Duration // so long it takes to say reading descriptions
}

func newNode() *node {
	return &node{heartbeats: map[string]LastHeartbeat{}, ended: map[string]int64{}, described: map[string]string{},
		lines: map[*fakeLine]string{}}
}

func (n *node) now() int64 { return time.Now().Add(n.offset).UnixMilli() }

func (n *node) do(f func()) { n.mu.Lock(); defer n.mu.Unlock(); f() }

// cut closes the connections of one instance, or of all.
func (n *node) cut(owner *seat) {
	n.do(func() {
		for l := range n.lines {
			if owner == nil || l.owner == owner {
				l.drop()
				delete(n.lines, l)
			}
		}
	})
}

func (n *node) connections(id string) (count int) {
	for _, of := range n.lines {
		if of == id {
			count++
		}
	}
	return count
}

func (n *node) publish(text string) {
	for l := range n.lines {
		select {
		case l.texts <- text:
		default:
		}
	}
}

// seat is one instance's connection to its node.
type seat struct {
	mu      sync.Mutex
	node    *node
	down    bool          // its calls fail
	stopped chan struct{} // its process does not run while it is open
}

var errDown = errors.New("connection refused")

func (s *seat) to(n *node) { s.mu.Lock(); defer s.mu.Unlock(); s.node = n }

func (s *seat) set(down bool) { s.mu.Lock(); defer s.mu.Unlock(); s.down = down }

// stop is SIGSTOP: no call begins and no reply is read, connections stay.
func (s *seat) stop() (resume func()) {
	c := make(chan struct{})
	s.mu.Lock()
	s.stopped = c
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.stopped = nil
		s.mu.Unlock()
		close(c)
	}
}

// reach waits until the call can be made.
func (s *seat) reach(ctx context.Context) (*node, error) {
	s.mu.Lock()
	n, down, stopped := s.node, s.down, s.stopped
	s.mu.Unlock()
	if stopped != nil {
		<-stopped
		return nil, context.DeadlineExceeded
	}
	if down {
		return nil, errDown
	}
	n.mu.Lock()
	blocked, off := n.blocked, n.down
	n.mu.Unlock()
	if off {
		return nil, errDown
	}
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return n, nil
}

func (s *seat) Publish(ctx context.Context, b Heartbeat) (r Roster, err error) {
	n, err := s.reach(ctx)
	if err != nil {
		return r, err
	}
	n.do(func() {
		n.commands++
		now := n.now()
		if _, ok := n.ended[b.ID]; ok {
			r = Roster{Now: now, Ended: true, Connections: -1}
			return
		}
		_, r.Known = n.heartbeats[b.ID]
		r.Now, r.Connections = now, n.connections(b.ID)
		n.heartbeats[b.ID] = LastHeartbeat{ID: b.ID, At: now, Bound: r.Connections > 0 && !n.withoutEvents, Leaving: b.Leaving}
		if n.withoutEvents {
			r.Connections = -1
		}
		if b.About != "" {
			n.described[b.ID] = b.About
		}
		if !r.Known {
			n.publish("joined " + b.ID)
		}
		for id, heartbeat := range n.heartbeats {
			heartbeat.Connections = -1
			if slices.Contains(b.Ask, id) && !n.withoutEvents {
				heartbeat.Connections = n.connections(id)
			}
			r.Heartbeats = append(r.Heartbeats, heartbeat)
		}
		for id, at := range n.ended {
			if at >= b.Since {
				r.Departures = append(r.Departures, Departure{ID: id, Dead: at%2 == 0})
			}
		}
	})
	var late time.Duration
	n.do(func() { late = n.late })
	time.Sleep(late)
	return r, nil
}

func (s *seat) DeclareDead(ctx context.Context, dead LastHeartbeat, by string) (out bool, err error) {
	n, err := s.reach(ctx)
	if err != nil {
		return false, err
	}
	n.do(func() {
		n.commands++
		is, ok := n.heartbeats[dead.ID]
		if !ok || is.At != dead.At || n.connections(dead.ID) > 0 || n.connections(by) == 0 {
			return
		}
		out = true
		delete(n.heartbeats, dead.ID)
		n.ended[dead.ID] = n.now() &^ 1
		n.publish("gone " + dead.ID)
	})
	return out, nil
}

func (s *seat) Leave(ctx context.Context, id string) error {
	n, err := s.reach(ctx)
	if err != nil {
		return err
	}
	n.do(func() {
		delete(n.heartbeats, id)
		n.ended[id] = n.now() | 1
		n.publish("left " + id)
	})
	return nil
}

func (s *seat) Descriptions(ctx context.Context, ids []string) ([]Description, error) {
	n, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	var thinks time.Duration
	n.do(func() { thinks = n.thinks })
	time.Sleep(thinks)
	list := make([]Description, len(ids))
	n.do(func() {
		for i, id := range ids {
			list[i].About = n.described[id]
		}
	})
	return list, nil
}

func (s *seat) Send(ctx context.Context, _, text string) error {
	n, err := s.reach(ctx)
	if err == nil {
		n.do(func() { n.publish(text) })
	}
	return err
}

type fakeLine struct {
	owner     *seat
	texts     chan string
	once      sync.Once
	ended     chan struct{}
	described bool
	node      *node
}

func (l *fakeLine) drop() { l.once.Do(func() { close(l.ended) }) }

func (l *fakeLine) Close() error {
	l.drop()
	l.node.do(func() { delete(l.node.lines, l) })
	return nil
}

func (l *fakeLine) Next(context.Context) (Message, error) {
	if !l.described {
		l.described = true
		return Message{Subscribed: true}, nil
	}
	select {
	case t := <-l.texts:
		return Message{Text: t}, nil
	case <-l.ended:
		return Message{}, errDown
	}
}

func (s *seat) Listen(ctx context.Context, id string) (Subscription, error) {
	n, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	time.Sleep(n.slow)
	l := &fakeLine{owner: s, texts: make(chan string, 100), ended: make(chan struct{}), node: n}
	n.do(func() { n.lines[l] = id })
	return l, nil
}

// player is an instance of a test.
type player struct {
	*Fleet
	seat *seat
	end  context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	dead    []string
	renamed []string
	heard   []string
	past    []string // ids it had before
	id      string   // its id now
}

// host records the calls of a player's fleet.
type host struct {
	noHost
	p *player
}

func (h host) Dead(id string) { h.p.note(&h.p.dead, id) }

func (h host) Received(from, text string) { h.p.note(&h.p.heard, from+" "+text) }

func (h host) Changed(v *View) {
	h.p.mu.Lock()
	before := h.p.id
	h.p.id = v.ID()
	h.p.mu.Unlock()
	if v.ID() != before {
		h.p.note(&h.p.renamed, v.ID())
		h.p.note(&h.p.past, before)
	}
}

func (p *player) note(in *[]string, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*in = append(*in, what)
}

func (p *player) seen(of *[]string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(*of)
}

// kill ends the process at once: its connections close, and it sends nothing more.
func (p *player) kill() {
	p.seat.set(true)
	p.end()
	<-p.done
	p.seat.node.cut(p.seat)
}

func play(t *testing.T, n *node, change ...func(*Options)) *player {
	t.Helper()
	p := &player{seat: &seat{node: n}, done: make(chan struct{})}
	o := Options{
		Redis: p.seat, Takeover: 3 * time.Second, Host: host{p: p}, Logger: zap.NewNop(),
	}
	for _, f := range change {
		f(&o)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.Fleet, p.id = f, f.ID()
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() {
		defer close(p.done)
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return p
}

// plays runs n instances on a node in virtual time, until all have read each other's heartbeats.
func plays(t *testing.T, count int, f func(t *testing.T, n *node, ps []*player)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		var ps []*player
		for range count {
			ps = append(ps, play(t, n))
			time.Sleep(137 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for i, p := range ps {
			if s := p.Stats(); s.Alive != count || s.Unresponsive+s.Leaving != 0 || s.Failed != 0 {
				t.Fatalf("instance %d: %+v", i, s)
			}
		}
		f(t, n, ps)
		for _, p := range ps {
			p.end()
			<-p.done
		}
	})
}

// nobodyGone checks that no instance was declared dead and that all are alive under the same ids.
func nobodyGone(t *testing.T, ps []*player) {
	t.Helper()
	for i, p := range ps {
		if s := p.Stats(); s.Alive != len(ps) || s.Dead != 0 || s.Renamed != 0 || s.Unresponsive != 0 {
			t.Errorf("instance %d: %+v", i, s)
		}
	}
}

func ids(ps []*player) string {
	var list []string
	for _, p := range ps {
		list = append(list, p.ID())
	}
	return fmt.Sprint(list)
}
