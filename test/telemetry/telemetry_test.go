package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID   = "00f067aa0ba902b7"
	producer = "00-" + traceID + "-" + spanID + "-01"
)

// collector is the collector's OTLP receiver, by HTTP.
type collector struct {
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
}

// free returns an unused local address.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

func collect(t *testing.T, address string) *collector {
	t.Helper()
	c := &collector{}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	set := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err := set.Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	// Both are one receiver, because the factory shares it by its configuration.
	settings := receivertest.NewNopSettings(factory.Type())
	traces, err := factory.CreateTraces(t.Context(), settings, config, &c.traces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(t.Context(), settings, config, &c.metrics)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(traces.Start(t.Context(), componenttest.NewNopHost()), metrics.Start(t.Context(),
		componenttest.NewNopHost())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(traces.Shutdown(context.Background()), metrics.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return c
}

// spans are those of a trace, by their start.
func (c *collector) spans(trace string) (list []ptrace.Span) {
	for _, all := range c.traces.AllTraces() {
		for _, r := range all.ResourceSpans().All() {
			for _, s := range r.ScopeSpans().All() {
				for _, span := range s.Spans().All() {
					if span.TraceID().String() == trace {
						list = append(list, span)
					}
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b ptrace.Span) int { return int(a.StartTimestamp()) - int(b.StartTimestamp()) })
	return list
}

// A schedule call, a failed attempt and a successful one are one trace, below the producer's
// span. The receiver gets the context of each attempt. No body, header or url is in it.
func TestTraceOfNotice(t *testing.T) {
	address := free(t)
	c := collect(t, address)
	to := receiver(t, 500, 200)
	i := start(t, to.url, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=header-secret", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
	i.schedule("shop:orders:paid:1", "traceparent", producer, "tracestate", "shop=1", "baggage", "user=baggage-secret")
	until(t, "three spans have arrived", func() bool { return len(c.spans(traceID)) == 3 })
	list := c.spans(traceID)
	call, attempts := list[0], list[1:]
	if call.Name() != "POST /v1/notices" || call.ParentSpanID().String() != spanID || call.Kind() != ptrace.SpanKindServer {
		t.Errorf("%s %v, parent %s", call.Name(), call.Kind(), call.ParentSpanID())
	}
	for n, s := range attempts {
		if s.Name() != "send orders" || s.ParentSpanID() != call.SpanID() || s.Kind() != ptrace.SpanKindClient ||
			s.TraceState().AsRaw() != "shop=1" {
			t.Errorf("attempt %d: %s %v, parent %s, tracestate %q", n+1, s.Name(), s.Kind(), s.ParentSpanID(), s.TraceState().AsRaw())
		}
		if v, _ := s.Attributes().Get("notifier.attempt"); v.Int() != int64(n+1) {
			t.Errorf("attempt %d has %v", n+1, s.Attributes().AsRaw())
		}
	}
	headers := to.headers()
	for n, want := range []struct {
		outcome string
		status  int64
		code    ptrace.StatusCode
	}{{"retry", 500, ptrace.StatusCodeError}, {"delivered", 200, ptrace.StatusCodeUnset}} {
		outcome, _ := attempts[n].Attributes().Get("notifier.outcome")
		status, _ := attempts[n].Attributes().Get("http.response.status_code")
		if outcome.Str() != want.outcome || status.Int() != want.status || attempts[n].Status().Code() != want.code {
			t.Errorf("attempt %d: %v, %v", n+1, attempts[n].Attributes().AsRaw(), attempts[n].Status().Code())
		}
		parent := "00-" + traceID + "-" + attempts[n].SpanID().String() + "-01"
		if got := headers[n]; got.Get("Traceparent") != parent || got.Get("Tracestate") != "shop=1" || got.Get("Baggage") != "" {
			t.Errorf("attempt %d: the receiver got %v", n+1, got)
		}
	}
	until(t, "exemplars of both histograms have arrived", func() bool {
		return c.exemplar("notifier_lateness_seconds") &&
			c.exemplar("notifier_handler_seconds")
	})
	i.stop()
	text := document(t, list, c.traces.AllTraces()[0])
	for _, secret := range []string{"secret", "4111-", "/hook"} {
		if bytes.Contains(text, []byte(secret)) || strings.Contains(i.logged(), "header-secret") {
			t.Errorf("%q is in the trace:\n%s", secret, text)
		}
	}
	if os.Getenv("RECORD") != "" {
		if err := os.WriteFile(record, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outline(t, recorded), outline(t, text); got != want {
		t.Errorf("%s has\n%swant\n%sRECORD=1 writes it", record, got, want)
	}
}

// record is the trace that docs/tracing.md shows.
const record = "../../docs/records/trace.json"

// outline is a line for each span of a trace: its name, its status, its parent's place, the names of its attributes and the
// values that are the same in each run.
func outline(t *testing.T, text []byte) string {
	t.Helper()
	all, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	ids := []string{spanID}
	for _, s := range all.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		parent := slices.Index(ids, s.ParentSpanID().String())
		fmt.Fprintf(&b, "%s %s, child of %d of trace %s:", s.Name(), s.Status().Code(), parent, s.TraceID())
		ids = append(ids, s.SpanID().String())
		for _, name := range slices.Sorted(maps.Keys(s.Attributes().AsRaw())) {
			b.WriteString(" " + name)
			if slices.Contains([]string{"notifier.attempt", "notifier.outcome", "http.response.status_code"}, name) {
				v, _ := s.Attributes().Get(name)
				b.WriteString("=" + v.AsString())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// exemplar reports whether a histogram has arrived with an exemplar of the trace.
func (c *collector) exemplar(name string) bool {
	for _, all := range c.metrics.AllMetrics() {
		for _, r := range all.ResourceMetrics().All() {
			for _, s := range r.ScopeMetrics().All() {
				for _, m := range s.Metrics().All() {
					if m.Name() == name && m.Type() == pmetric.MetricTypeHistogram && has(m.Histogram()) {
						return true
					}
				}
			}
		}
	}
	return false
}

func has(h pmetric.Histogram) bool {
	for _, p := range h.DataPoints().All() {
		for _, e := range p.Exemplars().All() {
			if e.TraceID().String() == traceID {
				return true
			}
		}
	}
	return false
}

// document is the spans as the collector's JSON, indented, with the resource of one request.
func document(t *testing.T, list []ptrace.Span, from ptrace.Traces) []byte {
	t.Helper()
	out := ptrace.NewTraces()
	r := out.ResourceSpans().AppendEmpty()
	from.ResourceSpans().At(0).Resource().CopyTo(r.Resource())
	scope := r.ScopeSpans().AppendEmpty()
	from.ResourceSpans().At(0).ScopeSpans().At(0).Scope().CopyTo(scope.Scope())
	for _, s := range list {
		s.CopyTo(scope.Spans().AppendEmpty())
	}
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(out)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// Notices are delivered while the collector is down. Spans that wait arrive once it answers.
func TestTraceArrivesWhenCollectorReturns(t *testing.T) {
	address := free(t)
	to := receiver(t, 200)
	i := start(t, to.url, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://"+address+"/v1/traces")
	i.schedule("shop:orders:paid:1", "traceparent", producer)
	until(t, "the notice is delivered", func() bool { return len(to.headers()) == 1 })
	until(t, "the failure is logged", func() bool { return strings.Contains(i.logged(), "OpenTelemetry export failed, retrying") })
	c := collect(t, address)
	until(t, "both spans have arrived", func() bool { return len(c.spans(traceID)) == 2 })
	until(t, "the recovery is logged", func() bool { return strings.Contains(i.logged(), "exporting to OpenTelemetry again") })
	if got := i.metric(`notifier_telemetry_items_total{result="exported",signal="traces"}`); got == "" || got == "0" {
		t.Errorf("%q spans are counted as exported", got)
	}
	i.stop()
}

// With the collector down, spans beyond the queue are dropped and counted, and a stop ends in
// time.
func TestSpansAreDroppedAndCountedWhileCollectorIsDown(t *testing.T) {
	to := receiver(t, 200)
	i := start(t, to.url, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://"+free(t)+"/v1/traces", "OTEL_BSP_MAX_QUEUE_SIZE=1",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1")
	for _, id := range []string{"1", "2", "3", "4"} {
		i.schedule("shop:orders:paid:" + id)
	}
	until(t, "the notices are delivered", func() bool { return len(to.headers()) == 4 })
	until(t, "spans are counted as dropped", func() bool {
		n := i.metric(`notifier_telemetry_items_total{result="overflow",signal="traces"}`)
		return n != "" && n != "0"
	})
	if took := i.stop(); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// OTLP over gRPC is refused at start; the error names the supported protocol.
func TestGRPCIsRefused(t *testing.T) {
	c := command(t, "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), `"grpc\": want http/protobuf`) {
		t.Errorf("%v: %s", err, out)
	}
}

// The receiver of deploy/observe/collector.yaml is one that the collector takes, on the port
// that the compose file names.
func TestCollectorOfCompose(t *testing.T) {
	text, err := os.ReadFile("../../deploy/observe/collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := confmap.NewRetrievedFromYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	all, err := file.AsConf()
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.Sub("receivers::otlp")
	if err != nil {
		t.Fatal(err)
	}
	config := otlpreceiver.NewFactory().CreateDefaultConfig()
	if err := set.Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	if got := set.Get("protocols::http::endpoint"); got != "0.0.0.0:4318" {
		t.Errorf("it listens at %v", got)
	}
}
