//go:build fault

package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/redistest"
	"notifier/test/record"
)

// callers schedule n notices of a day ahead one by one, and say how long each call took.
func (s *service) callers(many, n int, name string) (took []time.Duration, all time.Duration) {
	s.t.Helper()
	var next, failed atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	body := []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)
	from := time.Now()
	for range many {
		wg.Go(func() {
			var mine []time.Duration
			for {
				i := int(next.Add(1))
				if i > n {
					break
				}
				at := time.Now()
				if _, err := s.api.Schedule(s.t.Context(), client.Request{Key: fmt.Sprintf("app1:pay:%s:%d", name, i), Delay: 24 * time.Hour, Body: body}); err != nil {
					failed.Add(1)
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	all = time.Since(from)
	// Under load a confirmation may take longer than it is waited for; more than a few is another thing.
	if f := failed.Load(); f > int64(n/10) {
		s.t.Errorf("%d of %d calls failed", f, n)
	}
	return took, all
}

// What each level of durability costs: the same calls in the same run, over HTTP.
func TestLevelsOfDurability(t *testing.T) {
	const callers = 64
	n := record.Sized(4000, 40_000)
	dir := func() redistest.Option { return redistest.WithAOF(t.TempDir()) }
	begun := time.Now()
	var found []string
	var plain float64
	version := ""
	for i, lv := range []level{{"memory", nil}, {"memory", []string{"appendfsync everysec"}}, {"memory", []string{"appendfsync always"}}, {"replicas:1", nil},
		{"fsync", []string{"appendfsync always"}}} {
		t.Run(lv.String(), func(t *testing.T) {
			var options []redistest.Option
			if lv.config != nil {
				options = append(options, dir(), redistest.WithConfig(lv.config...))
			}
			db := redistest.Start(t, options...)
			version = versionOf(t, db.Client())
			if lv.durability == "replicas:1" {
				replica := redistest.Start(t, redistest.WithConfig("replicaof "+strings.ReplaceAll(db.Addr(), ":", " ")))
				await(t, waitTimeout, "the replica in step", func() bool {
					return strings.Contains(replica.Client().Info(t.Context(), "replication").Val(), "master_link_status:up")
				})
			}
			s := launch(t, db.URL(), wide("http://127.0.0.1:1"), []string{"NOTIFIER_DURABILITY=" + lv.durability, "NOTIFIER_DURABILITY_TIMEOUT=10s"})
			s.callers(callers, n/10, "warm")
			took, all := s.callers(callers, n, "now")
			rate := float64(len(took)) / all.Seconds()
			if i == 0 {
				plain = rate
			}
			x := spreadOf(took)
			found = append(found, fmt.Sprintf("%s: %.0f/s (%.2f of the first), p50 %s, p99 %s", lv, rate, rate/plain, record.Short(x.p50), record.Short(x.p99)))
			t.Log(found[len(found)-1])
		})
	}
	record.Fault{No: "13", Fault: "no fault: schedule calls at each level of durability", Settings: fmt.Sprintf("%d callers with one notice each, over HTTP, %d at each level", callers, n),
		Aim: "its figures", Found: strings.Join(found, "; "), Server: version, From: begun}.Put(t)
}

// cpuOf is the processor time that a server has used.
func cpuOf(t *testing.T, db *redistest.Server) time.Duration {
	t.Helper()
	var sum float64
	for name, v := range db.Client().InfoMap(t.Context(), "cpu").Val()["CPU"] {
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += f
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// scriptsOf is how many scripts a server has run.
func scriptsOf(t *testing.T, db *redistest.Server) (n int) {
	t.Helper()
	if v := db.Client().InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]; v != "" {
		if _, err := fmt.Sscanf(v, "calls=%d,", &n); err != nil {
			t.Fatalf("%q: %v", v, err)
		}
	}
	return n
}

// Redis's processor time for a notice on the busiest of three masters, against that
// of one Redis: two cores cannot show the rate.
func TestThreeMastersShareTheWork(t *testing.T) {
	const aim, rate = 0.45, 2000
	n := record.Sized(10_000, 100_000)
	begun := time.Now()
	perNotice := func(t *testing.T, s *service, rec *receiver, n, rate int, servers ...*redistest.Server) (most time.Duration, scripts float64) {
		t.Helper()
		before, ran := make([]time.Duration, len(servers)), make([]int, len(servers))
		for i, db := range servers {
			before[i], ran[i] = cpuOf(t, db), scriptsOf(t, db)
		}
		due := time.Now().Add(3*time.Second + time.Duration(n)*200*time.Microsecond)
		s.scheduleAll(n, func(i int) string {
			return line(fmt.Sprintf("app1:pay:now:%d", i), due.Add(time.Duration(i)*time.Second/time.Duration(rate)))
		})
		rec.wait(4*waitTimeout, n)
		await(t, 2*waitTimeout, "all settled", func() bool { return s.settled("pay") == int64(n) })
		rec.once(n)
		var each []string
		for i, db := range servers {
			used := (cpuOf(t, db) - before[i]) / time.Duration(n)
			most, scripts = max(most, used), max(scripts, float64(scriptsOf(t, db)-ran[i])/float64(n))
			each = append(each, used.String())
		}
		t.Logf("Redis's processor time for each of %d notices: %s", n, strings.Join(each, ", "))
		return most, scripts
	}
	var one, slow time.Duration
	var alone float64
	version := ""
	t.Run("one", func(t *testing.T) {
		rec := listen(t, nil)
		db := redistest.Start(t)
		version = versionOf(t, db.Client())
		one, alone = perNotice(t, launch(t, db.URL(), wide(rec.url)), rec, n, rate, db)
	})
	t.Run("one, at a third of the rate", func(t *testing.T) {
		rec := listen(t, nil)
		db := redistest.Start(t)
		slow, _ = perNotice(t, launch(t, db.URL(), wide(rec.url)), rec, n/3, rate/3, db)
	})
	for i, shards := range []int{6, 12} {
		t.Run(fmt.Sprintf("three, %d shards", shards), func(t *testing.T) {
			rec := listen(t, nil)
			c := newNodes(t, 3, 0)
			var servers []*redistest.Server
			for _, db := range c.all {
				servers = append(servers, db)
			}
			three, scripts := perNotice(t, c.launchOn(t, shards, 3, wide(rec.url)), rec, n, rate, servers...)
			ratio := float64(three) / float64(one)
			record.Fault{No: fmt.Sprintf("12.%d", i+1), Fault: "no fault: Redis's processor time for a notice, on the busiest of 3 masters and on one Redis",
				Settings: fmt.Sprintf("%d shards on 3 masters, 1 on one; %d notices scheduled in batches, due 2,000 a second, delivered by HTTP", shards, n),
				Aim:      fmt.Sprintf("≤ %.2f × (two cores cannot show the rate)", aim),
				Found: record.Reached(ratio <= aim, fmt.Sprintf("%.2f ×: %s against %s; scripts for a notice %.2f × (%.2f against %.2f); "+
					"%.2f × that of one Redis with a third of the rate, which is what each master has (%s: fewer notices come together and share a call)",
					ratio, three, one, scripts/alone, scripts, alone, float64(three)/float64(slow), slow)), Server: version, From: begun}.Put(t)
			if ratio > 1 {
				t.Errorf("the busiest of three masters takes %.2f of the time of one Redis", ratio)
			}
		})
	}
}
