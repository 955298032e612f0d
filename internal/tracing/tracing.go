package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of this service's own. The others follow OpenTelemetry's semantic conventions.
const (
	Route    = attribute.Key("notifier.route")
	Key      = attribute.Key("notifier.key")
	Attempt  = attribute.Key("notifier.attempt")
	Outcome  = attribute.Key("notifier.outcome")
	Reason   = attribute.Key("notifier.reason")
	Lateness = attribute.Key("notifier.lateness_ms")
	Held     = attribute.Key("notifier.held")
	Source   = attribute.Key("notifier.source")
	Client   = attribute.Key("notifier.client")
	Replay   = attribute.Key("notifier.replay")
	Resend   = attribute.Key("notifier.resend")
	Shard    = attribute.Key("notifier.shard")
	Target   = attribute.Key("notifier.target_shard")
	Shards   = attribute.Key("notifier.shards")
	Notices  = attribute.Key("notifier.notices")
)

// Attributes of the semantic conventions of HTTP, messaging and databases.
const (
	Method        = attribute.Key("http.request.method")
	PathTemplate  = attribute.Key("http.route")
	Status        = attribute.Key("http.response.status_code")
	Resends       = attribute.Key("http.request.resend_count")
	Scheme        = attribute.Key("url.scheme")
	ServerAddress = attribute.Key("server.address")
	ServerPort    = attribute.Key("server.port")
	ErrorType     = attribute.Key("error.type")
	System        = attribute.Key("messaging.system")
	Operation     = attribute.Key("messaging.operation.name")
	OperationType = attribute.Key("messaging.operation.type")
	Destination   = attribute.Key("messaging.destination.name")
	Message       = attribute.Key("messaging.message.id")
	BatchCount    = attribute.Key("messaging.batch.message_count")
	Database      = attribute.Key("db.system.name")
	DBOperation   = attribute.Key("db.operation.name")
	DBBatch       = attribute.Key("db.operation.batch.size")
)

// Parse reads the headers traceparent and tracestate. It returns an invalid context if the
// traceparent is missing or invalid, and ignores an invalid tracestate.
func Parse(traceparent, tracestate string) trace.SpanContext {
	if len(traceparent) != 55 {
		return trace.SpanContext{}
	}

	var c trace.SpanContextConfig
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(traceparent[3:35]); err != nil {
		return trace.SpanContext{}
	}
	if c.SpanID, err = trace.SpanIDFromHex(traceparent[36:52]); err != nil {
		return trace.SpanContext{}
	}

	if strings.IndexByte("13579bdf", traceparent[54]) >= 0 {
		c.TraceFlags = trace.FlagsSampled
	}

	if tracestate != "" {
		if state, err := trace.ParseTraceState(tracestate); err == nil {
			c.TraceState = state
		}
	}

	c.Remote = true
	return trace.NewSpanContext(c)
}

// Traceparent is the header of a context.
func Traceparent(c trace.SpanContext) string {
	id, span, flags := c.TraceID(), c.SpanID(), "-00"
	if c.IsSampled() {
		flags = "-01"
	}

	return "00-" + id.String() + "-" + span.String() + flags
}

// Failed marks a span as failed. kind is one of few values; the status has no description,
// which could hold text of a receiver.
func Failed(span trace.Span, kind string) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(ErrorType.String(kind))
}

// Step starts the span of a step that belongs to no notice. With a nil tracer, it returns a
// span that does nothing.
func Step(ctx context.Context, t trace.Tracer, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.Start(ctx, name, trace.WithAttributes(attributes...))
}

// End ends the span of a step, as failed if err is not nil. kind names the failure.
func End(span trace.Span, err error, kind string) {
	if err != nil && span.IsRecording() {
		Failed(span, kind)
	}
	span.End()
}
