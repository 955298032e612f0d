package telemetry

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"notifier/internal/config"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts is an Observer.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) Telemetry(signal, result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[signal+" "+result] += n
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// fakeCollector keeps the requests it takes. answer, if not nil, answers in its place unless it returns false.
type fakeCollector struct {
	*httptest.Server
	mu      sync.Mutex
	paths   []string
	headers []http.Header
	spans   []*traces.ResourceSpans
	metrics []*metricscollector.ExportMetricsServiceRequest
}

func newCollector(t *testing.T, answer func(w http.ResponseWriter, n int) bool) *fakeCollector {
	t.Helper()
	c := &fakeCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			in, _ = gzip.NewReader(r.Body)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.paths, c.headers = append(c.paths, r.URL.Path), append(c.headers, r.Header)
		n := len(c.paths)
		c.mu.Unlock()
		if answer != nil && answer(w, n) {
			return
		}
		c.take(t, r.URL.Path, body)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *fakeCollector) take(t *testing.T, path string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasSuffix(path, "/metrics") {
		m := &metricscollector.ExportMetricsServiceRequest{}
		if err := proto.Unmarshal(body, m); err != nil {
			t.Error(err)
		}
		c.metrics = append(c.metrics, m)
		return
	}
	m := &collector.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, m); err != nil {
		t.Error(err)
	}
	c.spans = append(c.spans, m.GetResourceSpans()...)
}

// all returns the spans taken.
func (c *fakeCollector) all() (list []*traces.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.spans {
		for _, s := range r.GetScopeSpans() {
			list = append(list, s.GetSpans()...)
		}
	}
	return list
}

// settings are those of variables, which must be right.
func settings(t *testing.T, variables map[string]string) config.OTel {
	t.Helper()
	e := &environment{variables: variables}
	s := config.ReadOTel(e)
	if len(e.wrong) > 0 {
		t.Fatal(e.wrong)
	}
	return s
}

func TestSpansAreExported(t *testing.T) {
	c := newCollector(t, nil)
	seen := &counts{}
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/base/", "OTEL_METRICS_EXPORTER": "none",
		"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,x=1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_SERVICE_NAME": "shop",
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=other,deployment.environment=test"}),
		Version: "v1", Instance: "i1", Observer: seen, Logger: zap.NewNop()})
	ctx, root := x.Tracer().Start(t.Context(), "root", trace.WithSpanKind(trace.SpanKindServer))
	_, child := x.Tracer().Start(ctx, "child", trace.WithLinks(trace.Link{SpanContext: root.SpanContext()}))
	child.SetAttributes(attribute.String("s", "x"), attribute.Int("i", 7), attribute.Float64("f", 1.5), attribute.Bool("b", true))
	child.SetStatus(codes.Error, "")
	child.End()
	root.End()
	x.Close(t.Context())
	list := c.all()
	if len(list) != 2 || seen.of("traces exported") != 2 {
		t.Fatalf("%d spans, %v", len(list), seen.n)
	}
	id, span := root.SpanContext().TraceID(), root.SpanContext().SpanID()
	got := list[0]
	if got.GetName() != "child" || string(got.GetTraceId()) != string(id[:]) || string(got.GetParentSpanId()) != string(span[:]) ||
		len(got.GetLinks()) != 1 || got.GetStatus().GetCode() != traces.Status_STATUS_CODE_ERROR ||
		got.GetEndTimeUnixNano() < got.GetStartTimeUnixNano() ||
		list[1].GetKind() != traces.Span_SPAN_KIND_SERVER || len(list[1].GetParentSpanId()) != 0 {
		t.Errorf("%v", list)
	}
	if text := texts(got.GetAttributes()); text != "s=x i=7 f=1.5 b=true" {
		t.Errorf("attributes %s", text)
	}
	if h := c.headers[0]; c.paths[0] != "/base/v1/traces" || h.Get("Api-Key") != "a b" || h.Get("X") != "1" ||
		h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%s %v", c.paths[0], h)
	}
	about := texts(c.spans[0].GetResource().GetAttributes())
	for _, want := range []string{"service.name=shop", "service.version=v1", "service.instance.id=i1", "deployment.environment=test",
		"telemetry.sdk.language=go"} {
		if !strings.Contains(about, want) {
			t.Errorf("the resource %s lacks %s", about, want)
		}
	}
}

func texts(list []*common.KeyValue) string {
	var out []string
	for _, a := range list {
		v := attribute.StringValue(a.GetValue().GetStringValue())
		switch x := a.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			v = attribute.Int64Value(x.IntValue)
		case *common.AnyValue_DoubleValue:
			v = attribute.Float64Value(x.DoubleValue)
		case *common.AnyValue_BoolValue:
			v = attribute.BoolValue(x.BoolValue)
		}
		out = append(out, a.GetKey()+"="+v.String())
	}
	return strings.Join(out, " ")
}

// A span more than the queue holds is dropped and counted, and OnEnd never waits for the
// collector.
func TestFullQueueDropsAndCounts(t *testing.T) {
	release := make(chan struct{})
	c := newCollector(t, func(http.ResponseWriter, int) bool { <-release; return false })
	seen := &counts{}
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL, "OTEL_BSP_MAX_QUEUE_SIZE": "4",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}), Observer: seen, Logger: zap.NewNop()})
	const n = 20
	for range n {
		_, s := x.Tracer().Start(t.Context(), "s")
		s.End()
	}
	if over := seen.of("traces overflow"); over < n-6 {
		t.Errorf("%d spans overflowed; 4 wait, 1 is being exported", over)
	}
	close(release)
	x.Close(t.Context())
	if exported, over := seen.of("traces exported"), seen.of("traces overflow"); exported+over != n || len(c.all()) != exported ||
		exported < 4 {
		t.Errorf("%d exported, %d overflowed, %d arrived", exported, over, len(c.all()))
	}
}

// 503 is retried after Retry-After, 400 is not. The first failure and the recovery are logged,
// without the endpoint's password.
func TestFailedExportsAreRetriedOrCounted(t *testing.T) {
	c := newCollector(t, func(w http.ResponseWriter, n int) bool {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, strings.Repeat("#", 195)+"hunter2") // the log has the first 200 characters
		}
		return n == 1 || n == 3
	})
	seen := &counts{}
	core, logs := logged.New(zap.InfoLevel)
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
		"OTEL_EXPORTER_OTLP_HEADERS":         "api-key=hunter2",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": strings.Replace(c.URL, "http://", "http://user:hunter2@", 1) + "/x"}), Observer: seen,
		Logger: zap.New(core)})
	for range 3 {
		_, s := x.Tracer().Start(t.Context(), "s")
		s.End()
	}
	began := time.Now()
	x.Close(t.Context())
	if time.Since(began) < 700*time.Millisecond {
		t.Error("Retry-After was not waited for")
	}
	if seen.of("traces exported") != 2 || seen.of("traces failed") != 1 || len(c.all()) != 2 || c.paths[0] != "/x" {
		t.Errorf("%v, %d arrived at %v", seen.n, len(c.all()), c.paths)
	}
	if logs.FilterMessage("exporting to OpenTelemetry again").Len() != 2 || logs.FilterLevelExact(zap.WarnLevel).Len() != 2 {
		t.Errorf("%v", logs.All())
	}
	if warnings := logs.FilterLevelExact(zap.WarnLevel).All(); warnings[0].ContextMap()["dropped"] != false ||
		warnings[1].ContextMap()["dropped"] != true {
		t.Errorf("%v", warnings)
	}
	for _, l := range logs.All() {
		for _, f := range l.ContextMap() {
			if text, _ := f.(string); strings.Contains(text, "hunt") {
				t.Errorf("the log shows a secret: %v", l.ContextMap())
			}
		}
	}
}

// An unreachable collector does not hold up a stop.
func TestCloseEndsWithItsContext(t *testing.T) {
	seen := &counts{}
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}), Observer: seen,
		Logger: zap.NewNop(), Gatherer: prometheus.NewRegistry()})
	_, s := x.Tracer().Start(t.Context(), "s")
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	x.Close(ctx)
	if took := time.Since(began); took > 5*time.Second || seen.of("traces failed") != 1 {
		t.Errorf("%v, %v", took, seen.n)
	}
}

func TestRejectedSpansAreCounted(t *testing.T) {
	c := newCollector(t, func(w http.ResponseWriter, _ int) bool {
		b, _ := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 1,
			ErrorMessage: "too old"}})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(b)
		return true
	})
	seen := &counts{}
	core, logs := logged.New(zap.InfoLevel)
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL}), Observer: seen,
		Logger: zap.New(core)})
	for range 2 {
		_, s := x.Tracer().Start(t.Context(), "s")
		s.End()
	}
	x.Close(t.Context())
	if seen.of("traces exported") != 1 || seen.of("traces rejected") != 1 || logs.Len() != 1 ||
		logs.All()[0].ContextMap()["why"] != "too old" {
		t.Errorf("%v, %v", seen.n, logs.All())
	}
}

// Every kind of metric arrives with its exemplar.
func TestMetricsAreExported(t *testing.T) {
	c := newCollector(t, nil)
	r := prometheus.NewRegistry()
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1, 2}}, []string{"route"})
	count, gauge := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Objectives: map[float64]float64{.5: .1}})
	r.MustRegister(h, count, gauge, summary)
	h.WithLabelValues("a").(prometheus.ExemplarObserver).ObserveWithExemplar(1.5, prometheus.Labels{
		"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"})
	count.Add(3)
	gauge.Set(4)
	summary.Observe(5)
	seen := &counts{}
	x := New(Options{OTel: settings(t, map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": c.URL + "/metrics",
		"OTEL_METRIC_EXPORT_INTERVAL": "20"}),
		Observer: seen, Logger: zap.NewNop(), Gatherer: r})
	if x.Tracer() != nil {
		t.Error("a tracer without an endpoint for traces")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = x.Run(ctx) }()
	testkit.Until(t, "the first export", func() bool { return seen.of("metrics exported") > 0 })
	cancel()
	<-done
	x.Close(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := map[string]bool{}
	for _, m := range c.metrics[0].GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
		byName[m.GetName()] = true
		switch m.GetName() {
		case "h":
			p := m.GetHistogram().GetDataPoints()[0]
			if p.GetCount() != 1 || p.GetSum() != 1.5 || len(p.GetBucketCounts()) != 3 || len(p.GetExemplars()) != 1 ||
				len(p.GetExemplars()[0].GetTraceId()) != 16 || texts(p.GetAttributes()) != "route=a" {
				t.Errorf("%v", p)
			}
		case "c_total":
			if s := m.GetSum(); !s.GetIsMonotonic() || s.GetDataPoints()[0].GetAsDouble() != 3 {
				t.Errorf("%v", m)
			}
		case "g":
			if m.GetGauge().GetDataPoints()[0].GetAsDouble() != 4 {
				t.Errorf("%v", m)
			}
		case "s":
			if p := m.GetSummary().GetDataPoints()[0]; p.GetCount() != 1 || p.GetSum() != 5 || len(p.GetQuantileValues()) != 1 {
				t.Errorf("%v", m)
			}
		}
	}
	if len(byName) != 4 {
		t.Errorf("%v", byName)
	}
}

// environment is a Source of a test.
type environment struct {
	variables map[string]string
	wrong     []string
}

func (e *environment) Variable(name string) string { return e.variables[name] }
func (e *environment) File(string) ([]byte, error) { return nil, errors.New("no file") }
func (e *environment) Wrong(name, value, want string) {
	e.wrong = append(e.wrong, name+"="+value+": "+want)
}

func TestReadSettings(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		variables       map[string]string
		traces, metrics string // empty = off
		sampler         string
	}{
		"nothing":  {map[string]string{"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "nonsense"}, "", "", ""},
		"endpoint": {map[string]string{endpoint: "http://c:4318"}, "http://c:4318/v1/traces", "http://c:4318/v1/metrics", "ParentBased"},
		"own endpoints": {map[string]string{endpoint: "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://t/x/"}, "https://t/x/",
			"http://c:4318/v1/metrics", "ParentBased"},
		"none": {map[string]string{endpoint: "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, "http://c:4318/v1/traces", "",
			"ParentBased"},
		"disabled": {map[string]string{endpoint: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			"", "", ""},
		"otlp": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces", "", "ParentBased"},
		"ratio": {map[string]string{endpoint: "http://c", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
			"http://c/v1/traces", "http://c/v1/metrics", "TraceIDRatioBased{0.25}"},
	} {
		s := settings(t, c.variables)
		got := func(e *config.OTLPEndpoint) string {
			if e == nil {
				return ""
			}
			return e.String()
		}
		if got(s.Traces) != c.traces || got(s.Metrics) != c.metrics ||
			c.sampler != "" && !strings.HasPrefix(sampler(s.Sampler).Description(), c.sampler) {
			t.Errorf("%s: traces %q, metrics %q, %v", name, got(s.Traces), got(s.Metrics), s.Sampler)
		}
	}
}

// Each wrong variable is named with what would be right. Secrets are not shown.
func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "http/protobuf"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "user:hunter2@c:4317", "http://host:4318"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "hunter2", "name=value"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "gzip or none"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere", "PEM"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/nowhere", "PEM"},
		{"OTEL_TRACES_EXPORTER", "console", "otlp or none"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_always_on"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "from 1"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "name=value"},
	} {
		e := &environment{variables: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", c.name: c.value}}
		config.ReadOTel(e)
		text := strings.Join(e.wrong, "\n")
		if !strings.Contains(text, c.name+"=") || !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s=%s: %s", c.name, c.value, text)
		}
	}
	e := &environment{variables: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_SAMPLER": "traceidratio",
		"OTEL_TRACES_SAMPLER_ARG": "2"}}
	if config.ReadOTel(e); len(e.wrong) != 1 || !strings.Contains(e.wrong[0], "from 0 to 1") {
		t.Error(e.wrong)
	}
}

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	if d := retryAfter("7"); d != 7*time.Second {
		t.Error(d)
	}
	if d := retryAfter(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)); d < 59*time.Minute || d > time.Hour {
		t.Error(d)
	}
	if d := retryAfter("soon"); d != 0 {
		t.Error(d)
	}
}

func TestIDOfReadsTextAndBytes(t *testing.T) {
	raw := []byte{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6}
	for _, id := range [][]byte{raw, []byte("4bf92f3577b34da6")} {
		if got := idOf(id); string(got) != string(raw) {
			t.Errorf("%q is read as %x", id, got)
		}
	}
}
