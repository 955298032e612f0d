//go:build fault

package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// The main path on every way to Redis, whichever the other tests take.
func TestMainPathInEveryConnectionMode(t *testing.T) {
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			mainPath(t, way.set(t))
		})
	}
}

// mainPath checks notices of each kind: delivered, retried, dead and redriven, postponed,
// fired, cancelled, paused, pushed and reported, and adopted from a plain SET. Afterwards
// neither doctor nor the log names a missing right.
func mainPath(t *testing.T, db *database) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		switch {
		case strings.Contains(h.key, ":gone:"):
			w.WriteHeader(http.StatusGone)
		case strings.Contains(h.key, ":fails:") && h.attempt == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	envs := [][]string{db.env, route("pay", "app1:pay", rec.url, "RETRY=100ms,100ms"), route("jobs", "app1:jobs", "list:todo", "ACK=report"),
		route("flow", "app1:flow", "stream:events"), route("shop", "shop:orders", rec.url, "ADOPT=true")}
	s := launch(t, db.URL(), envs...)
	ctx := t.Context()
	put := func(key string, delay time.Duration) {
		t.Helper()
		if _, err := s.api.Schedule(ctx, client.Request{Key: key, Delay: delay, Body: []byte(`{"a":1}`)}); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	did := func(n *client.Notice, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		_ = n
	}
	state := func(key string, want client.State) {
		t.Helper()
		await(t, waitTimeout, key+" "+string(want), func() bool {
			n, err := s.api.Get(ctx, key)
			return err == nil && n.State == want
		})
	}
	const many = 300
	s.scheduleAll(many, func(i int) string { return line(fmt.Sprintf("app1:pay:many:%d", i), time.Now().Add(time.Second)) })
	put("app1:pay:fails:1", 0)
	put("app1:pay:gone:1", 0)
	put("app1:pay:late:1", time.Hour)
	put("app1:pay:later:1", time.Hour)
	put("app1:pay:never:1", time.Hour)
	put("app1:jobs:t:1", 0)
	put("app1:flow:t:1", 0)
	did(s.api.Fire(ctx, "app1:pay:late:1"))
	did(s.api.RescheduleIn(ctx, "app1:pay:later:1", 10*time.Millisecond))
	did(s.api.Cancel(ctx, "app1:pay:never:1"))
	for _, key := range []string{"app1:pay:fails:1", "app1:pay:late:1", "app1:pay:later:1", "app1:flow:t:1"} {
		state(key, client.Delivered)
	}
	state("app1:pay:never:1", client.Cancelled)
	state("app1:pay:gone:1", client.Dead)
	if r, err := s.api.RedriveRoute(ctx, "pay", client.Bulk{}); err != nil || r.Redriven != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	state("app1:pay:gone:1", client.Dead)
	state("app1:jobs:t:1", client.Claimed)
	if n, err := s.api.Get(ctx, "app1:jobs:t:1"); err != nil {
		t.Error(err)
	} else {
		did(s.api.Ack(ctx, n.Key, client.Report{Attempt: 1, ID: n.ID}))
	}
	state("app1:jobs:t:1", client.Delivered)
	if _, err := s.api.Pause(ctx, "flow"); err != nil {
		t.Error(err)
	}
	put("app1:flow:t:2", 0)
	if _, err := s.api.Resume(ctx, "flow"); err != nil {
		t.Error(err)
	}
	state("app1:flow:t:2", client.Delivered)
	// On any node: redis-cli -c follows the redirection to the key's node.
	command(t, "-c", "-u", "redis://"+db.servers[0].Addr(), "set", "shop:orders:x:1", "plain", "px", "1500")
	state("shop:orders:x:1", client.Delivered)
	await(t, waitTimeout, "all delivered", func() bool { return s.settled("pay") >= many })
	for key, hits := range rec.byKey() {
		if strings.Contains(key, ":many:") && (len(hits) != 1 || hits[0].late() < 0) {
			t.Errorf("%s came %d times, %s late", key, len(hits), hits[0].late())
		}
	}
	if dead := listAll(t, s.api, client.Query{State: client.Dead}); len(dead) != 1 {
		t.Errorf("%+v", dead)
	}
	if a, err := s.api.Audit(ctx, client.AuditQuery{}); err != nil || len(a.Items) == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if i, err := s.api.Instances(ctx); err != nil || len(i.Items) != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	if log, err := os.ReadFile(s.log); err != nil || strings.Contains(string(log), "NOPERM") ||
		strings.Contains(string(log), "no permissions") {
		t.Errorf("the log names a missing right, %v", err)
	}
	doctor := exec.CommandContext(ctx, binary, "doctor")
	doctor.Env = environment(append([][]string{{"NOTIFIER_REDIS_URL=" + db.URL()}}, envs...))
	// of a test's Redis it finds more
	if out, _ := doctor.CombinedOutput(); !strings.Contains(string(out), "user notifier may do all that is needed") {
		t.Errorf("doctor:\n%s", out)
	}
	if exit, took := s.stop(waitTimeout); exit != 0 {
		t.Errorf("exit %d after %s", exit, took)
	}
}
