//go:build fault

package acceptance

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/test/record"
)

// pushAfter is how long after a fault notices that fall due may be late because of it.
const pushAfter = 2 * time.Second

// pushed is one entry as it stood in the list, and when it was first seen there.
type pushed struct {
	ID      string
	Attempt int
	Due     time.Time
	seen    time.Time
}

// pushAim is how late an entry may be, counted from its due time or from the list's
// node's first good answer after the fault.
const pushAim = 300 * time.Millisecond

// pushFault is a fault of the node that holds the list.
type pushFault struct {
	no, name, what string
	make           func()
	// within says that the node answers during the fault: entries are late against their
	// due times.
	within bool
}

// pushFaults are the faults of the list's node.
func pushFaults(t *testing.T, nodes *nodes, holder *testkit.Redis) []pushFault {
	pause := func(d time.Duration) func() {
		return func() {
			holder.Pause()
			time.Sleep(d) // sleep: the fault
			holder.Unpause()
		}
	}
	return []pushFault{
		{"6.1", "paused", "its list's node is paused 4 s", pause(4 * time.Second), false},
		{"6.2", "cut", "connections to its list's node are cut 60 times in 3 s", func() {
			for range 60 {
				if err := holder.Client().ClientKillByFilter(t.Context(), "type", "normal", "skipme", "yes").Err(); err != nil {
					t.Error(err)
				}
				time.Sleep(50 * time.Millisecond) // sleep: the fault
			}
		}, true},
		{"6.3", "briefly", "its list's node is paused 0.4 s", pause(400 * time.Millisecond), false},
		{"6.4", "failover", "its list's node hands over to its replica", func() {
			heir := nodes.replicaOf(t, holder)
			if err := heir.Client().ClusterFailover(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			await(t, waitTimeout, "the replica a master", func() bool { return isMaster(t, heir) })
		}, false},
	}
}

// In a cluster a list is in another slot than its notices. The list's node is paused, loses
// its connections and fails over. The list gets each notice once, as the first attempt and
// soon after the node answers, although the route has no retries.
func TestListInClusterGetsEachEntryOnce(t *testing.T) {
	nodes, _ := cluster(t, listen(t, nil))
	c, ctx := nodes.client, t.Context()
	for _, n := range nodes.all { // no replica replaces the paused node
		if err := n.Client().ConfigSet(ctx, "cluster-node-timeout", "60000").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range pushFaults(t, nodes, nodes.holding(t, "todo")) {
		begun, n := time.Now(), record.Sized(3000, 9600)
		s := launch(t, nodes.url, []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_NAMESPACE=" + f.name},
			route("pay", "app1:pay", "list:todo", "CONCURRENCY=64", "TIMEOUT=10s", "RETRY=none"))
		s.stream(n, record.Sized(6*time.Second, 8*time.Second))
		scheduled := time.Now() // on a busy machine, after some of them are due
		seen := make(chan []pushed, 1)
		go func() { seen <- watchList(t, nodes, n) }()
		await(t, waitTimeout, "some are pushed", func() bool { return c.LLen(ctx, "todo").Val() > int64(n/10) })

		from := time.Now()
		f.make()
		fault, over := window{from, time.Now()}, time.Now().Add(pushAfter)
		if f.within {
			fault.to = fault.from
		}
		all := <-seen
		await(t, waitTimeout, "all settled", func() bool { return s.settled("pay")+s.numbers("pay").Dead == int64(n) })
		f.judge(t, s, nodes.version(t), all, n, scheduled, fault, over, begun)
		if err := c.Del(ctx, "todo").Err(); err != nil {
			t.Fatal(err)
		}
		s.finish()
	}
}

// watchList notes the list's entries as they appear, until there are n, or none has
// come for a minute.
func watchList(t *testing.T, nodes *nodes, n int) (all []pushed) {
	for len(all) < n {
		var texts []string
		if !testkit.Within(waitTimeout, func() bool {
			texts = nodes.client.LRange(t.Context(), "todo", int64(len(all)), -1).Val()
			return len(texts) > 0 || t.Context().Err() != nil
		}) || len(texts) == 0 {
			return all
		}
		for _, text := range texts {
			e := pushed{seen: time.Now()}
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Error(err)
				return all
			}
			all = append(all, e)
		}
	}
	return all
}

// judge compares the list with the schedule.
func (f pushFault) judge(t *testing.T, s *service, version string, all []pushed, n int, scheduled time.Time, fault window, over,
	begun time.Time) {
	t.Helper()
	ids := map[string]bool{}
	twice, used := 0, 0
	var latest, others time.Duration // of the notices that were due around the fault, and of all others
	for _, e := range all {
		if ids[e.ID] {
			twice++
		}
		ids[e.ID] = true
		if e.Attempt != 1 {
			used++
		}
		could := later(e.Due, scheduled)
		if e.Due.After(fault.from.Add(-claiming)) && e.Due.Before(fault.to) {
			could = later(could, fault.to)
		}
		if e.Due.After(fault.from.Add(-claiming)) && e.Due.Before(over) {
			latest = max(latest, e.seen.Sub(could))
		} else {
			others = max(others, e.seen.Sub(could))
		}
	}
	dead := int(s.numbers("pay").Dead)
	found := fmt.Sprintf("attempts used %d, dead %d, at most %s late; notices due before the fault or more than %s after it at most %s",
		used, dead,
		record.Short(latest), pushAfter, record.Short(others))
	t.Logf("%s: %d entries, %d twice; %s", f.name, len(ids), twice, found)
	if twice > 0 || len(ids) != n || used > 0 || dead > 0 {
		t.Errorf("%s: %d of %d there, %d twice; %s", f.name, len(ids), n, twice, found)
	}
	if max(latest, others) > 10*time.Second { // less than a lease of 15 s; the aim is in the record
		t.Errorf("%s: %s", f.name, found)
	}
	record.Fault{No: f.no, Fault: "list target in a cluster: " + f.what, Settings: "cluster 3+3, 6 shards; `RETRY=none`",
		Counts: &record.Counts{Notices: n, Lost: n - len(ids), Doubled: twice}, Aim: "0 entries twice, 0 attempts used, ≤ 300 ms late",
		Found: record.Reached(twice == 0 && used == 0 && dead == 0 && latest <= pushAim, found), Server: version, From: begun}.Put(t)
}
