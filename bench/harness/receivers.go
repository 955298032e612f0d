package harness

import (
	"context"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// The response times of the receivers in the callbacks-fleet case. They rise evenly from
// fastestReceiver to slowestReceiver. Receivers up to fastReceiver count as fast.
const (
	fastestReceiver = time.Millisecond
	fastReceiver    = 50 * time.Millisecond
	slowestReceiver = 500 * time.Millisecond
)

// receivers are many HTTP receivers on separate ports.
type receivers struct {
	all    []*server.Receiver
	takes  []time.Duration
	fast   int // how many, the first ones
	slow   atomic.Bool
	flying atomic.Int64 // calls that they hold
}

// rising returns the response times of n receivers, from the fastest to the slowest, and how many of them are fast.
func rising(n int) (takes []time.Duration, fast int) {
	for i := range n {
		d := fastestReceiver + time.Duration(i)*(slowestReceiver-fastestReceiver)/time.Duration(max(n-1, 1))
		if d <= fastReceiver {
			fast = i + 1
		}

		takes = append(takes, d)
	}

	return takes, fast
}

// startReceivers starts a receiver for each response time; the first ones are fast.
func startReceivers(b *Bench, takes []time.Duration, fast int, handle peer.Handle) *receivers {
	rs := &receivers{takes: takes, fast: fast}
	for i := range takes {
		r := must(server.Receive(func(id string) {
			rs.flying.Add(1)
			defer rs.flying.Add(-1)
			handle(id)
			time.Sleep(rs.time(i))
		}))
		b.cleanup(r.Stop)
		rs.all = append(rs.all, r)
	}

	return rs
}

// time is how long receiver i takes now.
func (rs *receivers) time(i int) time.Duration {
	if !rs.slow.Load() {
		i %= rs.fast
	}
	return rs.takes[i]
}

func (rs *receivers) url(n int) string { return rs.all[n%len(rs.all)].URL }

// receiversCase measures deliveries to many receivers, some of them slow. It also measures without slow receivers,
// before and after, because the speed of the machine may change.
func receiversCase(ctx context.Context, b *Bench) Values {
	const times = 4
	per := int(float64(b.Size.Offered) * b.Size.Window.Seconds())
	p := newPhases(per, times)
	takes, fast := rising(b.Size.Receivers)
	rs := startReceivers(b, takes, fast, p.handle)
	startCalling(ctx, b, "")
	c := &calls{b: b, p: p, rs: rs, speed: 10 * slowest}
	var v [times]Values
	for n := range v {
		jobs := per
		if n == 0 { // it makes connections, and shows how fast jobs are scheduled
			jobs = min(per, 4*warmJobs)
		}

		rs.slow.Store(n == 2)
		v[n] = c.measure(ctx, n, jobs)
	}

	return compare(v[0], v[2], v[1], v[3])
}

// compare adds the means of the measurements without slow receivers to the values of the one
// with them, and the sums of the counts.
func compare(warm, slow, before, after Values) Values {
	slow.addCounts(warm, before, after)

	for name, even := range map[string]string{"fast_p50_ms": "fast_p50_even_ms", "fast_p99_ms": "fast_p99_even_ms",
		"in_flight": "in_flight_even", "cpu_redis": "cpu_redis_even", "cpu_service": "cpu_service_even", "cpu_own": "cpu_own_even"} {
		x, ok := before[name]
		y, also := after[name]
		if ok && also {
			slow[even] = (x + y) / 2
		}
	}

	if even := slow["fast_p99_even_ms"]; even > 0 && slow["fast_p99_ms"] > 0 { // else it is early
		slow["p99_ratio"] = slow["fast_p99_ms"] / even
	}

	return slow
}

// calls are the measurements of a callbacks-fleet case.
type calls struct {
	b     *Bench
	p     *phases
	rs    *receivers
	speed float64 // jobs scheduled a second
	base  int64   // the worker's resident memory before the first measurement
}

// measure lets the jobs of phase n fall due.
func (c *calls) measure(ctx context.Context, n, jobs int) Values {
	b := c.b
	began := time.Now()
	start := began.Add(leadFor(b.Size, b.Info, jobs, c.speed))
	r := c.p.schedule(ctx, b, phase{n, jobs, start, c.rs.url})
	if n == 0 {
		c.speed = float64(jobs) / time.Since(began).Seconds()
	}

	check(peer.Pause(ctx, time.Until(start)-20*time.Millisecond))
	before := spentSoFar(ctx, b)
	pid := before.usage.PIDs[len(before.usage.PIDs)-1]
	if n == 1 {
		c.base = must(server.RSS(pid))
	}

	flying, resident := c.watch(ctx, pid, start)
	check(r.Wait(ctx, start.Add(b.Size.Window+b.Size.Wait+b.Size.DrainMax)))
	// The second copy of a job comes soon after the first, if it comes, and a call
	// that began last has still to end.
	check(peer.Pause(ctx, 2*slowestReceiver))
	after := spentSoFar(ctx, b)
	v := Values{}
	r.Counts(v)
	if r.handled.Load() == 0 {
		return v // all are missing, and counted as that
	}

	after.perJob(v, before, r.handled.Load())
	late := r.late(func(n int) bool { return n%len(c.rs.all) < c.rs.fast })
	v["fast_p50_ms"], v["fast_p99_ms"] = Quantile(late, 0.5), Quantile(late, 0.99)
	v["in_flight"] = flying
	if flying >= 1 {
		v["kb"] = (resident - float64(c.base)) / flying / 1000
	}

	v["rate"] = must(r.Rate(start))
	return v
}

// watch returns how many calls the receivers held and how much memory the worker
// did, both on average of the second half of the window.
func (c *calls) watch(ctx context.Context, pid int, start time.Time) (flying, resident float64) {
	check(peer.Pause(ctx, time.Until(start.Add(c.b.Size.Window/2))))
	var n float64
	for end := start.Add(c.b.Size.Window); n == 0 || time.Now().Before(end); n++ {
		resident += float64(must(server.RSS(pid)))
		flying += float64(c.rs.flying.Load())
		check(peer.Pause(ctx, 20*time.Millisecond))
	}

	return flying / n, resident / n
}
