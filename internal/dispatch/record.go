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

// record counts the end of an attempt and writes its one line. An attempt that
// was handed to a consumer has two ends: that, and what came of it.
func (e *finished) record(o AttemptObserver, logger *zap.Logger, r *route.Route, s store.Settled) {
	o.Attempt(r.Name, e.outcome(), e.result.Reason)

	ce := logger.Check(e.level(s), "attempt")
	if ce == nil {
		return
	}
	fields := make([]zap.Field, 0, 13)
	fields = append(fields, zap.String("key", e.Claim.Key), zap.String("route", r.Name), zap.Int("attempt", e.attempt),
		zap.String("outcome", string(e.outcome())), zap.String("source", string(e.trigger.source())))
	if e.trigger != triggerReport { // it was on time or late when it was handed over
		fields = append(fields, zap.Float64("lateness_ms", float64(e.lateness.Microseconds())/1000))
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
	ce.Write(fields...)
}
