package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/bench/harness"
)

// limit is the part of a goal's row that says what keeps the figure from being better; empty if that was not measured.
type limit func(res *harness.Result) string

// medians is a limit that says something of the medians of a case's values.
func medians(peer, cas string, values []string, say func(m []float64) string) limit {
	return func(res *harness.Result) string {
		m := make([]float64, len(values))
		for i, v := range values {
			if m[i] = stat(res, peer, cas, v).Median; m[i] == 0 {
				return ""
			}
		}

		return say(m)
	}
}

// fixed is a limit that says something of a figure of the fixed workload.
func fixed(of func(f harness.Fixed) float64, say func(res *harness.Result, figure float64) string) limit {
	return func(res *harness.Result) string {
		if len(res.Fixed) == 0 || of(res.Fixed[0]) == 0 {
			return ""
		}
		return say(res, of(res.Fixed[0]))
	}
}

// redisAlone explains a rate: Redis runs scripts on one core, so a job's time in Redis bounds the
// rate.
func redisAlone(cas string) limit {
	return medians(inProcess, cas, []string{"cpu_servers"}, func(m []float64) string {
		return fmt.Sprintf("Redis takes %.1f µs a job: ≤ %s", m[0], rate(1e6/m[0]))
	})
}

// wake compares with a timer and two round trips on the same machine, once in each interval.
func wake(interval string, of func(f harness.Fixed) float64) limit {
	return fixed(of, func(_ *harness.Result, took float64) string {
		return fmt.Sprintf("a timer and two PINGs, once in %s of the fixed workload, take %s here", interval, ms(took))
	})
}

var (
	// plainSet compares with a SET on the same machine.
	plainSet = fixed(func(f harness.Fixed) float64 { return f.Set }, func(_ *harness.Result, rate float64) string {
		return fmt.Sprintf("a plain SET of the fixed workload takes %.1f µs here", 1e6/rate)
	})
	// emptyPost compares with an empty HTTP request on the same machine.
	emptyPost = fixed(func(f harness.Fixed) float64 { return f.HTTP }, func(res *harness.Result, rate float64) string {
		return fmt.Sprintf("an empty POST of the fixed workload takes %.0f µs of the cores here", float64(res.Machine.Cores)*1e6/rate)
	})
	// bareAndRedis explains a share of the bare loop: that loop uses all cores, and Redis needs some of their time.
	bareAndRedis = medians(overHTTP, "callbacks", []string{"cpu_bare", "cpu_redis"}, func(m []float64) string {
		return fmt.Sprintf("the bare loop takes %.0f µs a call of the cores and Redis %.0f more: ≤ %.0f %%", m[0], m[1], 100*m[0]/(m[0]+m[1]))
	})
	// everyEvent explains the cost of many instances: each subscribes to the events of all notices.
	everyEvent = medians(overHTTP, "fleet", []string{"trips_8", "trips_1"}, func(m []float64) string {
		return fmt.Sprintf("Redis writes every event to 8 subscribers, and takes in %s round trips a job what one instance sends in %s: fewer "+
			"fit a call of each", Number(m[0]), Number(m[1]))
	})
	// eightBesideOne compares the lateness of eight instances with that of one.
	eightBesideOne = medians(overHTTP, "fleet", []string{"p99_ms_8", "p99_ms_1"}, func(m []float64) string {
		return fmt.Sprintf("%s beside %s: Redis sends each expired event to eight instances, and fewer notices fit a call of each",
			ms(m[0]), ms(m[1]))
	})
	// fileOfMemory says how much of the idle memory are pages of the program's file.
	fileOfMemory = medians(overHTTP, "program", []string{"idle_own_mb"}, func(m []float64) string {
		return megabytes(m[0]) + " are the program's own; the rest are pages of its file, which the kernel shares and drops when it needs memory"
	})
)

// allTogether explains a rate by the time that all processes need for a job.
func allTogether(cas string) limit {
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
func busy(cas string, of func(res *harness.Result) float64) limit {
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

// aMillisecond explains a cost: notices due in different milliseconds need separate calls.
func aMillisecond(rate string, beside string) limit {
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

// largest names the modules with most of a value of the program case, such as the MB of the program.
func largest(prefix, text string) limit {
	return func(res *harness.Result) string {
		values := byModule(res, prefix)
		names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
			return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
		})
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
