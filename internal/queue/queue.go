package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifier/internal/notice"
	"notifier/internal/retry"
	"notifier/internal/route"
)

// Pusher pushes an entry at once.
type Pusher interface {
	// Push leaves a marker for as long as keep, by which the same push does nothing when
	// it is made again.
	Push(ctx context.Context, p *notice.Push, keep time.Duration) error
}

// Handler makes the entries.
type Handler struct {
	// Pusher pushes at once, as a cluster needs it, whose lists and streams are in other
	// slots than the notices; nil = the settle pushes.
	Pusher Pusher

	answered sync.Map // *signal by the key of a list or stream: a push had an answer
}

// Handle makes the entry of one attempt.
func (h *Handler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	p := &notice.Push{Key: r.Target.Key}
	if r.Target.Kind == route.KindStream {
		p.Stream, p.MaxLen, p.Entry = true, r.Target.MaxLen, Fields(n)
	} else {
		p.Entry = []string{string(Envelope(n))}
	}
	res := notice.Result{Outcome: notice.OutcomeDelivered, Push: p}
	if h.Pusher != nil {
		p.Mark, p.InPlaceOf = n.PushMark()
		if r.Ack.Kind == route.AckReport {
			p.InPlaceOf = nil // a report on those would not be one on this attempt
		}
		ctx, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		switch err := h.push(ctx, p, markers(r)); {
		case errors.Is(err, notice.ErrUnanswered):
			// No attempt is used: the push of the next claim has the same mark.
			return notice.DeferredResult(notice.ReasonQueue, postponed, err.Error())
		case err != nil:
			return notice.RetryResult(notice.ReasonQueue, err.Error())
		}
		res.Push.Entry = nil // it is done
	}
	return res
}

// How soon a push is made again while Redis is unavailable. Together they bound how late
// a notice is once the node answers again, however long it was away.
const (
	maxBackoff = 200 * time.Millisecond // between two pushes of an attempt, unless another one has an answer
	postponed  = 250 * time.Millisecond // after an attempt in which none had an answer
)

// markers is how long the marker of a push stays: longer than it takes until the
// notice is claimed and pushed again that an instance could not settle.
func markers(r *route.Route) time.Duration { return 2*r.Lease() + 30*time.Second }

// push makes the push until Redis answers, for as long as the attempt may take.
// ErrUnanswered says that it has not; another error, that the entry is not there.
func (h *Handler) push(ctx context.Context, p *notice.Push, keep time.Duration) error {
	one, _ := h.answered.LoadOrStore(p.Key, &signal{})
	answered := one.(*signal)
	var lost error // an earlier push without an answer: the entry may be there

	again := retry.Loop{Min: 20 * time.Millisecond, Max: maxBackoff}
	for {
		err := h.Pusher.Push(ctx, p, keep)
		switch {
		case err == nil:
			answered.send()
			return nil
		case errors.Is(err, notice.ErrUnanswered):
			lost = err
		case lost == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return lost
		case <-answered.next():
		case <-time.After(again.Next()):
		}
	}
}

// signal wakes all that wait for it.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while none waits
}

// next is closed by the next send.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
