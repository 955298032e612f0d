package wire

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
	// MaxSilence is the silence after which optional calls skip a node.
	MaxSilence = 100 * time.Millisecond
	// limit is the silence after which calls to a node are refused.
	limit = time.Second
	// budget is how many calls may wait for a slow node.
	budget = 32
	// probeEvery is the interval of probes to a node that is away, and probeTimeout the time limit of each.
	probeEvery   = 20 * time.Millisecond
	probeTimeout = time.Second
)

// ErrAway is returned by calls to a node that is away. Nothing was sent.
var ErrAway = errors.New("the node does not answer")

// AwayError is an ErrAway with the address of the node.
type AwayError struct{ Addr string }

func (e *AwayError) Error() string { return "redis node " + e.Addr + ": " + ErrAway.Error() }

// Is reports whether target is ErrAway.
func (e *AwayError) Is(target error) bool { return target == ErrAway }

// Nodes holds the gates of a cluster's nodes, by address. Its methods are safe for concurrent use. For a nil
// Nodes all nodes are well.
type Nodes struct {
	running atomic.Bool
	asking  atomic.Bool
	back    chan struct{}
	refused chan struct{}

	onSwitch func() // nil = no callback

	mu    sync.Mutex
	gates map[string]*gate
}

// NewNodes returns Nodes without a node. Calls are refused only while Run runs.
func NewNodes() *Nodes {
	return &Nodes{back: make(chan struct{}, 1), refused: make(chan struct{}, 1), gates: map[string]*gate{}}
}

// NodeServer is a client of one node. *redis.Client is one.
type NodeServer interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	AddHook(hook redis.Hook)
}

// Guard adds a gate to the client of the node at addr. It is for redis.ClusterClient.OnNewNode.
func (n *Nodes) Guard(addr string, c NodeServer) {
	g := &gate{nodes: n, client: c, addr: addr, away: &AwayError{addr}}
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

// Refuse returns an ErrAway for a node that is away, and nil for others. It is for callers that use
// connections without a gate.
func (n *Nodes) Refuse(addr string) error {
	if n == nil || !n.running.Load() {
		return nil
	}

	if g := n.gone(time.Now())[addr]; g != nil {
		notify(n.refused)
		return g.away
	}

	if n.Replaced(addr) != nil {
		return &AwayError{addr} // nothing was sent
	}

	return nil
}

// Away returns the addresses of the nodes that are away, sorted.
func (n *Nodes) Away() []string {
	var list []string
	for addr := range n.gone(time.Now()) {
		list = append(list, addr)
	}

	slices.Sort(list)
	return list
}

// Back returns a channel that receives a value after a slow or absent node has answered. One value may stand
// for several nodes.
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

// Run probes nodes that are away until ctx ends, and returns nil. It sends nothing while all nodes answer,
// except the questions about failovers.
func (n *Nodes) Run(ctx context.Context) error {
	if n == nil {
		<-ctx.Done()
		return nil
	}

	n.running.Store(true)
	defer n.running.Store(false)

	var probes sync.WaitGroup
	defer probes.Wait()

	ask := time.NewTicker(askNodeEvery)
	defer ask.Stop()

	for ctx.Err() == nil {
		again := n.probe(ctx, &probes)
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

// probe starts a probe of each node that is away and not being probed. It returns when to call it again; nil = when a call is refused.
func (n *Nodes) probe(ctx context.Context, probes *sync.WaitGroup) (again <-chan time.Time) {
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

	return again
}

// forget drops the gate of a node that has left the cluster.
func (n *Nodes) forget(addr string, g *gate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gates[addr] == g {
		delete(n.gates, addr)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gate controls the calls to one node, as a hook of its client.
type gate struct {
	nodes   *Nodes
	client  NodeServer
	addr    string
	away    error
	probing atomic.Bool

	// replaced means that other nodes report another owner of its slots.
	replaced atomic.Bool
	// The following fields are guarded by nodes.mu.
	asked time.Time
	id    string // empty = not known yet
	epoch int64  // of the cluster, in its last answer
	had   member // the node while it had slots, as others saw it
	heir  int64  // epoch of the present owner of its slots

	mu      sync.Mutex
	waiting int
	since   time.Time // start of the node's silence, while calls wait
	failed  bool      // not reachable, or the last call timed out
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

// silent reports whether the node has been silent for longer than d. The caller holds mu.
func (g *gate) silent(now time.Time, d time.Duration) bool {
	return g.failed || g.waiting > 0 && now.Sub(g.since) > d
}

// enter admits a call, which leave ends, or refuses it.
func (g *gate) enter() error {
	now := time.Now()
	if g.replaced.Load() {
		return &AwayError{g.addr}
	}

	g.mu.Lock()
	if g.nodes.running.Load() && (g.silent(now, limit) || g.waiting >= budget && g.silent(now, MaxSilence)) {
		g.mu.Unlock()
		notify(g.nodes.refused)
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
			notify(g.nodes.back)
		}
		g.failed, g.since = false, now
	case unreachable(err), timedOut(err) && now.Sub(g.since) > limit:
		g.failed = true
	}

	g.waiting--
}

// answered reports whether the node has answered: without an error, or with one of Redis.
func answered(err error) bool {
	var answer redis.Error
	return err == nil || errors.As(err, &answer) && !redis.IsLoadingError(answer)
}

// unreachable reports whether no connection could be made, or the node is loading its data.
func unreachable(err error) bool {
	var broken *net.OpError
	return errors.As(err, &broken) && broken.Op == "dial" || redis.IsLoadingError(err)
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// probe is a PING that passes a closed gate.
type probe struct{ *redis.StatusCmd }

// ask sends the node a probe.
func (g *gate) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return g.client.Process(ctx, probe{redis.NewStatusCmd(ctx, "ping")})
}

// greets reports whether a command opens a connection. Such commands pass the same hooks, during the call
// that needs the connection and that the gate has admitted.
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
			g.waiting++ // since stays unchanged
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

// disown replaces the answers of a node that was replaced during the call by an error.
func (g *gate) disown(cmds ...redis.Cmder) error {
	err := &ReplacedError{g.addr}
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
