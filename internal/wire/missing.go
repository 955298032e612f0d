package wire

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// In a cluster, operations on notices of all shards skip shards whose nodes do not answer, and
// return which shards are missing. An incomplete result is more useful than an error, but a sum
// without that list would be misleading.

// RoundTimeout is how long a round waits in all for nodes that do not answer, and
// RoundLeast how long it waits for each at least.
const (
	RoundTimeout = 700 * time.Millisecond
	RoundLeast   = 100 * time.Millisecond
)

// Round is one call that goes over shards. Its methods may be called at the same
// time.
type Round struct {
	w       *Client
	timeout time.Duration

	mu     sync.Mutex
	spent  time.Duration
	nodes  map[string]error // nodes that did not answer
	shards map[int]Lost     // missing shards
	done   int              // calls that were answered
}

// NewRound begins one.
func (w *Client) NewRound() *Round {
	return &Round{w: w, timeout: RoundTimeout, nodes: map[string]error{}, shards: map[int]Lost{}}
}

// Allow has the round wait longer, for calls that take so much longer than others. It is called
// before the first Do.
func (r *Round) Allow(more time.Duration) { r.timeout += more }

// Silent returns the nodes that gave no answer.
func (r *Round) Silent() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.nodes)
}

// Do makes one call on a shard. It is false where the shard is missing; any other
// failure is an error.
func (r *Round) Do(ctx context.Context, shard int, f func(ctx context.Context) error) (bool, error) {
	if !r.w.Cluster {
		return true, f(ctx)
	}

	master := r.w.Master(ctx, r.w.Space.Base(shard))
	wait, here := r.begin(shard, master)
	if !here {
		return false, nil
	}

	begun := time.Now()
	part, cancel := context.WithTimeout(ctx, wait)
	err := f(part)
	cancel()
	switch {
	case err == nil || errors.Is(err, ErrUnconfirmed):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done++
		return true, err
	case ctx.Err() != nil || !errors.Is(err, ErrUnavailable):
		return false, err
	}

	var answer redis.Error
	r.miss(shard, master, err, !errors.As(err, &answer), time.Since(begun))
	return false, nil
}

// begin is how long a call may take on a shard of a node, if it is worth one.
func (r *Round) begin(shard int, master string) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, missing := r.shards[shard]; missing {
		return 0, false
	}

	err := r.nodes[master]
	if err == nil {
		err = r.w.Nodes.Refuse(master)
	}

	if err != nil {
		r.w.Reload(context.Background()) // does not wait
		r.shards[shard] = Lost{Node: master, Err: Wrap("missing", err)}
		return 0, false
	}

	return max(r.timeout-r.spent, RoundLeast), true
}

// miss records a missing shard. silent means that its node did not answer at all, so its other
// shards are skipped too.
func (r *Round) miss(shard int, master string, err error, silent bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards[shard] = Lost{Node: master, Err: err}
	if silent {
		r.spent += took
		r.nodes[master] = err
	}
}

// Missing are the nodes whose shards are missing, in order of their addresses. It is
// an error if nothing was answered and no other shard would be.
func (r *Round) Missing(ctx context.Context) ([]Lost, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.shards) == 0 {
		return nil, nil
	}

	by := map[string]*Lost{}
	for shard, l := range r.shards {
		if by[l.Node] == nil {
			by[l.Node] = &Lost{Node: l.Node, Err: l.Err}
		}
		by[l.Node].Shards = append(by[l.Node].Shards, shard)
	}

	list := lostList(by)
	if r.done == 0 && r.w.None(ctx) {
		return list, list[0].Err
	}

	return list, nil
}

// None reports whether no shard answers.
func (w *Client) None(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, RoundLeast)
	defer cancel()
	n := 0
	for _, l := range w.Unreached(ctx) {
		n += len(l.Shards)
	}

	return n >= w.Space.Places()
}

// lostList puts nodes in order, and the shards of each.
func lostList(by map[string]*Lost) []Lost {
	list := make([]Lost, 0, len(by))
	for _, l := range by {
		slices.Sort(l.Shards)
		list = append(list, *l)
	}

	slices.SortFunc(list, func(a, b Lost) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// Together merges lists of missing shards: one entry per node, with all its shards.
func Together(lists ...[]Lost) []Lost {
	by := map[string]*Lost{}
	for _, list := range lists {
		for _, l := range list {
			if by[l.Node] == nil {
				by[l.Node] = &Lost{Node: l.Node, Err: l.Err}
			}
			for _, shard := range l.Shards {
				if !slices.Contains(by[l.Node].Shards, shard) {
					by[l.Node].Shards = append(by[l.Node].Shards, shard)
				}
			}
		}
	}

	if len(by) == 0 {
		return nil
	}

	return lostList(by)
}

// NodeError is the ErrUnavailable of a cluster node that does not answer.
type NodeError struct {
	Node string // its address
	Err  error
}

func (e *NodeError) Error() string { return "redis node " + e.Node + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// NodeOf is the address of the node of a cluster that err is about; empty if it names
// none.
func NodeOf(err error) string {
	var lies *NodeError
	var away *AwayError
	switch {
	case errors.As(err, &lies):
		return lies.Node
	case errors.As(err, &away):
		return away.Addr
	}

	return ""
}

// At makes one call on a key that no other shard can stand for. In a cluster it does
// not wait longer than other nodes are worth waiting for, and its error names the node.
func (w *Client) At(ctx context.Context, key string, f func(ctx context.Context) error) error {
	if !w.Cluster {
		return f(ctx)
	}

	part, cancel := context.WithTimeout(ctx, RoundTimeout)
	defer cancel()
	err := f(part)
	if ctx.Err() == nil && errors.Is(err, ErrUnavailable) {
		if master := w.Master(ctx, key); master != "" {
			return &NodeError{master, err}
		}
	}

	return err
}
