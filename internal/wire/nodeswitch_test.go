package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// seen is an answer of CLUSTER NODES for three nodes a, b and c. Slots and epochs are given by node, "" = a
// replica, or no slots.
func seen(self string, slots, epochs map[string]string) string {
	var text strings.Builder
	for _, id := range []string{"a", "b", "c"} {
		flags := "master"
		if slots[id] == "" {
			flags = "slave"
		}
		if id == self {
			flags = "myself," + flags
		}
		fmt.Fprintf(&text, "%s 127.0.0.1:1@2 %s - 0 0 %s connected %s\n", id, flags, epochs[id], slots[id])
	}
	return text.String()
}

// A node is replaced when any node reports another owner of its slots with a higher epoch. It stays replaced,
// whatever it says itself, until it knows of the change or gets slots again.
func TestHigherEpochReplacesNode(t *testing.T) {
	n := NewNodes()
	for _, id := range []string{"a", "b", "c"} {
		n.gates[id] = &gate{nodes: n, id: id}
	}
	type s = map[string]string
	before, epochs := s{"a": "0-100 102", "b": "200-300 [300->-a]"}, s{"a": "1", "b": "2", "c": "0"}
	after, later := s{"c": "0-100 102", "b": "200-300"}, s{"a": "1", "b": "2", "c": "5"}
	for i, step := range []struct {
		what           string
		from           string
		slots, epochs  s
		replaced       string
		switched, back bool
	}{
		{"the beginning", "b", before, epochs, "", false, false},
		{"c has a's slots", "b", after, later, "a", true, false},
		{"a does not know it", "a", before, epochs, "a", false, false},
		{"nor does another yet", "c", before, epochs, "a", false, false},
		{"again", "c", after, later, "a", false, false},
		{"a knows it", "a", after, later, "", false, true},
		{"nothing new", "b", after, later, "", false, false},
		{"a has them back, by hand", "b", before, s{"a": "7", "b": "2", "c": "5"}, "c", true, false},
		{"c gets others", "b", s{"a": "0-100 102", "b": "200-250", "c": "251-300"}, s{"a": "7", "b": "2", "c": "8"}, "", false, true},
		{"b loses all to c by moves, one slot after the other", "a", s{"a": "0-100 102", "c": "200-300"}, s{"a": "7", "b": "2", "c": "9"}, "b",
			true, false},
		{"b knows it", "b", s{"a": "0-100 102", "c": "200-300"}, s{"a": "7", "b": "2", "c": "9"}, "", false, true},
	} {
		all, self := readMembers(seen(step.from, step.slots, step.epochs))
		if self != step.from || len(all) != 3 {
			t.Fatalf("%d members, %s answers", len(all), self)
		}
		switched, back := n.observe(all, self)
		var replaced []string
		for _, id := range []string{"a", "b", "c"} {
			if n.gates[id].replaced.Load() {
				replaced = append(replaced, id)
			}
		}
		if strings.Join(replaced, " ") != step.replaced || switched != step.switched || back != step.back {
			t.Errorf("%d, %s: %v replaced, switched %v, back %v; want %q, %v, %v", i, step.what, replaced, switched, back, step.replaced,
				step.switched, step.back)
		}
	}
}

func TestCurrentEpoch(t *testing.T) {
	if n := currentEpoch("cluster_state:ok\r\ncluster_current_epoch:17\r\ncluster_my_epoch:3\r\n"); n != 17 {
		t.Errorf("%d", n)
	}
	if n := currentEpoch("ERR"); n != 0 {
		t.Errorf("%d", n)
	}
}

// Calls to a replaced node are not sent, and calls in flight there fail whatever it answers.
func TestAnswersOfReplacedNodeAreDiscarded(t *testing.T) {
	n := NewNodes()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = c.Close() }()
	n.Guard(c.Options().Addr, c)
	g, ctx := n.gates["127.0.0.1:1"], t.Context()
	sent := 0
	process := g.ProcessHook(func(_ context.Context, _ redis.Cmder) error {
		sent++
		g.replaced.Store(true) // during the call
		return nil
	})
	cmd := redis.NewStatusCmd(ctx, "set", "k", "v")
	if err := process(ctx, cmd); !errors.Is(err, ErrReplaced) || !errors.Is(cmd.Err(), ErrReplaced) || errors.Is(err, ErrAway) {
		t.Errorf("under way: %v, %v", err, cmd.Err())
	}
	if err := process(ctx, cmd); !errors.Is(err, ErrAway) || sent != 1 {
		t.Errorf("afterwards: %v, %d sent", err, sent)
	}
	if err := process(ctx, question{redis.NewStringCmd(ctx, "cluster", "info")}); err != nil || sent != 2 {
		t.Errorf("a question: %v, %d sent", err, sent)
	}
	if n.Refuse("127.0.0.1:1") != nil || n.Replaced("127.0.0.1:1") == nil || !n.Slow("127.0.0.1:1") {
		t.Error("only while Run runs calls are refused; that it is replaced is known")
	}
}
