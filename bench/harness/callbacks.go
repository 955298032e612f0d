package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

var callbackColumns = []Column{{"rate", "callbacks/s"}, {"pace", "from the first one on"}, {"bare", "bare loop/s"},
	{"percent", "% of the bare loop"}}

var callbackCosts = []Column{{"cpu_bare", "bare loop and receiver, CPU µs/call"}, {"cpu_redis", "servers, CPU µs/call"},
	{"cpu_service", "worker or service, CPU µs/call"}, {"cpu_own", "receiver, CPU µs/call"}}

// callbackCases are the cases whose jobs are HTTP requests.
func callbackCases(size Size) []Case {
	// Peers that accept the failure of a job describe its fate.
	described := func(i peer.Info) bool { return i.Refused != "" }
	return []Case{
		{Name: "callbacks", Title: "HTTP callbacks, end to end",
			What: fmt.Sprintf("%s jobs due at one ms, delivered by HTTP to one local receiver with %d calls in flight at most, "+
				"against a bare Go client loop with the same concurrency, before and after. The peers' workers, and this project's "+
				"package worker, are a process each with the same handler: net/http, one transport that keeps a connection a handler, "+
				"a timeout of 10 s, the status checked, and any error returned for the peer to repeat the job. notifier over HTTP "+
				"delivers by itself. The rate is counted at the receiver, by the time since the due instant, and again since the first "+
				"call, because some hand out late that count in whole seconds.", thousands(size.Calls), drainHandlers),
			Columns: append(callbackColumns, callbackCosts...), Counts: true, Refusals: true,
			Only: described, Env: peer.Env{Handlers: drainHandlers},
			Run: callbackCase(0)},
		{Name: "callbacks-5ms", Title: "HTTP callbacks to a receiver that takes 5 ms",
			What:    "The same, with a receiver that works for 5 ms before it answers: the processors have time to spare.",
			Columns: callbackColumns, Counts: true, Only: described, Env: peer.Env{Handlers: drainHandlers},
			Run: callbackCase(5 * time.Millisecond)},
		{Name: "callbacks-fleet", Title: "HTTP callbacks to many receivers, some of them slow",
			What: fmt.Sprintf("%d receivers on separate ports that take from 1 to %d ms, rising with their number; "+
				"each job brings its receiver's URL; %s jobs a second at random whole ms for %s, %s calls in flight at most. "+
				"Three times on one server and with one worker: first and last the receivers above %d ms answer as the others do, "+
				"in between they are slow. Lateness is that at the receivers up to %d ms, which are the same in all three, and "+
				"counts at the receiver. In flight are the receivers' open calls. Memory is the growth of the worker's (the service's) "+
				"resident memory since before the first job, divided by the calls in flight, both over the second half of the "+
				"slow measurement. Receivers and producers are another process.", size.Receivers, slowestReceiver.Milliseconds(),
				thousands(size.Offered), size.Window, thousands(size.InFlight), fastReceiver.Milliseconds(), fastReceiver.Milliseconds()),
			Columns: []Column{{"rate", "callbacks/s, slow ones there"}, {"fast_p50_ms", "p50 ms, slow ones there"},
				{"fast_p50_even_ms", "p50 ms, none slow"}, {"fast_p99_ms", "p99 ms, slow ones there"},
				{"fast_p99_even_ms", "p99 ms, none slow"}, {"p99_ratio", "p99, ratio"}, {"in_flight", "in flight"},
				{"in_flight_even", "in flight, none slow"}, {"kb", "kB a call in flight"},
				{"cpu_redis", "servers, CPU µs/call"}, {"cpu_service", "worker or service, CPU µs/call"},
				{"cpu_own", "receivers, CPU µs/call"}},
			Counts: true, Only: described, Env: peer.Env{URLs: true, Handlers: size.InFlight}, Run: receiversCase},
	}
}

// BareSpec is the configuration of the bare client loop.
type BareSpec struct {
	URL     string
	Calls   int
	Callers int
}

// Bare posts Calls bodies from Callers goroutines and returns the rate: the limit of a Go client without a
// queue.
func Bare(ctx context.Context, spec BareSpec) (float64, error) {
	client := newClient(spec.Callers, 0)
	defer client.CloseIdleConnections()
	start := time.Now()
	err := spread(ctx, spec.Callers, 0, spec.Calls, 1, func(ctx context.Context, n, _ int) error {
		return post(ctx, client, spec.URL, peer.Job{ID: peer.ID(n), Body: peer.Body(n)})
	})
	if err != nil {
		return 0, fmt.Errorf("bare loop: %w", err)
	}

	return float64(spec.Calls) / time.Since(start).Seconds(), nil
}

// bareProcess runs Bare in a separate process, like the service. It returns the rate, and the processor time
// of both ends per call.
func bareProcess(ctx context.Context, b *Bench, takes time.Duration) (rate, cpu float64) {
	r := must(server.Receive(taking(takes, func(string) {})))
	defer r.Stop()
	before := must(server.OwnCPU())
	cmd := must(selfCommand(ctx, b.Self, "bare", BareSpec{URL: r.URL, Calls: b.Size.Calls, Callers: b.Env.Handlers}))
	out := must(cmd.Output())
	check(json.Unmarshal(out, &rate))
	spent := must(server.OwnCPU()) - before + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return rate, float64(spent.Microseconds()) / float64(b.Size.Calls)
}

// taking returns a handler that works for a while after handle.
func taking(d time.Duration, handle peer.Handle) peer.Handle {
	return func(id string) {
		handle(id)
		time.Sleep(d)
	}
}

// callbackCase drains jobs into an HTTP receiver that takes a while for each. It compares the rate with the
// bare loop before and after.
func callbackCase(takes time.Duration) func(context.Context, *Bench) Values {
	return func(ctx context.Context, b *Bench) Values {
		before, cpuBefore := bareProcess(ctx, b, takes)
		with := *b
		with.Size.Drain, with.Size.DrainMax = b.Size.Calls, max(b.Size.DrainMax, time.Minute)
		var worker *child
		v := drainCase(ctx, &with, func(handle peer.Handle) {
			handle = taking(takes, handle)
			if overHTTP(b.Info) { // it delivers by itself, to a receiver that it knows
				b.work(ctx, handle)
				return
			}

			receiver := must(server.Receive(handle))
			b.cleanup(receiver.Stop)
			worker = startCalling(ctx, &with, receiver.URL)
		})
		worker.stop()
		after, cpuAfter := bareProcess(ctx, b, takes)
		v["bare"], v["cpu_bare"] = (before+after)/2, (cpuBefore+cpuAfter)/2
		v["percent"] = 100 * v["rate"] / v["bare"]
		return v
	}
}
