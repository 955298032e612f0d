package wire

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// askNodeEvery is the interval at which one node, each in turn, is asked about failovers. askTimeout is the time
// limit of the answer.
const (
	askNodeEvery = 250 * time.Millisecond
	askTimeout   = askNodeEvery
)

// ErrReplaced is returned by calls that were in flight at a node when it was found replaced. The node's
// answer is discarded.
var ErrReplaced = errors.New("another node of the cluster has taken its place")

// question is a command that passes the gate of a replaced node.
type question struct{ redis.Cmder }

// member is a node as another one sees it.
type member struct {
	epoch int64 // of its configuration; the highest epoch that claims a slot owns it
	slots [][2]int
}

func (m member) has(slot int) bool {
	for _, r := range m.slots {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// readMembers parses the reply of a cluster node to CLUSTER NODES. It returns all nodes of the cluster by their ids,
// and the id of the node that has replied. Each line of the reply describes one node:
//
//	id ip:port@cport[,host] flags master ping-sent pong-recv config-epoch link-state slot…
func readMembers(text string) (all map[string]member, self string) {
	all = map[string]member{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}

		flags := strings.Split(f[2], ",")
		m := member{}
		m.epoch, _ = strconv.ParseInt(f[6], 10, 64)

		for _, flag := range flags {
			if flag == "myself" {
				self = f[0]
			}
		}

		for _, r := range f[8:] {
			if strings.HasPrefix(r, "[") {
				continue // a slot that is being migrated
			}

			first, last, ranges := strings.Cut(r, "-")
			a, err := strconv.Atoi(first)
			b := a
			if ranges && err == nil {
				b, err = strconv.Atoi(last)
			}

			if err == nil {
				m.slots = append(m.slots, [2]int{a, b})
			}
		}

		all[f[0]] = m
	}

	return all, self
}

// currentEpoch parses the answer of CLUSTER INFO.
func currentEpoch(text string) int64 {
	_, rest, _ := strings.Cut(text, "cluster_current_epoch:")
	rest, _, _ = strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
	return n
}

// OnSwitch sets a callback for each node that is found replaced. It must be set before Run, and f must not
// block.
func (n *Nodes) OnSwitch(f func()) { n.onSwitch = f }

// Replaced returns an ErrReplaced for a node that has been replaced, and nil for others.
func (n *Nodes) Replaced(addr string) error {
	if n == nil {
		return nil
	}

	n.mu.Lock()
	g := n.gates[addr]
	n.mu.Unlock()
	if g != nil && g.replaced.Load() {
		return &ReplacedError{addr}
	}

	return nil
}

// ReplacedError is an ErrReplaced with the address of the node.
type ReplacedError struct{ Addr string }

func (e *ReplacedError) Error() string { return "redis node " + e.Addr + ": " + ErrReplaced.Error() }

// Is reports whether target is ErrReplaced.
func (e *ReplacedError) Is(target error) bool { return target == ErrReplaced }

// askNext asks the next node about failovers.
func (n *Nodes) askNext(ctx context.Context) {
	next, doubt := n.next()
	if next == nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	info := redis.NewStringCmd(ctx, "cluster", "info")
	if next.client.Process(ctx, question{info}) != nil {
		return // the gates handle silence; without the right to ask, nothing is known
	}

	n.mu.Lock()
	epoch := currentEpoch(info.Val())
	same := next.id != "" && epoch == next.epoch && !doubt
	n.mu.Unlock()
	if same {
		return
	}

	list := redis.NewStringCmd(ctx, "cluster", "nodes")
	if next.client.Process(ctx, question{list}) != nil {
		return
	}

	all, self := readMembers(list.Val())
	n.mu.Lock()
	next.id, next.epoch = self, epoch
	switched, back := n.observe(all, self)
	n.mu.Unlock()

	if switched && n.onSwitch != nil {
		n.onSwitch()
	}

	if switched || back {
		notify(n.back)
	}
}

// next selects the node to ask: the one that was not asked for the longest time and is not away. doubt reports whether
// any node is considered replaced.
func (n *Nodes) next() (next *gate, doubt bool) {
	n.mu.Lock()
	defer n.mu.Unlock()

	for _, g := range n.gates {
		doubt = doubt || g.replaced.Load()
		if (next == nil || g.asked.Before(next.asked)) && !g.gone(time.Now()) {
			next = g
		}
	}

	if next != nil {
		next.asked = time.Now()
	}

	return next, doubt
}

// observe applies one node's view of the cluster. The caller holds mu.
func (n *Nodes) observe(all map[string]member, from string) (switched, back bool) {
	for _, g := range n.gates {
		s, b := g.observe(all, from)
		switched, back = switched || s, back || b
	}
	return switched, back
}

// observe applies the view of the node from. It reports whether this node was found replaced, or well again. The caller holds nodes.mu.
func (g *gate) observe(all map[string]member, from string) (switched, back bool) {
	m := all[g.id]
	switch {
	case g.id == "":
	case len(m.slots) > 0:
		if m.epoch >= g.had.epoch {
			g.had = m
		}
		if g.replaced.Load() && m.epoch > g.heir {
			g.replaced.Store(false)
			back = true
		}
	case g.id == from: // the node knows that it has no slots, and redirects its clients
		g.had = member{}
		back = g.replaced.Swap(false)
	case len(g.had.slots) > 0:
		for _, heir := range all {
			if heir.has(g.had.slots[0][0]) && heir.epoch > g.had.epoch {
				g.heir = max(g.heir, heir.epoch)
				switched = !g.replaced.Swap(true) || switched
			}
		}
	}

	return switched, back
}
