//go:build fault

package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/test/record"
)

const shardsOnNodes = 6

// onNodes starts a service and three masters without replicas, which serve on after the
// failure of one. node is the master that will fail: the one that holds the key which.
func onNodes(t *testing.T, rec *receiver, which string, routes ...[]string) (c *nodes, s *service, node *testkit.Redis,
	space keys.Space) {
	t.Helper()
	c = newNodes(t, 3, 0, "cluster-node-timeout 30000", "cluster-require-full-coverage no")
	space = tagged(shardsOnNodes)
	return c, c.launchOn(t, shardsOnNodes, 3, append(routes, wide(rec.url))...), c.holding(t, which), space
}

// steady is the rate of the ledgers, in calls a second: each notice is due 1.5 s later.
func steady() int { return record.Sized(300, 500) }

// besideAim is the aim for the other nodes during the fault of one.
const besideAim = "healthy shards ≤ 250 ms late, their calls p99 ≤ 50 ms and none refused"

func (r reckoning) beside() string {
	late, calls := r.late[false], r.calls[false]
	ok := late.most <= 250*time.Millisecond && calls.p99 <= 50*time.Millisecond && r.refused[false]+r.unanswered[false] == 0
	return record.Reached(ok,
		fmt.Sprintf("healthy shards late p50 %s, p99 %s, max %s; their calls p99 %s, %d refused; the bad node's delivered at most %s after it "+
			"was back, %d with an attempt used",
			record.Short(late.p50), record.Short(late.p99), record.Short(late.most), record.Short(calls.p99), r.refused[false]+r.unanswered[false],
			record.Short(r.after), r.again))
}

// One master of three hangs, and no replica replaces it.
func TestHangingMasterLeavesOtherShardsOnTime(t *testing.T) {
	for i, which := range []string{"notifier:meta", "notifier:{fleet}:signs", tagged(shardsOnNodes).Base(3)} {
		t.Run("with "+which, func(t *testing.T) {
			begun := time.Now()
			rec := listen(t, nil)
			c, s, node, space := onNodes(t, rec, which)
			bad := c.shardsOf(t, node, shardsOnNodes)
			l := keepLedger(s, space, bad, steady(), 1500*time.Millisecond)
			time.Sleep(4 * time.Second) // sleep: steady work to compare with
			from := time.Now()
			node.Pause()
			time.Sleep(record.Sized(10*time.Second, 12*time.Second)) // sleep: the fault lasts as long
			node.Unpause()
			fault := window{from, time.Now()}
			time.Sleep(4 * time.Second) // sleep: steady work after it
			r := l.reckon(rec, fault)
			r.untouched(t)
			record.Fault{No: fmt.Sprintf("3.%d", i+1), Fault: fmt.Sprintf("one master of three hangs %s, no failover: that with `%s`",
				record.Short(fault.to.Sub(fault.from)), which),
				Settings: fmt.Sprintf("cluster of 3, %d shards, %d of them there, coverage no", shardsOnNodes, len(bad)), Counts: r.counts(),
				Aim: besideAim, Found: r.beside(), Server: c.version(t), From: begun}.Put(t)
		})
	}
}

// A node stops for four seconds, three times.
func TestPausedNodeUsesNoAttempts(t *testing.T) {
	begun := time.Now()
	rec := listen(t, nil)
	c := newNodes(t, 3, 0, "cluster-node-timeout 30000", "cluster-require-full-coverage no")
	space := tagged(shardsOnNodes)
	s := c.launchOn(t, shardsOnNodes, 3, wide(rec.url), []string{"NOTIFIER_LOG_LEVEL=info"})
	node := c.holding(t, space.Base(3))
	l := keepLedger(s, space, c.shardsOf(t, node, shardsOnNodes), steady(), 1500*time.Millisecond)
	var faults []window
	for range 3 {
		time.Sleep(3 * time.Second) // sleep: steady work before each fault
		from := time.Now()
		node.Pause()
		time.Sleep(4 * time.Second) // sleep: the fault lasts as long
		node.Unpause()
		faults = append(faults, window{from, time.Now()})
	}
	time.Sleep(3 * time.Second) // sleep: steady work after them
	r := l.reckon(rec, faults...)
	r.untouched(t)
	if r.again > 0 {
		t.Errorf("%d came with another attempt than the first", r.again)
	}
	wrong := 0
	told := s.latenessInLog()
	for key, hits := range rec.byKey() {
		// The log counts to the begin of the call, the receiver to its arrival.
		if late, ok := told[key]; ok && (hits[0].late()-late).Abs() > 2*time.Second {
			if wrong++; wrong <= 5 {
				t.Errorf("%s was %s late, and the log says %s", key, hits[0].late(), late)
			}
		}
	}
	t.Logf("  of %d lines of attempts %d have another lateness than the receiver measured", len(told), wrong)
	if len(told) == 0 {
		t.Error("the log has no attempt")
	}
	ok := r.after <= 300*time.Millisecond && r.again == 0 && wrong == 0
	record.Fault{No: "5", Fault: "a cluster's node is paused 3 × 4 s", Settings: fmt.Sprintf("cluster of 3, %d shards, coverage no",
		shardsOnNodes), Counts: r.counts(),
		Aim: "≤ pause + 300 ms, no attempt used, the log's lateness true",
		Found: record.Reached(ok,
			fmt.Sprintf("delivered at most %s after the pause, attempts used %d, lines of the log with another lateness %d of %d",
				record.Short(r.after), r.again, wrong, len(told))) + "; " + r.beside(), Server: c.version(t), From: begun}.Put(t)
}

// latenessInLog returns the lateness in the log of each notice's first attempt.
func (s *service) latenessInLog() map[string]time.Duration {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	told := map[string]time.Duration{}
	for line := range bytes.Lines(raw) {
		var e struct {
			Message  string  `json:"msg"`
			Key      string  `json:"key"`
			Outcome  string  `json:"outcome"`
			Lateness float64 `json:"lateness_ms"`
		}
		if json.Unmarshal(line, &e) == nil && e.Message == "attempt" && e.Outcome == "delivered" {
			told[e.Key] = time.Duration(e.Lateness * float64(time.Millisecond))
		}
	}
	return told
}

// One master of three stays dead. The instances report it, and a new instance serves the
// other shards, except for paused routes.
func TestDeadMasterLeavesOtherShardsServed(t *testing.T) {
	for i, which := range []string{"notifier:meta", "notifier:paused"} {
		t.Run(which, func(t *testing.T) {
			begun := time.Now()
			rec, held := listen(t, nil), listen(t, nil)
			c, s, node, space := onNodes(t, rec, which, route("held", "app1:held", held.url))
			bad := c.shardsOf(t, node, shardsOnNodes)
			ctx := t.Context()
			if _, err := s.api.Pause(ctx, "held"); err != nil {
				t.Fatal(err)
			}
			node.Kill()
			expectDegraded := func(s *service) {
				t.Helper()
				await(t, waitTimeout, "ready, degraded, with the node's name", func() bool {
					h, err := s.api.Ready(ctx)
					return err == nil && h.Ready && h.Degraded && strings.Contains(strings.Join(h.Reasons, "; "), node.Addr())
				})
			}
			expectDegraded(s)
			second := launch(t, c.url, []string{"NOTIFIER_REDIS_MODE=cluster"}, wide(rec.url), route("held", "app1:held", held.url))
			expectDegraded(second)
			for i, s := range []*service{s, second} {
				n := 0
				for j := range 60 {
					key := fmt.Sprintf("app1:pay:of%d:%d", i, j)
					_, err := s.api.Schedule(ctx, client.Request{Key: key, Body: []byte("1")})
					var p *client.Problem
					switch isBad := bad[space.Shard(key)]; {
					case !isBad && err != nil:
						t.Fatalf("%s: %v", key, err)
					case isBad && (!errors.As(err, &p) || p.Status != 503 || p.RetryAfter == 0):
						t.Fatalf("%s of the dead node: %v, want 503 with Retry-After", key, err)
					case !isBad:
						n++
					}
					// Accepted notices of the paused route stay pending.
					_, _ = s.api.Schedule(ctx, client.Request{Key: fmt.Sprintf("app1:held:of%d:%d", i, j), Body: []byte("1")})
				}
				await(t, waitTimeout, "delivered", func() bool { return len(rec.byKey()) >= n })
				rec.mu.Lock()
				rec.hits, rec.keys = nil, map[string]int{}
				rec.mu.Unlock()
			}
			if hits, _ := held.count(); hits > 0 {
				t.Errorf("%d notices of a paused route were delivered", hits)
			}
			if !t.Failed() {
				record.Fault{No: fmt.Sprintf("10.%d", i+1), Fault: "one of three masters is dead: that with `" + which + "`",
					Settings: fmt.Sprintf("cluster of 3, %d shards, coverage no", shardsOnNodes),
					Aim:      "degraded, with the node's name; an instance starts and serves the other shards; a paused route delivers nothing",
					Found: "so: `/readyz` is degraded and names the node, at an instance that ran and at one that started then; each took and " +
						"delivered the notices of the other masters' shards, the rest was a 503 with Retry-After",
					Server: c.version(t), From: begun}.Put(t)
			}
		})
	}
}

// A slot is half moved to another node for ten seconds: its shard waits, and no
// other.
func TestHalfMovedSlotLeavesOtherShardsOnTime(t *testing.T) {
	started := time.Now()
	rec := listen(t, nil)
	c, s, from, space := onNodes(t, rec, tagged(shardsOnNodes).Base(3))
	ctx := t.Context()
	var to *testkit.Redis
	for _, n := range c.all {
		if n != from {
			to = n
		}
	}
	do := func(n *testkit.Redis, args ...any) {
		t.Helper()
		if err := n.Client().Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	id := func(n *testkit.Redis) string { return n.Client().ClusterMyID(ctx).Val() }
	slot := from.Client().ClusterKeySlot(ctx, space.Base(3)).Val()
	host, port, _ := strings.Cut(to.Addr(), ":")
	move := func(ks []string) {
		t.Helper()
		for _, k := range ks {
			do(from, "MIGRATE", host, port, k, 0, 5000, "REPLACE")
		}
	}
	keysThere := func() []string { return from.Client().ClusterGetKeysInSlot(ctx, int(slot), 100_000).Val() }

	l := keepLedger(s, space, map[int]bool{3: true}, steady(), 1500*time.Millisecond)
	time.Sleep(4 * time.Second) // sleep: steady work to compare with
	begun := time.Now()
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	there := keysThere()
	slices.Sort(there)
	var half []string
	for i := 0; i < len(there); i += 2 {
		half = append(half, there[i])
	}
	move(half)
	statuses := map[int]int{}
	for i := 0; time.Since(begun) < 10*time.Second; i++ {
		key := fmt.Sprintf("%s%d", l.prefix, i)
		if space.Shard(key) != 3 {
			continue
		}
		_, err := s.api.Get(ctx, key)
		var p *client.Problem
		switch {
		case err == nil:
			statuses[200]++
		case errors.As(err, &p):
			statuses[p.Status]++
			if p.Status == 503 && p.RetryAfter == 0 {
				t.Error("a 503 without Retry-After")
			}
		}
	}
	for left := keysThere(); len(left) > 0; left = keysThere() {
		move(left)
	}
	for _, n := range []*testkit.Redis{to, from} {
		do(n, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
	for _, n := range c.all {
		do(n, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
	fault := window{begun, time.Now()}
	time.Sleep(4 * time.Second) // sleep: steady work after it
	r := l.reckon(rec, fault)
	r.untouched(t)
	t.Logf("  GET of the half moved slot's notices: %v", statuses)
	for status := range statuses {
		if status != 200 && status != 404 && status != 503 {
			t.Errorf("%d answers of %d", statuses[status], status)
		}
	}
	record.Fault{No: "4", Fault: "a slot is half moved for 10 s", Settings: fmt.Sprintf("cluster of 3, %d shards, coverage no", shardsOnNodes),
		Counts: r.counts(),
		Aim:    "other shards untouched; 503 with Retry-After for that slot", Found: r.beside() + fmt.Sprintf("; `GET` of that slot by status %v",
			statuses),
		Server: c.version(t), From: started}.Put(t)
}
