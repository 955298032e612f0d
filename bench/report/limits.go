package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/bench/harness"
)

// A limit is the part of a goal's row that says what keeps the figure from being better.

// redisAlone explains a rate: Redis runs scripts on one core, so a job's time in Redis bounds the
// rate.
func redisAlone(cas string) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		s := stat(res, inProcess, cas, "cpu_servers")
		if s.N == 0 || s.Median == 0 {
			return ""
		}

		return fmt.Sprintf("Redis takes %.1f µs a job: ≤ %s", s.Median, rate(1e6/s.Median))
	}
}

// plainSet compares with a SET on the same machine.
func plainSet(res *harness.Result) string {
	if len(res.Fixed) == 0 || res.Fixed[0].Set == 0 {
		return ""
	}

	return fmt.Sprintf("a plain SET of the fixed workload takes %.1f µs here", 1e6/res.Fixed[0].Set)
}

// wake compares with a timer and two round trips on the same machine, once in each interval.
func wake(interval string, of func(f harness.Fixed) float64) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		if len(res.Fixed) == 0 || of(res.Fixed[0]) == 0 {
			return ""
		}

		return fmt.Sprintf("a timer and two PINGs, once in %s of the fixed workload, take %s here", interval, ms(of(res.Fixed[0])))
	}
}

// emptyPost compares with an empty HTTP request on the same machine.
func emptyPost(res *harness.Result) string {
	if len(res.Fixed) == 0 || res.Fixed[0].HTTP == 0 {
		return ""
	}

	return fmt.Sprintf("an empty POST of the fixed workload takes %.0f µs of the cores here", float64(res.Machine.Cores)*1e6/res.Fixed[0].HTTP)
}

// allTogether explains a rate by the time that all processes need for a job.
func allTogether(cas string) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		sum, most := spent(res, cas)
		if sum == 0 {
			return ""
		}

		return fmt.Sprintf("client, service and Redis take %.1f µs a job of %d cores: ≤ %s", sum, res.Machine.Cores, rate(most))
	}
}

// busy describes the share of the cores that the service, the servers and the receivers use, at
// the rate of calls that were made or offered.
func busy(cas string, of func(res *harness.Result) float64) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		sum, most := spent(res, cas)
		if sum == 0 {
			return ""
		}

		return fmt.Sprintf("service, Redis and receivers take %.0f µs a call of %d cores: ≤ %s, and at %s they are %.0f %% busy", sum,
			res.Machine.Cores, rate(most), rate(of(res)), 100*of(res)/most)
	}
}

// offered is the rate of the jobs for 200 receivers.
func offered(res *harness.Result) float64 { return float64(res.Size.Offered) }

// delivered is the pace of the callbacks over HTTP.
func delivered(res *harness.Result) float64 { return stat(res, overHTTP, "callbacks", "pace").Median }

// bareAndRedis explains a share of the bare loop: that loop uses all cores, and Redis needs some of their time.
func bareAndRedis(res *harness.Result) string {
	bare, redis := stat(res, overHTTP, "callbacks", "cpu_bare"), stat(res, overHTTP, "callbacks", "cpu_redis")
	if bare.N == 0 || redis.N == 0 || bare.Median == 0 {
		return ""
	}

	return fmt.Sprintf("the bare loop takes %.0f µs a call of the cores and Redis %.0f more: ≤ %.0f %%", bare.Median, redis.Median,
		100*bare.Median/(bare.Median+redis.Median))
}

// aMillisecond explains a cost: notices due in different milliseconds need separate calls.
func aMillisecond(rate string, beside string) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		commands, late := stat(res, inProcess, "steady", "commands_"+rate), stat(res, beside, "steady", "p99_ms_"+rate)
		ours := stat(res, inProcess, "steady", "p99_ms_"+rate)
		if commands.N == 0 || late.N == 0 {
			return ""
		}

		text := fmt.Sprintf("each due ms has a call that lets the timers expire and one that claims, %s commands a job, p99 %s late; %s: p99 %s",
			Number(commands.Median), ms(ours.Median), beside, ms(late.Median))
		if len(res.Fixed) > 0 && res.Fixed[0].Wake1000.CPU > 0 {
			text += fmt.Sprintf("; one of two PINGs a ms takes %s of Redis here", micros(res.Fixed[0].Wake1000.CPU))
		}

		return text
	}
}

// everyEvent explains the cost of many instances: each subscribes to the events of all notices.
func everyEvent(res *harness.Result) string {
	eight, one := stat(res, overHTTP, "fleet", "trips_8"), stat(res, overHTTP, "fleet", "trips_1")
	if eight.N == 0 || one.N == 0 {
		return ""
	}

	return fmt.Sprintf("Redis writes every event to 8 subscribers, and takes in %s round trips a job what one instance sends in %s: fewer "+
		"fit a call of each", Number(eight.Median), Number(one.Median))
}

// eightBesideOne compares the lateness of eight instances with that of one.
func eightBesideOne(res *harness.Result) string {
	eight, one := stat(res, overHTTP, "fleet", "p99_ms_8"), stat(res, overHTTP, "fleet", "p99_ms_1")
	if eight.N == 0 || one.N == 0 {
		return ""
	}

	return fmt.Sprintf("%s beside %s: Redis sends each expired event to eight instances, and fewer notices fit a call of each",
		ms(eight.Median), ms(one.Median))
}

// largest names the modules with most of a value of the program case, such as the MB of the program.
func largest(prefix, text string) func(res *harness.Result) string {
	return func(res *harness.Result) string {
		values := byModule(res, prefix)
		names := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return cmp.Compare(values[b], values[a]) })
		var parts []string
		for _, n := range names[:min(len(names), 5)] {
			parts = append(parts, n+" "+Number(values[n]))
		}

		if len(parts) == 0 {
			return ""
		}

		return text + ": " + strings.Join(parts, ", ")
	}
}

// fileOfMemory says how much of the idle memory are pages of the program's file.
func fileOfMemory(res *harness.Result) string {
	own := stat(res, overHTTP, "program", "idle_own_mb")
	if own.N == 0 {
		return ""
	}

	return fmt.Sprintf("%s are the program's own; the rest are pages of its file, which the kernel shares and drops when it needs memory",
		megabytes(own.Median))
}
