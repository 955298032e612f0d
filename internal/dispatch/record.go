package dispatch

import (
	"cmp"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// outcome returns the outcome of the attempt after the settle: a retry without a remaining step is
// dead, and an entry whose report is awaited is handed over.
func (e *finished) outcome() notice.Outcome {
	switch e.Ending {
	case store.EndHanded:
		if e.result.Outcome == notice.OutcomeDeferred { // more time for its report
			return notice.OutcomeDeferred
		}
		return notice.OutcomeHanded
	case store.EndDelivered:
		return notice.OutcomeDelivered
	case store.EndRetry:
		return notice.OutcomeRetry
	case store.EndDead:
		return notice.OutcomeDead
	}
	return notice.OutcomeDeferred
}

// level returns the log level of an attempt. A dead letter is a warning, because an operator must
// act. A deferral is a debug message, because it used no attempt.
func (e *finished) level(s store.Settled) zapcore.Level {
	switch {
	case e.outcome() == notice.OutcomeDeferred:
		return zap.DebugLevel
	case e.Ending == store.EndDead && !s.Stale:
		return zap.WarnLevel
	}
	return zap.InfoLevel
}

// attemptLog counts the ends of attempts and logs those that which selects.
type attemptLog struct {
	observer AttemptObserver
	which    notice.LogAttempts
	logger   *zap.Logger
}

// record counts the end of an attempt and logs it. An attempt that was handed to a consumer ends
// twice: with the push, and with its report or timeout. A stale end is always logged.
func (l attemptLog) record(e *finished, r *route.Route, s store.Settled) {
	outcome := e.outcome()
	l.observer.Attempt(r.Name, outcome, e.result.Reason)
	if !s.Stale && !l.which.Includes(e.Claim.Notice, outcome) {
		return
	}

	if ce := l.logger.Check(e.level(s), "attempt"); ce != nil {
		ce.Write(e.fields(r, outcome, s)...)
	}
}

// fields returns the log fields of an attempt. A report has no due time and no lateness; those are
// logged with the attempt.
func (e *finished) fields(r *route.Route, outcome notice.Outcome, s store.Settled) []zap.Field {
	fields := make([]zap.Field, 0, 17)
	fields = append(fields, zap.String("key", e.Claim.Key), zap.String("webhook_id", e.Claim.ID()), zap.String("route", r.Name),
		zap.Int("attempt", e.attempt),
		zap.String("outcome", string(outcome)), zap.String("source", string(e.trigger.source())))
	if e.result.Host != "" {
		fields = append(fields, zap.String("host", e.result.Host))
	}

	if id := cmp.Or(e.traceID, e.Claim.TraceID()); id != "" {
		fields = append(fields, zap.String("trace_id", id))
	}

	if !e.due.IsZero() {
		fields = append(fields, zap.String("due", notice.Stamp(e.due)), zap.Float64("lateness_ms", float64(e.lateness.Microseconds())/1000))
	}

	if e.held != "" {
		fields = append(fields, zap.String("held", string(e.held)))
	}

	fields = append(fields, zap.Float64("duration_ms", float64(e.took.Microseconds())/1000))
	if e.result.Status != 0 {
		fields = append(fields, zap.Int("status", e.result.Status))
	}

	if e.result.Reason != "" {
		fields = append(fields, zap.String("reason", string(e.result.Reason)))
		if e.Claim.Sealed == "" {
			fields = append(fields, zap.String("detail", notice.Kept(e.result.Response)))
		}
	}

	if !s.Due.IsZero() {
		fields = append(fields, zap.Time("next", s.Due))
	}

	if s.Stale {
		fields = append(fields, zap.Bool("stale", true))
	}

	return fields
}
