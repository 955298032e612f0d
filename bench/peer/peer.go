// Package peer says what the harness asks of every system that is measured,
// this project included. A system is a Peer; package adapter holds one file
// for each.
package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Job is one thing to be done later. Due is a whole millisecond, so that a
// system that keeps milliseconds cannot look early by rounding.
type Job struct {
	ID   string
	Due  time.Time
	Body []byte
	// URL is where it is to be delivered, in the cases where each job brings that
	// with it; empty in all others.
	URL string
}

// Handle is called at the start of a job's handling; the harness takes the
// time. It may block, where a case wants work that takes time.
type Handle func(id string)

// Call is Handle as a Call that nothing ever fails.
func (h Handle) Call(_ context.Context, j Job) error {
	h(j.ID)
	return nil
}

// Call does what a job is for, in the callback cases an HTTP request. Of the job
// it gets all but the due instant. An error says that it was not done: the peer
// tries again by its own means.
type Call func(ctx context.Context, job Job) error

// Caller is a peer that can be told that a job was not done.
type Caller interface {
	Peer
	// Call is Work with an outcome: at no time are more than so many calls under
	// way.
	Call(ctx context.Context, handlers int, call Call) error
}

// ErrNoBatch is what ScheduleBatch returns where a system has no call for many
// jobs.
var ErrNoBatch = errors.New("no call for many jobs at once")

// Env is what a peer is started in.
type Env struct {
	Dir string // its own scratch directory; exists
	Bin string // where servers that are built from source are kept between cells
	// Attach is the Addr of a peer of the same kind whose server is to be used;
	// empty = start one's own. It makes a second instance beside the first.
	Attach string
	// NoEvents: the server must not send expired events (only this project and
	// the pattern built on them can be without).
	NoEvents bool
	// Handlers is how many handlers the worker will have.
	Handlers int
	// URLs: each job brings the URL that it is to be delivered to.
	URLs bool
	// Log: jobs are delivered to the log of the service, a line each, and to nobody else.
	Log bool
	// Cores is how many processors the service may use at once; 0 = all.
	Cores int
}

// Kind groups peers in the tables.
type Kind string

// The kinds of peer.
const (
	Ours    Kind = "this project"
	System  Kind = "system"
	Pattern Kind = "hand-made pattern"
)

// Traits are the properties that no clock measures, as documented.
type Traits struct {
	Crash  string // what a killed worker loses
	Race   string // what two workers do to each other
	Ladder string // retries with delays of one's own
	Cancel string // taking a job back
}

// Info describes a peer.
type Info struct {
	Name     string
	Title    string // as a table's row names it
	Version  string
	Settings string // the settings it runs with, and what they cost it
	Kind     Kind
	Traits   Traits
	// Refused says what becomes of a job whose receiver answers 500; peers that
	// say nothing have no part in the callback cases.
	Refused string `json:",omitempty"`
	// Batch is how many jobs a ScheduleBatch call gets; 0 = there is none.
	Batch int
	// Lead is the least time that must lie between scheduling and due.
	Lead time.Duration
	// NoWarm: a job that is due in a day holds up all that come after it, so
	// none is scheduled where a case does not ask for it.
	NoWarm bool
	// Skip says for a case why this peer does not run it.
	Skip map[string]string
	// Needs are the programs it must find, each with the Debian package that
	// brings it.
	Needs []Need
	// BytesOf says what Usage.Bytes counts.
	BytesOf string
	// CommandsOf says what Usage.Commands counts.
	CommandsOf string
}

// Need is a program that a peer cannot do without.
type Need struct {
	Program string   // looked for on PATH
	Paths   []string // and here
	Package string   // of Debian
}

// Usage is what a peer's server holds and has done so far.
type Usage struct {
	Bytes    int64
	Commands int64 // -1 = it does not say
	// Trips is how often the server read from a connection, -1 = it does not
	// say: what is pipelined together counts once.
	Trips int64
	PIDs  []int // of its servers, for their CPU time
}

// Peer is one system under measurement. A peer is used once: Start, then any
// number of calls, then Stop. Schedule and ScheduleBatch are called from many
// goroutines.
type Peer interface {
	// Start brings up the servers and connects the producer. No job is handled
	// before Work.
	Start(ctx context.Context, env Env) error
	// Schedule returns once the system has accepted the job.
	Schedule(ctx context.Context, job Job) error
	ScheduleBatch(ctx context.Context, jobs []Job) error
	// Work starts the worker and returns once it is ready.
	Work(ctx context.Context, handlers int, handle Handle) error
	Usage(ctx context.Context) (Usage, error)
	// Addr is what a second instance needs as Env.Attach.
	Addr() string
	// Stop ends worker, producer and servers, in this order. It may be called
	// after a Start that failed.
	Stop() error
}

// Entry is a peer that can be made.
type Entry struct {
	Info Info
	New  func() Peer
}

const idPrefix = "app1:trans:notice:"

// ID is the id of job n: the form that the sizes in the tables refer to.
func ID(n int) string { return fmt.Sprintf("%s%013d", idPrefix, n) }

// Index is the inverse of ID; ok is false for any other string.
func Index(id string) (n int, ok bool) {
	if len(id) != len(idPrefix)+13 || id[:len(idPrefix)] != idPrefix {
		return 0, false
	}
	n, err := strconv.Atoi(id[len(idPrefix):])
	return n, err == nil
}

// BodyLen is the size of every job's body.
const BodyLen = 200

// Body is a JSON body of BodyLen bytes.
func Body(n int) []byte {
	b := fmt.Appendf(nil, `{"order":"%013d","amount":"129.00","currency":"CNY","status":"PAID","note":"`, n)
	for i := 0; len(b) < BodyLen-2; i++ {
		b = append(b, "abcdefghijklmnopqrstuvwxyz"[(n+i*7)%26])
	}
	return append(b, `"}`...)
}
