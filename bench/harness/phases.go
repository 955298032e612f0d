package harness

import (
	"context"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
)

// phases are consecutive measurements on one server. Each has a separate recorder, so that a
// late job of one phase is not counted in the next.
type phases struct {
	per       int // jobs of a phase
	recorders []atomic.Pointer[Recorder]
}

func newPhases(per, n int) *phases {
	return &phases{per: per, recorders: make([]atomic.Pointer[Recorder], n)}
}

// handle gives a job to the recorder of its phase.
func (p *phases) handle(id string) {
	n, ok := peer.Index(id)
	if ok && n < p.per*len(p.recorders) {
		if r := p.recorders[n/p.per].Load(); r != nil {
			r.Handle(peer.ID(n % p.per))
			return
		}
	}

	if r := p.recorders[0].Load(); r != nil {
		r.Handle(id) // a stray, or too early by a phase
	}
}

// phase is one of them.
type phase struct {
	number int
	jobs   int // at most phases.per
	start  time.Time
	url    func(n int) string // where job n is to be delivered
}

// schedule schedules the jobs of a phase, due at random in the window from its start.
func (p *phases) schedule(ctx context.Context, b *Bench, ph phase) *Recorder {
	r := NewRecorder(randomDue(ph.start, b.Size.Window, ph.jobs))
	p.recorders[ph.number].Store(r)
	job := func(n int) peer.Job {
		id := ph.number*p.per + n
		return peer.Job{ID: peer.ID(id), Due: r.due[n], Body: peer.Body(id), URL: ph.url(n)}
	}

	inTime(ctx, b, ph.jobs, ph.start, job)
	return r
}

// measure runs one phase: it schedules the jobs and waits until they were handled. It returns their lateness and the
// resources that the servers used, from the first due time until half a second after the last handler.
func (p *phases) measure(ctx context.Context, b *Bench, number, jobs int, rate float64) Values {
	start := time.Now().Add(leadFor(b.Size, b.Info, jobs, rate))
	r := p.schedule(ctx, b, phase{number, jobs, start, func(int) string { return "" }})
	check(peer.Pause(ctx, time.Until(start)-20*time.Millisecond))
	before, after := cost(ctx, b, func() error {
		check(r.Wait(ctx, start.Add(b.Size.Window+b.Size.Wait)))
		return peer.Pause(ctx, 500*time.Millisecond) // include settles and second deliveries
	})
	v := Values{}
	r.Counts(v)
	r.Lateness(v)
	after.perJob(v, before, int64(jobs))
	return v
}
