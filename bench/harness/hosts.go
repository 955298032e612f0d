package harness

import (
	"context"
	"fmt"
	"slices"
	"time"

	"notifier/bench/peer"
)

// The receivers of the callbacks-hosts case.
const (
	hostTakes     = 100 * time.Millisecond
	hostRate      = 20 // jobs a second for each
	hostsInFlight = 2000
)

// The receiver of the callbacks-slots case.
const (
	slowHostTakes = 200 * time.Millisecond
	slowHostSlots = 16
)

// hostCases are the cases that measure the limits of calls in flight.
func hostCases(size Size) []Case {
	return []Case{
		{Name: "callbacks-hosts", Title: "HTTP callbacks to many receivers of one speed",
			What: fmt.Sprintf("%d receivers on separate ports that take %d ms, %d jobs a second for each at random whole ms for %s, "+
				"%s calls in flight at most. Lateness counts at the receiver.", manyHosts(size), hostTakes.Milliseconds(), hostRate, size.Window,
				thousands(hostsInFlight)),
			Columns: []Column{{"rate", "callbacks/s"}, {"p50_ms", "p50 ms"}, {"p99_ms", "p99 ms"},
				{"in_flight", "in flight"}, {"cpu_redis", "servers, CPU µs/call"}, {"cpu_service", "service, CPU µs/call"},
				{"cpu_own", "receivers, CPU µs/call"}},
			Counts: true, Only: overHTTP, Env: peer.Env{URLs: true, Handlers: hostsInFlight}, Run: hostsCase},
		{Name: "callbacks-slots", Title: "HTTP callbacks to one slow receiver",
			What: fmt.Sprintf("%s jobs due at one ms for one receiver that takes %d ms and gets %d calls at once, of %d that the route may make. "+
				"Used is the time that its calls take in rounds of %d, by the time from the due instant to the end of the last.",
				thousands(slowHostJobs(size)), slowHostTakes.Milliseconds(), slowHostSlots, drainHandlers, slowHostSlots),
			Columns: []Column{{"rate", "callbacks/s"}, {"percent", "used, %"}},
			Counts:  true, Only: overHTTP, Env: peer.Env{Handlers: drainHandlers, PerHost: slowHostSlots}, Run: slowHostCase},
	}
}

func manyHosts(size Size) int { return 2 * size.Receivers }

// HostsOffered returns how many jobs a second the callbacks-hosts case has for all its receivers.
func HostsOffered(size Size) int { return manyHosts(size) * hostRate }

// slowHostJobs is so many that a receiver with all its slots used takes four windows.
func slowHostJobs(size Size) int { return slowHostSlots * int(4*size.Window/slowHostTakes) }

func hostsCase(ctx context.Context, b *Bench) Values {
	n := manyHosts(b.Size)
	per := int(float64(n*hostRate) * b.Size.Window.Seconds())
	p := newPhases(per, 2)
	c := &calls{b: b, p: p, rs: startReceivers(b, slices.Repeat([]time.Duration{hostTakes}, n), n, p.handle), speed: 10 * slowest}
	warm := c.measure(ctx, 0, min(per, 4*warmJobs))
	v := c.measure(ctx, 1, per)
	v.addCounts(warm)
	v["p50_ms"], v["p99_ms"] = v["fast_p50_ms"], v["fast_p99_ms"]
	return v
}

func slowHostCase(ctx context.Context, b *Bench) Values {
	with, n := *b, slowHostJobs(b.Size)
	least := time.Duration(n/slowHostSlots) * slowHostTakes
	with.Size.Drain, with.Size.DrainMax = n, b.Size.DrainMax+3*least
	v := drainCase(ctx, &with, func(handle peer.Handle) { b.work(ctx, taking(slowHostTakes, handle)) })
	if v["rate"] > 0 {
		last := v["jobs"] / v["rate"] // seconds from the due instant to the start of the last call
		v["percent"] = 100 * least.Seconds() / (last + slowHostTakes.Seconds())
	}

	return v
}
