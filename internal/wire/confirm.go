package wire

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
)

// Confirmed writes: a call waits until the required number of replicas have received its writes
// (WAIT), or until the node has them on disk (WAITAOF), but at most for a timeout.
//
// Both commands refer to the last write of their connection, cannot be sent by a script, and do not
// wait within MULTI. So the script, a mark and the wait are sent in one pipeline to the node of the
// script's keys. Calls that arrive while all connections wait share the next pipelines, each of which
// has one wait. A state that a call found without writing it (a repetition) may not have reached a
// replica either. The mark is written after it, and the wait covers the mark.
//
// A connection is occupied while it waits, so these calls have separate connections.

//go:embed lua/mark.lua
var markSource string

var markScript = NewScript("mark", markSource, false).Anywhere()

// ErrUnconfirmed says that the write was made, but is not known to be as durable as required. The
// same call may be repeated.
var ErrUnconfirmed = errors.New("stored, but not confirmed")

// Confirm is what writes wait for, and for how long.
type Confirm struct {
	notice.Durability
	Timeout time.Duration // zero = 1 s
}

// Wait is the longest that a write takes longer than one that is not confirmed.
func (c Confirm) Wait() time.Duration {
	if !c.Waits() {
		return 0
	}
	return cmp.Or(c.Timeout, time.Second)
}

const (
	// WaitingConns is how many connections to each node calls may wait on.
	WaitingConns = 4
	// MaxPipelined is how many callers' script calls share a wait.
	MaxPipelined = 64
	// syncedFor is how long it holds that a server without a reliable WAITAOF syncs
	// before each answer: as long as a connection lives on which it was found.
	syncedFor = 30 * time.Second
	// maxFollowed is how often a call follows MOVED.
	maxFollowed = 5
)

// confirmer sends writes and waits. It is safe for concurrent use.
type confirmer struct {
	Confirm
	c     Commander
	gates *Nodes
	mark  func() string // the script's text for the server that answers

	nodes *pace.Batchers[string, *confirming] // by address; "" outside a cluster
}

// confirming is writes to one node on their way.
type confirming struct {
	list []Once
	ctx  context.Context // the caller's: a write whose caller has given up is not sent
	node Commander
	done chan struct{}
}

// newConfirmer is nil where there is nothing to wait for.
func (w *Client) newConfirmer(o Confirm) *confirmer {
	if !o.Waits() {
		return nil
	}

	o.Timeout = o.Wait()
	own := waiting{size: WaitingConns, timeout: o.Timeout + readTimeout}
	if o.Fsync {
		own.lifetime, own.onConnect = syncedFor, Synced
	}

	c := &confirmer{Confirm: o, c: w.Conn.waiters(own), gates: w.Nodes,
		mark: func() string { return w.fit(markScript.bare, markScript.mayGrow).src }}
	c.nodes = pace.NewBatchers[string](pace.BatcherOptions{MaxSenders: WaitingConns, MinExtra: 1, MaxBatch: MaxPipelined}, c.flush)
	return c
}

// send sends a write, whose first key is its third argument, and waits. The result is valid even if
// the error is ErrUnconfirmed.
func (c *confirmer) send(ctx context.Context, w Once) *redis.Cmd {
	return c.sendAll(ctx, []Once{w})[0]
}

// sendAll sends writes to the node of the first one's key, followed by one wait. Writes whose slot
// has moved are sent separately.
func (c *confirmer) sendAll(ctx context.Context, list []Once) []*redis.Cmd {
	out := make([]*redis.Cmd, len(list))
	fail := func(err error) []*redis.Cmd {
		for i := range out {
			out[i] = redis.NewCmd(ctx)
			out[i].SetErr(err)
		}
		return out
	}
	key, _ := list[0].Args()[3].(*string)
	node, addr, err := c.node(ctx, *key)
	if err != nil {
		return fail(err)
	}

	p := &confirming{list: list, ctx: ctx, node: node}
	if err := c.pass(p, addr); err != nil {
		return fail(err) // they may be under way, so their own results are not to be touched
	}

	for i, w := range list {
		out[i] = c.follow(ctx, w)
	}

	return out
}

// pass has writes sent to the node at an address; an error is of all of them.
func (c *confirmer) pass(p *confirming, addr string) error {
	if err := c.gates.Refuse(addr); err != nil {
		reload(p.ctx, c.c)
		return err
	}

	p.done = make(chan struct{})
	c.nodes.For(addr).Add(p)
	select {
	case <-p.done:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// follow makes a write again where a node says that another holds its key.
func (c *confirmer) follow(ctx context.Context, w Once) *redis.Cmd {
	for range maxFollowed {
		to, moved := redis.IsMovedError(w.Err())
		if !moved || errors.Is(w.Err(), ErrUnconfirmed) {
			break
		}

		node := c.at(ctx, to)
		if node == nil {
			break
		}

		w = NewWrite(ctx, 3, w.Args()...)
		if err := c.pass(&confirming{list: []Once{w}, ctx: ctx, node: node}, to); err != nil {
			gone := redis.NewCmd(ctx)
			gone.SetErr(err)
			return gone
		}
	}
	return w.Cmd
}

// node is the one that holds a key.
func (c *confirmer) node(ctx context.Context, key string) (n Commander, addr string, err error) {
	cluster := clusterOf(c.c)
	if cluster == nil {
		return c.c, "", nil
	}

	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, "", err
	}

	return master, master.Options().Addr, nil
}

// at returns the client of the master with an address, nil if none is known there. In that case it
// updates the map of nodes for later calls.
func (c *confirmer) at(ctx context.Context, addr string) Commander {
	cluster := clusterOf(c.c)
	if cluster == nil {
		return nil
	}

	cluster.ReloadState(ctx)
	var mu sync.Mutex
	var found Commander
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
		if n.Options().Addr == addr {
			mu.Lock()
			defer mu.Unlock()
			found = n
		}
		return nil
	})
	return found
}

// flush sends writes and one wait behind them.
func (c *confirmer) flush(list []*confirming) {
	defer func() {
		for _, p := range list {
			close(p.done)
		}
	}()
	// The calls belong to several callers, so that none of their contexts ends it.
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout+readTimeout)
	defer cancel()
	node := list[len(list)-1].node // the latest client of this node
	pipe := node.Pipeline()
	var sent []Once
	for _, p := range list {
		for _, w := range p.list {
			if err := p.ctx.Err(); err != nil {
				w.SetErr(err)
				continue
			}

			_ = pipe.Process(ctx, w)
			sent = append(sent, w)
		}
	}

	if len(sent) == 0 {
		return
	}

	short := c.confirm(ctx, pipe, sent[0])
	if _, moved := redis.IsMovedError(short); moved {
		// The node has that slot no more, and others it has. A mark behind them confirms
		// them on any connection.
		if i := slices.IndexFunc(sent, func(w Once) bool { return w.Err() == nil }); i >= 0 {
			short = c.confirm(ctx, node.Pipeline(), sent[i])
		}
	}

	if gone := c.gates.Replaced(Addr(node)); gone != nil {
		short = fmt.Errorf("%w: %w", ErrUnconfirmed, gone)
	}

	for _, p := range list {
		for _, w := range p.list {
			switch err := w.Err(); {
			case err == nil && short != nil:
				w.SetErr(short)
			case err != nil && mayHaveRun(err):
				reload(ctx, c.c)
			}
		}
	}
}

// confirm sends a pipeline, followed by a mark in the slot of a write and the wait. It returns the
// missing confirmation; each write has its own error.
func (c *confirmer) confirm(ctx context.Context, pipe redis.Pipeliner, w Once) error {
	key, _ := w.Args()[3].(*string)
	mark, wait := NewWrite(ctx, 3, "eval", c.mark(), 1, keys.ShardOf(*key).Confirmed()), c.wait(ctx)
	_ = pipe.Process(ctx, mark)
	_ = pipe.Process(ctx, wait)
	_, _ = pipe.Exec(ctx)
	if err := mark.Err(); err != nil {
		return fmt.Errorf("%w: the mark before the wait: %w", ErrUnconfirmed, err)
	}

	return c.short(wait)
}

// wait is the command that is sent behind the writes.
func (c *confirmer) wait(ctx context.Context) *redis.Cmd {
	ms := c.Timeout.Milliseconds()
	if c.Fsync {
		return redis.NewCmd(ctx, "waitaof", 1, 0, ms)
	}

	return redis.NewCmd(ctx, "wait", c.Replicas, ms)
}

// short returns an error for a missing confirmation; nil if nothing is missing.
func (c *confirmer) short(wait *redis.Cmd) error {
	err := wait.Err()
	switch {
	case c.Fsync && redis.HasErrorPrefix(err, "unknown command"):
		return nil // Synced has found that the server syncs before it answers
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	case c.Fsync:
		if got, _ := wait.Int64Slice(); len(got) == 0 || got[0] < 1 {
			return fmt.Errorf("%w: it was not on disk after %s", ErrUnconfirmed, c.Timeout)
		}
		return nil
	}

	if got, _ := wait.Int(); got < c.Replicas {
		return fmt.Errorf("%w: %d of %d replicas had it after %s", ErrUnconfirmed, got, c.Replicas, c.Timeout)
	}

	return nil
}

// notSynced is why fsync is refused; go-redis unwraps errors of connecting.
type notSynced struct{ why string }

func (e notSynced) Error() string {
	return "fsync needs Redis 8, or appendonly yes and appendfsync always; " + e.why
}

// Is makes it an ErrNotSynced.
func (e notSynced) Is(target error) bool { return target == ErrNotSynced }

// ErrNotSynced says that a server whose WAITAOF cannot be relied on does not sync before each answer, so
// that nothing can be confirmed as being on disk. Nothing was written.
var ErrNotSynced = errors.New("redis does not sync before it answers")

// Synced is nil where a server can confirm that writes are on disk, and
// ErrNotSynced where it cannot.
func Synced(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx, "server").Result()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return err
	}
	if WaitsForDisk(info) {
		return nil
	}

	for _, want := range [][2]string{{"appendonly", "yes"}, {"appendfsync", "always"}} {
		got, err := c.ConfigGet(ctx, want[0]).Result()
		switch {
		case errors.As(err, &answer):
			return notSynced{want[0] + " cannot be read: " + err.Error()}
		case err != nil:
			return err
		case got[want[0]] != want[1]:
			return notSynced{fmt.Sprintf("%s is %q", want[0], got[want[0]])}
		}
	}

	return nil
}

// WaitsForDisk reports whether the command WAITAOF of a server is reliable: it returns only after a write is on disk.
// That is so for Redis 8 and later. info is the server's reply to INFO server.
func WaitsForDisk(info string) bool {
	// With appendfsync everysec, early versions of Redis 7.2 and 7.4, and Valkey 8.0.1 and 8.1.1, return too early.
	major, _ := version(info)
	return major >= 8 && !strings.Contains(info, "valkey_version:")
}

// version parses the reply to INFO; 0, 0 if INFO is forbidden. Valkey reports the Redis version
// that it is compatible with.
func version(info string) (major, minor int) {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			_, _ = fmt.Sscanf(v, "%d.%d", &major, &minor)
		}
	}
	return major, minor
}
