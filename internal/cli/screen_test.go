package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"notifier/internal/notice"
)

// runOn runs a command line whose outputs are the file's other end, and returns the output. It closes end.
func (d *testCLI) runOn(out *os.File, end io.ReadCloser, env []string, args ...string) string {
	d.t.Helper()
	said := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(end) // a terminal's other end ends with an error
		said <- string(b)
	}()
	Main(d.t.Context(), Process{Args: args, Environ: append(slices.Clone(d.env), env...), Stdin: strings.NewReader(d.stdin), Stdout: out,
		Stderr:  out,
		Version: "1.2.3"}, d.deps)
	_ = out.Close()
	text := <-said
	_ = end.Close()
	return text
}

// terminal runs a command line on a terminal of 100 columns.
func (d *testCLI) terminal(env []string, args ...string) string {
	d.t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		d.t.Fatal(err)
	}
	return d.runOn(tty, master, append([]string{"TERM=xterm-256color"}, env...), args...)
}

// pipe runs a command line whose output is a pipe, although TERM says otherwise.
func (d *testCLI) pipe(args ...string) string {
	d.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	return d.runOn(w, r, []string{"TERM=xterm-256color"}, args...)
}

func seeded(t *testing.T) *testCLI {
	d := newTestCLI(t)
	d.run(0, "schedule", "app1:jobs:t:1", "--delay", "3m59s")
	d.run(0, "schedule", "app1:jobs:t:2", "--delay", "1h")
	d.engine.Move("app1:jobs:t:2", notice.Dead, notice.ReasonDNS)
	return d
}

var readers = [][]string{{"list"}, {"list", "--all"}, {"get", "app1:jobs:t:2"}, {"stats"}, {"routes"}, {"routes", "orders"}, {"doctor"},
	{"version"},
	{"redrive", "--route", "jobs", "--dry-run"}, {"--help"}, {"get"}, {"get", "app1:jobs:t:3"}}

func TestPipeGetsNoEscapeCodes(t *testing.T) {
	t.Parallel()
	d := seeded(t)
	d.env = append(append(d.env, environ...), "NOTIFIER_REDIS_URL=redis://127.0.0.1:1/0")
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(lines(2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range append(slices.Clone(readers), []string{"import", file}, []string{"bench", "--prefix", "app1:jobs:b",
		"--count", "50"}) {
		if out := d.pipe(args...); strings.ContainsRune(out, 0x1b) || out == "" {
			t.Errorf("notifier %s in a pipe prints %q", strings.Join(args, " "), out)
		}
	}
	// Two runs print the same; relative times would differ.
	if one, two := d.pipe("list", "--prefix", "app1:jobs:t"), d.pipe("list", "--prefix", "app1:jobs:t"); one != two ||
		strings.Contains(one, "ago") || strings.Contains(one, "in 3m") {
		t.Errorf("%s%s", one, two)
	}
}

func TestTerminalGetsColoursAndDistances(t *testing.T) {
	t.Parallel()
	d := seeded(t)
	d.env = append(d.env, environ...)
	out := d.terminal(nil, "list")
	contains(t, out, "\x1b[31mdead", "\x1b[36mscheduled", "in 3m", "0 of 10")
	contains(t, d.terminal(nil, "get", "app1:jobs:t:1"), "\x1b[36mscheduled", "(in 3m", "0 of 10 made, number 1 is next")
	contains(t, d.terminal(nil, "stats"), "\x1b[1mROUTE")
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		for _, args := range readers[:6] {
			if out := d.terminal([]string{env}, args...); strings.ContainsRune(out, 0x1b) || out == "" {
				t.Errorf("notifier %s under %s prints %q", strings.Join(args, " "), env, out)
			}
		}
	}
	contains(t, d.terminal([]string{"NO_COLOR=1"}, "list"), "in 3m")
}

// A terminal's table ends at its edge, but the last response, which ends with the remedy, is not cut.
func TestTerminalShowsWholeLastResponse(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	why := strings.Repeat("so it is; ", 20) + "set ALLOW"
	d.wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"key": "app1:orders:paid:1", "state": "delivered", "attempts_made": 1, "max_attempts": 1,
				"attempts": []any{map[string]any{"n": 1, "at": "2026-12-01T00:00:00Z", "status": 200, "duration_ms": 12.345, "response": why}}})
		})
	}
	out := d.terminal([]string{"NO_COLOR=1"}, "get", "app1:orders:paid:1")
	contains(t, out, "…", "the last response: "+why, "1 of 1 made", "12.3 ms")
	contains(t, d.pipe("get", "app1:orders:paid:1"), "  "+why+"\n")
	d.wrap = nil
}

func TestAwayRoundsLongDistances(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-5100 * time.Millisecond: "5s ago", 3 * time.Minute: "in 3m", 400 * time.Millisecond: "now", 90 * time.Minute: "in 1h30m",
		-(9*time.Minute + 59*time.Second): "9m59s ago", 25*time.Hour + 13*time.Minute: "in 1d1h", -800 * time.Hour: "33d ago",
		24*time.Hour - time.Second: "in 24h", 48 * time.Hour: "in 2d",
	} {
		if got := away(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// Errors name flags, not the JSON members behind them.
func TestErrorsNameFlags(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.run(0, "schedule", "app1:jobs:t:1", "--body", "1")
	for line, want := range map[string]string{
		"schedule app1:orders:t:1 --on-duplicate maybe":                 "--on-duplicate: want reject, keep or replace",
		"schedule app1:orders:t:1 --to nonsense":                        "--to",
		"schedule app1:orders:t:1 --retry x":                            "--retry",
		"schedule app1:orders:t:1 --to http://a.example --header a:b=1": "--header",
		"schedule app1:orders:t:1 --to http://a.example --audience a/b": "--audience",
		"schedule nonsense":                    "KEY",
		"schedule app1:jobs:t:1 --body 2":      "--on-duplicate keep or replace",
		"list --reason dns":                    "--state dead",
		"list --limit 5000":                    "--limit",
		"list --state asleep":                  "--state",
		"ack app1:jobs:t:1 --attempt 0 --id x": "--attempt",
		"nack app1:jobs:t:1 --attempt 1 --id " + strings.Repeat("x", 200): "--id",
	} {
		code := 2
		if strings.HasSuffix(line, "--body 2") {
			code = 1 // a conflict is no usage error
		}
		_, errs := d.run(code, strings.Fields(line)...)
		contains(t, errs, want)
		if not := regexp.MustCompile(`(body|query|path)\.[a-z]|[^-]on_duplicate|state=| url `).FindString(errs); not != "" {
			t.Errorf("%s: %q in %s", line, not, errs)
		}
	}
	d.stdin = `{"key":"app1:jobs:t:9","on_duplicate":"maybe"}`
	_, errs := d.run(1, "import", "-") // its lines are the API's own
	contains(t, errs, "on_duplicate: want reject")

	url := d.env[0]
	d.env = []string{url}
	_, errs = d.run(1, "list")
	contains(t, errs, "needs a token", "NOTIFIER_TOKEN")
	d.env = []string{url, "NOTIFIER_TOKEN=another-token"}
	_, errs = d.run(1, "get", "app1:jobs:t:1")
	contains(t, errs, "unknown token", "NOTIFIER_TOKEN")
	_, errs = d.run(1, "cancel", "app1:jobs:t:1")
	contains(t, errs, "NOTIFIER_TOKEN")
	d.env = []string{url, "NOTIFIER_TOKEN=a b"}
	_, errs = d.run(2, "list")
	contains(t, errs, "NOTIFIER_TOKEN: the token holds white space")
	d.env = []string{"NOTIFIER_URL=localhost"}
	_, errs = d.run(2, "list")
	contains(t, errs, "NOTIFIER_URL: ")
	d.env = []string{"NOTIFIER_URL=http://127.0.0.1:1"}
	_, errs = d.run(1, "pause", "jobs")
	contains(t, errs, "check that the service runs at the address in --api", "NOTIFIER_URL")
	d.env = []string{"NOTIFIER_REDIS_URL=redis://127.0.0.1:1/0"}
	_, errs = d.run(1, "reshard", "--to", "2")
	contains(t, errs, "check that Redis runs at the address in NOTIFIER_REDIS_URL")
	if strings.Contains(errs, "it is not done") {
		t.Errorf("it had not begun: %s", errs)
	}
}

// complete returns the completions for a shell.
func (d *testCLI) complete(args ...string) []string {
	d.t.Helper()
	out, _ := d.run(0, append([]string{"__complete"}, args...)...)
	offers := strings.Split(strings.TrimSpace(out), "\n")
	if last := offers[len(offers)-1]; last != ":4" { // no file names
		d.t.Errorf("%v: directive %s", args, last)
	}
	return offers[:len(offers)-1]
}

func TestCompletionOffersKeysAndNames(t *testing.T) {
	t.Parallel()
	d := seeded(t)
	d.env = append(d.env, environ...)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"list", "--state", "d"}, []string{"delivered", "dead"}},
		{[]string{"list", "--route", ""}, []string{"jobs", "orders"}},
		{[]string{"pause", "j"}, []string{"jobs"}},
		{[]string{"pause", "jobs", ""}, nil},
		{[]string{"routes", "o"}, []string{"orders"}},
		{[]string{"send-test", "o"}, []string{"orders"}},
		{[]string{"get", "app1:jo"}, []string{"app1:jobs:t:1", "app1:jobs:t:2"}},
		{[]string{"get", "app1:jobs:t:1", ""}, nil},
		{[]string{"cancel", ""}, []string{"app1:jobs:t:1"}},
		{[]string{"cancel", "app1:jobs:t:1", ""}, nil},
		{[]string{"redrive", "app1:jobs:t:"}, []string{"app1:jobs:t:2"}},
		{[]string{"schedule", "k", "--on-duplicate", "re"}, []string{"reject", "replace"}},
		{[]string{"redrive", "--reason", "tim"}, []string{"timeout"}},
	} {
		if got := d.complete(c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%v offers %v, want %v", c.args, got, c.want)
		}
	}
	// A key may come from a foreign server.
	d.wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"key":"a:b:c:$(reboot)"},{"key":"a:b:c:\u001b[2J"},{"key":"a:b:c:d"}]}`)
		})
	}
	if got := d.complete("get", "a:b"); !slices.Equal(got, []string{"a:b:c:d"}) {
		t.Errorf("%q", got)
	}
	d.wrap = nil
}

// An unavailable or hanging service delays completion briefly and prints nothing.
func TestCompletionWithoutService(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	service := d.env
	d.env = []string{"NOTIFIER_URL=http://127.0.0.1:1"}
	for _, args := range [][]string{{"get", "a"}, {"list", "--route", ""}} {
		if got := d.complete(args...); len(got) > 0 {
			t.Errorf("%v offers %v", args, got)
		}
	}
	d.env = service
	release := make(chan struct{})
	d.wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
	}
	began := time.Now()
	if got := d.complete("get", "a"); len(got) > 0 || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %s", got, time.Since(began))
	}
	close(release)
	d.env = []string{"NOTIFIER_URL=nonsense", "NOTIFIER_TOKEN_FILE=/nonexistent", "NOTIFIER_SHARDS=x"}
	for _, args := range [][]string{{"get", "a"}, {"routes", "o"}} {
		if got := d.complete(args...); len(got) > 0 {
			t.Errorf("%v offers %v", args, got)
		}
	}
}

func TestImportBarCountsLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	text := lines(3) + "\n" + strings.TrimSuffix(lines(2), "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newTestCLI(t)
	a := newCommand(Process{Environ: d.env, Stdout: io.Discard, Stderr: io.Discard}, Deps{})
	c, err := a.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	im := &importer{app: a, c: c}
	if err := im.open(f, file+".progress"); err != nil {
		t.Fatal(err)
	}
	if err := im.window(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := im.bar.State(); s.Max != 6 || s.CurrentNum != 6 {
		t.Errorf("%d of %d, want 6 of 6", s.CurrentNum, s.Max)
	}
	for in, want := range map[string]int64{"": 0, "a": 1, "a\n": 1, "a\n\nb": 3} {
		if n, size, err := countLines(bytes.NewBufferString(in)); n != want || size != int64(len(in)) || err != nil {
			t.Errorf("%q: %d, %v", in, n, err)
		}
	}
}
