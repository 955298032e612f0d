package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"go.uber.org/zap"
)

// page is a writer that can be read concurrently.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func TestWarningsAreWrittenAtOnceAndNothingIsLost(t *testing.T) {
	var out page
	l, closeLog, err := Logger("info", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	l.Debug("unseen")
	l.Info("first", zap.String("key", "a:b:c:d"))
	l.Warn("second")
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "first") || !strings.Contains(got, "second") {
		t.Errorf("after a warning: %q", got)
	}
	l.Info("third")
	closeLog()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["time"] == nil || m["msg"] == nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, _, err := Logger("loud", "json", &out); err == nil {
		t.Error("a level that does not exist was taken")
	}
}

// A process that is killed loses no line that came after a pause: it is written at once.
func TestLogLineAfterPauseIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out page
		l, closeLog, err := Logger("info", "json", &out)
		if err != nil {
			t.Fatal(err)
		}
		defer closeLog()
		want := func(n int) {
			t.Helper()
			if got := strings.Count(out.String(), "\n"); got != n {
				t.Errorf("%d lines are written, want %d", got, n)
			}
		}
		for range 3 {
			out.b.Reset()
			time.Sleep(time.Second) // in virtual time
			l.Info("first")
			want(1)
			l.Info("second")
			l.Info("third")
			want(1)
			time.Sleep(linePause) // in virtual time
			synctest.Wait()
			want(3)
		}
		l.Info("asked for")
		if err := l.Sync(); err != nil {
			t.Error(err)
		}
		want(4)
	})
}

// broken fails while fails is set, after a partial write.
type broken struct {
	page
	fails bool
}

func (b *broken) Write(text []byte) (int, error) {
	if !b.fails {
		return b.page.Write(text)
	}
	n, _ := b.page.Write(text[:min(2, len(text))])
	return n, errors.New("no space left")
}

func TestLogLinesThatFailAreWrittenLater(t *testing.T) {
	out := &broken{fails: true}
	w := &lines{out: out}
	if _, err := w.Write([]byte("first\n")); err == nil {
		t.Error("no error")
	}
	if err := w.Sync(); err == nil {
		t.Error("no error")
	}
	out.fails = false
	if err := w.Sync(); err != nil || out.String() != "first\n" {
		t.Errorf("%v, %q", err, out.String())
	}

	// More than is held is dropped.
	out.fails = true
	if _, err := w.Write(make([]byte, mostHeld)); err == nil {
		t.Error("no error")
	}
	if len(w.held) != 0 {
		t.Errorf("%d bytes are held", len(w.held))
	}
}

func TestLogFormatOfTerminal(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = master.Close(), tty.Close() }()
	if got := format("", tty); got != "console" {
		t.Errorf("a log that goes to a terminal is %s", got)
	}
}

func TestLogFormatOfFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got := format("", f); got != "json" {
		t.Errorf("a log that goes to a file is %s", got)
	}
	if got := format("console", f); got != "console" {
		t.Errorf("a format that is configured is %s", got)
	}
}

func TestDashboardURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080/ui/", "0.0.0.0:80": "http://localhost:80/ui/", "[::]:8080": "http://localhost:8080/ui/",
		"[::1]:8080": "http://[::1]:8080/ui/",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := dashboardURL(a); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
