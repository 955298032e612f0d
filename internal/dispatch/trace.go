package dispatch

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/tracing"
)

// startSpan starts a tracing span for an attempt of notice n, and returns it with a context for the handler. If tracer is nil
// or the span is not sampled, startSpan returns ctx and nil.
func startSpan(ctx context.Context, tracer trace.Tracer, r *route.Route, n *notice.Notice) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, nil
	}

	options := []trace.SpanStartOption{trace.WithSpanKind(spanKind(r))}
	parent := ctx
	switch stored := tracing.Parse(n.Traceparent, n.Tracestate); {
	case !stored.IsValid():
	case n.Replay != "" || n.Resend > 0:
		// A replay or resend happens long after the stored trace, so its span is a root span with a link.
		options = append(options, trace.WithLinks(trace.Link{SpanContext: stored}))
	default:
		parent = trace.ContextWithRemoteSpanContext(ctx, stored)
	}

	under, span := tracer.Start(parent, operation(r)+" "+r.Name, options...)
	if !span.IsRecording() {
		return ctx, nil
	}

	return under, span
}

// operation returns the messaging operation of the spans of a route: a worker processes its notices itself.
func operation(r *route.Route) string {
	if r.Target.Kind == route.KindWorker {
		return "process"
	}
	return "send"
}

// spanKind returns the kind of the spans of a route's exchanges.
func spanKind(r *route.Route) trace.SpanKind {
	switch r.Target.Kind {
	case route.KindList, route.KindStream:
		return trace.SpanKindProducer
	case route.KindLog:
		return trace.SpanKindInternal
	case route.KindWorker:
		return trace.SpanKindConsumer
	}
	return trace.SpanKindClient
}

// spanContext returns the context of the attempt's span; invalid if there is none.
func (e *finished) spanContext() (c trace.SpanContext) {
	if e.span != nil {
		c = e.span.SpanContext()
	}
	return c
}

// endSpan ends the attempt's span, if it has one. The span of an attempt that began no exchange
// is dropped: a notice may be deferred many times.
func (e *finished) endSpan(r *route.Route) {
	span := e.span
	if e.span = nil; span == nil || e.result.Unsent && e.result.Outcome == notice.OutcomeDeferred {
		return
	}

	e.traceID = span.SpanContext().TraceID().String()
	n, outcome := e.Claim.Notice, e.outcome()
	span.SetAttributes(tracing.System.String("notifier"), tracing.Operation.String(operation(r)), tracing.OperationType.String(operation(r)),
		tracing.Destination.String(r.Name), tracing.Message.String(n.ID()), tracing.Route.String(r.Name), tracing.Key.String(n.Key),
		tracing.Attempt.Int(e.attempt), tracing.Outcome.String(string(outcome)), tracing.Source.String(string(e.trigger.source())),
		tracing.Lateness.Float64(float64(e.lateness.Microseconds())/1000))
	if e.held != "" {
		span.SetAttributes(tracing.Held.String(string(e.held)))
	}

	if n.Replay != "" {
		span.SetAttributes(tracing.Replay.String(n.Replay))
	}

	if n.Resend > 0 {
		span.SetAttributes(tracing.Resend.Int(n.Resend))
	}

	if spanKind(r) == trace.SpanKindClient {
		e.setHTTP(span, r)
	}

	if reason := string(e.result.Reason); reason != "" {
		span.SetAttributes(tracing.Reason.String(reason))
	}

	if outcome == notice.OutcomeRetry || outcome == notice.OutcomeDead {
		kind := string(e.result.Reason)
		if e.result.Status >= http.StatusBadRequest {
			kind = strconv.Itoa(e.result.Status)
		}

		tracing.Failed(span, cmp.Or(kind, "_OTHER"))
	}

	span.End()
}

// setHTTP adds the attributes of a callback. It omits the URL, whose path or query may contain a
// secret.
func (e *finished) setHTTP(span trace.Span, r *route.Route) {
	span.SetAttributes(tracing.Method.String(cmp.Or(e.Claim.Notice.Method, r.Method, http.MethodPost)))
	if e.attempt > 1 {
		span.SetAttributes(tracing.Resends.Int(e.attempt - 1))
	}

	if e.result.Status != 0 {
		span.SetAttributes(tracing.Status.Int(e.result.Status))
	}

	if host, port, err := net.SplitHostPort(e.result.Host); err == nil {
		number, _ := strconv.Atoi(port) // a port is a number, or a name that is left out
		span.SetAttributes(tracing.ServerAddress.String(host), tracing.ServerPort.Int(number))
	}
}
