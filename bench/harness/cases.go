package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"notifier/bench/peer"
)

// Bench is the input of a case: a started peer without a worker.
type Bench struct {
	Peer peer.Peer
	Info peer.Info
	Size Size
	Env  peer.Env
	New  func() peer.Peer // another of its kind
	Self string           // this program, for cases that need further processes

	worker int // process id of the worker, where it is neither here nor one of the peer's servers
	ends   *[]func() error
}

// cleanup adds a function that is called at the end of the case. The last one is called first.
func (b *Bench) cleanup(end func() error) { *b.ends = append(*b.ends, end) }

// dir makes a scratch directory.
func (b *Bench) dir(name string) string { return must(os.MkdirTemp(b.Env.Dir, name)) }

// work starts the peer's worker.
func (b *Bench) work(ctx context.Context, handle peer.Handle) {
	check(b.Peer.Work(ctx, b.Env.Handlers, handle.Call))
}

// usage is the peer's own account.
func (b *Bench) usage(ctx context.Context) peer.Usage { return must(b.Peer.Usage(ctx)) }

// Case is one column group of the table.
type Case struct {
	Name  string
	Title string
	What  string // how it is measured, in a sentence
	// Columns are the values shown, in order.
	Columns []Column
	// Counts: early, missing and doubled are shown as well.
	Counts bool
	// Refusals: the page describes each peer's reaction to an answer 500.
	Refusals bool
	// Only selects the peers that take part; nil = all.
	Only func(peer.Info) bool
	// Env has the settings of the environment of the peer; 0 handlers = lateHandlers.
	Env peer.Env
	// Together: the cells of several peers run at once, because they wait more than they work.
	Together bool
	Run      func(context.Context, *Bench) Values // ends early by check
}

// Column is one value of a case.
type Column struct {
	Value string
	Title string
}

// by has a column of each figure for each of some numbers.
func by(figures []Column, numbers []int, unit string) (columns []Column) {
	for _, f := range figures {
		for _, n := range numbers {
			columns = append(columns, Column{fmt.Sprintf("%s_%d", f.Value, n), f.Title + ", " + thousands(n) + unit})
		}
	}
	return columns
}

var lateColumns = []Column{{"mean_ms", "mean ms"}, {"p50_ms", "p50 ms"}, {"p99_ms", "p99 ms"}, {"max_ms", "max ms"}}

var costColumns = []Column{{"cpu_own", "workers and producers, CPU µs/job"}, {"cpu_servers", "servers, CPU µs/job"}}

var logColumns = []Column{{"rate", "jobs/s"}, {"trips", "Redis round trips/job, schedule to end"},
	{"cpu_redis", "Redis, CPU µs/job"}, {"cpu_service", "service, CPU µs/job"}, {"cpu_own", "reader, CPU µs/job"}}

const (
	lateHandlers  = 16
	drainHandlers = 64
)

// overHTTP selects this project as a service.
func overHTTP(i peer.Info) bool { return i.Name == "notifier-http" }

// Cases are all cases, in the tables' order.
func Cases(size Size) []Case {
	ours := func(i peer.Info) bool { return i.Kind == peer.Ours }
	all := []Case{
		{Name: "schedule", Title: "Schedule, one a call", What: fmt.Sprintf("%d callers, one job a call, due in a day, for %s.",
			singleCallers, size.Schedule),
			Columns: append([]Column{{"rate", "jobs/s"}}, costColumns...), Run: scheduleCase},
		{Name: "schedule-batch", Title: "Schedule, many a call",
			What: fmt.Sprintf("%d callers, 128 jobs a call (this project over HTTP 500), for %s.", batchCallers,
				size.Schedule),
			Columns: append([]Column{{"rate", "jobs/s"}}, costColumns...),
			Only:    func(i peer.Info) bool { return i.Batch > 0 }, Run: batchCase},
		{Name: "drain", Title: "Drain", What: fmt.Sprintf("%d jobs due at one and the same ms (a whole second), a handler that "+
			"does nothing, %d handlers; "+
			"jobs handled by the time since the due instant; cut after %s.", size.Drain, drainHandlers, size.DrainMax),
			Columns: append([]Column{{"rate", "jobs/s"}, {"trips", "Redis round trips/job, schedule to end"}},
				costColumns...), Counts: true, Env: peer.Env{Handlers: drainHandlers}, Run: drainAll},
		{Name: "drain-log", Title: "Drain by the built binary", What: fmt.Sprintf("The same for the deployed service: the route's "+
			"target is its log, %d are handled at a time, and two lines of JSON a job, of the notice and of the attempt, go through a "+
			"pipe to this harness, which takes the time when it has read the first.", drainHandlers),
			Columns: logColumns, Counts: true, Only: overHTTP, Env: peer.Env{Log: true, Handlers: drainHandlers}, Run: drainAll},
		{Name: "drain-order", Title: "Ordered drain by the built binary", What: "The same with an ordered route and four jobs of each " +
			"business id, one after another.",
			Columns: logColumns, Counts: true, Only: overHTTP, Env: peer.Env{Log: true, Order: true, Handlers: drainHandlers}, Run: drainAll},
		{Name: "late-10", Title: "Lateness at 10/s", What: fmt.Sprintf("10 jobs a second at random whole ms for %s, nothing else "+
			"pending, %d handlers.", size.Small, lateHandlers),
			Columns: lateColumns, Counts: true, Run: lateCase(10, size.Small, 0)},
		{Name: "late-1000", Title: fmt.Sprintf("Lateness at 1,000/s among %s", thousands(size.Pending)),
			What: fmt.Sprintf("1,000 jobs a second at random whole ms for %s among %s others due in a day, %d handlers.", size.Window,
				thousands(size.Pending), lateHandlers),
			Columns: lateColumns, Counts: true, Run: lateCase(1000, size.Window, size.Pending)},
		{Name: "late-5000", Title: fmt.Sprintf("Lateness at 5,000/s among %s", thousands(size.PendingL)),
			What: fmt.Sprintf("5,000 jobs a second at random whole ms for %s among %s others due in a day, %d handlers.", size.Window,
				thousands(size.PendingL), lateHandlers),
			Columns: lateColumns, Counts: true, Run: lateCase(5000, size.Window, size.PendingL)},
		{Name: "off", Title: "Notifications switched off", What: fmt.Sprintf("Like lateness at 1,000/s among %s, on a Redis that "+
			"sends no expired events.", thousands(size.Pending)),
			Columns: lateColumns, Counts: true, Only: ours, Env: peer.Env{NoEvents: true}, Run: lateCase(1000, size.Window, size.Pending)},
		{Name: "bytes", Title: "Memory per pending job", What: fmt.Sprintf("%s jobs due in a day, %d B body, id of 31 characters; "+
			"growth by jobs.", thousands(size.Bytes), peer.BodyLen),
			Columns: []Column{{"bytes", "bytes/job"}}, Run: bytesCase},
		{Name: "idle", Title: "Idle", What: fmt.Sprintf("One worker with %d handlers and 1,000 jobs due in a day, %s.", lateHandlers,
			size.Idle),
			Columns: []Column{{"trips", "Redis round trips/s"}, {"commands", "commands/s"},
				{"cpu_worker", "worker, % of a core"}, {"cpu_server", "servers, % of a core"}}, Run: idleCase},
		{Name: "idle-fleet", Title: "Eight idle instances with ten routes", What: fmt.Sprintf("Eight serve processes on one Redis, each with "+
			"ten routes, and 1,000 jobs due in a day, %s; all together.", size.Idle),
			Columns: []Column{{"trips", "Redis round trips/s"}, {"commands", "commands/s"}}, Env: peer.Env{Routes: 10},
			Only: overHTTP, Run: idleFleetCase},
		steadyCaseOf(size),
		{Name: "race", Title: "Two workers at once", What: fmt.Sprintf("Two instances on one server, 500 jobs a second for %s.",
			size.Window),
			Columns: []Column{{"doubled_percent", "handled twice, %"}}, Counts: true, Run: raceCase},
		fleetCaseOf(size),
		crashCaseOf(size),
		quickstartCase(),
	}
	race := slices.IndexFunc(all, func(c Case) bool { return c.Name == "race" })
	all = slices.Insert(all, race, slices.Concat(callbackCases(size), hostCases(size), []Case{coresCaseOf(size)})...)
	for _, n := range size.Growth {
		all = append(all, Case{Name: fmt.Sprintf("growth-%d", n), Title: fmt.Sprintf("Growth: %s pending", thousands(n)),
			What:    fmt.Sprintf("1,000 jobs a second for %s among %s others; memory of the others.", size.Window, thousands(n)),
			Columns: []Column{{"p50_ms", "p50 ms"}, {"p99_ms", "p99 ms"}, {"bytes", "bytes/job"}}, Counts: true,
			Run: lateCase(1000, size.Window, n)})
	}

	return append(all, programCase())
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}

	return s
}

// warmJobs is the number of jobs that open connections and create a peer's other state.
const warmJobs = 512

// warm schedules the first jobs, and returns their rate.
func warm(ctx context.Context, b *Bench) float64 {
	if b.Info.NoWarm {
		return 10 * slowest
	}
	return must(fillAt(ctx, b.Peer, b.Info, 2*fillFrom, warmJobs))
}

// fill gives the peer n jobs that are due in a day.
func (b *Bench) fill(ctx context.Context, n int) { must(fillAt(ctx, b.Peer, b.Info, fillFrom, n)) }

func scheduleCase(ctx context.Context, b *Bench) Values { return produceCase(ctx, b, 0) }

func batchCase(ctx context.Context, b *Bench) Values { return produceCase(ctx, b, b.Info.Batch) }

func produceCase(ctx context.Context, b *Bench, batch int) Values {
	warm(ctx, b)
	var n int64
	v := Values{}
	before, after := cost(ctx, b, func() (err error) {
		n, v["rate"], err = produce(ctx, b.Peer, b.Size.Schedule, batch)
		return err
	})
	after.perJob(v, before, n)
	return v
}

func bytesCase(ctx context.Context, b *Bench) Values {
	warm(ctx, b)
	return Values{"bytes": fillMeasured(ctx, b, b.Size.Bytes) / float64(b.Size.Bytes)}
}

// drainCase measures how fast jobs are handled that are due at one instant. work
// starts the worker.
func drainCase(ctx context.Context, b *Bench, work func(peer.Handle)) Values {
	rate := warm(ctx, b)
	n := b.Size.Drain
	due := time.Now().Add(leadFor(b.Size, b.Info, n, rate)).Truncate(time.Second).Add(time.Second)
	before := b.usage(ctx)
	r := NewRecorder(slices.Repeat([]time.Time{due}, n))
	r.schedule(ctx, b, due)
	work(r.Handle)
	if over := time.Since(due); over > 0 {
		check(fmt.Errorf("the worker was ready %s after the jobs were due: %w", over, errLate))
	}

	check(peer.Pause(ctx, time.Until(due)-20*time.Millisecond))
	from, to := cost(ctx, b, func() error { return r.Wait(ctx, due.Add(b.Size.DrainMax)) })
	v := Values{}
	r.Counts(v)
	to.perJob(v, from, r.handled.Load())
	if before.Trips >= 0 {
		v["trips"] = float64(to.usage.Trips-before.Trips) / float64(n)
	}

	if r.handled.Load() == 0 {
		return v // all are missing, and counted as that
	}

	if pace, ok := r.Pace(); ok {
		v["pace"] = pace
	}

	v["rate"] = must(r.Rate(due))
	return v
}

// drainAll drains jobs with the peer's own worker or service.
func drainAll(ctx context.Context, b *Bench) Values {
	return drainCase(ctx, b, func(handle peer.Handle) { b.work(ctx, handle) })
}

// schedule schedules the recorder's jobs, all of them before the first is due.
func (r *Recorder) schedule(ctx context.Context, b *Bench, first time.Time) {
	inTime(ctx, b, len(r.due), first, r.job)
}

func (r *Recorder) job(n int) peer.Job {
	return peer.Job{ID: peer.ID(n), Due: r.due[n], Body: peer.Body(n)}
}

// inTime schedules n jobs, all of them before the first is due.
func inTime(ctx context.Context, b *Bench, n int, first time.Time, job func(n int) peer.Job) {
	check(schedule(ctx, b.Peer, b.Info, job, 0, n))
	if over := time.Since(first); over > 0 {
		check(fmt.Errorf("scheduling ended %s after the first job was due: %w", over, errLate))
	}
}

// lateCase measures lateness, and on the way the memory of the others.
func lateCase(rate int, window time.Duration, pending int) func(context.Context, *Bench) Values {
	return func(ctx context.Context, b *Bench) Values {
		v := Values{}
		speed := slowest
		if pending > 0 {
			speed = warm(ctx, b)
			grown := fillMeasured(ctx, b, pending)
			v["bytes"], v["total_mb"] = grown/float64(pending), grown/1e6
		}

		n := int(float64(rate) * window.Seconds())
		start := time.Now().Add(leadFor(b.Size, b.Info, n, speed))
		r := NewRecorder(randomDue(start, window, n))
		b.work(ctx, r.Handle)
		r.schedule(ctx, b, start)
		check(r.Wait(ctx, start.Add(window+b.Size.Wait)))
		r.Counts(v)
		r.Lateness(v)
		return v
	}
}

// errLate says that a case needs a longer lead on a machine as busy as this one.
var errLate = errors.New("the figures would measure the harness")

// slowest is the schedule rate that a case without pending jobs reckons with.
const slowest = 1000.0

// fillMeasured schedules far jobs and returns how many bytes they take.
func fillMeasured(ctx context.Context, b *Bench, pending int) float64 {
	before := b.usage(ctx)
	b.fill(ctx, pending)
	return float64(b.usage(ctx).Bytes - before.Bytes)
}

func idleCase(ctx context.Context, b *Bench) Values {
	b.fill(ctx, 1000)
	b.work(ctx, NewRecorder(nil).Handle)
	return idleFor(ctx, b)
}

// idleFor returns what running workers cost while nothing is due.
func idleFor(ctx context.Context, b *Bench) Values {
	// Wait until the work of the start is done, which is no idle cost.
	check(peer.Pause(ctx, min(b.Size.Idle, 3*time.Second)))
	before, after := cost(ctx, b, func() error { return peer.Pause(ctx, b.Size.Idle) })
	seconds := after.at.Sub(before.at).Seconds()
	v := Values{"cpu_worker": 100 * (after.own - before.own).Seconds() / seconds,
		"cpu_server": 100 * (after.all() - before.all()).Seconds() / seconds}
	if before.usage.Commands >= 0 {
		v["commands"] = float64(after.usage.Commands-before.usage.Commands) / seconds
	}

	if before.usage.Trips >= 0 {
		v["trips"] = float64(after.usage.Trips-before.usage.Trips) / seconds
	}

	return v
}

// raceCase runs two workers on one server.
func raceCase(ctx context.Context, b *Bench) Values {
	n := int(500 * b.Size.Window.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, slowest))
	r := NewRecorder(randomDue(start, b.Size.Window, n))
	second := *b
	second.Peer, second.Env.Dir, second.Env.Attach = b.New(), b.dir("second"), b.Peer.Addr()
	b.cleanup(second.Peer.Stop)
	check(second.Peer.Start(ctx, second.Env))
	b.work(ctx, r.Handle)
	second.work(ctx, r.Handle)
	check(schedule(ctx, b.Peer, b.Info, r.job, 0, n))
	check(r.Wait(ctx, start.Add(b.Size.Window+b.Size.Wait)))
	// The second copy of a job comes right after the first, if it comes.
	check(peer.Pause(ctx, 2*time.Second))
	v := Values{}
	r.Counts(v)
	v["doubled_percent"] = 100 * v["doubled"] / float64(n)
	return v
}
