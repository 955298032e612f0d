package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Notice is a notice that is due, as a handler receives it.
type Notice struct {
	Key string
	// ID is the same in all attempts.
	ID string
	// Attempt is the number of this attempt, from 1. MaxAttempts is the number of the last one; 0 = they are made until the
	// notice expires.
	Attempt, MaxAttempts int
	Due                  time.Time
	Header               http.Header
	ContentType          string
	Body                 []byte
}

// A Handler handles a notice. After nil, the notice is finished. After an error, another attempt follows the next delay of
// Retry, unless the error is that of Dead, Defer or RetryAfter.
type Handler func(ctx context.Context, n *Notice) error

// A Middleware wraps a handler, for example to log its calls.
type Middleware func(Handler) Handler

// Handle registers the handler of a prefix. The prefix shop:orders:close has the keys that begin with shop:orders:close and
// a colon. If several prefixes match a key, the handler of the longest one is called. Run returns the errors of wrong
// handlers. Handle panics after the first call of Run or of a method that uses Redis.
func (w *Worker) Handle(prefix string, h Handler, options ...HandlerOption) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engine != nil {
		panic("worker: Handle after the first call of Run or a method that uses Redis")
	}

	r := &route.Route{Name: prefix, Prefix: prefix, Target: route.Target{Kind: route.KindWorker}, Ladder: notice.DefaultLadder,
		Timeout: DefaultTimeout, Concurrency: DefaultConcurrency}
	x := &handler{route: r, handle: h}
	for _, o := range options {
		o(x)
	}

	x.check(w)
	w.handlers = append(w.handlers, x)
}

// HandleJSON registers a handler as Handle does, and decodes the body of each notice with Options.Codec, by default from
// JSON. A notice whose body does not decode is dead, with the reason decode.
func HandleJSON[T any](w *Worker, prefix string, h func(ctx context.Context, n *Notice, body T) error, options ...HandlerOption) {
	if h == nil {
		w.Handle(prefix, nil, options...)
		return
	}

	w.Handle(prefix, func(ctx context.Context, n *Notice) error {
		var body T
		if err := w.o.Codec.Unmarshal(n.Body, &body); err != nil {
			return undecoded(err)
		}

		return h(ctx, n, body)
	}, options...)
}

// handler is a registered handler.
type handler struct {
	route  *route.Route
	handle Handler
	use    []Middleware
}

// check notes the errors of the handler.
func (x *handler) check(w *Worker) {
	wrong := func(text string) {
		w.wrong = append(w.wrong, fmt.Errorf("%w: handler %s: %s", ErrConfig, x.route.Prefix, text))
	}

	r := x.route
	if x.handle == nil {
		wrong("it is nil")
	}

	if r.Timeout < time.Millisecond || r.Timeout > time.Hour {
		wrong(fmt.Sprintf("the timeout %s is not from 1 ms to 1 h", r.Timeout))
	}

	if r.Concurrency < 1 {
		wrong("the concurrency is less than 1")
	}

	if err := r.Ladder.Check(); err != nil {
		wrong("retry: " + err.Error())
	} else if r.Ladder.Repeats() && r.Expires == 0 {
		wrong("retry: the last delay repeats, so the handler needs Expires")
	}

	if r.Expires < 0 || r.Expires > notice.MaxHorizon {
		wrong(fmt.Sprintf("the expiry %s is not from 0 to %s", r.Expires, notice.Short(notice.MaxHorizon)))
	}
}

// calls makes attempts by calling the handlers. It is a dispatch.Handler.
type calls struct {
	by map[string]Handler
	*overruns
}

// Handle implements dispatch.Handler.
func (c calls) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
	defer cancel()
	defer c.watch(ctx, n.Key)()
	x := &Notice{Key: n.Key, ID: n.ID(), Attempt: n.NextAttempt(), MaxAttempts: n.MaxAttempts(r.Ladder), Due: n.Due,
		ContentType: n.EffectiveType(), Body: n.Body, Header: http.Header{}}
	for _, h := range n.Headers {
		x.Header.Add(h.Name, h.Value)
	}

	done := make(chan notice.Result, 1)
	go call(ctx, c.by[r.Prefix], x, done)
	return <-done
}

// call calls a handler and sends the result. It runs in a separate goroutine: runtime.Goexit in a handler, as in
// T.FailNow, would otherwise end the dispatcher's goroutine, and the attempt would have no result.
func call(ctx context.Context, h Handler, n *Notice, done chan<- notice.Result) {
	result := notice.RetryResult(notice.ReasonPanic, "the handler ended its goroutine, as runtime.Goexit and T.FailNow do")
	defer func() {
		if p := recover(); p != nil {
			result = notice.RetryResult(notice.ReasonPanic, fmt.Sprintf("%v\n%s", p, stack()))
		}

		done <- result
	}()
	result = resultOf(ctx, h(ctx, n))
}

// resultOf returns the result of an attempt whose handler has returned err.
func resultOf(ctx context.Context, err error) notice.Result {
	if err == nil {
		return notice.DeliveredResult(0)
	}

	reason := notice.ReasonRejected
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		reason = notice.ReasonTimeout
	}

	var v *verdict
	if !errors.As(err, &v) {
		return notice.RetryResult(reason, err.Error())
	}

	return notice.Result{Outcome: v.outcome, Reason: cmp.Or(v.reason, reason), After: v.after, Response: err.Error()}
}

// stack returns the stack of a panic, without the frames of the recovery.
func stack() []byte {
	text := debug.Stack()
	for range 7 { // the header and the frames of Stack, stack and the deferred function
		for i, c := range text {
			if c == '\n' {
				text = text[i+1:]
				break
			}
		}
	}

	return text
}
