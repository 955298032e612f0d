//go:build fault

package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// plain is a receiver that looks at bodies.
type plain struct {
	url    string
	mu     sync.Mutex
	bodies map[string][]string // by key
	lost   map[string]bool
}

func listenPlain(t *testing.T) *plain {
	p := &plain{bodies: map[string][]string{}, lost: map[string]bool{}}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		k := r.Header.Get("Notifier-Key")
		p.mu.Lock()
		p.bodies[k] = append(p.bodies[k], string(b))
		if r.Header.Get("Notifier-Body") == "lost" {
			p.lost[k] = true
		}
		p.mu.Unlock()
	}))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *plain) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bodies)
}

// check compares the delivered notices with the timers that were set.
func (p *plain) check(t *testing.T, want map[string]string, mostLost int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	missing, doubled, wrong := 0, 0, 0
	for k, body := range want {
		got := p.bodies[k]
		switch {
		case len(got) == 0:
			missing++
		case len(got) > 1:
			doubled++
		case got[0] != body && !p.lost[k]:
			wrong++
		}
	}
	t.Logf("%d set, %d came, %d of them without their body, %d missing, %d doubled, %d wrong", len(want), len(p.bodies), len(p.lost), missing,
		doubled, wrong)
	if missing+doubled+wrong > 0 || len(p.lost) > mostLost || len(p.bodies) != len(want) {
		t.Errorf("want none missing, doubled or wrong, and at most %d without their body", mostLost)
	}
}

// logMissing logs the service's data of some notices that were not delivered.
func (p *plain) logMissing(t *testing.T, s *service, want map[string]string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	logged := 0
	for k := range want {
		if len(p.bodies[k]) == 0 && logged < 10 {
			logged++
			n, err := s.api.Get(t.Context(), k)
			t.Logf("%s has not come: %+v, %v", k, n, err)
		}
	}
}

// plainSet returns a command that sets a plain timer, without a client of this service.
func plainSet(i int) (key, body, command string) {
	key, body = fmt.Sprintf("app1:orders:close:%d", i), fmt.Sprintf(`{"order":%d}`, i)
	return key, body, fmt.Sprintf("SET %s '%s' EX %d\n", key, body, 4+i%5)
}

// Ten thousand plain timers from redis-cli, while the subscription is cut five
// times a second.
func TestPlainTimersSurviveSubscriptionCuts(t *testing.T) {
	const n = 10_000
	db := newRedis(t)
	rec := listenPlain(t)
	s := launch(t, db.URL(), route("orders", "app1:orders", rec.url, "ADOPT=true", "CONCURRENCY=64", "HOST_CONCURRENCY=64"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cuts := 0
	cutter := make(chan struct{})
	go func() {
		defer close(cutter)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			cuts += int(db.cut())
		}
	}()
	want := map[string]string{}
	var script strings.Builder
	for i := range n {
		k, body, command := plainSet(i)
		want[k] = body
		script.WriteString(command)
	}
	cli(t, ctx, db.cli(), script.String(), 100)
	if !eventually(t.Context(), 2*waitTimeout, func() bool { return rec.count() >= n }) {
		rec.logMissing(t, s, want)
	}
	stop()
	<-cutter
	t.Logf("%d subscriptions were cut", cuts)
	if cuts < 20 {
		t.Errorf("only %d cuts", cuts)
	}
	rec.check(t, want, n/1000)
}

// cli feeds commands to redis-cli, so many at a time with a pause between,
// so that cuts fall among them.
func cli(t *testing.T, ctx context.Context, to []string, script string, step int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "redis-cli", to...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("redis-cli is of the package redis-tools, which `make deps` brings: %v", err)
	}
	lines := bufio.NewScanner(strings.NewReader(script))
	for i := 1; lines.Scan(); i++ {
		if _, err := fmt.Fprintln(in, lines.Text()); err != nil {
			t.Fatal(err)
		}
		if i%step == 0 {
			time.Sleep(50 * time.Millisecond) // sleep: spreads the load
		}
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, tailOf(out.String()))
	}
	if ok := strings.Count(out.String(), "OK\n"); ok != strings.Count(script, "\n") {
		t.Fatalf("redis-cli: %d of %d were answered with OK", ok, strings.Count(script, "\n"))
	}
}

func tailOf(s string) string { return s[max(0, len(s)-500):] }

// Redis is killed while plain timers are pending, and restarts from its append-only file.
// Each timer that Redis had acknowledged is delivered.
func TestPlainTimersSurviveRedisRestart(t *testing.T) {
	const n = 3000
	db := newRedis(t, testkit.WithAOF(""))
	rec := listenPlain(t)
	launch(t, db.URL(), route("orders", "app1:orders", rec.url, "ADOPT=true", "CONCURRENCY=64", "HOST_CONCURRENCY=64"))
	want := map[string]string{}
	for i := range n {
		if i == n/2 {
			db.Restart()
		}
		k, body, _ := plainSet(i)
		if err := db.Client().Set(t.Context(), k, body, time.Duration(8+i%4)*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		want[k] = body
	}
	await(t, 2*waitTimeout, "all delivered", func() bool { return rec.count() >= n })
	rec.check(t, want, 0)
}

// More timers due in one millisecond than are kept when they are settled: their
// expired events are not taken for those of timers that were missed.
func TestPlainTimersInBurstAreAdopted(t *testing.T) {
	const n = 40_000
	db := newRedis(t)
	rec := listenPlain(t)
	s := launch(t, db.URL(), route("orders", "app1:orders", rec.url, "ADOPT=true", "CONCURRENCY=128", "HOST_CONCURRENCY=128"),
		[]string{"NOTIFIER_RETAIN=10000"})
	want := map[string]string{}
	due := time.Now().Add(26 * time.Second) // the next clean-up, every 30 s, falls into the deliveries
	for i := 0; i < n; i += 1000 {
		if _, err := db.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for j := i; j < i+1000; j++ {
				k, body, _ := plainSet(j)
				want[k] = body
				p.Do(t.Context(), "SET", k, body, "PXAT", due.UnixMilli())
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, 2*waitTimeout, "all delivered", func() bool { return rec.count() >= n })
	await(t, 2*waitTimeout, "nothing pending", func() bool { return s.numbers("orders").Pending == 0 })
	rec.check(t, want, 0)
}

// member is a `notifier consume` process.
type member struct {
	cmd  *exec.Cmd
	done chan struct{}
	out  bytes.Buffer
}

func join(t *testing.T, s *service, db *database, shell string, args ...string) *member {
	t.Helper()
	m := &member{done: make(chan struct{})}
	m.cmd = exec.Command(binary, append([]string{"consume", "jobs", "--exec", shell, "--idle", "1s", "--drain", "1s"}, args...)...)
	m.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_URL=" + s.url, "NOTIFIER_LOG_LEVEL=warn"}, db.anyone...)
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	m.cmd.SysProcAttr = tether()
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = m.cmd.Wait() // it is killed
		close(m.done)
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("a consumer said:\n%s", tailOf(m.out.String()))
		}
	})
	return m
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have been killed before
	<-m.done
}

// One of two consumers is killed during its work, and then Redis. No notice is lost.
func TestKilledConsumersLoseNothing(t *testing.T) {
	for _, c := range []struct{ name, target, ack string }{
		{"list", "list:jobs", "ACK=report"}, {"stream", "stream:jobs", ""}, {"reported stream", "stream:jobs", "ACK=report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const n = 200
			dir := t.TempDir()
			db := newRedis(t, testkit.WithAOF(""))
			settings := []string{"RETRY=300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms", "TIMEOUT=4s"}
			if c.ack != "" {
				settings = append(settings, c.ack)
			}
			s := launch(t, db.URL(), route("jobs", "app1:jobs", c.target, settings...))
			began, done := filepath.Join(dir, "began"), filepath.Join(dir, "done")
			victim := join(t, s, db, `echo $NOTICE_KEY >> `+began+`; exec sleep 20 >/dev/null 2>&1`)
			s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:jobs:run:%d", i), time.Now()) })
			await(t, waitTimeout, "the first consumer at work", func() bool { return len(lines(began)) > 0 })
			victim.kill()
			taken := lines(began)[0]
			join(t, s, db, `echo $NOTICE_KEY >> `+done, "--concurrency", "4")
			await(t, waitTimeout, "half of it done", func() bool { return len(lines(done)) > n/2 })
			db.Restart()
			await(t, 2*waitTimeout, "all done", func() bool { return len(set(lines(done))) == n })
			await(t, 2*waitTimeout, "all settled", func() bool { return s.settled("jobs") == n })
			if !set(lines(done))[taken] {
				t.Errorf("%s, which the killed consumer had taken, was not done", taken)
			}
			t.Logf("%d done, %d times", n, len(lines(done)))
			if c.target != "stream:jobs" {
				return
			}
			await(t, waitTimeout, "nothing left in the group", func() bool {
				p, err := db.Client().XPending(t.Context(), "jobs", "notifier").Result()
				return err == nil && p.Count == 0
			})
		})
	}
}

// A consumer that knows nothing of this service: BLPOP, work, and a report by
// curl's means.
func TestPlainConsumerReports(t *testing.T) {
	db := newRedis(t)
	s := launch(t, db.URL(), route("jobs", "app1:jobs", "list:jobs", "ACK=report", "TIMEOUT=2s", "RETRY=100ms,100ms"))
	s.scheduleAll(1, func(int) string { return line("app1:jobs:run:1", time.Now()) })
	ctx := t.Context()
	var entry struct {
		ID      string `json:"id"`
		Attempt int    `json:"attempt"`
	}
	for attempt := 1; attempt <= 2; attempt++ {
		v, err := db.Client().BLPop(ctx, waitTimeout, "jobs").Result()
		if err != nil || json.Unmarshal([]byte(v[1]), &entry) != nil || entry.Attempt != attempt {
			t.Fatal(v, err)
		}
	} // the first attempt was not reported, so a second followed
	res, err := http.Post(s.url+"/v1/notices/app1:jobs:run:1/ack", "application/json", strings.NewReader(`{"attempt":2,"id":"`+entry.ID+`"}`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	if got, err := s.api.Get(ctx, "app1:jobs:run:1"); err != nil || got.State != "delivered" || len(got.Attempts) != 2 {
		t.Errorf("%v: %s", err, got.JSON)
	}
	if err := db.Client().Get(ctx, "app1:jobs:run:1").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the timer is still there: %v", err)
	}
}

func lines(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, x := range list {
		m[x] = true
	}
	return m
}
