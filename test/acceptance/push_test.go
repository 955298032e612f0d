//go:build fault

package acceptance

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"notifier/test/record"
)

// In a cluster a list lies in another slot than the notices that are pushed into it.
// Its node is paused for longer than an answer may take, and connections are cut: each
// notice is there once.
func TestEntriesOfAListInAClusterComeOnce(t *testing.T) {
	nodes, _ := cluster(t, listen(t, nil))
	c, ctx := nodes.client, t.Context()
	for _, n := range nodes.all { // nobody takes the paused node's place
		if err := n.Client().ConfigSet(ctx, "cluster-node-timeout", "60000").Err(); err != nil {
			t.Fatal(err)
		}
	}
	holder, url := nodes.holding(t, "todo"), nodes.url
	for i, f := range []struct {
		name, what string
		make       func()
	}{
		{"paused", "its list's node is paused 4 s", func() {
			holder.Pause()
			time.Sleep(4 * time.Second) // sleep: the fault, longer than the 3 s that an answer may take
			holder.Unpause()
		}},
		{"cut", "connections to its list's node are cut 60 times in 3 s", func() {
			for range 60 {
				if err := holder.Client().ClientKillByFilter(ctx, "type", "normal", "skipme", "yes").Err(); err != nil {
					t.Error(err)
				}
				time.Sleep(50 * time.Millisecond) // sleep: the fault
			}
		}},
	} {
		begun, name, n := time.Now(), f.name, record.Sized(3000, 9600)
		s := launch(t, url, []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_NAMESPACE=" + name},
			route("pay", "app1:pay", "list:todo", "CONCURRENCY=64", "TIMEOUT=10s"))
		s.stream(n, 8*time.Second)
		length := func() int64 { return c.LLen(ctx, "todo").Val() }
		await(t, waitTimeout, "some are pushed", func() bool { return length() > int64(n/10) })
		f.make()
		await(t, 3*waitTimeout, "all settled", func() bool { return s.settled("pay") == int64(n) })
		twice, seen := 0, map[string]bool{}
		for _, text := range c.LRange(ctx, "todo", 0, -1).Val() {
			var e struct{ ID string }
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			if seen[e.ID] {
				twice++
			}
			seen[e.ID] = true
		}
		if twice > 0 || len(seen) != n {
			t.Errorf("%s: %d entries twice, %d of %d there", name, twice, len(seen), n)
		}
		t.Logf("%s: %d entries, %d twice; attempts that had no answer %.0f", name, len(seen), twice, s.metric("notifier_attempt_reasons_total", `"queue"`))
		record.Fault{No: fmt.Sprintf("6.%d", i+1), Fault: "list target in a cluster: " + f.what, Settings: "cluster 3+3, 6 shards, no failover",
			Counts: &record.Counts{Notices: n, Lost: n - len(seen), Doubled: twice}, Aim: "0 entries twice",
			Found:  record.Reached(twice == 0, fmt.Sprintf("attempts that had no answer %.0f", s.metric("notifier_attempt_reasons_total", `"queue"`))),
			Server: nodes.version(t), From: begun}.Put(t)
		if err := c.Del(ctx, "todo").Err(); err != nil {
			t.Fatal(err)
		}
		s.finish()
	}
}
