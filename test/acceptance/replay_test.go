//go:build !quick

package acceptance

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"notifier/client"
)

// The instance that drives a replay is killed after a third. Another one continues, and each
// notice is delivered once more, with its webhook-id.
func TestReplaySurvivesKilledInstance(t *testing.T) {
	db := newRedis(t)
	(&replaying{t: t, n: 300, database: "sqlite://" + filepath.Join(t.TempDir(), "history.db"), redis: db.URL(),
		waiting: db.waiting}).killed(nil)
}

// replaying is a replay whose instance is killed.
type replaying struct {
	t        *testing.T
	n        int // notices
	database string
	redis    string
	env      []string
	waiting  func() int64 // endings in Redis
	id       string       // of the replay
}

// begin starts an instance.
func (x *replaying) begin(shops []*receiver) *service {
	x.t.Helper()
	envs := [][]string{{"NOTIFIER_HISTORY_URL=" + x.database, "NOTIFIER_TAKEOVER=1s"}, x.env}
	for i, shop := range shops {
		name := strconv.Itoa(i + 1)
		envs = append(envs, route("shop"+name, "app"+name, shop.url, "CONCURRENCY=64", "HOST_CONCURRENCY=128"))
	}
	return launch(x.t, x.redis, envs...)
}

func (x *replaying) look(s *service) *client.Replay {
	x.t.Helper()
	r, err := s.api.ReadReplay(x.t.Context(), x.id)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

// killed replays n notices of two shops, and kills the instance that drives the replay. If
// then is not nil, it continues with the next instance and returns the last one.
func (x *replaying) killed(then func(second *service, begin func() *service, left func() int64) *service) {
	t := x.t
	t.Helper()
	shops := []*receiver{listen(t, nil), listen(t, nil)}
	begin := func() *service { return x.begin(shops) }
	first := begin()
	from := time.Now().Add(-time.Minute)
	first.scheduleAll(x.n, func(i int) string { return line(fmt.Sprintf("app%d:m:paid:%d", i%2+1, i), time.Now()) })
	keys := map[string]string{} // by webhook-id
	for _, shop := range shops {
		shop.wait(waitTimeout, x.n/2)
		shop.once(x.n / 2)
		for _, h := range shop.all() {
			keys[h.id] = h.key
		}
	}
	await(t, waitTimeout, "the database has confirmed all", func() bool {
		return first.numbers("shop1").Settled+first.numbers("shop2").Settled == int64(x.n) && x.waiting() == 0
	})
	// The routes are paused during the replay, so that no callback is in flight at a kill. A
	// notice that is delivered twice was then scheduled twice.
	x.turn(first.api.Pause)
	asked := client.ReplayRequest{Since: from, Rate: strconv.Itoa(x.n/6) + "/s", DryRun: true}
	if dry, err := first.api.Replay(t.Context(), asked); err != nil || dry.Total != int64(x.n) {
		t.Fatalf("%v %s", err, dry.JSON)
	}
	asked.DryRun = false
	r, err := first.api.Replay(t.Context(), asked)
	if err != nil || r.Total != int64(x.n) {
		t.Fatalf("%v %s", err, r.JSON)
	}
	x.id = r.ID
	await(t, waitTimeout, "a third is sent", func() bool { return x.look(first).Sent >= int64(x.n/3) })
	first.kill()
	last := begin()
	if r := x.look(last); r.State != client.ReplayRunning || r.Left == 0 {
		t.Fatalf("the replay ended before the kill: %s", r.JSON)
	}
	if then != nil {
		last = then(last, begin, func() int64 { return x.look(last).Left })
	}
	await(t, 2*waitTimeout, "the replay is done", func() bool { return x.look(last).State == client.ReplayDone })
	if r := x.look(last); r.Sent != int64(x.n) || len(r.Skipped) > 0 || r.Left != 0 {
		t.Errorf("%s", r.JSON)
	}
	x.turn(last.api.Resume)
	await(t, 2*waitTimeout, "nothing is pending", func() bool { return last.numbers("shop1").Pending+last.numbers("shop2").Pending == 0 })
	x.once(shops, keys)
}

func (x *replaying) turn(call func(ctx context.Context, route string) (*client.Route, error)) {
	x.t.Helper()
	for _, name := range []string{"shop1", "shop2"} {
		if _, err := call(x.t.Context(), name); err != nil {
			x.t.Fatal(err)
		}
	}
}

// once fails the test unless the replay has delivered each webhook-id once, to its shop.
func (x *replaying) once(shops []*receiver, keys map[string]string) {
	x.t.Helper()
	again := map[string]int{} // by webhook-id
	for i, shop := range shops {
		for _, h := range shop.all() {
			if h.replay == "" {
				continue
			}
			if again[h.id]++; h.replay != x.id || h.key != keys[h.id] || h.attempt != 2 || h.key[:4] != fmt.Sprintf("app%d", i+1) {
				x.t.Errorf("%+v; its key was %s", h, keys[h.id])
			}
		}
	}
	wrong := 0
	for id := range keys {
		if again[id] != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(again) != x.n || len(keys) != x.n {
		x.t.Errorf("%d of %d notices were not sent exactly once more; %d were sent", wrong, len(keys), len(again))
	}
}
