package harness

import (
	"context"
	"math"
	"testing"
	"time"

	"notifier/bench/peer"
)

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }

func TestRecorderCountsEarlyMissingAndDoubled(t *testing.T) {
	r := NewRecorder([]time.Time{at(0), at(10), at(20), at(30)})
	r.handleAt(peer.ID(0), at(3))         // 3 ms late
	r.handleAt(peer.ID(1), at(9))         // early
	r.handleAt(peer.ID(2), at(25))        // 5 ms late …
	r.handleAt(peer.ID(2), at(26))        // … and again
	r.handleAt(peer.ID(fillFrom), at(26)) // a job that was not due for a day
	r.handleAt("foreign", at(26))         // an unknown id
	v := Values{}                         // job 3 is missing
	r.Counts(v)
	for name, want := range map[string]float64{"jobs": 4, "early": 3, "missing": 1, "doubled": 1} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	r.Lateness(v)
	for name, want := range map[string]float64{"mean_ms": 7.0 / 3, "p50_ms": 3, "p99_ms": 5, "max_ms": 5} {
		if math.Abs(v[name]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	if rate, err := r.Rate(at(-975)); err != nil || math.Abs(rate-3) > 1e-9 {
		t.Errorf("rate %v, %v; want 3 jobs in the second until the last", rate, err)
	}
}

func TestRecorderWaitsForAll(t *testing.T) {
	r := NewRecorder([]time.Time{at(0), at(0)})
	r.handleAt(peer.ID(0), at(1))
	if err := r.Wait(context.Background(), time.Now()); err != nil {
		t.Errorf("a deadline is no error: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Wait(ctx, time.Now().Add(time.Hour)); err == nil {
		t.Error("a cancelled wait returned no error")
	}
	r.handleAt(peer.ID(1), at(1))
	if err := r.Wait(context.Background(), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestRateOfNothing(t *testing.T) {
	r := NewRecorder([]time.Time{at(10)})
	if _, err := r.Rate(at(0)); err == nil {
		t.Error("no job was handled, and there is a rate")
	}
	r.handleAt(peer.ID(0), at(5))
	if _, err := r.Rate(at(10)); err == nil {
		t.Error("all were early, and there is a rate")
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{nil, 0.5, 0}, {[]float64{7}, 0.99, 7}, {[]float64{1, 2}, 0.5, 1}, {hundred, 0.99, 99}, {hundred, 0.5, 50}, {hundred, 1, 100},
		{hundred, 0, 1},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%d values, %v) = %v, want %v", len(c.values), c.q, got, c.want)
		}
	}
}

func TestCrashLogCountsFinishedJobs(t *testing.T) {
	l := newCrashLog([]time.Time{at(0), at(0), at(50), at(50)})
	start := func(n, worker, ms int) { l.start(n, worker, at(ms)) }
	done := func(n, worker, ms int) { l.finish(n, worker, at(ms)) }
	start(0, 1, 1)
	done(0, 1, 20)
	start(1, 1, 1)
	done(1, 1, 21)
	start(2, 0, 40) // early; the worker is killed
	<-l.half
	l.kill(func() {})
	done(2, 0, 61) // no more
	start(2, 1, 100)
	done(2, 1, 120)
	done(2, 1, 121) // again
	v := l.values(at(60))
	for name, want := range map[string]float64{"jobs": 4, "early": 1, "missing": 1, "doubled": 1, "running": 1, "lost": 1, "again": 1,
		"lost_percent": 25, "again_percent": 25} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	if got := v["recovery_s"]; math.Abs(got-0.06) > 1e-9 {
		t.Errorf("recovery_s = %v, want 0.06: from the kill to the end of the job that ran in the killed worker", got)
	}
}

func TestPaceBeginsWithTheFirst(t *testing.T) {
	r := NewRecorder([]time.Time{at(0), at(0), at(0)})
	r.handleAt(peer.ID(1), at(1500))
	if _, ok := r.Pace(); ok {
		t.Error("one job has no pace")
	}
	r.handleAt(peer.ID(0), at(1000))
	r.handleAt(peer.ID(2), at(2000))
	if pace, ok := r.Pace(); !ok || math.Abs(pace-2) > 1e-9 {
		t.Errorf("%v, %t; want 2 jobs in the second after the first", pace, ok)
	}
	if late := r.late(func(n int) bool { return n != 1 }); len(late) != 2 || late[0] != 1000 || late[1] != 2000 {
		t.Errorf("%v", late)
	}
}
