//go:build fault

package acceptance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/test/record"
)

// Reshards from one shard to six and to four, while instances deliver and producers
// schedule. The mover is killed at random points. No notice is lost or early. Each is
// delivered once, except for notices in flight on a killed instance. Calls for one notice
// get the right answer before and after its move.
func TestReshardUnderLoadLosesNothing(t *testing.T) {
	const far = 20_000
	rec := listen(t, nil)
	db := newRedis(t)
	routes := route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=2s")
	a, b := launch(t, db.URL(), routes), launch(t, db.URL(), routes)
	due := time.Now().Add(time.Hour)
	name := func(i int) string { return fmt.Sprintf("app1:pay:far:%d", i) }
	a.scheduleAll(far, func(i int) string { return line(name(i), due) })
	l := newLedger(a, db.of(1), "", func(i int) time.Duration { return time.Duration(i%40) * 100 * time.Millisecond })
	from := time.Now()
	go l.run(500)

	reshard := func(args ...string) *exec.Cmd {
		c := exec.Command(binary, append([]string{"reshard"}, args...)...)
		c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_SHARDS=1"}, reach(db.URL())...)
		return c
	}
	random := rand.New(rand.NewPCG(uint64(record.Seed(t)), 1))
	kills := 0
	moveTo := func(n string) {
		t.Helper()
		for range 5 {
			c := reshard("--to", n)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond) // sleep: a random point
			if err := c.Process.Kill(); err == nil {
				kills++
			}
			_ = c.Wait() // it reports the signal
		}
		await(t, waitTimeout, "the reshard to "+n, func() bool {
			out, err := reshard("--to", n).CombinedOutput()
			if err != nil {
				t.Logf("%v: %s", err, out)
			}
			return err == nil
		})
	}
	var calls sync.WaitGroup
	wrong := make(chan string, 100)
	said := func(format string, args ...any) {
		select {
		case wrong <- fmt.Sprintf(format, args...):
		default:
		}
	}
	stop := make(chan struct{})
	var gone, replaced sync.Map
	calls.Go(func() { // producers that repeat, read, cancel and replace
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			key := name(i % far)
			s := a
			got, err := s.api.Schedule(t.Context(), client.Request{Key: key, Due: due, Body: []byte(fmt.Sprintf(`{"key":%q}`, key))})
			if err != nil || got.Created {
				said("%s repeated: %+v, %v", key, got, err)
			}
			switch i % 3 {
			case 0:
				n, err := s.api.Cancel(t.Context(), key)
				if err != nil || n.State != client.Cancelled {
					said("%s cancelled: %+v, %v", key, n, err)
				}
				gone.Store(key, true)
			case 1:
				n, err := s.api.Schedule(t.Context(), client.Request{Key: key, Due: due, OnDuplicate: client.Replace, Body: []byte(`{"new":true}`)})
				if err != nil || !n.Created {
					said("%s replaced: %+v, %v", key, n, err)
				}
				replaced.Store(key, true)
			case 2:
				n, err := s.api.Get(t.Context(), key)
				if err != nil || n.State != client.Scheduled || n.Key != key {
					said("%s read: %+v, %v", key, n, err)
				}
			}
		}
	})

	b.signal(syscall.SIGSTOP) // it sleeps through the change
	awake := time.AfterFunc(10*time.Second, func() { b.signal(syscall.SIGCONT) })
	defer awake.Stop()
	moveTo("6")
	until := time.Now().Add(11 * time.Second)
	time.Sleep(time.Until(until)) // sleep: until the other has been awake for a while
	killed := time.Now()
	b.kill()
	b = launch(t, db.URL(), routes)
	moveTo("4")
	close(stop)
	calls.Wait()
	r := l.reckon(rec, window{from, time.Now()})
	r.log(t)
	close(wrong)
	for text := range wrong {
		t.Error(text)
	}
	if len(r.missing) > 0 || r.early > 0 || r.failed > 0 {
		t.Errorf("%d missing, %d early, %d calls failed", len(r.missing), r.early, r.failed)
	}
	for key, hits := range rec.byKey() {
		if len(hits) > 1 && (hits[0].at.Before(killed.Add(-time.Second)) || hits[0].at.After(killed.Add(time.Second))) {
			t.Errorf("%s came %d times, first %s before the kill", key, len(hits), killed.Sub(hits[0].at))
		}
	}
	cancelled, fresh := 0, 0
	gone.Range(func(key, _ any) bool {
		cancelled++
		if n, err := b.api.Get(t.Context(), key.(string)); err != nil || n.State != client.Cancelled {
			t.Errorf("%s: %+v, %v", key, n, err)
		}
		return true
	})
	replaced.Range(func(key, _ any) bool {
		fresh++
		if n, err := b.api.Get(t.Context(), key.(string)); err != nil || string(n.Body) != `{"new":true}` {
			t.Errorf("%s: %+v, %v", key, n, err)
		}
		return true
	})
	if st := b.numbers("pay"); st.Pending != int64(far-cancelled) {
		t.Errorf("%d pending, want %d", st.Pending, far-cancelled)
	}
	meta := db.Client().HGetAll(t.Context(), db.of(1).Meta()).Val()
	if meta["shards"] != "4" || meta["replaced"] != "1,6" || strings.Count(meta["former"], ",") != 6 {
		t.Errorf("%v", meta)
	}
	t.Logf("%d kills of the mover; during the moves %d cancelled, %d replaced", kills, cancelled, fresh)
}

// In a cluster the new shards are spread over the masters as a first start would have
// done it.
func TestReshardInClusterLosesNothing(t *testing.T) {
	const far = 5000
	rec := listen(t, nil)
	_, c, url := masters(t, 3)
	env := []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=2"}
	routes := route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	a, b := launch(t, url, env, routes), launch(t, url, env, routes)
	due := time.Now().Add(time.Hour)
	name := func(i int) string { return fmt.Sprintf("app1:pay:far:%d", i) }
	a.scheduleAll(far, func(i int) string { return line(name(i), due) })
	l := newLedger(a, oldSpace, "", func(i int) time.Duration { return time.Duration(i%30) * 100 * time.Millisecond })
	from := time.Now()
	go l.run(150)
	rec.wait(waitTimeout, 100)
	reshard := func() string {
		t.Helper()
		cmd := exec.Command(binary, "reshard", "--to", "6")
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_REDIS_URL=" + url}, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	t.Log(reshard())
	_, some := rec.count()
	rec.wait(waitTimeout, some+300)
	r := l.reckon(rec, window{from, time.Now()})
	r.log(t)
	if len(r.missing) > 0 || r.early > 0 || r.failed > 0 || r.doubled > 0 {
		t.Errorf("%d missing, %d early, %d calls failed, %d doubled", len(r.missing), r.early, r.failed, r.doubled)
	}
	if out := reshard(); !strings.Contains(out, "nothing to move") {
		t.Errorf("again: %s", out)
	}
	if st := b.numbers("pay"); st.Pending != far {
		t.Errorf("%d pending, want %d", st.Pending, far)
	}
	by := map[string]int{}
	for tag := range strings.SplitSeq(c.HGet(t.Context(), oldSpace.Meta(), "tags").Val(), ",") {
		m, err := c.MasterForKey(t.Context(), "{"+tag+"}")
		if err != nil {
			t.Fatal(err)
		}
		by[m.Options().Addr]++
	}
	for addr, n := range by {
		if n != 2 || len(by) != 3 {
			t.Errorf("%s has %d shards of %v", addr, n, by)
		}
	}
	for i := range far {
		if i%100 == 0 {
			if n, err := b.api.Cancel(t.Context(), name(i)); err != nil || n.State != client.Cancelled {
				t.Errorf("%+v, %v", n, err)
			}
		}
	}
}

// Writes to an old shard are refused, or found within a minute and delivered. The writers
// are a producer's old copy of deploy/schedule.lua, the same copy without its check of the
// shard count, and a plain SET. Claims of an instance of an old version, which dies with
// them, are delivered after their lease.
func TestWritesToOldShardAreDelivered(t *testing.T) {
	rec := listen(t, nil)
	db := newRedis(t)
	a := launch(t, db.URL(), route("pay", oldPrefix, rec.url, "ADOPT=true"))
	cmd := exec.Command(binary, "reshard", "--to", "3")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, reach(db.URL())...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "oldversion", "schedule.lua"))
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := db.Client(), t.Context()
	schedule := func(script, key string, delay time.Duration) error {
		return c.Eval(ctx, script, []string{oldSpace.Shadow(oldPart), oldSpace.Records(oldPart), oldSpace.Dead(oldPart),
			oldSpace.Settled(oldPart), key}, key, fmt.Sprintf("+%d", delay.Milliseconds()), "reject", `{"old":true}`).Err()
	}
	if err := schedule(string(raw), "app1:pay:old:refused", time.Second); err == nil || !strings.Contains(err.Error(), "NOTIFIER") {
		t.Errorf("an old copy is answered %v", err)
	}
	check := `if layout[1] ~= '1' or layout[2] ~= '1' then`
	unchecked := strings.Replace(string(raw), check, "if false then", 1)
	if unchecked == string(raw) {
		t.Fatalf("the old copy lacks the line %q", check)
	}
	want := map[string]time.Time{}
	put := func(key string, delay time.Duration) {
		t.Helper()
		if err := schedule(unchecked, key, delay); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		want[key] = time.Now().Add(delay)
	}
	for i := range 5 {
		put(fmt.Sprintf("app1:pay:old:%d", i), time.Duration(i)*time.Second)
	}
	put("app1:pay:old:far", time.Hour)
	delete(want, "app1:pay:old:far")
	old := newOldVersion(t, db, rec.url, 3*time.Second)
	a.signal(syscall.SIGSTOP) // so that the old version claims first
	put("app1:pay:old:claimed", 0)
	claimed := old.claims(ctx, 10)
	a.signal(syscall.SIGCONT)
	if len(claimed) == 0 {
		t.Error("the old version has claimed nothing")
	}
	for _, x := range claimed { // the old instance dies: its claims are delivered after their leases
		want[x.key] = time.Now().Add(old.lease)
	}
	if err := c.Set(ctx, "app1:pay:plain:1", `{"plain":true}`, 2*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	want["app1:pay:plain:1"] = time.Now().Add(2 * time.Second)
	rec.wait(90*time.Second, len(want))
	var most time.Duration
	for key, due := range want {
		hits := rec.of(key)
		if len(hits) != 1 {
			t.Errorf("%s came %d times", key, len(hits))
			continue
		}
		if late := hits[0].at.Sub(due); late > time.Minute {
			t.Errorf("%s came %s late", key, late)
		} else {
			most = max(most, late)
		}
	}
	if hits := rec.of("app1:pay:old:refused"); len(hits) > 0 {
		t.Error("a refused notice was delivered")
	}
	await(t, time.Minute, "the notice that is not due moved", func() bool { return c.HLen(ctx, oldSpace.Records(oldPart)).Val() == 0 })
	if n, err := a.api.Get(ctx, "app1:pay:old:far"); err != nil || n.State != client.Scheduled {
		t.Errorf("%+v, %v", n, err)
	}
	t.Logf("%d notices, %d of them claimed by an old version; at most %s late", len(want), len(claimed), most.Round(time.Millisecond))
}
