//go:build fault

package acceptance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
	"notifier/test/record"
)

// A master of a cluster hangs until a replica is promoted, while clients set plain timers.
// Then the old master resumes as a replica.
func TestAdoptionSurvivesHangingMaster(t *testing.T) {
	adoptDuring(t, adoptionFault{no: "9", what: "adoption: a cluster's master hangs, a replica takes over, the master comes back",
		config: "notify-keyspace-events AKE", begin: (*testkit.Redis).Pause, end: (*testkit.Redis).Unpause})
}

// A master of a cluster is killed, and its replica takes its place without notify flags:
// they are neither replicated nor in its configuration.
func TestAdoptionSurvivesKilledMaster(t *testing.T) {
	adoptDuring(t, adoptionFault{no: "9.1",
		what:   "adoption: a cluster's master is killed (-9), a replica without notify flags takes over, the master comes back",
		config: `notify-keyspace-events ""`, begin: (*testkit.Redis).Kill, end: (*testkit.Redis).Restart})
}

type adoptionFault struct {
	no, what, config string
	begin, end       func(*testkit.Redis)
}

func adoptDuring(t *testing.T, f adoptionFault) {
	begun := time.Now()
	rec := listen(t, nil)
	c := newNodes(t, 3, 1, "cluster-node-timeout 2000", "cluster-require-full-coverage no", f.config)
	server := c.version(t)
	c.launchOn(t, shardsOnNodes, 3, append(wide(rec.url), "NOTIFIER_ROUTE_PAY_ADOPT=true"))
	victim := c.holding(t, tagged(shardsOnNodes).Base(3))
	heir := c.replicaOf(t, victim)

	// The plain client: it knows nothing of the service, and keeps the ledger.
	plain := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{heir.Addr()}, MaxRetries: 0, ReadTimeout: time.Second,
		DisableIdentity: true})
	t.Cleanup(func() { _ = plain.Close() })
	dice := rand.New(rand.NewPCG(record.Seed(t), 9))
	var mu sync.Mutex
	type timer struct{ set, due time.Time }
	confirmed, failed := map[string]timer{}, 0
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(record.Sized(200, 500)))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			key, life := fmt.Sprintf("app1:pay:s%d:%d", record.Seed(t), i), 3*time.Second+time.Duration(dice.Int64N(int64(6*time.Second)))
			wg.Go(func() {
				set := time.Now()
				err := plain.Set(t.Context(), key, `{"paid":true}`, life).Err()
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
					return
				}
				confirmed[key] = timer{set, time.Now().Add(life)}
			})
		}
	})
	time.Sleep(record.Sized(4*time.Second, 10*time.Second)) // sleep: steady work before the fault
	bad, paused := c.shardsOf(t, victim, shardsOnNodes), time.Now()
	f.begin(victim)
	await(t, waitTimeout, "a new master", func() bool { return isMaster(t, heir) })
	outage := time.Since(paused)
	time.Sleep(2 * time.Second) // sleep: the new master works alone for a while
	f.end(victim)
	time.Sleep(record.Sized(5*time.Second, 10*time.Second)) // sleep: steady work after it
	close(stop)
	wg.Wait()
	came := func() (missing int) {
		hits := rec.byKey()
		for key := range confirmed {
			if len(hits[key]) == 0 {
				missing++
			}
		}
		return missing
	}
	eventually(t.Context(), waitTimeout/2, func() bool { return came() == 0 })
	hits, empty, concerned := rec.byKey(), 0, 0
	var longest time.Duration // the longest life of a timer whose notice had no body
	counts := record.Counts{Notices: len(confirmed), Lost: came(), Failed: &failed}
	var most time.Duration
	for key, tm := range confirmed {
		h := hits[key]
		if len(h) == 0 {
			continue
		}
		if len(h) > 1 {
			counts.Doubled++
		}
		if h[0].body == "" {
			empty++
			longest = max(longest, tm.due.Sub(tm.set))
			// The master that failed held its timer or its record, and it was set or due during the outage.
			if (bad[tagged(shardsOnNodes).Shard(key)] || c.holding(t, key) == heir) && tm.due.After(paused) &&
				tm.set.Before(paused.Add(outage+3*time.Second)) {
				concerned++
			}
		}
		most = max(most, h[0].at.Sub(tm.due))
	}
	counts.Late = &most
	share := float64(empty) / float64(max(1, len(confirmed)))
	record.Fault{No: f.no, Fault: f.what, Settings: fmt.Sprintf("cluster 3+3, %d shards, cluster-node-timeout 2000, timers by plain SET",
		shardsOnNodes),
		Counts: &counts, Aim: "≤ 0.1 % without body", Found: record.Reached(share <= 0.001,
			fmt.Sprintf("%d came without their body (%.2f %%): of %d of them the timer or the record was to be at that master, which was "+
				"away for %s, "+
				"and their lives were at most %s; API errors are those of the plain client", empty, 100*share, concerned, record.Short(outage),
				record.Short(longest))),
		Server: server, From: begun}.Put(t)
	// Writes that the master had not replicated, or accepted after the promotion, are lost.
	if counts.Lost > len(confirmed)/100 {
		t.Errorf("%d of %d were lost", counts.Lost, len(confirmed))
	}
	if share > 0.001 {
		t.Errorf("%d of %d came without their body", empty, len(confirmed))
	}
}
