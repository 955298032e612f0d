//go:build load

package load

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/test/record"
)

var (
	flagPending = flag.Int("load.pending", 1_000_000, "notices that are due in a day")
	flagRate    = flag.Int("load.rate", 3000, "notices due a second")
	flagMinutes = flag.Float64("load.minutes", 10, "how long")
)

// log is the receiver's.
type log struct {
	mu       sync.Mutex
	times    map[string]int // arrivals by key
	late     []float64      // of the running second, in ms
	backlog  map[string]int // promised less arrived, by route
	busyLate []float64      // of the calm route while the other is overloaded
}

func (l *log) handler(route string, takes time.Duration) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		at := time.Now()
		due, _ := time.Parse(time.RFC3339, r.Header.Get("Notifier-Due"))
		late := float64(at.Sub(due).Microseconds()) / 1000
		_, _ = io.Copy(io.Discard, r.Body)
		l.mu.Lock()
		l.times[r.Header.Get("Notifier-Key")]++
		l.backlog[route]--
		if route == "steady" {
			l.late, l.busyLate = append(l.late, late), append(l.busyLate, late)
		}
		l.mu.Unlock()
		if takes > 0 {
			time.Sleep(takes) // sleep: a receiver that needs its time
		}
	}
}

func (l *log) left(route string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog[route]
}

// quantile returns a quantile of sorted values, or 0 without values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

type bench struct {
	t   testing.TB
	log *log
	service
	db *testkit.Redis
}

func (b *bench) start() {
	t := b.t
	steady := httptest.NewServer(b.log.handler("steady", 0))
	t.Cleanup(steady.Close)
	narrow := httptest.NewServer(b.log.handler("narrow", 20*time.Millisecond))
	t.Cleanup(narrow.Close)
	b.db = testkit.StartRedis(t)
	b.service = serve(t, build(t), b.db, "NOTIFIER_RETENTION=1m", "NOTIFIER_ROUTES=steady,narrow,far", "NOTIFIER_ROUTE_FAR_PREFIX=far",
		"NOTIFIER_ROUTE_FAR_TARGET=log",
		"NOTIFIER_ROUTE_STEADY_PREFIX=steady", "NOTIFIER_ROUTE_STEADY_TARGET="+steady.URL, "NOTIFIER_ROUTE_STEADY_HOST_CONCURRENCY=64",
		"NOTIFIER_ROUTE_NARROW_PREFIX=narrow", "NOTIFIER_ROUTE_NARROW_TARGET="+narrow.URL, "NOTIFIER_ROUTE_NARROW_HOST_CONCURRENCY=16")
}

// batch schedules notices of a route.
func (b *bench) batch(route string, first, n int, due func(i int) time.Time) error {
	if err := b.schedule(route, first, n, due); err != nil {
		return err
	}
	if route != "far" {
		b.log.mu.Lock()
		b.log.backlog[route] += n
		b.log.mu.Unlock()
	}
	return nil
}

// feed schedules a route's notices for so long, a tenth of a second at a time, two
// seconds ahead.
func (b *bench) feed(route string, first, rate int, long time.Duration) (n int) {
	from := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	for tick := 0; time.Duration(tick)*100*time.Millisecond < long; tick++ {
		begin := from.Add(time.Duration(tick) * 100 * time.Millisecond)
		time.Sleep(time.Until(begin)) // sleep: the rate
		size, at := rate/10, begin.Add(2*time.Second)
		start := first + n
		n += size
		wg.Go(func() {
			if err := b.batch(route, start, size,
				func(i int) time.Time { return at.Add(time.Duration(i) * 100 * time.Millisecond / time.Duration(size)) }); err != nil {
				b.t.Errorf("schedule: %v", err)
			}
		})
	}
	return n
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// sample is one second.
type sample struct{ p50, p99, rss, goroutines, fds, redis float64 }

func (b *bench) sample() (s sample) {
	b.log.mu.Lock()
	late := b.log.late
	b.log.late = nil
	b.log.mu.Unlock()
	slices.Sort(late)
	s.p50, s.p99 = quantile(late, 0.5), quantile(late, 0.99)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		s.rss = kb / 1024
	}
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.pid))
	s.fds = float64(len(list))
	if res, err := http.Get(b.url + "/metrics"); err == nil {
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if m := goroutines.FindSubmatch(text); m != nil {
			s.goroutines, _ = strconv.ParseFloat(string(m[1]), 64)
		}
	}
	info, _ := b.db.Client().InfoMap(context.Background(), "memory").Result()
	used, _ := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	s.redis = used / (1 << 20)
	return s
}

func column(list []sample, of func(sample) float64) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = of(s)
	}
	return out
}

func TestLoad(t *testing.T) {
	b := &bench{t: t, log: &log{times: map[string]int{}, backlog: map[string]int{}}}
	b.start()
	from := time.Now()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for first := range next {
				if err := b.batch("far", first, 1000, func(int) time.Time { return from.Add(24 * time.Hour) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := 0; i < *flagPending; i += 1000 {
		next <- i
	}
	close(next)
	wg.Wait()
	filled := time.Since(from)

	long := time.Duration(*flagMinutes * float64(time.Minute))
	fed := make(chan int, 1)
	go func() { fed <- b.feed("steady", 0, *flagRate, long) }()
	var samples []sample
	for end := time.Now().Add(long + 3*time.Second); time.Now().Before(end); {
		time.Sleep(time.Second) // sleep: a point a second
		samples = append(samples, b.sample())
	}
	sent := <-fed
	b.drained("steady", time.Minute)
	samples = samples[min(3, len(samples)):max(4, len(samples)-2)] // the first are due after two seconds

	// Three times what fits: 16 calls of 20 ms at a time are 800 a second.
	const fits, calm = 800, 200
	overload := min(30*time.Second, long/4)
	b.log.mu.Lock()
	b.log.busyLate = nil
	b.log.mu.Unlock()
	var both sync.WaitGroup
	extra := 0
	both.Go(func() { extra = b.feed("steady", sent, calm, overload+10*time.Second) })
	narrow := b.feed("narrow", 0, 3*fits, overload)
	most := b.log.left("narrow")
	over := time.Now()
	b.drained("narrow", 20*time.Minute)
	recovered := time.Since(over)
	both.Wait()
	b.drained("steady", time.Minute)

	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	missing, twice := 0, 0
	for _, r := range []struct {
		name string
		n    int
	}{{"steady", sent + extra}, {"narrow", narrow}} {
		for i := range r.n {
			switch n := b.log.times[fmt.Sprintf("%s:a:b:%d", r.name, i)]; {
			case n == 0:
				missing++
			case n > 1:
				twice++
			}
		}
	}
	if missing > 0 || twice > 0 {
		t.Errorf("%d missing, %d twice", missing, twice)
	}
	slices.Sort(b.log.busyLate)
	p50, p99 := column(samples, func(s sample) float64 { return s.p50 }), column(samples, func(s sample) float64 { return s.p99 })
	mid := func(v []float64) float64 { w := slices.Clone(v); slices.Sort(w); return quantile(w, 0.5) }
	ends := func(of func(sample) float64) string {
		v := column(samples, of)
		k := max(1, len(v)/10)
		return fmt.Sprintf("%.0f → %.0f", mid(v[:k]), mid(v[len(v)-k:]))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	text := fmt.Sprintf("%s, %s/%s, %d processors, load average at the end %s. %d pending, filled in %s (%.0f a second); %d due a second "+
		"for %s.\n\n"+
		"| | |\n|---|---|\n| due, missing, twice | %d, %d, %d |\n| late, median of the seconds: p50, p99 | %.2f ms, %.2f ms |\n| worst second: "+
		"p99 | %.1f ms |\n"+
		"| resident memory, first and last tenth | %s MiB |\n| goroutines | %s |\n| descriptors | %s |\n| Redis's memory | %s MiB |\n"+
		"| overload: %d/s for %s where %d/s fit, most waiting | %d |\n| until nothing waited, after its end (%d waiting at %d/s are %s) | %s "+
		"|\n| late on the other route at %d/s: p50, p99 | %.2f ms, %.2f ms |\n\n"+
		"![lateness](load/lateness.svg)\n![memory](load/memory.svg)\n![goroutines](load/goroutines.svg)\n![descriptors](load/descriptors.svg)\n"+
		"![Redis's memory](load/redis.svg)\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:1], ""), *flagPending,
		filled.Round(time.Second), float64(*flagPending)/filled.Seconds(),
		*flagRate, long, sent+extra+narrow, missing, twice, mid(p50), mid(p99), slices.Max(p99),
		ends(func(s sample) float64 { return s.rss }), ends(func(s sample) float64 { return s.goroutines }),
		ends(func(s sample) float64 { return s.fds }), ends(func(s sample) float64 { return s.redis }),
		3*fits, overload, fits, most, most, fits, time.Duration(float64(most)/fits*float64(time.Second)).Round(time.Second),
		recovered.Round(100*time.Millisecond), calm,
		quantile(b.log.busyLate, 0.5), quantile(b.log.busyLate, 0.99))
	t.Log("\n" + text)
	if os.Getenv("RECORD") == "" || t.Failed() {
		return
	}
	const blue, red = "#1f6feb", "#d1242f"
	for name, svg := range map[string]string{
		"lateness": chart("Lateness at the receiver, each second", " ms", series{"p50", blue, p50}, series{"p99", red, p99}),
		"memory": chart("Resident memory of the service", " MiB",
			series{"", blue, column(samples, func(s sample) float64 { return s.rss })}),
		"goroutines":  chart("Goroutines of the service", "", series{"", blue, column(samples, func(s sample) float64 { return s.goroutines })}),
		"descriptors": chart("Open descriptors of the service", "", series{"", blue, column(samples, func(s sample) float64 { return s.fds })}),
		"redis":       chart("Redis's used memory", " MiB", series{"", blue, column(samples, func(s sample) float64 { return s.redis })}),
	} {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "load", name+".svg"), []byte(svg), 0o644); err != nil {
			t.Error(err)
		}
	}
	if err := record.Write(filepath.Join("..", "..", record.Page), "load", text); err != nil {
		t.Error(err)
	}
}

// drained waits until a route has nothing left.
func (b *bench) drained(route string, within time.Duration) {
	b.t.Helper()
	if !testkit.Within(within, func() bool { return b.log.left(route) == 0 }) {
		b.t.Errorf("%d of %s are left after %s", b.log.left(route), route, within)
	}
}
