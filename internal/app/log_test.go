package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"go.uber.org/zap"

	"notifier/internal/testkit"
)

// page is a writer that can be read concurrently. It takes nothing while it is stuck, and fails with err.
type page struct {
	mu    sync.Mutex
	b     bytes.Buffer
	stuck chan struct{} // a write waits until it is closed
	err   error
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if stuck != nil {
		<-stuck
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		n, _ := p.b.Write(b[:min(2, len(b))]) // a buffer takes everything
		return n, p.err
	}
	return p.b.Write(b)
}

// set changes the state of the page.
func (p *page) set(stuck chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck, p.err = stuck, err
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (p *page) lines() int { return strings.Count(p.String(), "\n") }

func newLog(t *testing.T, out io.Writer) *Log {
	t.Helper()
	l, err := NewLog("info", "json", out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLogWritesEachLineAsJSON(t *testing.T) {
	var out page
	l := newLog(t, &out)
	l.Debug("unseen")
	l.Info("first", zap.String("key", "a:b:c:d"))
	l.With(zap.Int("n", 1)).Warn("second")
	l.Info("third")
	l.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["time"] == nil || m["msg"] == nil || (m["n"] != nil) != (i == 1) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := NewLog("loud", "json", &out); err == nil {
		t.Error("a level that does not exist was taken")
	}
}

// A process that is killed loses no line that came after a pause, and no warning: they are written at once.
func TestLogLineAfterPauseIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out page
		l := newLog(t, &out)
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			if got := out.lines(); got != n {
				t.Errorf("%d lines are written, want %d", got, n)
			}
		}
		for i := range 3 {
			time.Sleep(time.Second) // in virtual time
			l.Info("first")
			want(4*i + 1)
			l.Info("second")
			l.Info("third")
			want(4*i + 1)
			time.Sleep(linePause) // in virtual time
			want(4*i + 3)
			l.Warn("at once")
			want(4*i + 4)
		}
		l.Info("asked for")
		if err := l.Sync(); err != nil {
			t.Error(err)
		}
		want(13)
	})
}

// Callers of the logger do not wait for an output that takes nothing. Lines that do not fit are dropped and counted,
// operator actions last.
func TestLogWithoutReaderBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{}
		l := newLog(t, out)
		reads := make(chan struct{})
		out.set(reads, nil)
		l.Info("in flight")
		synctest.Wait()

		long := zap.String("text", strings.Repeat("x", 1000))
		sent := 0
		for ; l.Dropped() == 0; sent++ {
			l.Info("line", zap.Int("n", sent), long)
		}
		if size := sent * 1000; size > maxBuffered || size < maxBuffered/2 {
			t.Errorf("the first of %d lines of 1 KB was dropped", sent)
		}
		for range 99 {
			l.Warn("line", long)
		}
		for range 100 {
			l.Info("operator action", long)
		}
		if got := l.Dropped(); got != 100 {
			t.Errorf("%d lines were dropped, want 100 and no operator action", got)
		}
		for range 1000 {
			l.Info("operator action", long)
		}
		if l.Dropped() == 100 || l.lines.size > maxBuffered {
			t.Errorf("the buffer has %d bytes", l.lines.size)
		}
		if got := l.Problem(); got != "" {
			t.Errorf("%q although the write has just begun", got)
		}
		time.Sleep(stallAfter) // in virtual time
		if got := l.Problem(); !strings.Contains(got, "its reader has stopped reading") {
			t.Errorf("problem %q", got)
		}

		dropped := l.Dropped()
		close(reads)
		synctest.Wait()
		text := out.String()
		if got := strings.Count(text, "log lines were dropped"); got != 1 || !strings.Contains(text, fmt.Sprintf(`"lines":%d`, dropped)) {
			t.Errorf("%d lines about %d dropped ones", got, dropped)
		}
		if want := int64(1+sent+99+1100+1) - dropped; int64(out.lines()) != want {
			t.Errorf("%d lines, want %d", out.lines(), want)
		}
		before := -1
		for _, m := range regexp.MustCompile(`"n":(\d+)`).FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(m[1]) // it matched
			if n <= before {
				t.Fatalf("line %d after line %d", n, before)
			}
			before = n
		}
		if got := l.Problem(); got != "" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

// A process ends although nobody reads its log.
func TestLogWithoutReaderDelaysItsCloseByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{}
		reads := make(chan struct{})
		out.set(reads, nil)
		l := newLog(t, out)
		l.Error("line")
		from := time.Now()
		l.Close()
		l.Close()
		if took := time.Since(from); took > closeWait {
			t.Errorf("Close took %s", took)
		}
		close(reads)
	})
}

func TestLogLinesThatFailAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{err: syscall.ENOSPC}
		w := &lines{out: out}
		_, _ = w.Write([]byte("first\n")) // it returns no error
		_, _ = w.Write([]byte("second\n"))
		synctest.Wait()
		if _, err := w.state(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("problem %v", err)
		}
		out.set(nil, nil)
		time.Sleep(retryWrite) // in virtual time
		synctest.Wait()
		if _, err := w.state(); err != nil || out.String() != "first\nsecond\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}

// A closed pipe costs lines only. A new reader of a named pipe gets the next ones.
func TestLogLinesForClosedPipeAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{err: syscall.EPIPE}
		l := newLog(t, out)
		l.Info("first")
		synctest.Wait()
		l.Info("second") // the next write comes after retryWrite
		time.Sleep(retryWrite)
		synctest.Wait()
		if got := l.Dropped(); got != 2 || l.lines.size != 0 || l.Problem() == "" {
			t.Errorf("%d dropped, %d bytes, %q", got, l.lines.size, l.Problem())
		}
		out.set(nil, nil)
		time.Sleep(retryWrite) // in virtual time
		if err := l.Deliver(t.Context(), time.Minute, "third"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if text := out.String(); !strings.Contains(text, `"msg":"third"`) || !strings.Contains(text, `"lines":2`) || l.Problem() != "" {
			t.Errorf("%q, %q", text, l.Problem())
		}
	})
}

// The line of a notice is its delivery: no level of the log leaves it out, and Deliver returns when it is written.
func TestDeliverWritesAtAnyLevel(t *testing.T) {
	for _, level := range []string{"debug", "info", "warn", "error"} {
		var out page
		l, err := NewLog(level, "json", &out)
		if err != nil {
			t.Fatal(err)
		}
		l.Debug("another message")
		if err := l.Deliver(t.Context(), time.Minute, "notice", zap.String("key", "app1:m:t:1")); err != nil {
			t.Error(err)
		}
		text := out.String()
		if !strings.Contains(text, `"level":"info"`) || !strings.Contains(text, `"msg":"notice","key":"app1:m:t:1"`) ||
			strings.Contains(text, "another message") != (level == "debug") {
			t.Errorf("at level %s: written %q", level, text)
		}
	}
}

// A line whose delivery failed is withdrawn, so that its notice can be delivered later without a duplicate.
func TestDeliverWithdrawsLineThatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{}
		l := newLog(t, out)
		room := make(chan struct{}) // the output has room once it is closed
		l.lines.await = func() { <-room }
		errs := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { errs <- l.Deliver(ctx, time.Minute, "cancelled") }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 2 {
			go func() { errs <- l.Deliver(t.Context(), time.Minute, "stalled") }()
		}
		l.Info("stays")
		for range 2 {
			if err := <-errs; !errors.Is(err, errStalled) {
				t.Error(err)
			}
		}
		if err := l.Deliver(t.Context(), time.Minute, "refused"); !errors.Is(err, errStalled) {
			t.Error(err)
		}
		close(room)
		synctest.Wait()
		if text := out.String(); out.lines() != 1 || !strings.Contains(text, "stays") {
			t.Errorf("written %q", text)
		}
		if err := l.Deliver(t.Context(), time.Minute, "again"); err != nil || out.lines() != 2 {
			t.Errorf("%v, written %q", err, out.String())
		}
	})
}

// A line whose write has begun cannot be withdrawn. Its notice waits for it until the timeout.
func TestDeliverWaitsForBegunWriteUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		out := &page{stuck: stuck}
		l := newLog(t, out)
		began := time.Now()
		if err := l.Deliver(t.Context(), 5*time.Second, "begun"); !errors.Is(err, errStalled) {
			t.Error(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 5*time.Second+stallAfter {
			t.Errorf("the wait took %s", took) // in virtual time
		}
		close(stuck)
		out.set(nil, nil)
		synctest.Wait()
		if err := l.Deliver(t.Context(), time.Minute, "next"); err != nil || out.lines() != 2 {
			t.Errorf("%v, written %q", err, out.String())
		}
	})
}

// A failed write ends the deliveries that wait. The rest of a line that was written in part follows later.
func TestDeliverReportsFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &page{}
		l := newLog(t, out)
		writes := make(chan struct{})
		out.set(writes, nil)
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- l.Deliver(t.Context(), time.Minute, "notice") }()
			synctest.Wait()
		}
		out.set(nil, syscall.ENOSPC)
		close(writes)
		for range 3 {
			if err := <-errs; !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
		}
		if err := l.Deliver(t.Context(), time.Minute, "refused"); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		out.set(nil, nil)
		time.Sleep(retryWrite) // in virtual time
		synctest.Wait()
		if text := out.String(); out.lines() != 1 || !strings.HasSuffix(text, "}\n") || !strings.HasPrefix(text, "{") {
			t.Errorf("written %q", text)
		}
	})
}

// A pipe whose reader stands still: no write begins that could not end, so that no line is written in part or twice.
func TestDeliverToPipeWithoutReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, w)
	written := 0
	for ; err == nil; written++ {
		err = l.Deliver(t.Context(), time.Minute, "notice", zap.Int("n", written))
	}
	if !errors.Is(err, errStalled) {
		t.Fatal(err)
	}

	var text []byte
	read := make(chan struct{})
	go func() {
		defer close(read)
		text, _ = io.ReadAll(r) // the end of the pipe
	}()
	testkit.Until(t, "lines are written again", func() bool { return l.Problem() == "" })
	if err := l.Deliver(t.Context(), time.Minute, "last"); err != nil {
		t.Error(err)
	}
	_ = w.Close()
	<-read
	_ = r.Close()
	if got := bytes.Count(text, []byte("\n")); got != written {
		t.Errorf("%d lines, want %d that were delivered", got, written)
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
