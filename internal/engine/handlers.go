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

// Handlers chooses who handles a route's notices.
func Handlers(conn *store.Conn, space keys.Space, calls *callback.Handler, logger *zap.Logger) func(*route.Route) dispatch.Handler {
	return func(r *route.Route) dispatch.Handler {
		switch r.Target.Kind {
		case route.KindLog:
			return logHandler{logger}
		case route.KindList, route.KindStream:
			h := &queue.Handler{}
			if conn.Masters != nil {
				h.Push = func(ctx context.Context, p *notice.Push, keep time.Duration) error {
					return store.Push(ctx, conn, space, p, keep)
				}
			}
			return h
		}
		return calls
	}
}
