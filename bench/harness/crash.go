package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"notifier/bench/peer"
)

// crashWork is the duration of a handler in the crash case: two workers of 16 handlers finish 640 jobs per second, three
// times the arriving ones.
const crashWork = 50 * time.Millisecond

const (
	crashRate   = 200
	crashWindow = 4 * time.Second
)

// event is a worker process's message about a job: it has started, or it was finished.
type event struct {
	ID   string `json:"id"`
	NS   int64  `json:"ns"`
	Done bool   `json:"done"`
}

// Work is the body of a worker process. It attaches to a running server and writes an event of each job to
// out, until it is killed or in is closed.
func Work(ctx context.Context, spec WorkSpec, entry peer.Entry, in io.Reader, out io.Writer) error {
	p := entry.New()
	defer p.Stop()
	if err := p.Start(ctx, spec.Env); err != nil {
		return fmt.Errorf("attach: %w", err)
	}

	var mu sync.Mutex
	tell := func(e event) {
		line, err := json.Marshal(e)
		if err != nil {
			return
		}

		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // without a reader, this process is killed next
	}
	err := p.Work(ctx, spec.Env.Handlers, func(id string) {
		tell(event{ID: id, NS: time.Now().UnixNano()})
		time.Sleep(crashWork) // the simulated work
		tell(event{ID: id, NS: time.Now().UnixNano(), Done: true})
	})
	if err != nil {
		return err
	}

	_, err = io.Copy(io.Discard, in)
	return err
}

// crashLog collects the events of worker processes.
type crashLog struct {
	started, finished *Recorder
	mu                sync.Mutex
	running           map[int]bool  // in the first worker
	half              chan struct{} // half are done, and the first worker has a running job
	halved            bool
}

func newCrashLog(due []time.Time) *crashLog {
	return &crashLog{started: NewRecorder(due), finished: NewRecorder(due), running: map[int]bool{}, half: make(chan struct{})}
}

func (l *crashLog) read(r io.Reader, worker int) {
	for s := bufio.NewScanner(r); s.Scan(); {
		var e event
		if json.Unmarshal(s.Bytes(), &e) != nil {
			continue // a line cut off by the kill
		}

		n, ok := peer.Index(e.ID)
		if !ok || n >= len(l.started.due) {
			continue
		}

		l.note(n, worker, e)
	}
}

func (l *crashLog) note(n, worker int, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Unix(0, e.NS)
	if e.Done {
		if worker == 0 {
			delete(l.running, n)
		}

		l.finished.handleAt(e.ID, at)
		return
	}

	if worker == 0 {
		l.running[n] = true
	}

	l.started.handleAt(e.ID, at)
	if 2*l.finished.handled.Load() >= int64(len(l.started.due)) && len(l.running) > 0 && !l.halved {
		l.halved = true
		close(l.half)
	}
}

func crashCaseOf(size Size) Case {
	return Case{Name: "crash", Title: "One of two workers is killed", What: fmt.Sprintf("Two worker processes, 200 jobs a second for %s, "+
		"each taking %d ms; once half of them are done, a process with running jobs is killed (-9). Lost are jobs not finished within %s.",
		crashWindow, crashWork.Milliseconds(), size.Crash),
		Columns: []Column{{"running", "ran in it"}, {"lost", "lost"}, {"again", "finished twice"},
			{"lost_percent", "lost, %"}, {"again_percent", "finished twice, %"},
			{"recovery_s", "last of those that ran in it after s"}},
		Counts: true, Handlers: lateHandlers, Together: true, Run: crashCase}
}

func crashCase(ctx context.Context, b *Bench) (Values, error) {
	n := int(crashRate * crashWindow.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, slowest)).Truncate(time.Millisecond)
	due := randomDue(start, crashWindow, n)
	if _, err := scheduleDue(ctx, b, due, start); err != nil {
		return nil, err
	}

	l := newCrashLog(due)
	var workers [2]*worker
	for i := range workers {
		w, err := startWorker(ctx, b, l, i)
		if err != nil {
			return nil, err
		}

		defer w.kill() // it may have been killed already
		workers[i] = w
	}

	deadline := time.NewTimer(time.Until(start.Add(crashWindow + b.Size.Crash)))
	defer deadline.Stop()
	select {
	case <-l.half:
	case <-deadline.C:
		return nil, errors.New("half of the jobs were not handled before a worker was to be killed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	workers[0].kill()
	killed := time.Now()
	select {
	case <-l.finished.all:
		// Jobs that will be finished a second time may still be running.
		if err := pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
	case <-deadline.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	workers[1].kill()
	return l.values(killed), nil
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

type worker struct {
	*child
	read chan struct{}
}

func startWorker(ctx context.Context, b *Bench, l *crashLog, number int) (*worker, error) {
	c, err := startChild(ctx, b, "work", "")
	if err != nil {
		return nil, err
	}

	w := &worker{c, make(chan struct{})}
	go func() {
		defer close(w.read)
		l.read(w.out, number)
	}()
	return w, nil
}

// kill ends a worker with SIGKILL and reads its remaining events.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // it may have ended already
	<-w.read
	_ = w.cmd.Wait() // the error is "signal: killed"
}
