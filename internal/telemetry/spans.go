package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resources "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"notifier/internal/config"
)

// spanQueue is a span processor: it exports ended spans in batches. A span that finds the queue
// full is dropped and counted.
type spanQueue struct {
	exporter *exporter
	resource *resources.Resource
	spans    chan sdk.ReadOnlySpan
	batch    int
	delay    time.Duration
	stop     chan struct{}
	once     sync.Once
	done     chan struct{}
	cancel   context.CancelFunc
}

func newSpanQueue(s *config.OTel, x *exporter, r *resource.Resource) *spanQueue {
	ctx, cancel := context.WithCancel(context.Background()) // the life of the exports
	q := &spanQueue{exporter: x, resource: resourceOf(r), spans: make(chan sdk.ReadOnlySpan, s.Queue), batch: s.Batch, delay: s.Delay,
		stop: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	go q.run(ctx)
	return q
}

// OnStart implements sdk.SpanProcessor.
func (q *spanQueue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. It never blocks.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case q.spans <- s:
	default:
		q.exporter.observer.Telemetry(signalTraces, resultOverflow, 1)
	}
}

// ForceFlush implements sdk.SpanProcessor. Only Shutdown flushes.
func (q *spanQueue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdk.SpanProcessor: it exports the spans that wait, until ctx ends.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	q.once.Do(func() { close(q.stop) })
	select {
	case <-q.done:
	case <-ctx.Done():
	}

	q.cancel()
	<-q.done
	q.exporter.client.CloseIdleConnections()
	return ctx.Err()
}

func (q *spanQueue) run(ctx context.Context) {
	defer close(q.done)

	timer := time.NewTimer(q.delay)
	defer timer.Stop()

	batch := make([]sdk.ReadOnlySpan, 0, q.batch)

	for {
		stopping := false
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-timer.C:
			timer.Reset(q.delay)
			q.export(ctx, batch)
			batch = batch[:0]
		case <-q.stop:
			stopping = true
		}

		if len(batch) == q.batch {
			q.export(ctx, batch)
			batch = batch[:0]
		}

		if stopping {
			q.drain(ctx, batch)
			return
		}
	}
}

// drain exports what waits.
func (q *spanQueue) drain(ctx context.Context, batch []sdk.ReadOnlySpan) {
	for {
		select {
		case s := <-q.spans:
			if batch = append(batch, s); len(batch) == q.batch {
				q.export(ctx, batch)
				batch = batch[:0]
			}
		default:
			q.export(ctx, batch)
			return
		}
	}
}

// export sends a batch.
func (q *spanQueue) export(ctx context.Context, list []sdk.ReadOnlySpan) {
	if len(list) == 0 {
		return
	}

	scope := &traces.ScopeSpans{Scope: &common.InstrumentationScope{Name: scopeName}}
	for _, s := range list {
		scope.Spans = append(scope.Spans, spanOf(s))
	}

	request := &collector.ExportTraceServiceRequest{ResourceSpans: []*traces.ResourceSpans{{Resource: q.resource,
		ScopeSpans: []*traces.ScopeSpans{scope}}}}
	reply := &collector.ExportTraceServiceResponse{}
	if q.exporter.send(ctx, len(list), request, reply) {
		q.exporter.count(len(list), int(reply.GetPartialSuccess().GetRejectedSpans()), reply.GetPartialSuccess().GetErrorMessage())
	}
}

// spanOf is a span as a message.
func spanOf(s sdk.ReadOnlySpan) *traces.Span {
	c := s.SpanContext()
	id, span := c.TraceID(), c.SpanID()
	m := &traces.Span{TraceId: id[:], SpanId: span[:], TraceState: c.TraceState().String(), Flags: flags(c, s.Parent()), Name: s.Name(),
		Kind: kinds[s.SpanKind()], StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributesOf(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
		DroppedLinksCount: uint32(s.DroppedLinks()), Status: &traces.Status{}}
	if parent := s.Parent().SpanID(); parent.IsValid() {
		m.ParentSpanId = parent[:]
	}

	if s.Status().Code == codes.Error {
		m.Status.Code, m.Status.Message = traces.Status_STATUS_CODE_ERROR, s.Status().Description
	}

	for _, l := range s.Links() {
		id, span := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		m.Links = append(m.Links, &traces.Span_Link{TraceId: id[:], SpanId: span[:], TraceState: l.SpanContext.TraceState().String(),
			Flags: flags(l.SpanContext, l.SpanContext), Attributes: attributesOf(l.Attributes)})
	}

	return m
}

// flags are those of a context, and whether the other came from another process.
func flags(c, from trace.SpanContext) uint32 {
	f := uint32(c.TraceFlags()) | uint32(traces.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if from.IsRemote() {
		f |= uint32(traces.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}

	return f
}

var kinds = map[trace.SpanKind]traces.Span_SpanKind{
	trace.SpanKindInternal: traces.Span_SPAN_KIND_INTERNAL,
	trace.SpanKindServer:   traces.Span_SPAN_KIND_SERVER,
	trace.SpanKindClient:   traces.Span_SPAN_KIND_CLIENT,
	trace.SpanKindProducer: traces.Span_SPAN_KIND_PRODUCER,
	trace.SpanKindConsumer: traces.Span_SPAN_KIND_CONSUMER,
}

func resourceOf(r *resource.Resource) *resources.Resource {
	return &resources.Resource{Attributes: attributesOf(r.Attributes())}
}

func attributesOf(list []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, 0, len(list))
	for _, a := range list {
		out = append(out, &common.KeyValue{Key: string(a.Key), Value: valueOf(a.Value)})
	}

	return out
}

// valueOf is a value as a message. Lists, of which this service makes none, become texts.
func valueOf(v attribute.Value) *common.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	}

	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v.String()}}
}
