package engine

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// Log is the writer of the log.
type Log interface {
	// Deliver writes a line and returns nil once the output has taken all of it. After an error the line is not written,
	// unless its write had begun. A line whose write has begun is waited for until the timeout.
	Deliver(ctx context.Context, timeout time.Duration, message string, fields ...zap.Field) error
	// Problem returns why lines are not written at the moment; empty if they are.
	Problem() string
}

// logProblem returns why log lines are not written; empty if they are.
func (e *Engine) logProblem() string {
	if e.o.Log == nil {
		return ""
	}
	return e.o.Log.Problem()
}

// logHandler delivers notices to the log only.
type logHandler struct{ log Log }

// Handle delivers a notice by writing one line to the log. It returns when the line is written and not only buffered.
func (h logHandler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	size := zap.Int("bytes", len(n.Body))
	if n.Sealed != "" && r.KeepsSealed() {
		size = zap.Bool("sealed", true)
	}

	err := h.log.Deliver(ctx, r.Timeout, "notice", zap.String("key", n.Key), zap.String("route", r.Name), zap.Int("attempt", n.NextAttempt()),
		size)
	switch {
	case err == nil:
		return notice.DeliveredResult(0)
	case errors.Is(context.Cause(ctx), dispatch.ErrShutdown):
		return notice.DeferredResult(notice.ReasonShutdown, 0, "interrupted: this instance is stopping")
	}

	return notice.LocalResult(notice.ShortLog, "the line was not written to the log: "+err.Error())
}

// handlers makes each attempt as the target of its route requires. The embedded callback handler
// makes it a [dispatch.Hosts].
type handlers struct {
	*callback.Handler
	log   logHandler
	queue *queue.Handler
	taps  *tracing.Publisher
}

// Handlers returns the handler of all routes. taps may be nil.
func Handlers(conn *wire.Conn, space keys.Space, calls *callback.Handler, taps *tracing.Publisher, log Log) dispatch.Handler {
	h := handlers{Handler: calls, log: logHandler{log}, queue: &queue.Handler{}, taps: taps}
	if conn.Masters != nil {
		h.queue.Pusher = pusher{conn, space}
	}

	return h
}

// Handle implements dispatch.Handler.
func (h handlers) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	res := h.handle(ctx, r, n)
	if n.Sealed == "" && h.taps.Wants(n.Key) && !res.Unsent { // a copy passes through Redis in clear text
		h.copy(r, n, res)
	}

	return res
}

// copy publishes a copy of an attempt.
func (h handlers) copy(r *route.Route, n *notice.Notice, res notice.Result) {
	if !h.taps.Take(n.Key) {
		return
	}

	c := h.Copy(r, n)
	if r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream {
		c.Method, c.URL, c.Query = tracing.Push, string(r.Target.Kind)+":"+r.Target.Key, ""
		c.Headers = []notice.Header{{Name: "content-type", Value: "application/json"}}
		c.SetBody(queue.Envelope(n))
	}

	c.At, c.Outcome, c.Reason, c.Status = time.Now(), res.Outcome, res.Reason, res.Status
	h.taps.Publish(c)
}

// handle makes one attempt.
func (h handlers) handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	switch r.Target.Kind {
	case route.KindLog:
		return h.log.Handle(ctx, r, n)
	case route.KindList, route.KindStream:
		return h.queue.Handle(ctx, r, n)
	}
	return h.Handler.Handle(ctx, r, n)
}

// pusher pushes to lists and streams of a cluster.
type pusher struct {
	conn  *wire.Conn
	space keys.Space
}

// Push implements queue.Pusher.
func (p pusher) Push(ctx context.Context, push *notice.Push, keep time.Duration) error {
	return store.Push(ctx, p.conn, p.space, push, keep)
}
