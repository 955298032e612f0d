//go:build fault

package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/test/record"
)

// signedInAs signs in to the pages and is the cookie.
func (s *service) signedInAs(token string) *http.Cookie {
	s.t.Helper()
	web := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := web.PostForm(s.url+"/ui/sign-in", url.Values{"token": {token}})
	if err != nil {
		s.t.Fatal(err)
	}
	_ = res.Body.Close()
	if len(res.Cookies()) != 1 {
		s.t.Fatalf("signing in: %s", res.Status)
	}
	return res.Cookies()[0]
}

// dashboards opens n streams of the first page, every second one in Chinese, and waits
// until each has received an update. The function that it returns closes the streams.
func (s *service) dashboards(n int, cookie *http.Cookie) (leave func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	web := &http.Client{Transport: &http.Transport{}}
	var open, got sync.WaitGroup
	for i := range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui/live/now", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		req.AddCookie(cookie)
		if i%2 == 1 {
			req.Header.Set("Accept-Language", "zh-CN")
		}
		got.Add(1)
		open.Go(func() {
			first := sync.OnceFunc(got.Done)
			defer first()
			res, err := web.Do(req)
			if err != nil || res.StatusCode != http.StatusOK {
				s.t.Errorf("a dashboard: %v", err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data: ") {
					first()
				}
			}
			if ctx.Err() == nil {
				s.t.Error("a dashboard's stream has ended by itself")
			}
		})
	}
	got.Wait()
	return func() {
		cancel()
		open.Wait()
		web.CloseIdleConnections()
	}
}

// cost is the load of a time span: Redis commands and processor cores of the service.
type cost struct{ commands, cores float64 }

func (s *service) costOf(db *testkit.Redis, span func()) cost {
	c, p, began := commands(s.t, db), s.ticks(), time.Now()
	span()
	took := time.Since(began).Seconds()
	return cost{float64(commands(s.t, db)-c) / took, (s.ticks() - p).Seconds() / took}
}

// Fifty dashboards with a session cost Redis no more than one sampler, the service a few
// hundredths of a core, and concurrent deliveries no lateness. Windows with and without
// dashboards alternate, first without load, then with load, so that other work of the
// machine affects both alike. The goals are 20 commands a second, 5 % of a core and 1.1
// times the lateness. The bounds of the last two leave room for a busy machine.
func TestFiftyDashboardsDelayNothing(t *testing.T) {
	const n, turns, rate, each = 50, 4, 200, 8
	const window = each * time.Second
	rec := listen(t, nil)
	db := testkit.StartRedis(t)
	envs := [][]string{route("pay", "load:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64"),
		{"NOTIFIER_CLIENTS=ops", "NOTIFIER_CLIENT_OPS_TOKEN=token-of-the-operators-0123456789", "NOTIFIER_CLIENT_OPS_ROLE=admin"}}
	for i := range 6 {
		envs = append(envs, route(fmt.Sprintf("r%d", i), fmt.Sprintf("app%d", i), "log"))
	}
	s := launch(t, db.URL(), envs...)
	s.api = s.as("token-of-the-operators-0123456789")
	due := time.Now().Add(time.Hour)
	s.scheduleAll(30_000, func(i int) string {
		return line(fmt.Sprintf("app%d:a:b:%d", i%6, i), due.Add(time.Duration(i)*50*time.Millisecond))
	})
	cookie := s.signedInAs("token-of-the-operators-0123456789")
	// in measures one window, with dashboards or without.
	in := func(with bool, span func()) cost {
		if with {
			defer s.dashboards(n, cookie)()
		}
		return s.costOf(db, span)
	}
	var commandsMore, coresMore, idle, withAll []float64
	for range turns {
		wait := func() { time.Sleep(2 * window) } // sleep: the span that is measured
		without, with := in(false, wait), in(true, wait)
		t.Logf("without load: %.1f commands a second and %.3f of a core; with %d dashboards %.1f and %.3f", without.commands, without.cores, n,
			with.commands, with.cores)
		commandsMore, coresMore = append(commandsMore, with.commands-without.commands), append(coresMore, with.cores-without.cores)
		idle, withAll = append(idle, without.commands), append(withAll, with.commands)
	}
	var p50s, p99s, coresLoad []float64
	var all [2][]time.Duration
	for turn := range 4 * turns {
		var late [2]spread
		var cores [2]float64
		for k := range 2 {
			with := (k + turn) % 2 // which is first changes from turn to turn
			name := fmt.Sprintf("load:pay:t%d-%d", turn, with)
			cores[with] = in(with == 1, func() {
				from := time.Now().Add(time.Second)
				s.scheduleAll(rate*each, func(i int) string {
					return line(fmt.Sprintf("%s:%d", name, i), from.Add(time.Duration(i)*time.Second/rate))
				})
				_, before := rec.count()
				rec.wait(waitTimeout+window, before/(rate*each)*rate*each+rate*each)
			}).cores
			late[with] = rec.lateness(name)
			for _, h := range rec.all() {
				if strings.HasPrefix(h.key, name+":") {
					all[with] = append(all[with], h.late())
				}
			}
		}
		t.Logf("late at %d/s: without %s; with %s", rate, late[0], late[1])
		p50s, p99s = append(p50s, float64(late[1].p50)/float64(late[0].p50)), append(p99s, float64(late[1].p99)/float64(late[0].p99))
		coresLoad = append(coresLoad, cores[1]-cores[0])
	}
	without, with := spreadOf(all[0]), spreadOf(all[1])
	text := fmt.Sprintf("%s%d dashboards of the first page, half of them in Chinese, signed in to, of 7 routes with 30,000 notices pending; "+
		"%d pairs of windows of %s without load, %d of %s at %d due a second. "+
		"The figures are medians of the pairs.\n\n"+
		"| | goal | measured |\n|---|---|---|\n"+
		"| Redis commands a second that they cost in all (idle %.1f, with them %.1f) | ≤ 20 | %.1f |\n"+
		"| share of a core that they cost in all, without load; with it | ≤ 5 %% | %.1f %%; %.1f %% |\n"+
		"| lateness at the receiver with them, over that without: p50 (%.2f ms over %.2f), p99 (%.2f ms over %.2f) | ≤ 1.1 | %.2f, %.2f |\n",
		machine(t, db), n, turns, 2*window, 4*turns, window, rate, middle(idle), middle(withAll), middle(commandsMore), 100*middle(coresMore),
		100*middle(coresLoad),
		ms(with.p50), ms(without.p50), ms(with.p99), ms(without.p99), middle(p50s), middle(p99s))
	t.Log("\n" + text)
	if more := middle(commandsMore); more > 20 {
		t.Errorf("%d dashboards cost %.1f commands a second, at most 20 are meant", n, more)
	}
	if more := middle(coresMore); more > 0.15 {
		t.Errorf("%d dashboards cost %.3f of a core, 0.05 is meant", n, more)
	}
	if ratio := middle(p50s); ratio > 1.3 {
		t.Errorf("the median lateness beside %d dashboards is %.2f times that without, 1.1 is meant", n, ratio)
	}
	keepRecord(t, "dashboards", text)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// machine describes the machine and the versions of a run, for the head of a record.
func machine(t *testing.T, db *testkit.Redis) string {
	info, err := db.Client().Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	load, _ := os.ReadFile("/proc/loadavg")
	// As the kernel says it: 20 less the nice value, which is not 0 where a run was to
	// be disturbed less by what shares the machine.
	nice := ""
	if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil && p != 20 {
		nice = fmt.Sprintf(", all at nice %d", 20-p)
	}
	return fmt.Sprintf("%s, %s, Redis %s, %s/%s, %d processors, load average %s%s. ", time.Now().UTC().Format(time.DateOnly),
		runtime.Version(),
		strings.TrimSpace(version[:strings.IndexByte(version, '\n')]), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		strings.Fields(string(load))[0], nice)
}

// keepRecord writes the result of a run to docs/records/dashboards.txt if RECORD is set.
func keepRecord(t *testing.T, name, text string) {
	if os.Getenv("RECORD") == "" || t.Failed() {
		return
	}
	if err := record.Write(filepath.Join("..", "..", "docs", "records", "dashboards.txt"), name, text); err != nil {
		t.Error(err)
	}
}
