// Package peer defines the interface between the harness and the measured systems, this project included. A
// system is a Peer; package adapter has one file for each.
package peer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Job is one job with a due time. Due is a whole millisecond, so that rounding cannot make a system with a
// resolution of milliseconds look early.
type Job struct {
	ID   string
	Due  time.Time
	Body []byte
	// URL is the address of the delivery, in the cases where each job brings one; empty in all others.
	URL string
}

// Handle is called at the start of a job's handling; the harness takes the time. It may block, in cases with
// work that takes time.
type Handle func(id string)

// Call returns Handle as a Call that never fails.
func (h Handle) Call(_ context.Context, j Job) error {
	h(j.ID)
	return nil
}

// Call does the work of a job: in the callback cases an HTTP request. Of peers with Info.Refused it gets all of the job
// except the due time, and after an error the peer retries by its own means. Of others it gets the id.
type Call func(ctx context.Context, job Job) error

// Env is the environment in which a peer is started.
type Env struct {
	Dir string // an existing scratch directory for this peer
	Bin string // directory that keeps servers built from source between cells
	// Attach is the Addr of a peer of the same kind whose server is used; empty = start a server. It makes a
	// second instance for the first. Peers with a service of their own do not support it.
	Attach string
	// NoEvents means that the server must not send expired events. Only this project, and the pattern built
	// on them, support that.
	NoEvents bool
	// Handlers is the number of handlers of the worker.
	Handlers int
	// URLs means that each job brings the URL of its delivery.
	URLs bool
	// Log means that jobs are delivered only to the log of the service, one line each.
	Log bool
	// Cores is the number of processors that the service may use; 0 = all.
	Cores int
	// PerHost is the number of calls in flight to one receiver; 0 = Handlers. Only this project supports it.
	PerHost int
	// Routes is the number of routes of this project over HTTP; 0 = 1.
	Routes int
	// Order makes the route of this project over HTTP an ordered one.
	Order bool
	// Program is a built program of this project; empty = it is built from this revision.
	Program string
}

// Kind groups peers in the tables.
type Kind string

// The kinds of peer.
const (
	Ours    Kind = "this project"
	System  Kind = "system"
	Pattern Kind = "hand-made pattern"
)

// Traits are documented properties that are not measured.
type Traits struct {
	Crash  string // jobs that a killed worker loses
	Race   string // what two workers do to each other
	Ladder string // retries with delays of one's own
	Cancel string // taking a job back
}

// Info describes a peer.
type Info struct {
	Name     string
	Title    string // as a table's row names it
	Version  string
	Settings string // its settings in this run, and their drawbacks
	Kind     Kind
	Traits   Traits
	// Refused describes the fate of a job whose receiver answers 500, or whose Call fails. Peers without it are not part
	// of the callback cases.
	Refused string `json:",omitempty"`
	// Quickstart is the folder in bench/quickstart of the smallest program that uses the peer; empty = none.
	Quickstart string `json:",omitempty"`
	// Modules are the modules that it imports; empty = this project.
	Modules []string `json:",omitempty"`
	// Batch is the number of jobs in a Schedule call; 0 = one.
	Batch int
	// Lead is the minimal time between scheduling and due time.
	Lead time.Duration
	// NoWarm means that a job due in a day blocks all later jobs, so none is scheduled unless a case requires
	// it.
	NoWarm bool
	// Cases are the only cases of this peer; nil = all.
	Cases []string `json:",omitempty"`
	// Skip is the reason, by case, why this peer does not run it.
	Skip map[string]string
	// Needs are the required programs, each with its Debian package.
	Needs []Need
	// BytesOf describes the value of Usage.Bytes.
	BytesOf string
	// CommandsOf describes the value of Usage.Commands.
	CommandsOf string
}

// Need is a program that a peer requires.
type Need struct {
	Program string   // looked for on PATH
	Paths   []string // and here
	Package string   // of Debian
}

// Usage is the memory and work of a peer's server so far.
type Usage struct {
	Bytes    int64
	Commands int64 // -1 = unknown
	// Trips is how often the server read from a connection; -1 = unknown. A pipeline counts once.
	Trips int64
	PIDs  []int // of its server, then of processes of its service, for their CPU time
	// CPU is the processor time of the server by its own account; 0 = unknown.
	CPU time.Duration
}

// Peer is one measured system. It is used once: Start, then any number of calls, then Stop. Schedule is called from many
// goroutines.
type Peer interface {
	// Start starts the servers and connects the producer. No job is handled before Work.
	Start(ctx context.Context, env Env) error
	// Schedule returns once the system has accepted the jobs: one, or at most Info.Batch.
	Schedule(ctx context.Context, jobs ...Job) error
	// Work starts the worker and returns once it is ready. At most so many calls run at once.
	Work(ctx context.Context, handlers int, call Call) error
	Usage(ctx context.Context) (Usage, error)
	// Addr is the address that a second instance gets as Env.Attach.
	Addr() string
	// Stop ends worker, producer and servers, in this order. It may be called after a failed Start.
	Stop() error
}

// Entry is a peer that can be created.
type Entry struct {
	Info Info
	New  func() Peer
}

const idPrefix = "app1:trans:notice:"

// ID returns the id of job n. The sizes in the tables refer to this form.
func ID(n int) string { return fmt.Sprintf("%s%013d", idPrefix, n) }

// Index returns n of ID(n); ok is false for any other text.
func Index(id string) (n int, ok bool) {
	if len(id) != len(idPrefix)+13 || id[:len(idPrefix)] != idPrefix {
		return 0, false
	}

	n, err := strconv.Atoi(id[len(idPrefix):])
	return n, err == nil
}

// BodyLen is the size of every job's body.
const BodyLen = 200

// Body returns a JSON body of BodyLen bytes.
func Body(n int) []byte {
	b := fmt.Appendf(nil, `{"order":"%013d","amount":"129.00","currency":"CNY","status":"PAID","note":"`, n)
	for i := 0; len(b) < BodyLen-2; i++ {
		b = append(b, "abcdefghijklmnopqrstuvwxyz"[(n+i*7)%26])
	}

	return append(b, `"}`...)
}

// Pause waits for a time, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
