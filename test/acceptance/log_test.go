package acceptance

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// said collects the output of a process.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A collector reads the log through a pipe and takes each line for an entry:
// pipes cannot be synced, and the reason of an end was no entry.
func TestLogLinesThroughAPipeAreJSON(t *testing.T) {
	strange := testkit.StartRedis(t)
	if err := strange.Client().HSet(t.Context(), "notifier:meta", "layout", 99, "shards", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		redis, want string
		exit        int
	}{
		"a warning": {"redis://127.0.0.1:1/0", "Redis is unavailable", 0},
		"an error":  {strange.URL(), `says layout \"99\"`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			port, err := testkit.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			out := &said{}
			cmd := exec.Command(binary, "serve")
			cmd.Env = environment([][]string{route("dev", "app1", "log"),
				{"NOTIFIER_REDIS_URL=" + c.redis, "NOTIFIER_LISTEN=127.0.0.1:" + strconv.Itoa(port)}})
			cmd.Stdout, cmd.Stderr = out, out // no file: the process gets a pipe
			cmd.SysProcAttr = tether()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				_ = cmd.Wait() // the process state has the result
				close(done)
			}()
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-done
			})
			await(t, waitTimeout, c.want+" in the log", func() bool { return strings.Contains(out.String(), c.want) })
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			select {
			case <-done:
			case <-time.After(waitTimeout):
				t.Fatal("it does not end")
			}
			if got := cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, want %d", got, c.exit)
			}
			for line := range strings.Lines(out.String()) {
				var entry struct {
					Level string    `json:"level"`
					Time  time.Time `json:"time"`
					Msg   string    `json:"msg"`
				}
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "" || entry.Msg == "" || entry.Time.IsZero() {
					t.Errorf("no entry: %q: %v", line, err)
				}
			}
		})
	}
}

// The line of a delivered notice is the delivery of a log route. It is in the log when the
// API shows the notice as delivered, so that a kill does not lose it. No setting of the log
// leaves it out.
func TestLogRouteDeliversOnceItsLineIsWritten(t *testing.T) {
	for _, setting := range []string{"NOTIFIER_LOG_LEVEL=info", "NOTIFIER_LOG_LEVEL=error", "NOTIFIER_LOG_ATTEMPTS=failed"} {
		t.Run(setting, func(t *testing.T) { deliverToLog(t, setting) })
	}
}

func deliverToLog(t *testing.T, setting string) {
	db := newRedis(t)
	s := launch(t, db.URL(), route("dev", "app1", "log"), []string{setting})
	const key = "app1:m:t:1"
	if _, err := s.api.Schedule(t.Context(), client.Request{Key: key, Body: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	await(t, waitTimeout, "the notice delivered", func() bool {
		n, err := s.api.Get(t.Context(), key)
		return err == nil && n.State == client.Delivered
	})
	s.kill()

	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"msg":"notice","key":"`+key+`"`) {
		t.Errorf("the log has no line of the delivered notice:\n%s", tail(s.log))
	}
}
