package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MaxSilence is how long a node may be silent before nobody waits for it who
	// need not.
	MaxSilence = 100 * time.Millisecond
	// limit is how long it may be silent before calls to it are refused.
	limit = time.Second
	// budget is how many calls may wait for a node that is slow.
	budget = 32
	// probeEvery is how often a node that is away is asked, and probeTimeout how
	// long each question waits for an answer.
	probeEvery   = 20 * time.Millisecond
	probeTimeout = time.Second
)

// ErrAway is what calls to a node come to that is away. Nothing was sent.
var ErrAway = errors.New("the node does not answer")

// AwayError is an ErrAway that names the node.
type AwayError struct{ Addr string }

func (e *AwayError) Error() string { return "redis node " + e.Addr + ": " + ErrAway.Error() }

// Is makes it an ErrAway.
func (e *AwayError) Is(target error) bool { return target == ErrAway }

// Nodes are the gates of a cluster's nodes, by address. Its methods are safe for
// concurrent use; on nil Nodes all are well.
type Nodes struct {
	running atomic.Bool
	asking  atomic.Bool
	back    chan struct{}
	refused chan struct{}

	onSwitch func() // nil = nobody hears of it

	mu    sync.Mutex
	gates map[string]*gate
}

// New makes Nodes that know no node. Calls are refused only while Run runs.
func New() *Nodes {
	return &Nodes{back: make(chan struct{}, 1), refused: make(chan struct{}, 1), gates: map[string]*gate{}}
}

// Guard puts a gate before a node. It is for redis.ClusterClient.OnNewNode.
func (n *Nodes) Guard(c *redis.Client) {
	addr := c.Options().Addr
	g := &gate{nodes: n, client: c, away: &AwayError{addr}}
	c.AddHook(g)
	n.mu.Lock()
	n.gates[addr] = g
	n.mu.Unlock()
}

// Slow reports whether a node is slow or away.
func (n *Nodes) Slow(addr string) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	g := n.gates[addr]
	n.mu.Unlock()
	return g != nil && g.slow(time.Now())
}

// Refuse is ErrAway, with the address, of a node that is away, and nil of others:
// for who speaks to the node by connections that have no gate.
func (n *Nodes) Refuse(addr string) error {
	if n == nil || !n.running.Load() {
		return nil
	}
	if g := n.gone(time.Now())[addr]; g != nil {
		tell(n.refused)
		return g.away
	}
	if n.Replaced(addr) != nil {
		return &AwayError{addr} // nothing was sent
	}
	return nil
}

// Away are the addresses of the nodes that are away, sorted.
func (n *Nodes) Away() []string {
	var list []string
	for addr := range n.gone(time.Now()) {
		list = append(list, addr)
	}
	slices.Sort(list)
	return list
}

// Back says that a node which was slow or away has answered. It has room for one
// word, which may stand for several nodes.
func (n *Nodes) Back() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.back
}

func (n *Nodes) gone(now time.Time) map[string]*gate {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var some map[string]*gate
	for addr, g := range n.gates {
		if g.gone(now) {
			if some == nil {
				some = map[string]*gate{}
			}
			some[addr] = g
		}
	}
	return some
}

// Run asks nodes that are away until ctx ends, and returns nil. Without calls
// that are refused it does nothing.
func (n *Nodes) Run(ctx context.Context) error {
	if n == nil {
		<-ctx.Done()
		return nil
	}
	n.running.Store(true)
	defer n.running.Store(false)
	var probes sync.WaitGroup
	defer probes.Wait()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for ctx.Err() == nil {
		var again <-chan time.Time
		for addr, g := range n.gone(time.Now()) {
			again = time.After(probeEvery)
			if g.probing.CompareAndSwap(false, true) {
				probes.Go(func() {
					defer g.probing.Store(false)
					if errors.Is(g.ask(ctx), redis.ErrClosed) {
						n.forget(addr, g)
					}
				})
			}
		}
		select {
		case <-ctx.Done():
		case <-n.refused:
		case <-again:
		case <-ask.C:
			if n.asking.CompareAndSwap(false, true) {
				probes.Go(func() {
					defer n.asking.Store(false)
					n.askNext(ctx)
				})
			}
		}
	}
	return nil
}

// forget drops the gate of a node that is none of the cluster's any more.
func (n *Nodes) forget(addr string, g *gate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gates[addr] == g {
		delete(n.gates, addr)
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gate stands before one node, as a hook of its client.
type gate struct {
	nodes   *Nodes
	client  *redis.Client
	away    error
	probing atomic.Bool

	// replaced: other nodes say that another has its slots.
	replaced atomic.Bool
	// What follows is of the mutex of nodes.
	asked time.Time
	id    string // empty = not known yet
	epoch int64  // of the cluster, as it said last
	had   member // as others saw it while it had slots
	heir  int64  // the epoch of who has them now

	mu      sync.Mutex
	waiting int
	since   time.Time // while calls wait: how long the node has been silent
	failed  bool      // it could not be reached, or let the last call wait for too long
}

func (g *gate) slow(now time.Time) bool {
	if g.replaced.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.silent(now, MaxSilence)
}

func (g *gate) gone(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.silent(now, limit)
}

// silent reports whether the node has been silent for longer than d. The caller
// holds mu.
func (g *gate) silent(now time.Time, d time.Duration) bool {
	return g.failed || g.waiting > 0 && now.Sub(g.since) > d
}

// enter lets a call through, which leave ends, or refuses it.
func (g *gate) enter() error {
	now := time.Now()
	if g.replaced.Load() {
		return &AwayError{g.client.Options().Addr}
	}
	g.mu.Lock()
	if g.nodes.running.Load() && (g.silent(now, limit) || g.waiting >= budget && g.silent(now, MaxSilence)) {
		g.mu.Unlock()
		tell(g.nodes.refused)
		return g.away
	}
	if g.waiting++; g.waiting == 1 {
		g.since = now
	}
	g.mu.Unlock()
	return nil
}

func (g *gate) leave(err error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case answered(err):
		if g.silent(now, MaxSilence) {
			tell(g.nodes.back)
		}
		g.failed, g.since = false, now
	case unreachable(err), timedOut(err) && now.Sub(g.since) > limit:
		g.failed = true
	}
	g.waiting--
}

// answered reports whether err is a node's own word, or none.
func answered(err error) bool {
	var answer redis.Error
	return err == nil || errors.As(err, &answer) && !redis.IsLoadingError(answer)
}

// unreachable reports whether no connection could be made, or the node has no
// data yet.
func unreachable(err error) bool {
	var broken *net.OpError
	return errors.As(err, &broken) && broken.Op == "dial" || redis.IsLoadingError(err)
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// probe is a PING that passes a gate.
type probe struct{ *redis.StatusCmd }

// ask asks the node for an answer.
func (g *gate) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return g.client.Process(ctx, probe{redis.NewStatusCmd(ctx, "ping")})
}

// greets reports whether a command is one with which the client begins a
// connection. It comes through the same hooks, amid the call that the connection is
// for, which has passed the gate.
func greets(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "select", "readonly", "client":
		return true
	}
	return false
}

// DialHook implements redis.Hook.
func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p, ok := cmd.(probe); ok {
			g.mu.Lock()
			g.waiting++ // since is as it was
			g.mu.Unlock()
			err := next(ctx, p)
			g.leave(err)
			return err
		}
		if greets(cmd) {
			return next(ctx, cmd)
		}
		if q, ok := cmd.(question); ok {
			return next(ctx, q.Cmder)
		}
		if err := g.enter(); err != nil {
			return err
		}
		err := next(ctx, cmd)
		g.leave(err)
		if g.replaced.Load() {
			err = g.disown(cmd)
		}
		return err
	}
}

// disown takes back what a node has answered that was replaced meanwhile.
func (g *gate) disown(cmds ...redis.Cmder) error {
	err := &ReplacedError{g.client.Options().Addr}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// ProcessPipelineHook implements redis.Hook.
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && greets(cmds[0]) {
			return next(ctx, cmds)
		}
		if err := g.enter(); err != nil {
			return err
		}
		err := next(ctx, cmds)
		g.leave(err)
		if g.replaced.Load() {
			err = g.disown(cmds...)
		}
		return err
	}
}
