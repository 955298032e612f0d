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
	"notifier/internal/wire"
)

// logHandler delivers to the log and nowhere else.
type logHandler struct{ logger *zap.Logger }

// Handle writes one line, and returns once it is written: a line that waits would be
// lost with the process, and its notice would be settled as delivered. The line is the
// delivery, so it is written at any NOTIFIER_LOG_LEVEL: that setting chooses which
// messages of the service are logged.
func (h logHandler) Handle(_ context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if line := h.logger.Check(zap.ErrorLevel, "notice"); line != nil { // error is the highest setting
		line.Level, line.Stack = zap.InfoLevel, ""
		line.Write(zap.String("key", n.Key), zap.String("route", r.Name), zap.Int("attempt", n.NextAttempt()), zap.Int("bytes", len(n.Body)))
	}
	if err := h.logger.Sync(); err != nil {
		return notice.RetryResult(notice.ReasonQueue, "the line was not written to the log: "+err.Error())
	}
	return notice.DeliveredResult(0)
}

// handlers makes each attempt as the target of its route requires. What callbacks say of
// hosts is promoted: it makes the whole a [dispatch.Hosts].
type handlers struct {
	*callback.Handler
	log   logHandler
	queue *queue.Handler
}

// Handlers is the handler of all routes.
func Handlers(conn *wire.Conn, space keys.Space, calls *callback.Handler, logger *zap.Logger) dispatch.Handler {
	h := handlers{Handler: calls, log: logHandler{logger}, queue: &queue.Handler{}}
	if conn.Masters != nil {
		h.queue.Pusher = pusher{conn, space}
	}
	return h
}

// Handle implements dispatch.Handler.
func (h handlers) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
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
