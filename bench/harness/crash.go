package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// crashWork is the duration of a handler in the crash case: two workers of 16 handlers finish 640 jobs per second, three
// times the arriving ones.
const crashWork = 50 * time.Millisecond

const (
	crashRate   = 200
	crashWindow = 4 * time.Second
)

// crashLog collects the calls of worker processes.
type crashLog struct {
	started, finished *Recorder
	mu                sync.Mutex
	running           map[int]bool  // in the first worker
	half              chan struct{} // half are done, and the first worker has a running job
	halved            bool
	killed            bool // the first worker
}

func newCrashLog(due []time.Time) *crashLog {
	return &crashLog{started: NewRecorder(due), finished: NewRecorder(due), running: map[int]bool{}, half: make(chan struct{})}
}

// receive starts a receiver for the calls of a worker.
func (l *crashLog) receive(worker int) (*server.Receiver, error) {
	return server.Receive(func(id string) {
		n, ok := peer.Index(id)
		if !ok || n >= len(l.started.due) {
			return
		}

		l.start(n, worker, time.Now())
		time.Sleep(crashWork)
		l.finish(n, worker, time.Now())
	})
}

// start notes that a worker has begun to handle job n.
func (l *crashLog) start(n, worker int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if worker == 0 {
		l.running[n] = true
	}

	l.started.handleAt(peer.ID(n), at)
	if 2*l.finished.handled.Load() >= int64(len(l.started.due)) && len(l.running) > 0 && !l.halved {
		l.halved = true
		close(l.half)
	}
}

// finish notes that a job was handled, unless its worker has been killed.
func (l *crashLog) finish(n, worker int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if worker == 0 && l.killed {
		return
	}

	if worker == 0 {
		delete(l.running, n)
	}

	l.finished.handleAt(peer.ID(n), at)
}

func crashCaseOf(size Size) Case {
	return Case{Name: "crash", Title: "One of two workers is killed", What: fmt.Sprintf("Two worker processes, 200 jobs a second for %s, "+
		"each taking %d ms; once half of them are done, a process with running jobs is killed (-9). Lost are jobs not finished within %s.",
		crashWindow, crashWork.Milliseconds(), size.Crash),
		Columns: []Column{{"running", "ran in it"}, {"lost", "lost"}, {"again", "finished twice"},
			{"lost_percent", "lost, %"}, {"again_percent", "finished twice, %"},
			{"recovery_s", "last of those that ran in it after s"}},
		Counts: true, Together: true, Run: crashCase}
}

func crashCase(ctx context.Context, b *Bench) Values {
	n := int(crashRate * crashWindow.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, slowest)).Truncate(time.Millisecond)
	due := randomDue(start, crashWindow, n)
	NewRecorder(due).schedule(ctx, b, start)
	l := newCrashLog(due)
	var workers [2]*child
	for i := range workers {
		r := must(l.receive(i))
		b.cleanup(r.Stop)
		workers[i] = startCalling(ctx, b, r.URL)
	}

	deadline := time.NewTimer(time.Until(start.Add(crashWindow + b.Size.Crash)))
	defer deadline.Stop()
	select {
	case <-l.half:
	case <-deadline.C:
		check(errors.New("half of the jobs were not handled before a worker was to be killed"))
	case <-ctx.Done():
		check(ctx.Err())
	}

	killed := l.kill(workers[0].kill)
	select {
	case <-l.finished.all:
		// Jobs that will be finished a second time may still be running.
		check(peer.Pause(ctx, 2*time.Second))
	case <-deadline.C:
	case <-ctx.Done():
		check(ctx.Err())
	}

	workers[1].kill()
	return l.values(killed)
}

// kill kills the first worker. Its jobs that run then are not finished.
func (l *crashLog) kill(worker func()) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	worker()
	l.killed = true
	return time.Now()
}

func (l *crashLog) values(killed time.Time) Values {
	l.mu.Lock()
	defer l.mu.Unlock()
	early, v := Values{}, Values{"running": float64(len(l.running))}
	l.started.Counts(early)
	l.finished.Counts(v)
	v["early"], v["lost"], v["again"] = early["early"], v["missing"], v["doubled"]
	v["lost_percent"], v["again_percent"] = 100*v["lost"]/v["jobs"], 100*v["again"]/v["jobs"]
	for n := range l.running { // the killed worker did not end these
		if ns := l.finished.first[n].Load(); ns > 0 {
			v["recovery_s"] = max(v["recovery_s"], time.Unix(0, ns).Sub(killed).Seconds())
		}
	}

	return v
}
