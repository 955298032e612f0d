package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
)

// Pusher pushes an entry to a list or stream.
type Pusher interface {
	// Push also writes a marker that expires after keep. While the marker exists, a repetition of the same
	// push does nothing.
	Push(ctx context.Context, p *notice.Push, keep time.Duration) error
}

// Handler creates the entries of routes to lists and streams.
type Handler struct {
	// Pusher pushes entries in a cluster, where lists and streams are in other slots than the notices; nil =
	// the settle script pushes.
	Pusher Pusher

	answered sync.Map // by the key of a list or stream: *signal that is sent when a push was answered
}

// Handle creates the entry of one attempt, and pushes it if there is a Pusher.
func (h *Handler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if n.Sealed != "" && !r.KeepsSealed() { // it is opened
		opened := *n
		opened.Sealed = ""
		n = &opened
	}

	p := &notice.Push{Key: r.Target.Key}
	if r.Target.Kind == route.KindStream {
		p.Stream, p.MaxLen, p.Entry = true, r.Target.MaxLen, Fields(n)
	} else {
		p.Entry = []string{string(Envelope(n))}
	}

	res := notice.Result{Outcome: notice.OutcomeDelivered, Push: p}
	if h.Pusher == nil {
		return res
	}

	p.Mark, p.InPlaceOf = n.PushMark()
	if r.Ack.Kind == route.AckReport {
		p.InPlaceOf = nil // a consumer's report on an earlier push would not be one on this attempt
	}

	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()

	switch err := h.push(ctx, p, markers(r)); {
	case errors.Is(err, notice.ErrUnanswered):
		// This uses no attempt: the push after the next claim has the same mark.
		return notice.DeferredResult(notice.ReasonQueue, postponed, err.Error())
	case err != nil:
		return notice.RetryResult(notice.ReasonQueue, err.Error())
	}

	res.Push.Entry = nil // the settle has nothing to push
	return res
}

// Delays between pushes while Redis is unavailable. Together they bound the lateness of a notice once the
// node answers again, however long the outage was.
const (
	maxBackoff = 200 * time.Millisecond // between two pushes of an attempt, unless another push was answered
	postponed  = 250 * time.Millisecond // after an attempt whose pushes were not answered
)

// markers returns how long the marker of a push is kept. If an instance cannot settle, the notice is claimed
// and pushed again before that.
func markers(r *route.Route) time.Duration { return 2*r.Lease() + 30*time.Second }

// push repeats the push until Redis answers or the attempt's time is over. ErrUnanswered means that the entry
// may exist, any other error that it does not.
func (h *Handler) push(ctx context.Context, p *notice.Push, keep time.Duration) error {
	one, _ := h.answered.LoadOrStore(p.Key, &signal{})
	answered := one.(*signal)
	var lost error // from an earlier push without an answer: the entry may exist

	again := pace.Loop{Min: 20 * time.Millisecond, Max: maxBackoff}

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

// signal wakes all goroutines that wait for it.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while none waits
}

// next returns a channel that the next send closes.
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
