package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/history"
	"notifier/internal/testkit"
)

// shaky is a history that can be made unavailable.
type shaky struct {
	api.Historian
	away atomic.Bool
}

func (s *shaky) Find(ctx context.Context, q history.Query) (history.Page, error) {
	if s.away.Load() {
		return history.Page{}, fmt.Errorf("%w: test", history.ErrUnavailable)
	}
	return s.Historian.Find(ctx, q)
}

// written collects output and can be read concurrently.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *written) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.b.String(), text)
}

// Without a time --follow begins after the newest entry, whatever this machine's clock is, and continues after an
// outage of the service.
func TestHistoryFollowSurvivesOutage(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	s := &shaky{Historian: db}
	d := newTestCLI(t, func(o *api.Options) { o.History = s })
	// The clock of the machine is an hour ahead.
	then := time.Now().Add(-time.Hour)
	put("before", then, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done, errs := make(chan int, 1), &written{}
	s.away.Store(true)
	go func() {
		code := Main(ctx, Process{Args: []string{"history", "--follow"}, Environ: d.env, Stdin: strings.NewReader(""), Stdout: w, Stderr: errs,
			Version: "1"}, d.deps)
		_ = w.Close()
		done <- code
	}()
	until := func(what string) {
		t.Helper()
		testkit.Until(t, "it says "+what, func() bool { return errs.has(what) })
	}
	until("retrying")
	s.away.Store(false)
	until("the service answers again")
	put("first", then.Add(time.Second), nil)
	lines := bufio.NewScanner(r)
	for _, want := range []string{"ENDED ", ":first "} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("%q, want %q", lines.Text(), want)
		}
	}
	put("with-a-longer-name", then.Add(2*time.Second), nil)
	if !lines.Scan() || !strings.Contains(lines.Text(), "longer") {
		t.Error(lines.Text())
	}
	column := strings.Index(lines.Text(), "delivered")
	put("short", then.Add(3*time.Second), nil)
	if !lines.Scan() || strings.Index(lines.Text(), "delivered") != column {
		t.Errorf("%q: its columns are not those of before, %d", lines.Text(), column)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }() // the remaining output
	if code := <-done; code != 0 {
		t.Errorf("exits with %d", code)
	}
}

func TestInterruptedDemoSaysSo(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	ctx, interrupt := context.WithCancel(t.Context())
	d.deps.Demo = func(ctx context.Context, _ DemoOptions) error {
		interrupt()
		return ctx.Err()
	}
	if _, errs := d.runContext(ctx, exitFailed, "demo", "--emulated"); errs != "notifier: interrupted\n" {
		t.Errorf("%q", errs)
	}
}
