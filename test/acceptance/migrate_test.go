//go:build !quick

package acceptance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/redistest"
	"notifier/test/record"
)

// How many notices of each kind stand still while everything moves, beside those far
// ahead, of which the first have been cancelled.
const (
	cancelledFar = 100
	someOfAKind  = 40
	waitReports  = 8
)

// movedRoutes are those of both sides.
func movedRoutes(url string) []string {
	const wide = "CONCURRENCY=64,HOST_CONCURRENCY=64,TIMEOUT=2s"
	var all []string
	for _, r := range [][]string{
		{"pay", "app1:pay", url}, {"gone", "app1:gone", url}, {"again", "app1:again", url, "RETRY=2h", "ADOPT=true"},
		{"cash", "app1:cash", url}, {"shop", "shop:orders", url, "ADOPT=true"}, {"jobs", "app1:jobs", "list:todo", "ACK=report", "TIMEOUT=10m"},
	} {
		if r[0] != "jobs" {
			r = append(r, strings.Split(wide, ",")...)
		}
		all = append(all, route(r[0], r[1], r[2], r[3:]...)...)
	}
	return all
}

// still are the prefixes of what stands still.
var still = []string{"app1:pay", "app1:gone", "app1:again", "app1:cash", "shop:orders"}

// standStill makes notices of each kind, and says what Redis, and what the API, tells of
// them: scheduled, cancelled, delivered, dead, to be tried again, adopted, of a paused
// route, and awaiting reports.
func standStill(t *testing.T, h *house) (kept, told map[string]string) {
	t.Helper()
	ctx, s := t.Context(), h.all[0]
	due := time.Now().Add(2 * time.Hour)
	s.scheduleAll(farAhead, func(i int) string {
		return line(fmt.Sprintf("app1:pay:far:%d", i), due.Add(time.Duration(i)*time.Millisecond))
	})
	ask := func(r client.Request) {
		t.Helper()
		if _, err := s.api.Schedule(ctx, r); err != nil {
			t.Fatalf("%s: %v", r.Key, err)
		}
	}
	for i := range cancelledFar {
		if _, err := s.api.Cancel(ctx, fmt.Sprintf("app1:pay:far:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.api.Pause(ctx, "cash"); err != nil {
		t.Fatal(err)
	}
	text := "größer\n"
	for i := range someOfAKind {
		ask(client.Request{Key: fmt.Sprintf("app1:pay:done:%d", i), Body: []byte(`{"done":true}`)})
		ask(client.Request{Key: fmt.Sprintf("app1:gone:x:%d", i), Body: []byte(`{"gone":true}`)})
		ask(client.Request{Key: fmt.Sprintf("app1:again:api:%d", i), Body: []byte(`{"again":true}`)})
		ask(client.Request{Key: fmt.Sprintf("app1:cash:x:%d", i), Delay: time.Second, Body: []byte(`{"cash":true}`)})
		ask(client.Request{Key: fmt.Sprintf("app1:pay:text:%d", i), Due: due, BodyText: &text, Headers: map[string]string{"X-Shop": "7"}, Method: "PUT", Retry: "1s,2s"})
		ask(client.Request{Key: fmt.Sprintf("app1:pay:bytes:%d", i), Due: due, BodyBase64: []byte{0, 255, byte(i)}, ContentType: "image/png"})
		for _, key := range []string{fmt.Sprintf("shop:orders:far:%d", i), fmt.Sprintf("app1:again:plain:%d", i)} {
			life := 2 * time.Hour
			if strings.HasPrefix(key, "app1") {
				life = 2 * time.Second
			}
			if err := h.redis.Set(ctx, key, "plain "+key, life).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range waitReports {
		ask(client.Request{Key: fmt.Sprintf("app1:jobs:x:%d", i), Body: []byte(`{"job":true}`)})
	}
	state := func(key, want string, attempts int) {
		t.Helper()
		await(t, waitTimeout, key+" "+want, func() bool {
			n, err := s.api.Get(ctx, key)
			return err == nil && n.State == want && (len(n.Attempts) == attempts || want == client.Claimed)
		})
	}
	told = map[string]string{}
	tell := func(key, want string, attempts int) {
		t.Helper()
		state(key, want, attempts)
		told[key] = h.told(key)
	}
	for i := range someOfAKind {
		tell(fmt.Sprintf("app1:pay:done:%d", i), client.Delivered, 1)
		tell(fmt.Sprintf("app1:gone:x:%d", i), client.Dead, 1)
		tell(fmt.Sprintf("app1:again:api:%d", i), client.Scheduled, 1)
		tell(fmt.Sprintf("app1:again:plain:%d", i), client.Scheduled, 1)
		tell(fmt.Sprintf("shop:orders:far:%d", i), client.Scheduled, 0)
		tell(fmt.Sprintf("app1:pay:text:%d", i), client.Scheduled, 0)
		tell(fmt.Sprintf("app1:pay:bytes:%d", i), client.Scheduled, 0)
		tell(fmt.Sprintf("app1:pay:far:%d", i), client.Cancelled, 0)
		tell(fmt.Sprintf("app1:pay:far:%d", farAhead-1-i), client.Scheduled, 0)
		tell(fmt.Sprintf("app1:cash:x:%d", i), client.Scheduled, 0)
	}
	for i := range waitReports {
		state(fmt.Sprintf("app1:jobs:x:%d", i), client.Claimed, 0)
	}
	// Paused notices' timers expire: what is told of them holds from then on.
	await(t, waitTimeout, "the paused notices' timers gone", func() bool {
		return h.redis.Exists(ctx, fmt.Sprintf("app1:cash:x:%d", someOfAKind-1)).Val() == 0
	})
	kept = h.kept(still...)
	if want := farAhead + 8*someOfAKind; len(kept) != want {
		t.Fatalf("%d notices stand still, want %d", len(kept), want)
	}
	return kept, told
}

// A Redis alone is left for a cluster of three masters and three replicas, and that for
// the first one, while instances on both sides deliver and producers schedule, replace,
// cancel, read and set plain timers: the mover is killed at random points, of the
// instances of the side that is being left one is killed and one is stopped. What stands
// still is the same afterwards, byte for byte and field for field, and what falls due
// comes once.
func TestMigrateToAClusterAndBack(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		switch {
		case strings.HasPrefix(h.key, "app1:gone:"):
			w.WriteHeader(http.StatusGone)
		case strings.HasPrefix(h.key, "app1:again:") && h.attempt == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	db, nodes := redistest.Start(t), newNodes(t, 3, 1, "cluster-node-timeout 30000")
	alone := newHouse(t, db.Client(), db.URL(), "standalone")
	cluster := newHouse(t, nodes.client, nodes.url, "cluster")
	routes := movedRoutes(rec.url)
	for range 2 {
		alone.open(routes...)
	}
	kept, told := standStill(t, alone)
	for i := range 2 {
		if i == 0 {
			cluster.env = append(cluster.env, "NOTIFIER_SHARDS=6")
		}
		cluster.open(routes...)
	}
	random := rand.New(rand.NewPCG(record.Seed(t), 1))
	var faults []time.Time
	load := produce(t, alone, cluster)

	// there moves from one side to the other, with everything that goes wrong meanwhile.
	there := func(from, to *house) migrated {
		t.Helper()
		for i := range killsOfMover {
			from.killedMover(to, random)
			if i == 0 {
				faults = append(faults, time.Now())
				from.killLast()
				from.open(routes...)
				stopped := from.all[0]
				faults = append(faults, time.Now())
				stopped.signal(syscall.SIGSTOP)
				awake := time.AfterFunc(stoppedFor, func() { stopped.signal(syscall.SIGCONT) })
				defer func() {
					if awake.Stop() {
						stopped.signal(syscall.SIGCONT)
					}
				}()
			}
		}
		return from.migrate(to)
	}
	// same compares what stands still with what it was.
	same := func(h, left *house) {
		t.Helper()
		now, wrong := h.kept(still...), 0
		for key, was := range kept {
			if now[key] != was {
				if wrong++; wrong <= 10 {
					t.Errorf("%s is %s, was %s", key, cmp.Or(now[key], "gone"), was)
				}
			}
		}
		for key, was := range told {
			if is := h.told(key); is != was {
				t.Errorf("the API says of %s %s, said %s", key, is, was)
			}
		}
		if a, b := h.paused(), left.paused(); a != "app1:cash" || b != a {
			t.Errorf("paused are %q, were %q", a, b)
		}
		t.Logf("%d that stood still were compared, %d differ", len(kept), wrong)
	}
	// rest has producers of plain timers turn to the new side, and fetches what they left.
	rest := func(from, to *house, at int32) {
		t.Helper()
		load.plain.Store(at)
		load.first.Store(at)
		await(t, 4*waitTimeout, "nothing is left behind", func() bool {
			from.migrate(to)
			return len(from.kept(append(still, "app1:jobs")...)) == 0
		})
	}

	if done := there(alone, cluster); done.Reported != waitReports {
		t.Errorf("%d await a report, want %d", done.Reported, waitReports)
	}
	for i := range waitReports {
		key := fmt.Sprintf("app1:jobs:x:%d", i)
		if _, err := cluster.any().api.Cancel(t.Context(), key); !isMoved(err) {
			t.Errorf("the new side cancels %s, which awaits a report on the old one: %v", key, err)
		}
		n, err := alone.any().api.Get(t.Context(), key)
		if err == nil {
			_, err = alone.any().api.Ack(t.Context(), key, client.Report{Attempt: 1, ID: n.ID})
		}
		if err != nil {
			t.Errorf("%s reported: %v", key, err)
		}
	}
	rest(alone, cluster, 1)
	same(cluster, alone)
	for i := range waitReports {
		if n, err := cluster.any().api.Get(t.Context(), fmt.Sprintf("app1:jobs:x:%d", i)); err != nil || n.State != client.Delivered {
			t.Errorf("what was reported on the old side is %+v on the new one, %v", n, err)
		}
	}
	if now := cluster.redis.HGet(t.Context(), cluster.space().Meta(), "side").Val(); !strings.Contains(now, " open ") {
		t.Errorf("nothing is to come any more, and the new side is %q", now)
	}
	there(cluster, alone)
	rest(cluster, alone, 0)
	same(alone, cluster)
	load.end()

	// What stood still is still what it says: paused notices come when they may, and those
	// that are fired have their ids, their bodies and their attempts.
	s := alone.any()
	if _, err := s.api.Resume(t.Context(), "cash"); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{} // attempts
	for i := range someOfAKind {
		want[fmt.Sprintf("app1:cash:x:%d", i)] = 1
		for key, attempts := range map[string]int{
			fmt.Sprintf("app1:pay:far:%d", farAhead-1-i): 1, fmt.Sprintf("shop:orders:far:%d", i): 1,
			fmt.Sprintf("app1:again:api:%d", i): 2, fmt.Sprintf("app1:again:plain:%d", i): 2,
		} {
			want[key] = attempts
			if _, err := s.api.Fire(t.Context(), key); err != nil {
				t.Errorf("%s fired: %v", key, err)
			}
		}
	}
	for key, attempts := range want {
		await(t, waitTimeout, key, func() bool { return len(rec.of(key)) >= attempts })
		hits := rec.of(key)
		if len(hits) != attempts || hits[len(hits)-1].attempt != attempts || !strings.Contains(told[key], `"id":"`+hits[len(hits)-1].id+`"`) {
			t.Errorf("%s came as %+v, and was %s", key, hits, told[key])
		}
	}
	load.reckon(rec, faults)
}
