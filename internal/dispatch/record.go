package dispatch

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// outcome is what the settle made of the handler's outcome: a retry without a
// step left is dead, and what a consumer has to report on is only handed over.
func (e *finished) outcome() notice.Outcome {
	switch e.Ending {
	case store.EndHanded:
		if e.result.Outcome == notice.OutcomeDeferred { // its report is awaited for longer
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

// level of an attempt's line: a dead letter needs somebody, a deferral used no
// attempt. A stale end changed nothing.
func (e *finished) level(s store.Settled) zapcore.Level {
	switch {
	case e.outcome() == notice.OutcomeDeferred:
		return zap.DebugLevel
	case e.Ending == store.EndDead && !s.Stale:
		return zap.WarnLevel
	}
	return zap.InfoLevel
}

// attemptLog counts the ends of attempts and logs those that which chooses.
type attemptLog struct {
	observer AttemptObserver
	which    notice.LogAttempts
	logger   *zap.Logger
}

// record counts the end of an attempt and writes its one line. An attempt that
// was handed to a consumer has two ends: that, and what came of it.
// A stale end is logged whatever the log chooses.
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

// fields are those of an attempt's line. A report's line has no due time and no lateness:
// that of the attempt has them.
func (e *finished) fields(r *route.Route, outcome notice.Outcome, s store.Settled) []zap.Field {
	fields := make([]zap.Field, 0, 17)
	fields = append(fields, zap.String("key", e.Claim.Key), zap.String("webhook_id", e.Claim.ID()), zap.String("route", r.Name),
		zap.Int("attempt", e.attempt),
		zap.String("outcome", string(outcome)), zap.String("source", string(e.trigger.source())))
	if e.result.Host != "" {
		fields = append(fields, zap.String("host", e.result.Host))
	}
	if id := e.Claim.TraceID(); id != "" {
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
		fields = append(fields, zap.String("reason", string(e.result.Reason)), zap.String("detail", notice.Kept(e.result.Response)))
	}
	if !s.Due.IsZero() {
		fields = append(fields, zap.Time("next", s.Due))
	}
	if s.Stale {
		fields = append(fields, zap.Bool("stale", true))
	}
	return fields
}
