package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/config"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCLI is a command line connected to a service.
type testCLI struct {
	t      *testing.T
	engine *enginetest.Engine
	env    []string
	stdin  string
	deps   Deps
	wrap   func(http.Handler) http.Handler
}

func newTestCLI(t *testing.T, change ...func(*api.Options)) *testCLI {
	t.Helper()
	table, err := route.NewTable([]*route.Route{
		{Name: "jobs", Prefix: "app1:jobs", Target: route.Target{Kind: route.KindList, Key: "todo"}, Ladder: notice.DefaultLadder},
		{Name: "orders", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice}, Ladder: notice.DefaultLadder,
			Secrets: []sign.Secret{sign.SecretOf([]byte("one secret of twenty-four")), sign.SecretOf([]byte("two secret of twenty-four"))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &testCLI{t: t, engine: enginetest.New(t, table)}
	o := api.Options{Engine: d.engine, Recurrences: d.engine.Recurrences(), Routes: table,
		Clients: []auth.Client{{Name: "a", Token: "hunter2hunter2hunter2", Role: auth.Admin}}}
	for _, f := range change {
		f(&o)
	}
	inner := api.New(o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.wrap != nil {
			d.wrap(inner).ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.env = []string{"NOTIFIER_URL=" + s.URL, "NOTIFIER_TOKEN=hunter2hunter2hunter2"}
	return d
}

// run runs a command line, checks its exit code, and returns what it printed.
func (d *testCLI) run(want int, args ...string) (stdout, stderr string) {
	d.t.Helper()
	return d.runContext(d.t.Context(), want, args...)
}

func (d *testCLI) runContext(ctx context.Context, want int, args ...string) (string, string) {
	d.t.Helper()
	var out, errs bytes.Buffer
	got := Main(ctx, Process{Args: args, Environ: d.env, Stdin: strings.NewReader(d.stdin), Stdout: &out, Stderr: &errs, Version: "1.2.3"},
		d.deps)
	if got != want {
		d.t.Fatalf("notifier %s exits with %d, want %d:\n%s%s", strings.Join(args, " "), got, want, out.String(), errs.String())
	}
	if strings.Contains(out.String()+errs.String(), "hunter2") {
		d.t.Errorf("notifier %s prints the token", strings.Join(args, " "))
	}
	return out.String(), errs.String()
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is missing in:\n%s", w, got)
		}
	}
}

func TestGetShowsRemedy(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key = "app1:orders:paid:1"
	why := (&route.BlockedError{Why: "10.0.0.1 is private, which a notice's url may not reach", Allow: "10.0.0.1/32", Route: "orders"}).Error()
	d.wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"key": key, "state": "dead", "attempt": 2, "max_attempts": 10, "reason": "blocked",
				"attempts": []any{map[string]any{"n": 1, "at": "2026-12-01T00:00:00Z", "reason": "blocked", "response": why}}})
		})
	}
	out, _ := d.run(0, "get", key)
	contains(t, out, why+"\n")
}

func TestPrivateAddressesAreRefusedByScheduleAndImport(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	_, errs := d.run(2, "schedule", "app1:orders:paid:1", "--to", "http://10.0.0.1/hook")
	contains(t, errs, "10.0.0.1 is private", "NOTIFIER_ROUTE_ORDERS_ALLOW=10.0.0.1/32 would allow it")
	file := filepath.Join(t.TempDir(), "two.ndjson")
	lines := `{"key":"app1:orders:paid:1","url":"http://10.0.0.1/hook"}` + "\n" + `{"key":"app1:orders:paid:2","url":"https://shop.example/hook"}` + "\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = d.run(1, "import", file)
	contains(t, errs, "10.0.0.1 is private", "NOTIFIER_ROUTE_ORDERS_ALLOW=10.0.0.1/32 would allow it")
	d.run(1, "get", "app1:orders:paid:1")
	d.run(0, "get", "app1:orders:paid:2")
}

func TestListAllReadsAllPages(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for i := range 7 {
		d.run(0, "schedule", fmt.Sprintf("app1:jobs:t:%d", i))
	}
	out, errs := d.run(0, "list", "--limit", "3")
	if strings.Count(out, "app1:jobs") != 3 || !strings.Contains(errs, "--cursor") {
		t.Errorf("%s%s", out, errs)
	}
	out, _ = d.run(0, "list", "--limit", "3", "--all", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 7 || !json.Valid([]byte(lines[6])) {
		t.Errorf("%q", lines)
	}
}

// A page may be short although more follow, and the hint to the next page must not appear at the end.
func TestListContinuesAfterShortPage(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	pages := map[string]string{"": `{"items":[{"key":"a:b:c:1"}],"cursor":"x"}`, "x": `{"items":[],"cursor":"y"}`, "y": `{"items":[{"key":"a:b:c:2"}]}`}
	d.wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pages[r.URL.Query().Get("cursor")])
		})
	}
	out, errs := d.run(0, "list")
	contains(t, out, "a:b:c:1", "a:b:c:2")
	if errs != "" || strings.Count(out, "KEY") != 1 {
		t.Errorf("%s%s", out, errs)
	}
	out, errs = d.run(0, "list", "--limit", "1")
	contains(t, errs, "--cursor x")
	if strings.Contains(out, "a:b:c:2") {
		t.Errorf("%s", out)
	}
}

func TestOrphansAreListedAndCancelled(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key = "app2:gone:t:1"
	d.engine.Leave("app2:gone", key)
	for _, args := range [][]string{{"list"}, {"list", "--prefix", "app2"}, {"list", "--route", "app2:gone"}, {"get", key}} {
		out, _ := d.run(0, args...)
		contains(t, out, key)
	}
	d.run(0, "cancel", key)
	out, _ := d.run(0, "list", "--state", "cancelled")
	contains(t, out, key)
}

func TestBodyForms(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("{\"a\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.stdin = "from stdin\xff"
	for i, c := range []struct{ flag, value, want string }{
		{"--body-file", file, "{\"a\":1}\n"}, {"--body-file", "-", "from stdin\xff"}, {"--body-text", "", ""}, {"--body", "null", "null"},
		{"--body", "@" + file, "{\"a\":1}\n"}, {"--body", "@-", "from stdin\xff"},
	} {
		key := fmt.Sprintf("app1:jobs:b:%d", i)
		d.run(0, "schedule", key, c.flag, c.value)
		if f, _ := d.engine.Find(t.Context(), key); string(f.Body) != c.want {
			t.Errorf("%s %s: %q", c.flag, c.value, f.Body)
		}
	}
}

func TestEveryCommandTeachesByExample(t *testing.T) {
	t.Parallel()
	a := newCommand(Process{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Deps{})
	for _, c := range a.root().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Example == "" || c.Short == "" || !strings.Contains(c.Example, "notifier "+c.Name()) && c.Name() != "stats" {
			t.Errorf("%s has no example of itself", c.Name())
		}
	}
	d := newTestCLI(t)
	out, _ := d.run(0, "--help")
	contains(t, out, "schedule", "doctor", "Exit codes")
	out, _ = d.run(0, "completion", "bash")
	contains(t, out, "notifier")
	out, _ = d.run(0, "version")
	contains(t, out, "notifier 1.2.3")
	out, _ = d.run(0, "version", "--json")
	contains(t, out, `"1.2.3"`)
}

var environ = []string{"NOTIFIER_ROUTES=orders", "NOTIFIER_ROUTE_ORDERS_PREFIX=app1:orders", "NOTIFIER_ROUTE_ORDERS_TARGET=notice"}

func TestServeGetsConfiguration(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.env = environ
	var got *config.Config
	var opts ServeOptions
	d.deps.Serve = func(_ context.Context, c *config.Config, o ServeOptions) error { got, opts = c, o; return nil }
	d.run(0, "serve", "--embedded")
	if got == nil || got.Routes[0].Name != "orders" || !opts.Embedded || opts.Version != "1.2.3" {
		t.Errorf("%+v %+v", got, opts)
	}
	d.deps.Serve = func(context.Context, *config.Config, ServeOptions) error { return fmt.Errorf("no redis") }
	_, errs := d.run(1, "serve")
	contains(t, errs, "no redis")
	d.deps.Serve = func(context.Context, *config.Config, ServeOptions) error {
		return config.Errors{{Variable: "NOTIFIER_X", Want: "y"}}
	}
	d.run(2, "serve")
	d.deps.Demo = func(_ context.Context, o DemoOptions) error { return nil }
	d.run(0, "demo")
}

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

// received runs the receiver, waits until it listens, and returns its address and a function that ends it and
// returns its output.
func received(t *testing.T, args ...string) (address string, end func() string) {
	t.Helper()
	return receivedWith(t, []string{"RECEIVER_SECRET=" + secret}, args...)
}

// receivedWith is received with another environment.
func receivedWith(t *testing.T, environ []string, args ...string) (address string, end func() string) {
	t.Helper()
	address, _, end = receiving(t, environ, args...)
	return address, end
}

// receiving is receivedWith, and returns what was printed so far.
func receiving(t *testing.T, environ []string, args ...string) (address string, out *written, end func() string) {
	t.Helper()
	out = &written{}
	listen := "127.0.0.1:" + freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string, 1)
	go func() {
		var errs bytes.Buffer
		code := Main(ctx, Process{Args: append([]string{"receive", "--listen", listen}, args...), Environ: environ,
			Stdout: out, Stderr: &errs}, Deps{})
		done <- fmt.Sprintln("exit", code, out.b.String(), errs.String())
	}()
	testkit.Await(t, func() error {
		conn, err := net.Dial("tcp", listen)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return listen, out, func() string { cancel(); return <-done }
}

// The printed key is the receiver's own, and receive verifies with it.
func TestSecretPrintsReceiversKeys(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	want := sign.SecretOf([]byte("one secret of twenty-four")).ForHost("shop.example").Reveal() + "\n" +
		sign.SecretOf([]byte("two secret of twenty-four")).ForHost("shop.example").Reveal() + "\n"
	if out, _ := d.run(0, "secret", "orders", "--host", "Shop.example"); out != want {
		t.Errorf("%q, want %q", out, want)
	}
	out, _ := d.run(0, "secret", "orders", "--host", "shop.example", "--json")
	contains(t, out, `"sign_per": "host"`, `"secrets": [`)
	_, errs := d.run(2, "secret", "orders", "--audience", "m17")
	contains(t, errs, "--host: route orders signs for each host: want --host, such as")
	_, errs = d.run(1, "secret", "jobs", "--host", "shop.example")
	contains(t, errs, "409", "not signed")
	d.run(2, "secret", "orders")
	d.run(2, "secret", "orders", "--host", "a", "--audience", "b")
	d.run(2, "secret")
}

func TestReceiveAndSendTest(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_SIGN_PER=route", "NOTIFIER_ROUTE_ORDERS_SECRET=" + secret,
		"NOTIFIER_ROUTE_ORDERS_ALLOW=127.0.0.0/8"}, environ...)

	address, end := received(t)
	out, _ := d.run(0, "send-test", "orders", "--to", "http://"+address+"/hook")
	contains(t, out, "webhook-signature", "200", "= delivered")
	res, err := http.Post("http://"+address, "application/json", strings.NewReader("{}"))
	if err != nil || res.StatusCode != 401 {
		t.Errorf("unsigned: %v, %v", res, err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	contains(t, end(), "exit 0", "app1:orders:test:test  attempt 1", "signature right", "signature missing")

	address, end = received(t, "--fail", "1", "--status", "503", "--json")
	out, _ = d.run(1, "send-test", "orders", "--to", "http://"+address+"/hook", "--json")
	contains(t, out, `"status": 503`)
	contains(t, end(), `"status":503`, `"signature":"right"`)

	// A GET has its fields in the query, which is signed.
	d.env = append([]string{"NOTIFIER_ROUTE_ORDERS_METHOD=GET"}, d.env...)
	address, end = received(t)
	out, _ = d.run(0, "send-test", "orders", "--to", "http://"+address+"/hook?shop=1")
	contains(t, out, "= delivered")
	contains(t, end(), "signature right")

	_, errs := d.run(2, "send-test", "orders")
	contains(t, errs, "want --to")
	_, errs = d.run(2, "send-test", "nosuch")
	contains(t, errs, "no route is named")
}

func freePort(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	return s.URL[strings.LastIndexByte(s.URL, ':')+1:]
}

func TestBenchPrintsRates(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	out, _ := d.run(0, "bench", "--prefix", "app1:jobs:t", "--count", "100", "--callers", "4")
	contains(t, out, "100 notices in 100 calls")
	out, _ = d.run(0, "bench", "--prefix", "app1:jobs:t", "--count", "100", "--batch", "30", "--keep", "--json")
	contains(t, out, `"calls": 4`)
	kept := map[notice.State]int{}
	for _, f := range d.engine.All() {
		kept[f.State]++
	}
	if kept[notice.Cancelled] != 100 || kept[notice.Scheduled] != 100 {
		t.Errorf("%v", kept)
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"key\":\"app1:jobs:i:%d\",\"body\":{\"n\":%d}}\n", i, i)
	}
	return b.String()
}

func TestImportResumes(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const n = 10_000
	file := filepath.Join(t.TempDir(), "notices.ndjson")
	if err := os.WriteFile(file, []byte(lines(n)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Interrupted after six answered requests. The seventh is executed, but its answer is lost.
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	d.wrap = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) != 7 {
				h.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			cancel()
			<-r.Context().Done()
		})
	}
	_, errs := d.runContext(ctx, 1, "import", file)
	contains(t, errs, "run the same command to continue")
	if _, err := os.Stat(file + ".progress"); err != nil || d.engine.Len() == 0 || d.engine.Len() == n {
		t.Fatalf("%v; %d are kept", err, d.engine.Len())
	}
	d.wrap = nil
	out, errs := d.run(0, "import", file)
	contains(t, errs, "continuing after line 2000")
	contains(t, out, "0 refused")
	if d.engine.Len() != n || d.engine.Changes() != n {
		t.Errorf("%d kept by %d writes, want %d", d.engine.Len(), d.engine.Changes(), n)
	}
	if _, err := os.Stat(file + ".progress"); !os.IsNotExist(err) {
		t.Errorf("the progress file is still there: %v", err)
	}
	out, _ = d.run(0, "import", file)
	contains(t, out, "0 created, 10000 kept already")
}

func TestImportReports(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.stdin = lines(2) + "\n{\"key\":\"nonsense\"}\nno json\n" + lines(3)
	out, errs := d.run(1, "import", "-")
	contains(t, out, "3 created, 2 kept already, 2 refused")
	contains(t, errs, "standard input:4: nonsense: key: not a notice key", "standard input:5: ")
	if strings.Contains(errs, "body[") || strings.Contains(errs, "422") {
		t.Errorf("a refusal names an item of a request, which is no line of the file: %s", errs)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.ndjson")
	if err := os.WriteFile(wrong, []byte(`{"key":"app1:orders:t:x","delay":"x","due":"y","foo":1}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs = d.run(1, "import", wrong); strings.Count(errs, "\n") != 1 ||
		!strings.HasPrefix(errs, wrong+":1: app1:orders:t:x: delay: ") || strings.Contains(errs, "foo") {
		t.Errorf("want one line with one cause: %s", errs)
	}
	d.stdin = ""
	out, _ = d.run(0, "import", "-", "--json")
	contains(t, out, `"created": 0`)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(lines(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".progress", []byte(`{"offset":5,"head":"another"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = d.run(1, "import", file)
	contains(t, errs, "belongs to another file")
}

func TestDoctorPrintsFindings(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	service := d.env
	d.env = []string{"NOTIFIER_REDIS_URL=redis://u:hunter2@127.0.0.1:1/0"}
	out, _ := d.run(1, "doctor")
	contains(t, out, "error    reachability", "→ check NOTIFIER_REDIS_URL", "1 error(s)")
	out, _ = d.run(1, "doctor", "--json")
	contains(t, out, `"severity": "error"`)
	d.env = append(d.env, "NOTIFIER_SHARDS=x")
	d.run(2, "doctor")
	d.env = service
	out, _ = d.run(0, "doctor", "--quick")
	contains(t, out, "ready")
	d.engine.SetReady(fleet.Readiness{Reasons: []string{"redis is not reached"}})
	out, _ = d.run(1, "doctor", "--quick")
	contains(t, out, "not ready: redis is not reached")
	d.env = []string{"NOTIFIER_LISTEN=:1"}
	d.run(2, "doctor", "--quick", "--fix")
}

func TestInstancesPrintsTableAndJSON(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	out, _ := d.run(0, "instances")
	contains(t, out, "ID", "LAST SIGN", d.engine.Self()+" *", "living", "3s", "fleet")
	out, _ = d.run(0, "instances", "--json")
	contains(t, out, `"state": "living"`, `"self": true`, `"takeover_ms": 3000`)
	d.run(2, "instances", "more")
}
