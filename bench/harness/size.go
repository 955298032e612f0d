package harness

import (
	"fmt"
	"time"
)

// Size says how much of everything a run measures.
type Size struct {
	Name    string
	Repeats int // of each cell
	// Once are cases that are run a single time, because they take long; Often
	// are the peers that are repeated, the others run once; empty = all.
	Once  []string
	Often []string
	// Peers and Cases are the names that are run unless flags say otherwise;
	// empty = all.
	Peers []string
	Cases []string
	// Only restricts a case to some peers, where all of them would take too long.
	Only map[string][]string

	Schedule time.Duration // how long producers schedule
	Drain    int           // jobs due in one ms
	DrainMax time.Duration // a drain is cut here
	Lead     time.Duration // least time between scheduling and due
	Wait     time.Duration // for missing jobs, after the last is due
	Small    time.Duration // window of 10 a second
	Window   time.Duration // window of 1,000 and 5,000 a second
	Pending  int           // in the case of 1,000 a second
	PendingL int           // in the case of 5,000 a second
	Bytes    int           // jobs for the memory per job
	Idle     time.Duration
	Calls    int // HTTP callbacks
	// HTTP callbacks to many receivers: how many of these, how many jobs a second,
	// and how many of them in flight at most.
	Receivers, Offered, InFlight int

	Growth []int // pending jobs
	Fleet  []int // numbers of instances, one after another; the first is 1
	Crash  time.Duration
}

// Short returns the size with the amounts of tiny: does each of its cells work at all?
func (s *Size) Short() Size {
	short := Sizes()["tiny"]
	short.Name, short.Peers, short.Cases, short.Only, short.Fleet = s.Name+", short", s.Peers, s.Cases, s.Only, s.Fleet
	return short
}

// Published reports whether the results of this size are published in docs/benchmarks.md. The others are too
// short for that.
func (s *Size) Published() bool { return s.Name == "standard" || s.Name == "nightly" }

// cheap are the peers that start at once and cover the field: a quick run's.
var cheap = []string{"notifier", "notifier-http", "asynq", "asynq-10ms", "beanstalkd-aligned", "beanstalkd", "zset-lua-10ms",
	"expired-events"}

// worker asks the libraries that call handlers in a Go program; pairs compares two built programs of this project.
const (
	Worker = "worker"
	Pairs  = "pairs"
)

// oneToEight measures one instance first and last, because the speed of the machine may change between them.
var oneToEight = []int{1, 2, 4, 8, 1}

// Sizes are the sizes by name.
func Sizes() map[string]Size {
	return map[string]Size{
		// A tenth of a second of everything: does it work at all?
		"tiny": {
			Name: "tiny", Repeats: 1, Schedule: 100 * time.Millisecond, Drain: 500, DrainMax: 12 * time.Second, Lead: 2 * time.Second,
			Wait: 8 * time.Second, Small: 2 * time.Second, Window: time.Second, Pending: 1000, PendingL: 2000, Bytes: 2000,
			Idle:  time.Second,
			Calls: 500, Receivers: 20, Offered: 400, InFlight: 200, Growth: []int{1000, 2000}, Fleet: []int{1, 8}, Crash: 20 * time.Second,
		},
		"quick": {
			Name: "quick", Repeats: 2, Once: []string{"late-1000", "late-10", "drain", "drain-log", "off", "idle", "steady", "callbacks",
				"callbacks-5ms", "callbacks-fleet"},
			Peers: append(cheap, "river"),
			Cases: []string{"schedule", "schedule-batch", "drain", "drain-log", "late-10", "late-1000", "off", "idle", "steady", "callbacks",
				"callbacks-5ms",
				"callbacks-fleet"},
			Only: map[string][]string{
				"schedule":  {"notifier", "notifier-http", "asynq", "beanstalkd", "zset-lua-10ms"},
				"drain":     {"notifier", "asynq-10ms", "beanstalkd"},
				"late-10":   {"notifier", "notifier-http", "asynq-10ms", "beanstalkd-aligned", "zset-lua-10ms"},
				"late-1000": {"notifier", "asynq-10ms", "beanstalkd-aligned", "zset-lua-10ms", "expired-events", "river"},
				"idle":      {"notifier", "asynq", "zset-lua-10ms"},
				"steady":    {"notifier", "asynq-10ms"},
				"callbacks": {"notifier-http", "asynq-10ms", "beanstalkd", "river"}, "callbacks-5ms": {"notifier-http"},
				"callbacks-fleet": {"notifier-http"},
			},
			Schedule: 500 * time.Millisecond, Drain: 20_000, DrainMax: 10 * time.Second, Lead: 1500 * time.Millisecond,
			Wait:  3 * time.Second,
			Small: 3 * time.Second, Window: 2 * time.Second, Pending: 100_000, PendingL: 200_000, Bytes: 50_000,
			Idle: 4 * time.Second, Calls: 10_000, Receivers: 200, Offered: 10_000, InFlight: 4000,
			Growth: []int{10_000, 100_000}, Fleet: oneToEight, Crash: 20 * time.Second,
		},
		Worker: {
			Name: Worker, Repeats: 1, Peers: []string{"notifier", "asynq", "asynq-10ms", "river"},
			Cases:    []string{"late-10", "late-1000", "late-5000", "drain", "schedule", "schedule-batch", "crash", "idle", "bytes", "quickstart"},
			Schedule: 2 * time.Second, Drain: 30_000, DrainMax: 15 * time.Second, Lead: 2 * time.Second, Wait: 8 * time.Second,
			Small: 12 * time.Second, Window: 5 * time.Second, Pending: 100_000, PendingL: 100_000, Bytes: 100_000, Idle: 4 * time.Second,
			Fleet: oneToEight, Crash: 200 * time.Second,
		},
		Pairs: {
			Name: Pairs, Repeats: 1, Peers: []string{"notifier-http"},
			Cases:    []string{"schedule", "schedule-batch", "drain-log", "drain-order", "fleet"},
			Schedule: 2 * time.Second, Drain: 40_000, DrainMax: 20 * time.Second, Lead: 2 * time.Second, Wait: 5 * time.Second,
			Window: 5 * time.Second, Fleet: []int{1, 8},
		},
		// All peers, nearly all cases, in an hour on two cores, or an hour and a half on slow ones.
		"standard": {
			Name: "standard", Repeats: 3, Often: []string{"notifier", "notifier-http"},
			Once: []string{"late-10", "bytes", "idle", "crash", "race", "growth", "late-5000", "idle-fleet", "cores", "program",
				"quickstart"},
			// These cases are asked of the peers that a goal or a plot compares.
			Only: map[string][]string{"late-5000": large, "growth": growers,
				"steady":          {"notifier", "asynq", "asynq-10ms", "asynq-2ms"},
				"callbacks-5ms":   {"notifier-http", "asynq-10ms"},
				"callbacks-fleet": {"notifier-http", "nats"}},
			Schedule: time.Second, Drain: 60_000, DrainMax: 12 * time.Second, Lead: 2 * time.Second, Wait: 8 * time.Second,
			Small: 10 * time.Second, Window: 5 * time.Second, Pending: 100_000, PendingL: 1_000_000, Bytes: 200_000, Idle: 6 * time.Second,
			Calls: 40_000, Receivers: 200, Offered: 10_000, InFlight: 4000, Growth: []int{10_000, 100_000, 1_000_000}, Fleet: oneToEight,
			Crash: 20 * time.Second,
		},
		"nightly": {
			Name: "nightly", Repeats: 3, Once: []string{"growth", "crash", "race", "program", "quickstart"},
			Only:     map[string][]string{"late-5000": large, "growth": growers},
			Schedule: 3 * time.Second, Drain: 100_000, DrainMax: 60 * time.Second, Lead: 5 * time.Second, Wait: 30 * time.Second,
			Small: 30 * time.Second, Window: 10 * time.Second, Pending: 100_000, PendingL: 1_000_000, Bytes: 200_000,
			Idle:  10 * time.Second,
			Calls: 100_000, Receivers: 200, Offered: 10_000, InFlight: 4000, Growth: []int{10_000, 100_000, 1_000_000, 3_000_000}, Fleet: oneToEight,
			Crash: 150 * time.Second,
		},
	}
}

// large are the peers that can be given 5,000 jobs a second among a million at
// all; growers those whose growth is plotted.
var (
	large = []string{"notifier", "asynq-10ms", "beanstalkd-aligned", "river", "zset-lua-10ms", "expired-events",
		"memory-heap"}
	growers = []string{"notifier", "asynq-10ms", "beanstalkd-aligned", "zset-lua-10ms", "expired-events"}
)

// SizeNamed is a size by its name.
func SizeNamed(name string) (Size, error) {
	s, ok := Sizes()[name]
	if !ok {
		return Size{}, fmt.Errorf("-size %q: want tiny, quick, worker, standard or nightly", name)
	}

	return s, nil
}
