package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/tracing"
)

// traceContext is the trace context that notices are stored with, in the form of its headers.
type traceContext struct{ parent, state string }

// traceOf is the context of a call's span if that is sampled, and else the caller's, if the
// headers are valid. Invalid ones are ignored, as the W3C text asks.
func traceOf(r *http.Request) traceContext {
	if span := trace.SpanContextFromContext(r.Context()); span.IsSampled() {
		return traceContext{tracing.Traceparent(span), span.TraceState().String()}
	}
	return callersTrace(r)
}

func callersTrace(r *http.Request) traceContext {
	v := r.Header["Traceparent"]
	if len(v) != 1 || v[0] == "" {
		return traceContext{}
	}

	c := notice.Content{Traceparent: v[0]}
	if c.Check() != nil {
		return traceContext{}
	}

	if c.Tracestate = stateOf(r.Header["Tracestate"]); c.Check() != nil {
		c.Tracestate = ""
	}

	return traceContext{c.Traceparent, c.Tracestate}
}

// stateOf joins the lines of a header.
func stateOf(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ",")
}

// beginSpan starts the span of a schedule call, as a child of the caller's context. Other
// calls have none.
func (a *api) beginSpan(r *http.Request, call *calling) *http.Request {
	if a.tracer == nil || !slices.Contains(schedules, call.op.id) {
		return r
	}

	ctx, from := r.Context(), callersTrace(r)
	if parent := tracing.Parse(from.parent, from.state); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}

	ctx, span := a.tracer.Start(ctx, call.op.method+" "+call.op.path, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return r
	}

	call.span = span
	return r.WithContext(ctx)
}

// endSpan ends the call's span, if it has one.
func (a *api) endSpan(call *calling, status int) {
	span := call.span
	if span == nil {
		return
	}

	span.SetAttributes(tracing.Method.String(call.op.method), tracing.PathTemplate.String(call.op.path), tracing.Status.Int(status),
		tracing.System.String("notifier"), tracing.Operation.String("create"), tracing.OperationType.String("create"))
	if call.key != "" {
		span.SetAttributes(tracing.Key.String(call.key))
	}

	if r := a.routes.Match(call.key); r != nil {
		span.SetAttributes(tracing.Route.String(r.Name), tracing.Destination.String(r.Name))
	}

	if call.count > 0 {
		span.SetAttributes(tracing.BatchCount.Int(call.count))
	}

	if call.Name != "" {
		span.SetAttributes(tracing.Client.String(call.Name))
	}

	if status >= http.StatusInternalServerError {
		tracing.Failed(span, strconv.Itoa(status))
	}

	span.End()
}

// traced adds the notice's id to the call's span, if it has one.
func (c *calling) traced(n *notice.Notice) {
	if c.span != nil && n != nil {
		c.span.SetAttributes(tracing.Message.String(n.ID()))
	}
}
