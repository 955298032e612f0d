package report

import (
	"fmt"

	"notifier/bench/harness"
)

// goal is a figure that the service sets itself. reached gets the figure.
type goal struct {
	what, want string
	figure     func(res *harness.Result) (value float64, text string, ok bool)
	reached    func(value float64) bool
	// limit says how far this machine lets anyone come; nil = it is not near.
	limit limit
}

// Names of the peers that the goals speak of.
const (
	inProcess = "notifier"
	overHTTP  = "notifier-http"
)

func ms(v float64) string { return Number(v) + " ms" }

func times(v float64) string { return Number(v) + " ×" }

func micros(v float64) string { return Number(v) + " µs" }

func seconds(v float64) string { return Number(v) + " s" }

func megabytes(v float64) string { return Number(v) + " MB" }

func rate(v float64) string { return Number(v) + "/s" }

// one is a goal on one median.
func one(what, want, peer, cas, value string, spell func(float64) string, reached func(float64) bool) goal {
	return goal{what, want, func(res *harness.Result) (float64, string, bool) {
		s := cellStat(res, peer, cas, value)
		return s.Median, spell(s.Median), s.N > 0
	}, reached, nil}
}

// spent is what all processes take of the cores for one call over HTTP, in µs, and how many
// calls a second that leaves at most; 0 where it was not measured.
func spent(res *harness.Result, cas string) (sum, most float64) {
	own, servers := stat(res, overHTTP, cas, "cpu_own"), stat(res, overHTTP, cas, "cpu_servers")
	if sum = own.Median + servers.Median; sum > 0 && own.N > 0 && servers.N > 0 {
		return sum, 1e6 * float64(res.Machine.Cores) / sum
	}

	return 0, 0
}

// figure is a value of a case and a peer, which other peers have, too.
type figure struct {
	peer, cas, value string
	others           []string
}

// against is a goal on a median divided by that of another peer: the largest, or the least if that is wanted.
func against(what, want string, f figure, wantLeast bool, reached func(float64) bool) goal {
	return goal{what, want, func(res *harness.Result) (float64, string, bool) {
		ours, theirs, who := stat(res, f.peer, f.cas, f.value).Median, 0.0, ""
		for _, o := range f.others {
			if m := stat(res, o, f.cas, f.value).Median; m > 0 && (who == "" || (m < theirs) == wantLeast) {
				theirs, who = m, o
			}
		}

		if ours == 0 || who == "" {
			return 0, "", false
		}

		text := fmt.Sprintf("%.2f × %s (%s)", ours/theirs, who, rate(theirs))
		switch {
		case wantLeast:
			text = fmt.Sprintf("%.2f × %s (%s and %s µs)", ours/theirs, who, Number(ours), Number(theirs))
		case f.value == "rate":
			text = fmt.Sprintf("%.1f × %s (%s)", ours/theirs, who, rate(theirs))
		}

		return ours / theirs, text, true
	}, reached, nil}
}

// ratio is a goal on a rate beside another peer's best.
func ratio(what, want, cas string, factor float64, others ...string) goal {
	return against(what, want, figure{inProcess, cas, "rate", others}, false, least(factor))
}

// atMost is a goal on the processor time of the servers at a steady rate, which is to be no more than another peer's least.
func atMost(what, rate string, factor float64, others ...string) goal {
	return against(what, "≤ "+times(factor), figure{inProcess, "steady", "cpu_servers_" + rate, others}, true, most(factor))
}

// beside is a goal on the pace of the callbacks case, over HTTP, beside another
// peer's best.
func beside(what string, factor float64, others ...string) goal {
	return against(what, "≥ "+times(factor), figure{overHTTP, "callbacks", "pace", others}, false, least(factor))
}

// binaryBesideProcess is a goal on the drain of the built binary, whose handler only logs, beside the
// drain in this process.
func binaryBesideProcess(factor float64) goal {
	what := "drain by the built binary at target log beside package worker"
	return goal{what, "≥ " + times(factor), func(res *harness.Result) (float64, string, bool) {
		binary, own := stat(res, overHTTP, "drain-log", "rate"), stat(res, inProcess, "drain", "rate")
		if binary.N == 0 || own.N == 0 || own.Median == 0 {
			return 0, "", false
		}

		r := binary.Median / own.Median
		return r, fmt.Sprintf("%s (%s)", times(r), rate(binary.Median)), true
	}, least(factor), nil}
}

// processors is a goal on the processor time, in µs, that all processes take for one call over HTTP.
func processors(what, cas string, limit float64) goal {
	return goal{what, "≤ " + micros(limit), func(res *harness.Result) (float64, string, bool) {
		sum, most := spent(res, cas)
		return sum, fmt.Sprintf("%s: ≤ %s of %d cores", micros(sum), rate(most), res.Machine.Cores), sum > 0
	}, most(limit), nil}
}

// near adds a limit to a goal.
func (g goal) near(limit limit) goal {
	g.limit = limit
	return g
}

func wakeMean10(f harness.Fixed) float64   { return f.Wake10.Mean }
func wakeP9910(f harness.Fixed) float64    { return f.Wake10.P99 }
func wakeMean1000(f harness.Fixed) float64 { return f.Wake1000.Mean }
func wakeP991000(f harness.Fixed) float64  { return f.Wake1000.P99 }

func least(n float64) func(float64) bool { return func(v float64) bool { return v >= n } }

func most(n float64) func(float64) bool { return func(v float64) bool { return v <= n } }

func goals() []goal {
	return []goal{
		{"early, missing, doubled, but where a worker is killed", "0, 0, 0", func(res *harness.Result) (sum float64, text string, ok bool) {
			for _, peer := range []string{inProcess, overHTTP} {
				f := sumFaults(res, peer)
				sum, ok = sum+f[0]+f[1]+f[2], ok || f[3] > 0
			}
			return sum, allFaults(res, inProcess) + "; over HTTP " + allFaults(res, overHTTP), ok
		}, most(0), nil},
		one("lateness at 10/s, mean", "≤ 1.0 ms", inProcess, "late-10", "mean_ms", ms, most(1)).near(wake("100 ms", wakeMean10)),
		one("lateness at 10/s, p99", "≤ 2 ms", inProcess, "late-10", "p99_ms", ms, most(2)).near(wake("100 ms", wakeP9910)),
		one("lateness at 1,000/s, mean", "≤ 0.5 ms", inProcess, "late-1000", "mean_ms", ms, most(0.5)).near(wake("1 ms", wakeMean1000)),
		one("lateness at 1,000/s, p99", "≤ 1.5 ms", inProcess, "late-1000", "p99_ms", ms, most(1.5)).near(wake("1 ms", wakeP991000)),
		one("the same among 1,000,000, p99", "≤ 1.5 ms", inProcess, "growth-1000000", "p99_ms", ms, most(1.5)).
			near(wake("1 ms", wakeP991000)),
		one("lateness at 5,000/s, p99", "≤ 5 ms", inProcess, "late-5000", "p99_ms", ms, most(5)),
		one("notifications switched off, p99", "≤ 60 ms (grace + 10)", inProcess, "off", "p99_ms", ms, most(60)),
		one("drain", "≥ 50,000/s", inProcess, "drain", "rate", rate, least(50_000)).near(redisAlone("drain")),
		one("drain: Redis CPU a notice", "≤ 14 µs", inProcess, "drain", "cpu_servers", micros, most(14)).near(plainSet),
		ratio("drain beside asynq", "≥ 4 ×", "drain", 4, "asynq", "asynq-10ms"),
		binaryBesideProcess(0.9).near(allTogether("drain-log")),
		one("Redis round trips a job, amortised", "≤ 0.1", inProcess, "drain", "trips", Number, most(0.1)),
		one("schedule, 64 callers, one each", "≥ 130,000/s", inProcess, "schedule", "rate", rate, least(130_000)).
			near(redisAlone("schedule")),
		ratio("schedule beside asynq", "≥ 1.5 ×", "schedule", 1.5, "asynq", "asynq-10ms").near(redisAlone("schedule")),
		ratio("schedule beside gocraft/work", "≥ 1 ×", "schedule", 1, "gocraft").near(redisAlone("schedule")),
		ratio("schedule beside beanstalkd", "≥ 1 ×", "schedule", 1, "beanstalkd").near(redisAlone("schedule")),
		processors("schedule over HTTP, single: client, service and Redis", "schedule", 100).near(emptyPost),
		one("schedule over HTTP, batches of 500", "≥ 100,000/s", overHTTP, "schedule-batch", "rate", rate, least(100_000)).
			near(allTogether("schedule-batch")),
		one("Redis bytes per pending notice", "≤ 630", inProcess, "bytes", "bytes", Number, most(630)).
			near(func(*harness.Result) string {
				return "the key is stored three times, as timer, in the order of due times and with its record, so that redis-cli shows each"
			}),
		one("idle, Redis round trips/s", "≤ 3", inProcess, "idle", "trips", Number, most(3)),
		one("eight idle instances with ten routes, Redis round trips/s", "≤ 24", overHTTP, "idle-fleet", "trips", Number, most(24)),
		one("idle, Redis commands/s", "≤ 12", inProcess, "idle", "commands", Number, most(12)),
		one("idle, % of a core", "< 0.5", inProcess, "idle", "cpu_worker", Number, func(v float64) bool { return v < 0.5 }),
		atMost("a steady 100/s: Redis CPU a notice beside asynq", "100", 1, "asynq", "asynq-10ms").near(aMillisecond("100", "asynq")),
		atMost("a steady 1,000/s beside asynq at a poll of 2 ms", "1000", 1, "asynq-2ms").near(aMillisecond("1000", "asynq-2ms")),
		atMost("a steady 1,000/s beside asynq at a poll of 10 ms", "1000", 1.65, "asynq-10ms").near(aMillisecond("1000", "asynq-10ms")),
		atMost("a steady 5,000/s", "5000", 1, "asynq", "asynq-10ms").near(aMillisecond("5000", "asynq")),
		one("8 instances beside one: Redis commands a notice", "≤ 1.2 ×", overHTTP, "fleet", "commands_ratio", times, most(1.2)),
		one("8 instances beside one: Redis CPU a notice", "≤ 1.2 ×", overHTTP, "fleet", "cpu_redis_ratio", times, most(1.2)).near(everyEvent),
		one("8 instances beside one: lateness p99", "≤ 1.5 ×", overHTTP, "fleet", "p99_ms_ratio", times, most(1.5)).
			near(eightBesideOne),
		one("8 instances: claims lost or stale a notice", "≤ 0.05", overHTTP, "fleet", "vain", Number, most(0.05)),
		one("HTTP callbacks, % of a bare client loop", "≥ 68", overHTTP, "callbacks", "percent", Number, least(68)).near(bareAndRedis),
		one("the same to a receiver that takes 5 ms", "≥ 95", overHTTP, "callbacks-5ms", "percent", Number, least(95)).
			near(busy("callbacks-5ms", func(res *harness.Result) float64 { return stat(res, overHTTP, "callbacks-5ms", "rate").Median })),
		beside("HTTP callbacks beside the best on Redis that keeps a lease", 3, "asynq-10ms", "gocraft").
			near(busy("callbacks", delivered)),
		beside("HTTP callbacks beside River", 1.5, "river"),
		beside("HTTP callbacks beside beanstalkd", 1, "beanstalkd"),
		beside("HTTP callbacks beside NATS in memory", 1.05, "nats").near(busy("callbacks", delivered)),
		one("200 receivers, some slow: lateness p99 at fast ones", "≤ 12 ms", overHTTP, "callbacks-fleet", "fast_p99_ms", ms, most(12)).
			near(busy("callbacks-fleet", offered)),
		one("200 receivers: lateness p99 at fast ones, slow ones beside none", "≤ 1.5 ×", overHTTP, "callbacks-fleet", "p99_ratio", times,
			most(1.5)).near(busy("callbacks-fleet", offered)),
		one("400 receivers of 100 ms, 20/s each: lateness p99", "≤ 10 ms", overHTTP, "callbacks-hosts", "p99_ms", ms, most(10)).
			near(busy("callbacks-hosts", func(res *harness.Result) float64 { return float64(harness.HostsOffered(res.Size)) })),
		one("one receiver of 200 ms with 16 slots, 1,600 due at once: used, %", "≥ 95", overHTTP, "callbacks-slots", "percent", Number,
			least(95)),
		one("2 cores: waiting for locks, % of the time of calls in flight", "≤ 5", overHTTP, "cores", "locks_2", Number, most(5)),
		one("200 receivers: resident memory a call in flight", "≤ 40 kB", overHTTP, "callbacks-fleet", "kb",
			func(v float64) string { return Number(v) + " kB" }, most(40)).near(busy("callbacks-fleet", offered)),
		one("first go build ./cmd/notifier, modules downloaded", "≤ 70 s", overHTTP, "program", "build_s", seconds, most(70)).
			near(largest(harness.SecondsOf, "seconds of compiling, two packages at once")),
		one("stripped program", "≤ 34 MB", overHTTP, "program", "mb", megabytes, most(34)).near(largest(harness.MBOf, "MB of it")),
		one("start until /readyz answers 200", "≤ 60 ms", overHTTP, "program", "start_ms", ms, most(60)),
		one("idle memory, one route", "≤ 28 MB", overHTTP, "program", "idle_mb", megabytes, most(28)).near(fileOfMemory),
	}
}

func goalTable(res *harness.Result) table {
	t := table{head: []string{"what", "goal", "measured", "reached", "limit of this machine"}}
	for _, g := range goals() {
		v, text, ok := g.figure(res)
		row := []string{g.what, g.want, text, "no", ""}
		if g.limit != nil && ok {
			row[4] = g.limit(res)
		}

		switch {
		case !ok:
			row[2], row[3] = "–", "not measured in this size"
		case g.reached(v):
			row[3] = "yes"
		}

		t.rows = append(t.rows, row)
	}

	return t
}
