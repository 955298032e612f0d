package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"notifier/bench/peer"
)

// TestMain is also the process of a worker and of the bare loop: the cases start
// this program for them.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || !slices.Contains(Processes, os.Args[1]) {
		os.Exit(m.Run())
	}
	entry := func(string) (peer.Entry, error) { return counterEntry(), nil }
	if err := Process(context.Background(), os.Args[1], []byte(os.Args[2]), entry, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// counter is a minimal queue: an in-memory server that returns due jobs over HTTP.
type counter struct {
	mu      sync.Mutex
	jobs    []peer.Job
	srv     *httptest.Server
	addr    string
	stop    context.CancelFunc
	workers sync.WaitGroup
}

func counterEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{Name: "counter", Refused: "nothing"}, New: func() peer.Peer { return &counter{} }}
}

func (c *counter) Start(_ context.Context, env peer.Env) error {
	if c.addr = env.Attach; c.addr == "" {
		c.srv = httptest.NewServer(http.HandlerFunc(c.serve))
		c.addr = c.srv.URL
	}
	return nil
}

func (c *counter) serve(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, j := range c.jobs {
		if !j.Due.After(time.Now()) {
			c.jobs = append(c.jobs[:i], c.jobs[i+1:]...)
			_ = json.NewEncoder(w).Encode(j) // a worker that is gone has lost it
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (c *counter) Schedule(_ context.Context, jobs ...peer.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, jobs...)
	return nil
}

func (c *counter) Work(_ context.Context, handlers int, call peer.Call) error {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for range handlers {
		c.workers.Go(func() {
			for ctx.Err() == nil {
				j, ok := c.next()
				if !ok || call(ctx, j) != nil {
					time.Sleep(5 * time.Millisecond) // sleep: the interval of its polls
				}
			}
		})
	}
	return nil
}

func (c *counter) next() (j peer.Job, ok bool) {
	resp, err := http.Get(c.addr)
	if err != nil {
		return j, false
	}
	defer resp.Body.Close()
	return j, resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&j) == nil
}

func (c *counter) Usage(context.Context) (peer.Usage, error) {
	return peer.Usage{Commands: -1, Trips: -1}, nil
}

func (c *counter) Addr() string { return c.addr }

func (c *counter) Stop() error {
	if c.stop != nil {
		c.stop()
		c.workers.Wait()
	}
	if c.srv != nil {
		c.srv.Close()
	}
	return nil
}

func TestCallbackCasesMeasureAWorkerOfAnotherProcess(t *testing.T) {
	size := Size{Calls: 40, Lead: 200 * time.Millisecond, Window: 300 * time.Millisecond, Wait: time.Minute, DrainMax: time.Minute,
		Receivers: 12, Offered: 200, InFlight: 16}
	for _, c := range callbackCases(size) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			size := size
			v, err := Measure(t.Context(), Spec{Peer: "counter", Case: c.Name, Size: size, Dir: t.TempDir()}, counterEntry())
			for errors.Is(err, errLate) && size.Lead < time.Minute { // as long as it takes on a busy machine
				size.Lead *= 4
				v, err = Measure(t.Context(), Spec{Peer: "counter", Case: c.Name, Size: size, Dir: t.TempDir()}, counterEntry())
			}
			if err != nil {
				t.Fatal(err)
			}
			jobs := 40.0
			if c.Env.URLs {
				jobs = 4 * 60
			}
			for name, want := range map[string]float64{"jobs": jobs, "early": 0, "missing": 0, "doubled": 0} {
				if v[name] != want {
					t.Errorf("%s = %v, want %v", name, v[name], want)
				}
			}
			for _, col := range c.Columns {
				x, ok := v[col.Value]
				switch col.Value {
				case "cpu_redis", "cpu_service": // it has no server but this process
				case "cpu_own", "cpu_bare", "in_flight", "in_flight_even", "kb": // may be too little to be seen
				default:
					if !ok || x <= 0 {
						t.Errorf("%s = %v, measured: %t", col.Value, x, ok)
					}
				}
			}
		})
	}
}

func TestCallbackWithErrorStatusIsAnError(t *testing.T) {
	for status, good := range map[int]bool{200: true, 204: true, 302: false, 404: false, 500: false} {
		r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		err := post(t.Context(), newClient(1, time.Minute), r.URL, peer.Job{ID: peer.ID(1), Body: peer.Body(1)})
		if (err == nil) != good {
			t.Errorf("%d: error %v", status, err)
		}
		r.Close()
	}
}

func TestSlowReceiversAnswerFastUntilSwitched(t *testing.T) {
	takes, fast := rising(200)
	b := &Bench{ends: new([]func() error)}
	rs := startReceivers(b, takes, fast, func(string) {})
	t.Cleanup(func() {
		for _, end := range *b.ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	if rs.fast != 20 || rs.time(0) != fastestReceiver || rs.time(199) > fastReceiver {
		t.Errorf("%d are fast; none slow: %s to %s", rs.fast, rs.time(0), rs.time(199))
	}
	rs.slow.Store(true)
	if rs.time(0) != fastestReceiver || rs.time(199) != slowestReceiver || rs.time(19) > fastReceiver || rs.time(20) <= fastReceiver {
		t.Errorf("%s, %s, %s to %s", rs.time(0), rs.time(19), rs.time(20), rs.time(199))
	}
}

func TestCompare(t *testing.T) {
	one := func(p99 float64) Values {
		return Values{"jobs": 10, "early": 0, "missing": 1, "doubled": 0, "fast_p50_ms": 1, "fast_p99_ms": p99, "in_flight": 4}
	}
	v := compare(Values{"jobs": 5}, one(6), one(3), one(5))
	for name, want := range map[string]float64{"jobs": 35, "missing": 3, "fast_p99_even_ms": 4, "p99_ratio": 1.5, "in_flight_even": 4} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	if v := compare(Values{}, one(-6), one(3), one(5)); v["p99_ratio"] != 0 {
		t.Error("a ratio in spite of early jobs")
	}
}

func TestPhaseKeepsItsLateJobs(t *testing.T) {
	p := newPhases(10, 2)
	p.handle(peer.ID(3)) // before there is a recorder
	first, second := NewRecorder([]time.Time{at(0)}), NewRecorder([]time.Time{at(0), at(0)})
	p.recorders[0].Store(first)
	p.recorders[1].Store(second)
	for _, n := range []int{0, 11, 99} {
		p.handle(peer.ID(n))
	}
	if first.handled.Load() != 1 || second.handled.Load() != 1 || first.strays.Load() != 1 || second.strays.Load() != 0 {
		t.Errorf("%d and %d handled, %d and %d strays", first.handled.Load(), second.handled.Load(), first.strays.Load(), second.strays.Load())
	}
}
