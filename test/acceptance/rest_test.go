//go:build fault

package acceptance

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client"
	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// resting is a service behind sentinels that are listened to.
type resting struct {
	t               *testing.T
	s               *service
	master, replica *testkit.Redis
	sentinels       []*redis.SentinelClient
	words           chan string
	rec             *receiver
	ledger          *ledger
}

// newResting starts servers that sync each write, and a service with a separate Redis user
// under steady load.
func newResting(t *testing.T, env ...string) *resting {
	t.Helper()
	url, mode, master, replica := sentinels(t, testkit.WithConfig("appendonly yes", "appendfsync always",
		"user service on >secret ~* &* +@all"))
	o, err := redis.ParseFailoverURL(url)
	if err != nil {
		t.Fatal(err)
	}
	r := &resting{t: t, master: master, replica: replica, words: make(chan string, 10000), rec: listen(t, nil)}
	for _, addr := range o.SentinelAddrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		sub := c.PSubscribe(t.Context(), "*")
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for m := range sub.Channel(redis.WithChannelSize(10000)) {
				r.words <- m.Channel
			}
		}()
		t.Cleanup(func() {
			_ = sub.Close()
			<-ended
			_ = c.Close()
		})
		r.sentinels = append(r.sentinels, c)
	}
	r.s = launch(t, strings.Replace(url, "redis://", "redis://service:secret@", 1), mode, wide(r.rec.url), env)
	r.ledger = keepLedger(r.s, keys.Space{Namespace: "notifier", Shards: 1}, map[int]bool{0: true}, 200, 1500*time.Millisecond)
	time.Sleep(3 * time.Second) // sleep: steady work before the fault
	return r
}

// says waits until a sentinel says something that begins so.
func (r *resting) says(word string) {
	r.t.Helper()
	var others []string
	limit := time.After(waitTimeout)
	for {
		select {
		case w := <-r.words:
			if strings.HasPrefix(w, word) {
				return
			}
			others = append(others, w)
		case <-limit:
			r.t.Fatalf("no sentinel says %s within %s, but %v", word, waitTimeout, others)
		}
	}
}

// logs reports whether the service's log has a text.
func (r *resting) logs(text string) bool {
	b, err := os.ReadFile(r.s.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Contains(string(b), text)
}

// used reports whether the service is connected to a server, or has run a script there
// since that was started.
func used(t *testing.T, n *testkit.Redis) (connected, ran bool) {
	t.Helper()
	list, err := n.Client().ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(list, "user=service"),
		n.Client().InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"] != ""
}

// goesOn waits, after the sentinels' message of the promotion, until the service delivers
// again, and for some seconds more.
func (r *resting) goesOn() {
	r.t.Helper()
	known := time.Now()
	await(r.t, waitTimeout, "a delivery from the new master", func() bool {
		return slices.ContainsFunc(r.rec.all(), func(h hit) bool { return h.at.After(known) })
	})
	r.t.Logf("delivering again %s after the sentinel's word", time.Since(known).Round(time.Millisecond))
	time.Sleep(3 * time.Second) // sleep: steady work after it
}

// reckon ends the work, and fails the test if anything confirmed is missing or came twice
// though it came first after an instant.
func (r *resting) reckon(from, free time.Time) {
	r.t.Helper()
	x := r.ledger.reckon(r.rec, window{from, time.Now()})
	x.log(r.t)
	if len(x.missing) > 0 {
		r.t.Errorf("%d missing, such as %s", len(x.missing), x.missing[0])
	}
	twice := 0
	for key, hits := range r.rec.byKey() {
		first := slices.MinFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) }).at
		if len(hits) > 1 && first.After(free) {
			if twice++; twice <= 3 {
				r.t.Errorf("%s came %d times, first %s after nothing was to be sent to the old master", key, len(hits), first.Sub(free))
			}
		}
	}
	if twice > 0 {
		r.t.Errorf("%d notices came twice that were not under way", twice)
	}
}

// set changes a setting of all sentinels.
func (r *resting) set(name, value string) {
	r.t.Helper()
	for _, s := range r.sentinels {
		if err := s.Set(r.t.Context(), "pay", name, value).Err(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// byHand has a sentinel fail over, to a replica that does not answer and is not taken for
// dead yet.
func (r *resting) byHand() {
	r.t.Helper()
	r.set("down-after-milliseconds", "60000")
	r.replica.Pause()
	if err := r.sentinels[0].Failover(r.t.Context(), "pay").Err(); err != nil {
		r.t.Fatal(err)
	}
	r.says("+selected-slave")
}

const begun = "has begun a failover: nothing is sent to the master"

// The master is killed, and restarts before the sentinels have promoted the replica. The
// service must not use it, because notices that it delivers would be delivered again.
func TestRestartedMasterIsUnusedDuringFailover(t *testing.T) {
	r := newResting(t, "NOTIFIER_DURABILITY=replicas:1")
	from := time.Now()
	r.master.Kill()
	r.says("+selected-slave")
	r.replica.Pause() // the promotion waits
	if !eventually(t.Context(), 5*time.Second, func() bool { return r.logs(begun) }) {
		t.Error("the service has not heard of the failover")
	}
	back := time.Now()
	r.master.Restart()
	time.Sleep(1500 * time.Millisecond) // sleep: notices become due
	if connected, ran := used(t, r.master); connected || ran {
		t.Errorf("the old master is used during the failover: connected %t, scripts run %t", connected, ran)
	}
	r.replica.Unpause()
	r.says("+promoted-slave")
	r.goesOn()
	r.reckon(from, back)
}

// An operator starts a failover while the master works. The sentinels learn of the
// promotion up to a second late. Writes to the old master in that time would be lost, so the
// service must not use it.
func TestManualFailoverLeavesOldMasterUnused(t *testing.T) {
	r := newResting(t, "NOTIFIER_DURABILITY=replicas:1")
	from := time.Now()
	r.byHand()
	if !eventually(t.Context(), 5*time.Second, func() bool { connected, _ := used(t, r.master); return r.logs(begun) && !connected }) {
		t.Error("the old master is used during the failover")
	}
	free := time.Now()
	var p *client.Problem
	if _, err := r.s.api.Schedule(t.Context(), client.Request{Key: "app1:pay:t:amid", Due: time.Now(), Body: []byte("1")}); !errors.As(err,
		&p) || p.Status != 503 || p.RetryAfter <= 0 {
		t.Errorf("a call during the failover: %v, want 503 with Retry-After", err)
	}
	// The first calls may use closed connections.
	if !eventually(t.Context(), 5*time.Second, func() bool {
		h, err := r.s.api.Ready(t.Context())
		return err == nil && !h.Ready && strings.Contains(strings.Join(h.Reasons, ";"), "sentinels are replacing the master")
	}) {
		t.Error("readiness does not name the failover")
	}
	r.replica.Unpause()
	r.says("+promoted-slave")
	r.goesOn()
	r.reckon(from, free)
}

// The replica does not answer, and the sentinel gives up: the old master has remained it.
func TestAbortedFailoverKeepsMaster(t *testing.T) {
	r := newResting(t)
	r.set("failover-timeout", "3000")
	ctx, from := t.Context(), time.Now()
	r.byHand()
	await(t, waitTimeout, "the service hears of the failover", func() bool { return r.logs(begun) })
	r.says("-failover-abort-")
	given := time.Now()
	await(t, waitTimeout, "the old master is used again", func() bool { connected, _ := used(t, r.master); return connected })
	if !r.logs("the master " + r.master.Addr() + " is used again") {
		t.Errorf("the log does not say so:\n%s", tail(r.s.log))
	}
	await(t, waitTimeout, "a call that is taken", func() bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := r.s.api.Schedule(ctx, client.Request{Key: "app1:pay:t:after", Due: time.Now(), Body: []byte("1")})
		return err == nil
	})
	r.rec.wait(waitTimeout, 1+len(r.rec.byKey()))
	t.Logf("it works again %s after the sentinel's word", time.Since(given).Round(time.Millisecond))
	r.reckon(from, from)
}
