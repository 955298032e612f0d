package node

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// askEvery is how often one of the nodes is asked, each in its turn, whether a
// failover has been; askTimeout is how long it may take to answer.
const (
	askEvery   = 250 * time.Millisecond
	askTimeout = askEvery
)

// ErrReplaced is what calls come to that were under way at a node when others told
// that another had taken its place: what it answered counts for nothing.
var ErrReplaced = errors.New("another node of the cluster has taken its place")

// question is a command that passes the gate of a node that has been replaced.
type question struct{ redis.Cmder }

// member is a node as another one sees it.
type member struct {
	epoch int64 // of its configuration: of two that claim a slot, the higher one has it
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

// readMembers reads what CLUSTER NODES answers: the members by id, and which of them
// has answered. A line is
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
				continue // on its way from one to another
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

// currentEpoch reads what CLUSTER INFO answers.
func currentEpoch(text string) int64 {
	_, rest, _ := strings.Cut(text, "cluster_current_epoch:")
	rest, _, _ = strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
	return n
}

// OnSwitch has f called whenever a node is found to have been replaced. It must not
// block, and be set before Run.
func (n *Nodes) OnSwitch(f func()) { n.onSwitch = f }

// Replaced is ErrReplaced, with the address, of a node that has been replaced.
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

// ReplacedError is an ErrReplaced that names the node.
type ReplacedError struct{ Addr string }

func (e *ReplacedError) Error() string { return "redis node " + e.Addr + ": " + ErrReplaced.Error() }

// Is makes it an ErrReplaced.
func (e *ReplacedError) Is(target error) bool { return target == ErrReplaced }

// askNext asks the next node in turn, among those that are not away.
func (n *Nodes) askNext(ctx context.Context) {
	n.mu.Lock()
	var next *gate
	doubt := false
	for _, g := range n.gates {
		doubt = doubt || g.replaced.Load()
		if (next == nil || g.asked.Before(next.asked)) && !g.gone(time.Now()) {
			next = g
		}
	}
	if next != nil {
		next.asked = time.Now()
	}
	n.mu.Unlock()
	if next == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info := redis.NewStringCmd(ctx, "cluster", "info")
	if next.client.Process(ctx, question{info}) != nil {
		return // silence has consequences of its own, and without the right nothing is known
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
	switched, back := n.hear(all, self)
	n.mu.Unlock()
	if switched && n.onSwitch != nil {
		n.onSwitch()
	}
	if switched || back {
		tell(n.back)
	}
}

// hear takes how one node sees the others. The caller holds mu.
func (n *Nodes) hear(all map[string]member, from string) (switched, back bool) {
	for _, g := range n.gates {
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
		case g.id == from: // it knows that it has none, and says so to whoever comes
			g.had = member{}
			back = g.replaced.Swap(false) || back
		case len(g.had.slots) > 0:
			for _, heir := range all {
				if heir.has(g.had.slots[0][0]) && heir.epoch > g.had.epoch {
					g.heir = max(g.heir, heir.epoch)
					switched = !g.replaced.Swap(true) || switched
				}
			}
		}
	}
	return switched, back
}
