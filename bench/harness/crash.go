package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"notifier/bench/peer"
)

// crashWork is the duration of a handler in the crash case: 16 handlers finish 800 jobs per second, four
// times the arriving ones.
const crashWork = 20 * time.Millisecond

const (
	crashRate   = 200
	crashWindow = 4 * time.Second
)

// WorkSpec is the configuration of a worker process.
type WorkSpec struct {
	Peer string
	Env  peer.Env
}

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
	mu       sync.Mutex
	due      []time.Time
	started  []int64 // first start, Unix ns
	finished []int
	left     int
	last     time.Time
	half     chan struct{}
	all      chan struct{}
}

func (l *crashLog) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		var e event
		if json.Unmarshal(s.Bytes(), &e) != nil {
			continue // a line cut off by the kill
		}

		n, ok := peer.Index(e.ID)
		if !ok || n >= len(l.due) {
			continue
		}

		l.note(n, e)
	}
}

func (l *crashLog) note(n int, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.Done {
		if l.started[n] == 0 {
			l.started[n] = e.NS
		}
		return
	}

	l.finished[n]++
	if l.finished[n] > 1 {
		return
	}

	l.left--
	l.last = time.Unix(0, e.NS)
	if l.left == len(l.due)/2 {
		close(l.half)
	}

	if l.left == 0 {
		close(l.all)
	}
}

func crashCase(ctx context.Context, b *Bench) (Values, error) {
	n := int(crashRate * crashWindow.Seconds())
	start := time.Now().Add(leadFor(b.Size, b.Info, n, slowest)).Truncate(time.Millisecond)
	due := randomDue(start, crashWindow, n)
	if _, err := scheduleDue(ctx, b, due, start); err != nil {
		return nil, err
	}

	l := &crashLog{due: due, started: make([]int64, n), finished: make([]int, n), left: n, half: make(chan struct{}),
		all: make(chan struct{})}
	first, err := startWorker(ctx, b, l, "first")
	if err != nil {
		return nil, err
	}

	deadline := time.NewTimer(time.Until(start.Add(crashWindow + b.Size.Crash)))
	defer deadline.Stop()
	select {
	case <-l.half:
	case <-deadline.C:
		return nil, fmt.Errorf("half of the jobs were not handled before the worker was to be killed: %w", first.kill())
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	if err := first.kill(); err != nil {
		return nil, err
	}

	killed := time.Now()
	second, err := startWorker(ctx, b, l, "second")
	if err != nil {
		return nil, err
	}

	select {
	case <-l.all:
		// Jobs that will be finished a second time may still be running.
		if err := pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
	case <-deadline.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	if err := second.kill(); err != nil {
		return nil, err
	}

	return l.values(killed), nil
}

func (l *crashLog) values(killed time.Time) Values {
	l.mu.Lock()
	defer l.mu.Unlock()
	var early, missing, doubled int
	for n := range l.due {
		if l.started[n] != 0 && l.started[n] < l.due[n].UnixNano() {
			early++
		}
		switch {
		case l.finished[n] == 0:
			missing++
		case l.finished[n] > 1:
			doubled++
		}
	}

	total := float64(len(l.due))
	return Values{"jobs": total, "early": float64(early), "missing": float64(missing), "doubled": float64(doubled),
		"lost_percent": 100 * float64(missing) / total, "again_percent": 100 * float64(doubled) / total, "recovery_s": max(0,
			l.last.Sub(killed).Seconds())}
}

type worker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	read chan struct{}
}

func startWorker(ctx context.Context, b *Bench, l *crashLog, name string) (*worker, error) {
	dir, err := os.MkdirTemp(b.Env.Dir, name)
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}

	env := b.Env
	env.Dir, env.Attach = dir, b.Peer.Addr()
	spec, err := json.Marshal(WorkSpec{Peer: b.Info.Name, Env: env})
	if err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(ctx, b.Self, "work", string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}

	w := &worker{cmd: cmd, in: in, read: make(chan struct{})}
	go func() {
		defer close(w.read)
		l.read(out)
	}()
	return w, nil
}

// kill ends a worker with SIGKILL and reads its remaining events.
func (w *worker) kill() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the worker: %w", err)
	}

	<-w.read
	_ = w.cmd.Wait() // the error is "signal: killed"
	return nil
}
