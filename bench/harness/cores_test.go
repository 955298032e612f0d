package harness

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"notifier/bench/peer"
)

// waiter is a counter whose goroutines wait for locks a tenth of a second for each run.
type waiter struct {
	counter
	started func(cores int)
	waited  time.Duration
}

func (w *waiter) Start(ctx context.Context, env peer.Env) error {
	w.started(env.Cores)
	return w.counter.Start(ctx, env)
}

func (w *waiter) LockWait(context.Context) (time.Duration, error) {
	w.waited += 100 * time.Millisecond
	return w.waited, nil
}

func TestCoreCountsAreSymmetric(t *testing.T) {
	var mu sync.Mutex
	var cores []int
	e := peer.Entry{Info: peer.Info{Name: "waiter"}, New: func() peer.Peer {
		return &waiter{started: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			cores = append(cores, n)
		}}
	}}
	v, err := Measure(t.Context(), Spec{Peer: "waiter", Case: "cores", Size: Size{Calls: 40, Lead: 2 * time.Second, DrainMax: time.Minute},
		Dir: t.TempDir()}, e)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cores, []int{0, 1, 2, 2, 1}) { // the first is the one that every case begins with
		t.Errorf("GOMAXPROCS was %v", cores)
	}
	for name, want := range map[string]float64{"jobs": 160, "early": 0, "missing": 0, "doubled": 0} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	for _, name := range []string{"rate_1", "rate_2", "locks_1", "locks_2"} {
		if v[name] <= 0 {
			t.Errorf("%s = %v", name, v[name])
		}
	}
}

func TestProjectedCores(t *testing.T) {
	for _, x := range []struct {
		what        string
		one, two    float64 // µs of the service, by its processors
		redis       float64
		four, eight float64 // calls a second
	}{
		{"Redis has room", 40, 40, 1, 100_000, 200_000},
		{"Redis does not do more", 40, 40, 8, 100_000, 125_000},
		{"each doubling costs a quarter more", 40, 50, 1, 64_000, 102_400},
		{"two cost less than one, as they were measured", 50, 40, 1, 100_000, 200_000},
	} {
		v := Values{"cpu_service_1": x.one, "cpu_service_2": x.two, "cpu_redis_2": x.redis}
		if four, eight := projected(v, 4), projected(v, 8); math.Abs(four-x.four) > 1 || math.Abs(eight-x.eight) > 1 {
			t.Errorf("%s: %v and %v, want %v and %v", x.what, four, eight, x.four, x.eight)
		}
	}
}
