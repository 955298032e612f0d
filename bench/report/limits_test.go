package report

import (
	"strings"
	"testing"

	"notifier/bench/harness"
)

func TestGoalsNameWhatLimitsThem(t *testing.T) {
	res := sample0(inProcess)
	res.Machine.Cores = 2
	res.Fixed = []harness.Fixed{{Set: 50_000, HTTP: 40_000, Wake10: harness.Wake{Mean: 1.25, P99: 2.5},
		Wake1000: harness.Wake{Mean: 0.5, P99: 1.5, CPU: 40}}}
	res.Size.Offered, res.Size.Receivers = 10_000, 200
	add := func(peer, cas string, v harness.Values) {
		res.Cells = append(res.Cells, harness.Cell{Peer: peer, Case: cas, Values: v})
	}
	spent := harness.Values{"cpu_own": 60, "cpu_servers": 140, "fast_p99_ms": 9, "p99_ratio": 1, "p99_ms": 8, "percent": 80, "rate": 5000}
	for _, cas := range []string{"schedule", "schedule-batch", "drain-log", "callbacks-fleet", "callbacks-hosts", "callbacks-5ms"} {
		add(overHTTP, cas, spent)
	}
	add(inProcess, "drain", harness.Values{"cpu_servers": 16, "rate": 50_000})
	add(inProcess, "steady", harness.Values{"cpu_servers_100": 400, "commands_100": 18, "p99_ms_100": 1.5})
	for cas, p99 := range map[string]float64{"late-10": 3, "late-1000": 2, "growth-1000000": 2} {
		add(inProcess, cas, harness.Values{"mean_ms": 1, "p99_ms": p99})
	}
	add("asynq", "steady", harness.Values{"cpu_servers_100": 200, "p99_ms_100": 4900})
	add(overHTTP, "callbacks", harness.Values{"percent": 60, "cpu_bare": 40, "cpu_redis": 10, "cpu_own": 20,
		"cpu_servers": 30, "pace": 30_000})
	add("nats", "callbacks", harness.Values{"pace": 32_000})
	add(overHTTP, "program", harness.Values{"build_s": 80, "mb": 35, "idle_mb": 33, "idle_own_mb": 7.5,
		harness.MBOf + "a": 1, harness.MBOf + "b": 9, harness.SecondsOf + "b": 70, harness.SecondsOf + "c": 30})

	want := map[string]string{
		"drain":                     "Redis takes 16.0 µs a job: ≤ 62,500/s",
		"drain: Redis CPU a notice": "a plain SET of the fixed workload takes 20.0 µs here",
		"schedule over HTTP, single: client, service and Redis": "an empty POST of the fixed workload takes 50 µs of the cores here",
		"schedule over HTTP, batches of 500":                    "take 200.0 µs a job of 2 cores: ≤ 10,000/s",
		"lateness at 10/s, mean":                                "a timer and two PINGs, once in 100 ms of the fixed workload, take 1.25 ms here",
		"lateness at 10/s, p99":                                 "take 2.50 ms here",
		"lateness at 1,000/s, mean":                             "once in 1 ms of the fixed workload, take 0.50 ms here",
		"lateness at 1,000/s, p99":                              "take 1.50 ms here",
		"the same among 1,000,000, p99":                         "take 1.50 ms here",
		"a steady 100/s: Redis CPU a notice beside asynq": "18 commands a job, p99 1.50 ms late; asynq: p99 4,900 ms; " +
			"one of two PINGs a ms takes 40 µs of Redis here",
		"200 receivers, some slow: lateness p99 at fast ones": "at 10,000/s they are 100 % busy",
		"400 receivers of 100 ms, 20/s each: lateness p99":    "at 8,000/s they are 80 % busy",
		"the same to a receiver that takes 5 ms":              "at 5,000/s they are 50 % busy",
		"HTTP callbacks, % of a bare client loop":             "the bare loop takes 40 µs a call of the cores and Redis 10 more: ≤ 80 %",
		"HTTP callbacks beside NATS in memory":                "take 50 µs a call of 2 cores: ≤ 40,000/s, and at 30,000/s they are 75 % busy",
		"first go build ./cmd/notifier, modules downloaded":   "seconds of compiling, two packages at once: b 70, c 30",
		"stripped program":       "MB of it: b 9, a 1",
		"idle memory, one route": "7.50 MB are the program's own; the rest are pages of its file",
	}
	for _, r := range goalTable(res).rows {
		if w, ok := want[r[0]]; ok {
			delete(want, r[0])
			if !strings.Contains(r[4], w) {
				t.Errorf("%s: %q does not say %q", r[0], r[4], w)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no goal %q", want)
	}
}
