package verifiers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// program is the built service. It is a variable of the package because all tests run it.
var program string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifiers:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "verifiers")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	program = filepath.Join(dir, "notifier")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/notifier").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// service is a running process.
type service struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{}
}

// serve starts a service with these variables, without NOTIFIER_ before them.
func serve(t *testing.T, redis string, env map[string]string) *service {
	t.Helper()
	s := &service{cmd: exec.Command(program, "serve"), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "NOTIFIER_LISTEN=127.0.0.1:0", "NOTIFIER_LOG_FORMAT=json", "NOTIFIER_REDIS_URL="+redis)
	for name, value := range env {
		s.cmd.Env = append(s.cmd.Env, "NOTIFIER_"+name+"="+value)
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	scanner, address := bufio.NewScanner(log), ""
	for address == "" && scanner.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "listening" {
			address = line.Address
		} else if line.Msg == "" {
			t.Log(scanner.Text())
		}
	}
	if address == "" {
		t.Fatal("the service ended before it listened")
	}
	s.url = "http://" + address
	go func() {
		_, _ = io.Copy(io.Discard, log) // so that the service can write
		_ = s.cmd.Wait()
		close(s.done)
	}()
	return s
}

// stop ends the service in good order. It may be called twice.
func (s *service) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.done
}

// schedule makes a notice due now.
func (s *service) schedule(key, contentType, body string) error {
	data, err := json.Marshal(map[string]string{"key": key, "body_text": body, "content_type": contentType})
	if err != nil {
		return err
	}
	resp, err := http.Post(s.url+"/v1/notices", "application/json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return nil
}

// redisServer starts a Redis of the test.
func redisServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatalf("redis-server (make deps installs it): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, "redis-server listens", func() bool { return listens("127.0.0.1:" + port) })
	return "redis://127.0.0.1:" + port
}

func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
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
