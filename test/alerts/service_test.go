package alerts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a child process.
type process struct {
	cmd  *exec.Cmd
	dead bool
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.dead {
		return
	}
	p.dead = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = p.cmd.Wait() // it was killed
}

// redisServer is a Redis without replicas that keeps its data in a temporary directory.
type redisServer struct {
	process
	url string
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	_ = free.Close()

	s := &redisServer{url: "redis://" + address.String()}
	s.cmd = exec.Command("redis-server", "--port", strconv.Itoa(address.Port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--appendonly",
		"yes", "--daemonize", "no")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill(t) })
	until(t, "Redis listens", func() bool {
		c, err := net.Dial("tcp", address.String())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return s
}

// refuses is the address of a receiver that refuses every notice permanently.
func refuses(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(s.Close)
	return s.URL
}

// program builds the service once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "alerts")
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

// instance is a running service.
type instance struct {
	process
	address string
}

func startInstance(t *testing.T, redis, receiver string) *instance {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{}
	i.cmd = exec.Command(path, "serve")
	i.cmd.Env = append(os.Environ(), "NOTIFIER_REDIS_URL="+redis, "NOTIFIER_LISTEN=127.0.0.1:0", "NOTIFIER_ROUTES=orders",
		"NOTIFIER_ROUTE_ORDERS_PREFIX=app1",
		"NOTIFIER_ROUTE_ORDERS_TARGET="+receiver, "NOTIFIER_LOG_FORMAT=json")
	log, err := i.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.kill(t) })

	lines := bufio.NewScanner(log)
	for i.address == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			i.address = "http://" + line.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	if i.address == "" {
		t.Fatal("the service ended before it listened")
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

// page is the page of metrics.
func (i *instance) page(t *testing.T) string {
	t.Helper()
	res, err := http.Get(i.address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// schedule makes n notices that are due now.
func (i *instance) schedule(t *testing.T, n int) {
	t.Helper()
	for k := range n {
		res, err := http.Post(i.address+"/v1/notices", "application/json", strings.NewReader(fmt.Sprintf(`{"key":"app1:orders:paid:%d"}`, k)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			t.Fatalf("schedule: %s", res.Status)
		}
	}
}

// sum adds the values of all series whose line begins so.
func sum(t *testing.T, prefix string, pages ...string) (total float64) {
	t.Helper()
	for line := range strings.Lines(strings.Join(pages, "\n")) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		total += v
	}
	return total
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
