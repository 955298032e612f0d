//go:build load

package load

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/test/record"
)

var flagKills = flag.Int("load.kills", 3, "how often an instance is killed, for TestPunctuality")

const (
	// Lateness is counted separately from beforeKill before a kill, when schedule calls go to the other instance, to afterKill after it.
	beforeKill = time.Second
	afterKill  = 5 * time.Second
	// bound is the bound of the objective, in ms.
	bound = 10
)

// arrivals are the requests of one receiver: each notice's first one, and how many requests were repeated.
type arrivals struct {
	due   []atomic.Int64 // Unix µs
	first []atomic.Int64 // Unix µs of the first request, 0 = none came
	count atomic.Int64   // notices that arrived
	again atomic.Int64
}

func (a *arrivals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	at := time.Now()
	_, _ = io.Copy(io.Discard, r.Body)
	key := r.Header.Get("Notifier-Key")
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, ':')+1:])
	if err != nil || n < 0 || n >= len(a.first) {
		return
	}

	if a.first[n].CompareAndSwap(0, at.UnixMicro()) {
		a.count.Add(1)
	} else {
		a.again.Add(1)
	}
}

// attempt is a first arrival.
type attempt struct {
	due  time.Duration // since the begin
	late float64       // ms
}

// window counts attempts.
type window struct {
	late []float64 // ms, sorted
	over int       // later than bound
}

func (w *window) String() string {
	if len(w.late) == 0 {
		return "0 | | | | |"
	}
	return fmt.Sprintf("%d | %.2f | %.2f | %.2f | %.1f | %d (%.4f %%)", len(w.late), quantile(w.late, 0.5), quantile(w.late, 0.99),
		quantile(w.late, 0.9999), w.late[len(w.late)-1], w.over, 100*float64(w.over)/float64(len(w.late)))
}

// judge separates the attempts that are due around a kill from the others, and lists the seconds in which others were later than
// bound.
func judge(all []attempt, kills []time.Duration) (calm, killed window, deviations []string) {
	seconds := map[int][]float64{}
	for _, a := range all {
		w := &calm
		if slices.ContainsFunc(kills, func(at time.Duration) bool { return a.due > at-beforeKill && a.due < at+afterKill }) {
			w = &killed
		}
		w.late = append(w.late, a.late)
		if a.late > bound {
			w.over++
			if w == &calm {
				seconds[int(a.due.Seconds())] = append(seconds[int(a.due.Seconds())], a.late)
			}
		}
	}

	slices.Sort(calm.late)
	slices.Sort(killed.late)
	for second, late := range seconds {
		deviations = append(deviations, fmt.Sprintf("%6d s: %d, up to %.1f ms", second, len(late), slices.Max(late)))
	}

	slices.Sort(deviations)
	return calm, killed, deviations
}

// TestPunctuality measures the lateness of load.rate notices a second at two instances for load.minutes, of which one or the other is
// killed load.kills times and started again 30 s later. It fails if a notice is missing or early. Lateness has no bound here: the
// figures go to docs/reliability.md with RECORD=1.
func TestPunctuality(t *testing.T) {
	long := time.Duration(*flagMinutes * float64(time.Minute)).Truncate(time.Second)
	ticks := int(long / (100 * time.Millisecond))
	size := *flagRate / 10
	all := &arrivals{due: make([]atomic.Int64, ticks*size), first: make([]atomic.Int64, ticks*size)}
	receiver := httptest.NewServer(all)
	t.Cleanup(receiver.Close)
	db, program := testkit.StartRedis(t), build(t)
	env := []string{"NOTIFIER_RETENTION=1m", "NOTIFIER_ROUTES=steady", "NOTIFIER_ROUTE_STEADY_PREFIX=steady",
		"NOTIFIER_ROUTE_STEADY_TARGET=" + receiver.URL, "NOTIFIER_ROUTE_STEADY_HOST_CONCURRENCY=64"}
	both := [2]service{serve(t, program, db, env...), serve(t, program, db, env...)}
	var safe atomic.Pointer[service] // the one that is not killed next takes the schedule calls
	safe.Store(&both[0])
	begin := time.Now().Truncate(time.Second).Add(4 * time.Second)

	var wg sync.WaitGroup
	wg.Go(func() { // schedules two seconds ahead, at random whole ms
		for tick := range ticks {
			from := begin.Add(time.Duration(tick) * 100 * time.Millisecond)
			time.Sleep(time.Until(from.Add(-2 * time.Second))) // sleep: the rate
			wg.Go(func() {
				err := safe.Load().schedule("steady", tick*size, size, func(i int) time.Time {
					due := from.Add(time.Duration(rand.IntN(100)) * time.Millisecond)
					all.due[tick*size+i].Store(due.UnixMicro())
					return due
				})
				if err != nil {
					t.Errorf("schedule: %v", err)
				}
			})
		}
	})

	var kills []time.Duration
	for i := range *flagKills {
		at := begin.Add(long * time.Duration(i+1) / time.Duration(*flagKills+1))
		victim := &both[1-i%2]
		time.Sleep(time.Until(at.Add(-beforeKill))) // sleep: the time of a kill
		safe.Store(&both[i%2])
		time.Sleep(time.Until(at)) // sleep: the calls to the victim end
		victim.kill()
		kills = append(kills, time.Since(begin))
		time.Sleep(min(30*time.Second, long/time.Duration(3**flagKills+3))) // sleep: one instance alone
		*victim = serve(t, program, db, env...)
	}

	wg.Wait()
	if !testkit.Within(2*time.Minute, func() bool { return all.count.Load() == int64(len(all.first)) }) {
		t.Errorf("%d of %d notices are missing", int64(len(all.first))-all.count.Load(), len(all.first))
	}

	var list []attempt
	early := 0
	for n := range all.first {
		at, due := all.first[n].Load(), all.due[n].Load()
		if at == 0 {
			continue
		}

		list = append(list, attempt{time.UnixMicro(due).Sub(begin), float64(at-due) / 1000})
		if at < due {
			early++
		}
	}

	if early > 0 {
		t.Errorf("%d attempts were early", early)
	}

	calm, killed, deviations := judge(list, kills)
	page := fmt.Sprintf("%s, %s, %s/%s, %d processors. Two instances, %d notices a second for %s, %d kills; %d requests repeated.\n\n"+
		"| | attempts | p50 ms | p99 ms | p99.99 ms | max ms | over %d ms |\n|---|---|---|---|---|---|---|\n"+
		"| others | %s |\n| due from %s before a kill to %s after it | %s |\n\nSeconds with others over %d ms: %s\n",
		record.Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), *flagRate, long, *flagKills, all.again.Load(),
		bound, &calm, beforeKill, afterKill, &killed, bound, cmp.Or(strings.Join(deviations, "; "), "none"))
	t.Log("\n" + page)
	if os.Getenv("RECORD") != "" && !t.Failed() {
		if err := record.Write(filepath.Join("..", "..", record.Page), "punctuality", page); err != nil {
			t.Error(err)
		}
	}
}
