package telemetry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds the service once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "telemetry")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "notifier")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/notifier").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// command is the service, not started, with variables in addition to those of one route.
func command(t *testing.T, callback string, variables ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "serve", "--embedded")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OTEL_") && !strings.HasPrefix(v, "NOTIFIER_") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "NOTIFIER_LISTEN=127.0.0.1:0", "NOTIFIER_ROUTES=orders", "NOTIFIER_ROUTE_ORDERS_PREFIX=shop:orders",
		"NOTIFIER_ROUTE_ORDERS_TARGET="+callback, "NOTIFIER_ROUTE_ORDERS_RETRY=1s,1s", "NOTIFIER_LOG_FORMAT=json", "NOTIFIER_INSTANCE=notifier-1",
		"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=200")
	c.Env = append(c.Env, variables...)
	return c
}

// instance is a running service.
type instance struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	mu      sync.Mutex
	log     strings.Builder
	read    chan struct{} // closed when the log has ended
}

func start(t *testing.T, callback string, variables ...string) *instance {
	t.Helper()
	i := &instance{t: t, cmd: command(t, callback, variables...), read: make(chan struct{})}
	log, err := i.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = i.cmd.Process.Kill() // it may have ended
		_ = i.cmd.Wait()
	})
	listens := make(chan string, 1)
	go func() {
		defer close(i.read)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			i.mu.Lock()
			i.log.Write(append(lines.Bytes(), '\n'))
			i.mu.Unlock()
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				listens <- "http://" + line.Address
			}
		}
	}()
	select {
	case i.address = <-listens:
	case <-i.read:
		t.Fatalf("the service ended before it listened:\n%s", i.logged())
	}
	until(t, "the instance is ready", func() bool {
		res, err := http.Get(i.address + "/readyz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return i
}

func (i *instance) logged() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.log.String()
}

// schedule makes one notice, with headers given as name, value, ….
func (i *instance) schedule(key string, headers ...string) {
	i.t.Helper()
	req, err := http.NewRequest("POST", i.address+"/v1/notices",
		strings.NewReader(`{"key":"`+key+`","delay":"1s","body":{"card":"4111-secret"}}`))
	if err != nil {
		i.t.Fatal(err)
	}
	for n := 0; n+1 < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		i.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		i.t.Fatalf("schedule: %s", res.Status)
	}
}

// stop ends the service as an orchestrator does, and returns how long that took.
func (i *instance) stop() time.Duration {
	i.t.Helper()
	began := time.Now()
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		i.t.Fatal(err)
	}
	<-i.read
	if err := i.cmd.Wait(); err != nil {
		i.t.Errorf("the service ended with %v:\n%s", err, i.logged())
	}
	return time.Since(began)
}

// metric is the value of the series whose line begins so; empty if there is none.
func (i *instance) metric(prefix string) string {
	i.t.Helper()
	res, err := http.Get(i.address + "/metrics")
	if err != nil {
		i.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(strings.TrimPrefix(line, prefix))
		}
	}
	return ""
}

// callbacks is a receiver that answers with the statuses in turn, then with the last.
type callbacks struct {
	url  string
	mu   sync.Mutex
	seen []http.Header
}

func receiver(t *testing.T, statuses ...int) *callbacks {
	t.Helper()
	c := &callbacks{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, r.Header)
		w.WriteHeader(statuses[min(len(c.seen), len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	c.url = s.URL + "/hook/path-secret?token=query-secret"
	return c
}

func (c *callbacks) headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.seen...)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(limit) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond) // sleep: polls until the limit
	}
}
