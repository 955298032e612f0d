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
}

// work starts the peer's worker.
func (b *Bench) work(ctx context.Context, handle peer.Handle) error {
	return b.Peer.Work(ctx, b.Env.Handlers, handle.Call)
}

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
	// NoEvents: the peer's server sends no expired events.
	NoEvents bool
	// URLs: each job contains the URL of its receiver.
	URLs bool
	// Log: jobs are delivered to the log of the service.
	Log      bool
	Handlers int
	// PerHost is the number of calls in flight to one receiver; 0 = Handlers.
	PerHost int
	// Routes is the number of this project's routes; 0 = 1.
	Routes int
	// Order: the route is an ordered one.
	Order bool
	// Together: the cells of several peers run at once, because they wait more than they work.
	Together bool
	Run      func(context.Context, *Bench) (Values, error)
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
			Columns: append([]Column{{"rate", "jobs/s"}}, costColumns...), Handlers: lateHandlers, Run: scheduleCase},
		{Name: "schedule-batch", Title: "Schedule, many a call",
			What: fmt.Sprintf("%d callers, 128 jobs a call (this project over HTTP 500), for %s.", batchCallers,
				size.Schedule),
			Columns: append([]Column{{"rate", "jobs/s"}}, costColumns...), Handlers: lateHandlers,
			Only: func(i peer.Info) bool { return i.Batch > 0 },
			Run:  batchCase},
		{Name: "drain", Title: "Drain", What: fmt.Sprintf("%d jobs due at one and the same ms (a whole second), a handler that "+
			"does nothing, %d handlers; "+
			"jobs handled by the time since the due instant; cut after %s.", size.Drain, drainHandlers, size.DrainMax),
			Columns: append([]Column{{"rate", "jobs/s"}, {"trips", "Redis round trips/job, schedule to end"}},
				costColumns...), Counts: true,
			Handlers: drainHandlers, Run: drainAll},
		{Name: "drain-log", Title: "Drain by the built binary", What: fmt.Sprintf("The same for the deployed service: the route's "+
			"target is its log, %d are handled at a time, and two lines of JSON a job, of the notice and of the attempt, go through a "+
			"pipe to this harness, which takes the time when it has read the first.", drainHandlers),
			Columns: logColumns, Counts: true, Only: overHTTP, Log: true, Handlers: drainHandlers, Run: drainAll},
		{Name: "drain-order", Title: "Ordered drain by the built binary", What: "The same with an ordered route and four jobs of each " +
			"business id, one after another.",
			Columns: logColumns, Counts: true, Only: overHTTP, Log: true, Order: true, Handlers: drainHandlers, Run: drainAll},
		{Name: "late-10", Title: "Lateness at 10/s", What: fmt.Sprintf("10 jobs a second at random whole ms for %s, nothing else "+
			"pending, %d handlers.", size.Small, lateHandlers),
			Columns: lateColumns, Counts: true, Handlers: lateHandlers,
			Run: func(ctx context.Context, b *Bench) (Values, error) { return lateCase(ctx, b, 10, b.Size.Small, 0) }},
		{Name: "late-1000", Title: fmt.Sprintf("Lateness at 1,000/s among %s", thousands(size.Pending)),
			What: fmt.Sprintf("1,000 jobs a second at random whole ms for %s among %s others due in a day, %d handlers.", size.Window,
				thousands(size.Pending), lateHandlers),
			Columns: lateColumns, Counts: true, Handlers: lateHandlers,
			Run: func(ctx context.Context, b *Bench) (Values, error) {
				return lateCase(ctx, b, 1000, b.Size.Window, b.Size.Pending)
			}},
		{Name: "late-5000", Title: fmt.Sprintf("Lateness at 5,000/s among %s", thousands(size.PendingL)),
			What: fmt.Sprintf("5,000 jobs a second at random whole ms for %s among %s others due in a day, %d handlers.", size.Window,
				thousands(size.PendingL), lateHandlers),
			Columns: lateColumns, Counts: true, Handlers: lateHandlers,
			Run: func(ctx context.Context, b *Bench) (Values, error) {
				return lateCase(ctx, b, 5000, b.Size.Window, b.Size.PendingL)
			}},
		{Name: "off", Title: "Notifications switched off", What: fmt.Sprintf("Like lateness at 1,000/s among %s, on a Redis that "+
			"sends no expired events.", thousands(size.Pending)),
			Columns: lateColumns, Counts: true, Handlers: lateHandlers, Only: ours, NoEvents: true,
			Run: func(ctx context.Context, b *Bench) (Values, error) {
				return lateCase(ctx, b, 1000, b.Size.Window, b.Size.Pending)
			}},
		{Name: "bytes", Title: "Memory per pending job", What: fmt.Sprintf("%s jobs due in a day, %d B body, id of 31 characters; "+
			"growth by jobs.", thousands(size.Bytes), peer.BodyLen),
			Columns: []Column{{"bytes", "bytes/job"}}, Handlers: lateHandlers, Run: bytesCase},
		{Name: "idle", Title: "Idle", What: fmt.Sprintf("One worker with %d handlers and 1,000 jobs due in a day, %s.", lateHandlers,
			size.Idle),
			Columns: []Column{{"trips", "Redis round trips/s"}, {"commands", "commands/s"},
				{"cpu_worker", "worker, % of a core"}, {"cpu_server", "servers, % of a core"}}, Handlers: lateHandlers, Run: idleCase},
		{Name: "idle-fleet", Title: "Eight idle instances with ten routes", What: fmt.Sprintf("Eight serve processes on one Redis, each with "+
			"ten routes, and 1,000 jobs due in a day, %s; all together.", size.Idle),
			Columns: []Column{{"trips", "Redis round trips/s"}, {"commands", "commands/s"}}, Handlers: lateHandlers, Routes: 10,
			Only: overHTTP, Run: idleFleetCase},
		steadyCaseOf(size),
		{Name: "race", Title: "Two workers at once", What: fmt.Sprintf("Two instances on one server, 500 jobs a second for %s.",
			size.Window),
			Columns: []Column{{"doubled_percent", "handled twice, %"}}, Counts: true, Handlers: lateHandlers, Run: raceCase},
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
			Handlers: lateHandlers,
			Run:      func(ctx context.Context, b *Bench) (Values, error) { return lateCase(ctx, b, 1000, b.Size.Window, n) }})
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

func warm(ctx context.Context, b *Bench) (rate float64, err error) {
	if b.Info.NoWarm {
		return 10 * slowest, nil
	}
	return fillAt(ctx, b.Peer, b.Info, 2*fillFrom, warmJobs)
}

func scheduleCase(ctx context.Context, b *Bench) (Values, error) { return produceCase(ctx, b, 0) }

func batchCase(ctx context.Context, b *Bench) (Values, error) {
	return produceCase(ctx, b, b.Info.Batch)
}

func produceCase(ctx context.Context, b *Bench, batch int) (Values, error) {
	if _, err := warm(ctx, b); err != nil {
		return nil, err
	}

	var n int64
	var rate float64
	before, after, err := cost(ctx, b, func() (err error) {
		n, rate, err = produce(ctx, b.Peer, b.Size.Schedule, batch)
		return err
	})
	if err != nil {
		return nil, err
	}

	v := Values{"rate": rate}
	after.perJob(v, before, n)
	return v, nil
}

func bytesCase(ctx context.Context, b *Bench) (Values, error) {
	if _, err := warm(ctx, b); err != nil {
		return nil, err
	}

	grown, err := fillMeasured(ctx, b, b.Size.Bytes)
	return Values{"bytes": grown / float64(b.Size.Bytes)}, err
}

// drainCase measures how fast jobs are handled that are due at one instant. work
// starts the worker.
func drainCase(ctx context.Context, b *Bench, work func(peer.Handle) error) (Values, error) {
	rate, err := warm(ctx, b)
	if err != nil {
		return nil, err
	}

	n := b.Size.Drain
	due := time.Now().Add(leadFor(b.Size, b.Info, n, rate)).Truncate(time.Second).Add(time.Second)
	before, err := b.Peer.Usage(ctx)
	if err != nil {
		return nil, err
	}

	r, err := scheduleDue(ctx, b, repeat(due, n), due)
	if err != nil {
		return nil, err
	}
	if err := work(r.Handle); err != nil {
		return nil, err
	}
	if over := time.Since(due); over > 0 {
		return nil, fmt.Errorf("the worker was ready %s after the jobs were due: %w", over, errLate)
	}
	if err := pause(ctx, time.Until(due)-20*time.Millisecond); err != nil {
		return nil, err
	}

	from, to, err := cost(ctx, b, func() error { return r.Wait(ctx, due.Add(b.Size.DrainMax)) })
	if err != nil {
		return nil, err
	}

	v := Values{}
	r.Counts(v)
	to.perJob(v, from, r.handled.Load())
	if before.Trips >= 0 {
		v["trips"] = float64(to.usage.Trips-before.Trips) / float64(n)
	}

	if r.handled.Load() == 0 {
		return v, nil // all are missing, and counted as that
	}

	if pace, ok := r.Pace(); ok {
		v["pace"] = pace
	}

	v["rate"], err = r.Rate(due)
	return v, err
}

// drainAll drains jobs with the peer's own worker or service.
func drainAll(ctx context.Context, b *Bench) (Values, error) {
	return drainCase(ctx, b, func(handle peer.Handle) error { return b.work(ctx, handle) })
}

func repeat(t time.Time, n int) []time.Time {
	due := make([]time.Time, n)
	for i := range due {
		due[i] = t
	}

	return due
}

// scheduleDue schedules a job for each due time, all of it before the first.
func scheduleDue(ctx context.Context, b *Bench, due []time.Time, first time.Time) (*Recorder, error) {
	r := NewRecorder(due)
	return r, r.schedule(ctx, b, first)
}

// schedule schedules the recorder's jobs, all of them before the first is due.
func (r *Recorder) schedule(ctx context.Context, b *Bench, first time.Time) error {
	return inTime(ctx, b, len(r.due), first, r.job)
}

func (r *Recorder) job(n int) peer.Job {
	return peer.Job{ID: peer.ID(n), Due: r.due[n], Body: peer.Body(n)}
}

// inTime schedules n jobs, all of them before the first is due.
func inTime(ctx context.Context, b *Bench, n int, first time.Time, job func(n int) peer.Job) error {
	if err := schedule(ctx, b.Peer, b.Info, job, 0, n); err != nil {
		return err
	}
	if over := time.Since(first); over > 0 {
		return fmt.Errorf("scheduling ended %s after the first job was due: %w", over, errLate)
	}

	return nil
}

// lateCase measures lateness, and on the way the memory of the others.
func lateCase(ctx context.Context, b *Bench, rate int, window time.Duration, pending int) (Values, error) {
	v := Values{}
	speed := slowest
	if pending > 0 {
		var err error
		if speed, err = warm(ctx, b); err != nil {
			return nil, err
		}

		grown, err := fillMeasured(ctx, b, pending)
		if err != nil {
			return nil, err
		}

		v["bytes"], v["total_mb"] = grown/float64(pending), grown/1e6
	}

	n := int(float64(rate) * window.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, speed))
	due := randomDue(start, window, n)
	r := NewRecorder(due)
	if err := b.work(ctx, r.Handle); err != nil {
		return nil, err
	}

	if err := r.schedule(ctx, b, start); err != nil {
		return nil, err
	}
	if err := r.Wait(ctx, start.Add(window+b.Size.Wait)); err != nil {
		return nil, err
	}

	r.Counts(v)
	r.Lateness(v)
	return v, nil
}

// errLate says that a case needs a longer lead on a machine as busy as this one.
var errLate = errors.New("the figures would measure the harness")

// slowest is the schedule rate that a case without pending jobs reckons with.
const slowest = 1000.0

// fillMeasured schedules far jobs and returns how many bytes they take.
func fillMeasured(ctx context.Context, b *Bench, pending int) (float64, error) {
	before, err := b.Peer.Usage(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := fill(ctx, b.Peer, b.Info, pending); err != nil {
		return 0, err
	}

	after, err := b.Peer.Usage(ctx)
	return float64(after.Bytes - before.Bytes), err
}

func idleCase(ctx context.Context, b *Bench) (Values, error) {
	if _, err := fill(ctx, b.Peer, b.Info, 1000); err != nil {
		return nil, err
	}

	r := NewRecorder(nil)
	if err := b.work(ctx, r.Handle); err != nil {
		return nil, err
	}

	return idleFor(ctx, b)
}

// idleFor returns what running workers cost while nothing is due.
func idleFor(ctx context.Context, b *Bench) (Values, error) {
	// Wait until the work of the start is done, which is no idle cost.
	if err := pause(ctx, min(b.Size.Idle, 3*time.Second)); err != nil {
		return nil, err
	}

	before, after, err := cost(ctx, b, func() error { return pause(ctx, b.Size.Idle) })
	if err != nil {
		return nil, err
	}

	seconds := after.at.Sub(before.at).Seconds()
	v := Values{"cpu_worker": 100 * (after.own - before.own).Seconds() / seconds,
		"cpu_server": 100 * (after.all() - before.all()).Seconds() / seconds}
	if before.usage.Commands >= 0 {
		v["commands"] = float64(after.usage.Commands-before.usage.Commands) / seconds
	}

	if before.usage.Trips >= 0 {
		v["trips"] = float64(after.usage.Trips-before.usage.Trips) / seconds
	}

	return v, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// raceCase runs two workers on one server.
func raceCase(ctx context.Context, b *Bench) (Values, error) {
	n := int(500 * b.Size.Window.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, slowest))
	due := randomDue(start, b.Size.Window, n)
	r := NewRecorder(due)
	dir, err := os.MkdirTemp(b.Env.Dir, "second")
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}

	second := b.New()
	defer second.Stop()
	env := b.Env
	env.Dir, env.Attach = dir, b.Peer.Addr()
	if err := second.Start(ctx, env); err != nil {
		return nil, fmt.Errorf("start the second instance: %w", err)
	}

	for _, p := range []peer.Peer{b.Peer, second} {
		if err := p.Work(ctx, b.Env.Handlers, peer.Handle(r.Handle).Call); err != nil {
			return nil, err
		}
	}

	if err := schedule(ctx, b.Peer, b.Info, r.job, 0, n); err != nil {
		return nil, err
	}
	if err := r.Wait(ctx, start.Add(b.Size.Window+b.Size.Wait)); err != nil {
		return nil, err
	}
	// The second copy of a job comes right after the first, if it comes.
	if err := pause(ctx, 2*time.Second); err != nil {
		return nil, err
	}

	v := Values{}
	r.Counts(v)
	v["doubled_percent"] = 100 * v["doubled"] / float64(n)
	return v, nil
}
