package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const token = "0123456789abcdef0123456789abcdef"

// address is the URL of the running service. It is a variable of the package
// because all tests call one service.
var address string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		code = 1
	}
	os.Exit(code)
}

// run builds the service, starts it with a separate Redis, and runs the tests.
func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "outside")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	program := filepath.Join(dir, "notifier")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/notifier").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the service: %w\n%s", err, out)
	}

	cmd := exec.Command(program, "serve", "--embedded")
	cmd.Env = append(os.Environ(), "NOTIFIER_LISTEN=127.0.0.1:0", "NOTIFIER_LOG_FORMAT=json", "NOTIFIER_ROUTES=jobs",
		"NOTIFIER_ROUTE_JOBS_PREFIX=app1",
		"NOTIFIER_ROUTE_JOBS_TARGET=log", "NOTIFIER_CLIENTS=shop", "NOTIFIER_CLIENT_SHOP_TOKEN="+token, "NOTIFIER_CLIENT_SHOP_ROLE=admin")
	log, err := cmd.StderrPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()

	if address, err = listening(bufio.NewScanner(log)); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// listening reads the log up to the line that has the service's address, and goes on reading so that the service can write.
func listening(log *bufio.Scanner) (string, error) {
	for log.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(log.Bytes(), &line) == nil && line.Msg == "listening" {
			go func() {
				for log.Scan() {
				}
			}()
			return "http://" + line.Address, nil
		}
		fmt.Fprintln(os.Stderr, log.Text())
	}
	return "", fmt.Errorf("the service ended before it listened: %v", log.Err())
}

// due is a time at which no test waits any more, in whole seconds: the client that ogen makes writes no fractions.
func due() time.Time { return time.Now().Add(time.Hour).Truncate(time.Second).UTC() }

// authorize sets the token of a request.
func authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}
