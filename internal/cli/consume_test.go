package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/internal/app"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/testkit"
)

func TestConsumeRefuses(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"consume", "jobs"}, "exec"},
		{[]string{"consume", "--exec", "true"}, "consume wants ROUTE"},
		{[]string{"consume", "jobs", "--exec", ""}, "--exec is empty"},
		{[]string{"consume", "jobs", "--exec", "true", "--concurrency", "0"}, "--concurrency must be"},
		{[]string{"consume", "orders", "--exec", "true"}, "the target of route orders is notice"},
		{[]string{"consume", "mail", "--exec", "true"}, "there is no route mail; the routes with a list or stream are jobs"},
	} {
		_, errs := d.run(exitWrong, c.args...)
		contains(t, errs, c.want)
	}
	d.env = append(d.env, "NOTIFIER_REDIS_URL=http://u:hunter2@h")
	_, errs := d.run(exitWrong, "consume", "jobs", "--exec", "true")
	contains(t, errs, "NOTIFIER_REDIS_URL")
	d.env = append(d.env, "NOTIFIER_REDIS_URL_FILE=/nonexistent")
	_, errs = d.run(exitWrong, "consume", "jobs", "--exec", "true")
	contains(t, errs, "not both")
}

func TestConsumeRunsCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	srv := testkit.SharedRedis(t)
	d.env = append(d.env, "NOTIFIER_REDIS_URL="+srv.URL(), "PATH="+os.Getenv("PATH"), "NOTIFIER_KEY=of-the-service")
	file := filepath.Join(t.TempDir(), "seen")
	n := &notice.Notice{Key: "app1:jobs:mail:1", Made: notice.MadeAt(time.Now()), Due: time.Now(),
		Content: notice.Content{Body: []byte("to whom")}}
	if err := srv.Client().RPush(t.Context(), "todo", "no entry", queue.Envelope(n)).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		testkit.Within(30*time.Second, func() bool {
			b, err := os.ReadFile(file)
			return err == nil && strings.HasSuffix(string(b), "\n")
		})
	}()
	out, errs := d.runContext(ctx, exitDone, "consume", "jobs", "--exec",
		`echo "$NOTICE_KEY $NOTICE_ATTEMPT $(cat) $NOTIFIER_KEY$NOTIFIER_REDIS_URL" > `+file+`; echo said`)
	b, err := os.ReadFile(file)
	if err != nil || string(b) != "app1:jobs:mail:1 1 to whom \n" {
		t.Errorf("the command saw %q, %v", b, err)
	}
	contains(t, out, "said")
	contains(t, errs, "does not await reports")
}

// closedPipe is a standard error without a reader.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A command's exit code decides, although its error output cannot be passed on.
func TestConsumeWithClosedStderr(t *testing.T) {
	t.Parallel()
	log, err := app.NewLog("info", "json", closedPipe{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	run := queue.Command{Shell: "echo said >&2", Environ: os.Environ(), Stdout: io.Discard, Stderr: log}
	if res := run.Run(t.Context(), &queue.Received{}); res.Outcome != notice.OutcomeDelivered || res.Response != "said" {
		t.Errorf("%+v", res)
	}
}

// The exit code decides, although a background process holds the output of the command open.
func TestConsumeCommandLeavesBackgroundProcess(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]notice.Outcome{"0": notice.OutcomeDelivered, "75": notice.OutcomeDeferred, "3": notice.OutcomeRetry} {
		run := queue.Command{Shell: "echo said >&2; sleep 20 & exit " + code, Environ: os.Environ(), Timeout: 18 * time.Second,
			Stdout: io.Discard, Stderr: io.Discard}
		from := time.Now()
		if res := run.Run(t.Context(), &queue.Received{}); res.Outcome != want || !strings.HasSuffix(res.Response, "said") {
			t.Errorf("exit code %s: %+v after %s, want %s", code, res, time.Since(from), want)
		}
	}
}
