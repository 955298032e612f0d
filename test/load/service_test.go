//go:build load

package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// service is a running instance.
type service struct {
	url  string
	pid  int
	kill func() // ends it at once
}

// build builds the program.
func build(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "notifier")
	if out, err := exec.Command("go", "build", "-o", program, "notifier/cmd/notifier").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// serve starts an instance, and returns when it is ready.
func serve(t testing.TB, program string, db *testkit.Redis, env ...string) service {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	c := exec.Command(program, "serve")
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("NOTIFIER_LISTEN=127.0.0.1:%d", port), "NOTIFIER_REDIS_URL=" + db.URL(),
		"NOTIFIER_LOG_LEVEL=warn"}, env...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := service{url: fmt.Sprintf("http://127.0.0.1:%d", port), pid: c.Process.Pid, kill: func() { _ = c.Process.Kill(); _ = c.Wait() }}
	t.Cleanup(s.kill)
	api, err := client.New(client.Options{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "ready", func() bool { h, err := api.Ready(context.Background()); return err == nil && h.Ready })
	return s
}

// schedule schedules notices of a route.
func (s service) schedule(route string, first, n int, due func(i int) time.Time) error {
	var body bytes.Buffer
	for i := range n {
		fmt.Fprintf(&body, `{"key":"%s:a:b:%d","due":%q,"body":{"order":"%0120d"}}`+"\n", route, first+i,
			due(i).UTC().Format("2006-01-02T15:04:05.000Z"), first+i)
	}
	res, err := http.Post(s.url+"/v1/notices/batch", "application/x-ndjson", &body)
	if err != nil {
		return err
	}
	said, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %.300s", res.Status, said)
	}
	return nil
}
