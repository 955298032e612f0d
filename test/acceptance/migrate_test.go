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
	"notifier/internal/testkit"
	"notifier/test/record"
)

// Numbers of notices that must not change during the migrations: cancelled ones among those
// due far ahead, ones of each other kind, and ones that await reports.
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

// unchanged lists the prefixes of notices that must not change.
var unchanged = []string{"app1:pay", "app1:gone", "app1:again", "app1:cash", "shop:orders"}

// populate creates notices of each kind: scheduled, cancelled, delivered, dead, waiting for
// a retry, adopted, of a paused route, and awaiting reports. It returns their data in Redis
// and their answers of the API, by key.
func populate(t *testing.T, h *house) (kept, told map[string]string) {
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
		ask(client.Request{Key: fmt.Sprintf("app1:pay:text:%d", i), Due: due, BodyText: &text, Headers: map[string]string{"X-Shop": "7"},
			Method: "PUT", Retry: "1s,2s"})
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
	state := func(key string, want client.State, attempts int) {
		t.Helper()
		await(t, waitTimeout, key+" "+string(want), func() bool {
			n, err := s.api.Get(ctx, key)
			return err == nil && n.State == want && (len(n.Attempts) == attempts || want == client.Claimed)
		})
	}
	told = map[string]string{}
	note := func(key string, want client.State, attempts int) {
		t.Helper()
		state(key, want, attempts)
		told[key] = h.told(key)
	}
	for i := range someOfAKind {
		note(fmt.Sprintf("app1:pay:done:%d", i), client.Delivered, 1)
		note(fmt.Sprintf("app1:gone:x:%d", i), client.Dead, 1)
		note(fmt.Sprintf("app1:again:api:%d", i), client.Scheduled, 1)
		note(fmt.Sprintf("app1:again:plain:%d", i), client.Scheduled, 1)
		note(fmt.Sprintf("shop:orders:far:%d", i), client.Scheduled, 0)
		note(fmt.Sprintf("app1:pay:text:%d", i), client.Scheduled, 0)
		note(fmt.Sprintf("app1:pay:bytes:%d", i), client.Scheduled, 0)
		note(fmt.Sprintf("app1:pay:far:%d", i), client.Cancelled, 0)
		note(fmt.Sprintf("app1:pay:far:%d", farAhead-1-i), client.Scheduled, 0)
		note(fmt.Sprintf("app1:cash:x:%d", i), client.Scheduled, 0)
	}
	for i := range waitReports {
		state(fmt.Sprintf("app1:jobs:x:%d", i), client.Claimed, 0)
	}
	// The data of paused notices no longer changes once their timers have expired.
	await(t, waitTimeout, "the paused notices' timers gone", func() bool {
		return h.redis.Exists(ctx, fmt.Sprintf("app1:cash:x:%d", someOfAKind-1)).Val() == 0
	})
	kept = h.kept(unchanged...)
	if want := farAhead + 8*someOfAKind; len(kept) != want {
		t.Fatalf("%d notices to compare, want %d", len(kept), want)
	}
	return kept, told
}

// Notices move from a standalone Redis to a cluster of three masters and three replicas, and
// back. Instances on both sides deliver, and producers schedule, replace, cancel, read and
// set plain timers. The mover is killed at random points. Of the source's instances, one is
// killed and one is stopped. Afterwards notices that are not due are unchanged, byte for
// byte in Redis and field for field in the API, and due notices are delivered once.
func TestMigrationToClusterAndBack(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		switch {
		case strings.HasPrefix(h.key, "app1:gone:"):
			w.WriteHeader(http.StatusGone)
		case strings.HasPrefix(h.key, "app1:again:") && h.attempt == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	db, nodes := testkit.StartRedis(t), newNodes(t, 3, 1, "cluster-node-timeout 30000")
	alone := newHouse(t, db.Client(), db.URL(), "standalone")
	cluster := newHouse(t, nodes.client, nodes.url, "cluster")
	routes := movedRoutes(rec.url)
	for range 2 {
		alone.open(routes...)
	}
	kept, told := populate(t, alone)
	for i := range 2 {
		if i == 0 {
			cluster.env = append(cluster.env, "NOTIFIER_SHARDS=6")
		}
		cluster.open(routes...)
	}
	random := rand.New(rand.NewPCG(record.Seed(t), 1))
	var faults []time.Time
	load := produce(t, alone, cluster)

	// migrate moves all notices to the other side, with kills of the mover and of instances.
	migrate := func(from, to *house) migrated {
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
	// same compares notices that must not change with their first state.
	same := func(h, left *house) {
		t.Helper()
		now, wrong := h.kept(unchanged...), 0
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
		t.Logf("%d notices were compared, %d differ", len(kept), wrong)
	}
	// rest switches the producers to the target, and migrates until the source is empty.
	rest := func(from, to *house, at int32) {
		t.Helper()
		load.plain.Store(at)
		load.first.Store(at)
		await(t, 4*waitTimeout, "nothing is left behind", func() bool {
			from.migrate(to)
			return len(from.kept(append(unchanged, "app1:jobs")...)) == 0
		})
	}

	if done := migrate(alone, cluster); done.Reported != waitReports {
		t.Errorf("%d await a report, want %d", done.Reported, waitReports)
	}
	for i := range waitReports {
		key := fmt.Sprintf("app1:jobs:x:%d", i)
		if _, err := cluster.any().api.Cancel(t.Context(), key); !isMoved(err) {
			t.Errorf("the target cancels %s, which awaits a report on the source: %v", key, err)
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
			t.Errorf("the notice reported on the source is %+v on the target, %v", n, err)
		}
	}
	if now := cluster.redis.HGet(t.Context(), cluster.space().Meta(), "side").Val(); !strings.Contains(now, " open ") {
		t.Errorf("the source is empty, and the target is %q, want open", now)
	}
	migrate(cluster, alone)
	rest(cluster, alone, 0)
	same(alone, cluster)
	load.end()

	// The moved notices still work: paused ones are delivered after a resume, and fired ones
	// have their ids and attempts.
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
			t.Errorf("%s was delivered as %+v, want that of %s", key, hits, told[key])
		}
	}
	load.reckon(rec, faults)
}
