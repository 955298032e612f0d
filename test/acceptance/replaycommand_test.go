//go:build !quick

package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client"
)

// output collects the output of a command.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// run begins a command of the binary against a service.
func (s *service) run(args ...string) (*exec.Cmd, *output) {
	s.t.Helper()
	o := &output{}
	c := exec.CommandContext(s.t.Context(), binary, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_URL=" + s.url}
	c.Stdout, c.Stderr = o, o
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	return c, o
}

// exec runs a command, checks its exit code, and returns its output.
func (s *service) exec(exit int, args ...string) string {
	s.t.Helper()
	c, o := s.run(args...)
	exits(s.t, c, o, exit)
	return o.String()
}

func exits(t testing.TB, c *exec.Cmd, o *output, want int) {
	t.Helper()
	var ended *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != want {
		t.Fatalf("%s: exits with %d, want %d:\n%s", strings.Join(c.Args[1:], " "), got, want, o)
	}
}

func says(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// The command counts the notices and follows the replay. It is stopped and resumed from
// another shell, repeated, and continues after the kill of the instance that it calls. In
// the end each notice was delivered once more.
func TestReplayCommandStopsAndResumes(t *testing.T) {
	const n = 120
	rec, db, file := listen(t, nil), newRedis(t), filepath.Join(t.TempDir(), "history.db")
	begin := func() *service {
		return launch(t, db.URL(), route("pay", "app1:pay", rec.url), []string{"NOTIFIER_HISTORY_URL=sqlite://" + file, "NOTIFIER_TAKEOVER=1s"})
	}
	first := begin()
	first.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:paid:%d", i), time.Now()) })
	rec.wait(waitTimeout, n)
	await(t, waitTimeout, "the database has confirmed all", func() bool {
		return first.numbers("pay").Settled == n && db.waiting() == 0
	})
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	asked := []string{"replay", "--since", since, "--rate", "10/s", "--outcome", "delivered", "--id", "outage"}
	says(t, first.exec(0, append(asked, "--dry-run")...), "found 120 notices; without --dry-run 120 of them would be sent at 10/s")
	if out := first.exec(0, "replay"); strings.Contains(out, "outage") {
		t.Errorf("a dry run has made one:\n%s", out)
	}
	sent := func(s *service) int64 {
		t.Helper()
		x, err := s.api.ReadReplay(t.Context(), "outage")
		if err != nil {
			t.Fatal(err)
		}
		return x.Sent
	}
	follower, followed := first.run(asked...)
	await(t, waitTimeout, "it has begun", func() bool {
		return strings.Contains(followed.String(), "outage: found 120 notices; sending 120 of them at 10/s") && sent(first) > 0
	})
	says(t, first.exec(0, "replay", "outage"), "outage: running, ")
	says(t, first.exec(0, "replay", "outage", "--stop"), "outage: stopped, ", "notifier replay outage --resume continues it")
	exits(t, follower, followed, 0)
	says(t, followed.String(), "outage: stopped, ")
	stopped := sent(first)
	if stopped >= n {
		t.Fatal("it is over before it was stopped")
	}
	// The same words again: it stays stopped, and no other is begun.
	says(t, first.exec(0, asked...), "outage: stopped, ")
	says(t, first.exec(1, "replay", "--since", since, "--id", "outage"), "other parameters")
	second := begin() // before it goes on: on a busy machine the rest would be sent meanwhile
	says(t, first.exec(0, "replay", "outage", "--resume"), "outage: running, ")
	follower, followed = first.run(asked...)
	await(t, waitTimeout, "it goes on, and the command follows it", func() bool {
		return sent(first) > stopped && strings.Contains(followed.String(), "outage: found ")
	})
	first.kill()
	exits(t, follower, followed, 1)
	says(t, followed.String(), "outage continues in the service")
	out := second.exec(0, asked...) // to the end
	says(t, out, "outage: done, 120 of 120 sent, 0 left")
	says(t, second.exec(0, "replay", "outage"), "outage: done, 120 of 120 sent")
	says(t, second.exec(0, "replay"), "outage", "done")
	says(t, second.exec(1, "replay", "outage", "--resume"), "the replay is done")
	var shown client.Replay
	if err := json.Unmarshal([]byte(second.exec(0, "replay", "outage", "--json")), &shown); err != nil || shown.Sent != n {
		t.Errorf("%+v, %v", shown, err)
	}
	await(t, waitTimeout, "nothing is pending", func() bool { return second.numbers("pay").Pending == 0 })
	came := map[string]int{}
	for _, h := range rec.all() {
		if h.replay == "outage" {
			came[h.key]++
		}
	}
	// A callback in flight at the kill of its instance is repeated.
	// TestReplaySurvivesKilledInstance counts how often the replay schedules a notice.
	doubled := 0
	for key, times := range came {
		if times > 1 {
			t.Logf("%s came %d times", key, times)
			doubled++
		}
	}
	if len(came) != n || doubled > 20 {
		t.Errorf("%d notices came, want %d; %d more than once", len(came), n, doubled)
	}
}
