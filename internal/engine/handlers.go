package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/tap"
	"notifier/internal/wire"
)

// logHandler delivers notices to the log only.
type logHandler struct{ logger *zap.Logger }

// Handle delivers a notice by writing one line to the log, whatever NOTIFIER_LOG_LEVEL is. It returns when the line
// is written and not only buffered.
func (h logHandler) Handle(_ context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if line := h.logger.Check(zap.ErrorLevel, "notice"); line != nil { // the highest level that the setting allows
		line.Level, line.Stack = zap.InfoLevel, ""
		line.Write(zap.String("key", n.Key), zap.String("route", r.Name), zap.Int("attempt", n.NextAttempt()), zap.Int("bytes", len(n.Body)))
	}

	if err := h.logger.Sync(); err != nil {
		return notice.RetryResult(notice.ReasonQueue, "the line was not written to the log: "+err.Error())
	}

	return notice.DeliveredResult(0)
}

// handlers makes each attempt as the target of its route requires. The embedded callback handler
// makes it a [dispatch.Hosts].
type handlers struct {
	*callback.Handler
	log   logHandler
	queue *queue.Handler
	taps  *tap.Publisher
}

// Handlers returns the handler of all routes. taps may be nil.
func Handlers(conn *wire.Conn, space keys.Space, calls *callback.Handler, taps *tap.Publisher, logger *zap.Logger) dispatch.Handler {
	h := handlers{Handler: calls, log: logHandler{logger}, queue: &queue.Handler{}, taps: taps}
	if conn.Masters != nil {
		h.queue.Pusher = pusher{conn, space}
	}

	return h
}

// Handle implements dispatch.Handler.
func (h handlers) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	res := h.handle(ctx, r, n)
	if h.taps.Wants(n.Key) && !res.Unsent {
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
		c.Method, c.URL, c.Query = tap.Push, string(r.Target.Kind)+":"+r.Target.Key, ""
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
