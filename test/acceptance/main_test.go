package acceptance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// binary is the path of the built service. It is a variable of the package
// because it is built once for all tests.
var binary string

func TestMain(m *testing.M) {
	if path := os.Getenv(workerLedger); path != "" {
		os.Exit(workerProgram(path))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := taken.begin(); err != nil {
		return 1, err
	}
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run(), nil // nothing runs
	}
	dir, err := os.MkdirTemp("", "acceptance")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "notifier")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		// The service runs under the race detector when its tests do.
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "notifier/cmd/notifier")...).CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the service: %w\n%s", err, out)
	}
	if code = taken.run(m.Run); code == 0 {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() // it is one
		err = goleak.Find()
	}
	return code, errors.Join(err, taken.end(code))
}

// await polls until ok, and fails the test when that takes too long.
func await(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if !eventually(t.Context(), limit, ok) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

func eventually(ctx context.Context, limit time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ok()
		case <-tick.C:
		}
	}
	return true
}

// tail is the end of a file.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 6000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return strings.ToValidUTF8(string(b), "?")
}
