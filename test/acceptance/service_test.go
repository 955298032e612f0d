package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// waitTimeout bounds waits that take a fraction of a second on an idle machine.
const waitTimeout = 60 * time.Second

// process is one process that a test starts.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// service is one process of the built binary.
type service struct {
	process
	url string
	api *client.Client
	at  place
}

// place is the network that a service runs in: this machine's, or a separate namespace.
type place interface {
	start(c *exec.Cmd) error
	dial(ctx context.Context, network, addr string) (net.Conn, error)
}

// here is this machine.
type here struct{}

func (here) start(c *exec.Cmd) error { return c.Start() }

func (here) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// route is the environment of one route; settings are NAME=value without the
// route's beginning.
func route(name, prefix, target string, settings ...string) []string {
	begin := "NOTIFIER_ROUTE_" + strings.ToUpper(name) + "_"
	env := []string{begin + "PREFIX=" + prefix, begin + "TARGET=" + target}
	for _, s := range settings {
		env = append(env, begin+s)
	}
	return env
}

// launch starts a service and waits until it is ready. Environments that come
// later win.
func launch(t testing.TB, redisURL string, envs ...[]string) *service {
	t.Helper()
	s := begin(t, redisURL, envs...)
	s.ready()
	return s
}

// begin starts a service and does not wait for more than its API.
func begin(t testing.TB, redisURL string, envs ...[]string) *service {
	t.Helper()
	return beginAt(t, here{}, redisURL, envs)
}

func beginAt(t testing.TB, at place, redisURL string, envs [][]string) *service {
	t.Helper()
	for range 5 {
		port, err := testkit.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s, err := exe(t, at, port, redisURL, envs)
		if err != nil {
			t.Fatal(err)
		}
		if eventually(t.Context(), waitTimeout, func() bool { return s.ended() || s.healthy() }) && !s.ended() {
			return s
		}
		if !strings.Contains(tail(s.log), "address already in use") {
			t.Fatalf("the service did not begin:\n%s", tail(s.log))
		}
	}
	t.Fatal("no port that stays free")
	return nil
}

func exe(t testing.TB, at place, port int, redisURL string, envs [][]string) (*service, error) {
	addr := "127.0.0.1:" + strconv.Itoa(port)
	s := &service{process: process{t: t}, url: "http://" + addr, at: at}
	args := []string{"serve"}
	settings := []string{"NOTIFIER_LISTEN=" + addr, "NOTIFIER_LOG_LEVEL=warn"}
	if redisURL == "" {
		args = append(args, "--embedded")
	} else {
		settings = append(settings, reach(redisURL)...)
	}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = environment(append([][]string{settings}, envs...))
	if err := s.start(at); err != nil {
		return nil, err
	}
	s.api = s.as("")
	return s, nil
}

// start starts the process with its output in a file, and ends it at the end of the test.
func (s *process) start(at place) error {
	s.log, s.done = filepath.Join(s.t.TempDir(), "process.log"), make(chan struct{})
	out, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has its own
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = tether()
	if err := at.start(s.cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.cmd.Path, err)
	}
	go func() {
		_ = s.cmd.Wait() // the process state has the result
		close(s.done)
	}()
	s.t.Cleanup(s.finish)
	return nil
}

// environment joins the lists; NOTIFIER_ROUTES is made from the prefixes.
func environment(lists [][]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=exitcode=66"}
	var names []string
	for _, list := range lists {
		for _, v := range list {
			if name, ok := strings.CutPrefix(v, "NOTIFIER_ROUTE_"); ok {
				if name, _, ok := strings.Cut(name, "_PREFIX="); ok {
					names = append(names, strings.ToLower(name))
				}
			}
			env = append(env, v)
		}
	}
	return append(env, "NOTIFIER_ROUTES="+strings.Join(names, ","))
}

// as is a client with a token, which repeats nothing by itself.
func (s *service) as(token string) *client.Client {
	s.t.Helper()
	h := &http.Client{Timeout: waitTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: s.at.dial}}
	c, err := client.New(client.Options{URL: s.url, Token: token, Retries: -1, HTTP: h})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// plain is an HTTP client in the service's network.
func (s *service) plain() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.at.dial, DisableKeepAlives: true}, Timeout: waitTimeout}
}

func (s *service) healthy() bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.api.Ready(ctx)
	return err == nil
}

// ready waits until the service delivers, subscribed or knowingly degraded.
func (s *service) ready() {
	s.t.Helper()
	var last *client.Health
	ok := eventually(s.t.Context(), waitTimeout, func() bool {
		h, err := s.api.Ready(s.t.Context())
		if err == nil {
			last = h
		}
		return s.ended() || err == nil && h.Ready && !noSubscription(h)
	})
	if !ok || s.ended() {
		s.t.Fatalf("the service is not ready: %+v\n%s", last, tail(s.log))
	}
}

func noSubscription(h *client.Health) bool {
	return strings.Contains(strings.Join(h.Reasons, ";"), "no subscription")
}

func (s *process) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// signal sends a signal and does not wait for its effect.
func (s *process) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal the process: %v\n%s", err, tail(s.log))
	}
}

// kill is kill -9.
func (s *process) kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	<-s.done
}

// stop is SIGTERM, and says how the process ended.
func (s *process) stop(limit time.Duration) (exit int, took time.Duration) {
	s.t.Helper()
	from := time.Now()
	s.signal(syscall.SIGTERM)
	await(s.t, limit, "the end of the process after SIGTERM", s.ended)
	return s.cmd.ProcessState.ExitCode(), time.Since(from)
}

// finish ends the process at the end of its test and checks its log.
func (s *process) finish() {
	if !s.ended() {
		_ = s.cmd.Process.Kill() // it may end at this moment by itself
		<-s.done
	}
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Error(err)
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if i := bytes.Index(raw, []byte(bad)); i >= 0 {
			s.t.Errorf("the log of %s:\n%s", s.cmd.Path, raw[i:min(i+6000, len(raw))])
		}
	}
	if s.t.Failed() {
		s.t.Logf("the end of the log of %s, process %d:\n%s", s.cmd.Path, s.cmd.Process.Pid, tail(s.log))
	}
}

// scheduleAll schedules in batches of at most 1,000, and fails the test unless each notice
// is created. It repeats items that were answered 503, because on a busy machine a node of
// a cluster may not answer in time.
func (s *service) scheduleAll(n int, of func(i int) string) {
	s.t.Helper()
	for i := 0; i < n; i += 1000 {
		lines := make([][]byte, 0, 1000)
		for j := i; j < min(i+1000, n); j++ {
			lines = append(lines, []byte(of(j)))
		}
		began, repeated := time.Now(), false
		for len(lines) > 0 {
			results, err := s.api.ScheduleLines(s.t.Context(), lines)
			if client.IsStatus(err, http.StatusServiceUnavailable) && time.Since(began) < waitTimeout {
				repeated = true
				continue
			}
			if err != nil {
				s.t.Fatalf("schedule: %v", err)
			}
			var again [][]byte
			for k, r := range results {
				switch {
				case r.Created || repeated && r.Status == http.StatusOK:
				case r.Status == http.StatusServiceUnavailable && time.Since(began) < waitTimeout:
					again = append(again, lines[k])
				default:
					s.t.Fatalf("schedule %s: %d %v", r.Key, r.Status, r.Problem)
				}
			}
			lines, repeated = again, true
		}
	}
}

// line is a notice for scheduleAll.
func line(key string, due time.Time) string {
	return fmt.Sprintf(`{"key":%q,"due":%q,"body":{"key":%q}}`, key, due.UTC().Format("2006-01-02T15:04:05.000Z"), key)
}

// numbers reads the service's statistics of a route.
func (s *service) numbers(name string) client.RouteNumbers {
	s.t.Helper()
	st, err := s.api.Stats(s.t.Context())
	if err != nil {
		s.t.Fatalf("stats: %v", err)
	}
	for _, r := range st.Routes {
		if r.Route == name {
			return r
		}
	}
	s.t.Fatalf("no route %s in %s", name, st.JSON)
	return client.RouteNumbers{}
}

// metric adds up the samples of /metrics whose name and labels contain all the
// given texts; the first is the name.
func (s *service) metric(name string, labels ...string) float64 {
	s.t.Helper()
	sum, err := s.tryMetric(name, labels...)
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

func (s *service) tryMetric(name string, labels ...string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), waitTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := s.plain().Do(req)
	if err != nil {
		return 0, fmt.Errorf("read the metrics: %w", err)
	}
	raw, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, fmt.Errorf("read the metrics: %w", err)
	}
	for l := range strings.Lines(string(raw)) {
		head, value, ok := strings.Cut(strings.TrimSpace(l), " ")
		if !ok || head != name && !strings.HasPrefix(head, name+"{") {
			continue
		}
		all := true
		for _, want := range labels {
			all = all && strings.Contains(head, want)
		}
		if all {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("metric %s: %w", head, err)
			}
			sum += f
		}
	}
	return sum, nil
}
