package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/testkit"
)

// strict is a Codec that refuses unknown members.
type strict struct{ jsonCodec }

func (strict) ContentType() string { return "application/vnd.refund+json" }
func (strict) Unmarshal(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// seen are Metrics that keep what they are called with.
type seen struct {
	mu   sync.Mutex
	list map[string]int
}

func (s *seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[fmt.Sprintf(format, args...)]++
}

func (s *seen) Scheduled(prefix string, n int)            { s.add("%s scheduled %d", prefix, n) }
func (s *seen) Attempt(prefix, outcome, reason string)    { s.add("%s %s %s", prefix, outcome, reason) }
func (s *seen) Lateness(prefix string, d time.Duration)   { s.add("%s late %t", prefix, d >= 0) }
func (s *seen) Handled(prefix string, took time.Duration) { s.add("%s handled %t", prefix, took > 0) }

func TestOptionsAreUsed(t *testing.T) {
	srv := testkit.SharedRedis(t)
	core, lines := logged.New(zap.InfoLevel)
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	m := &seen{list: map[string]int{}}
	w, err := New(Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Second, Zap: zap.New(core), Metrics: m,
		TracerProvider: provider, Codec: strict{}, LogAttempts: "failed", Retention: -1})
	if err != nil {
		t.Fatal(err)
	}

	types, spans := make(chan string, 1), make(chan trace.SpanContext, 1)
	HandleJSON(w, "app:t:t", func(ctx context.Context, n *Notice, _ refund) error {
		types <- n.ContentType
		spans <- trace.SpanContextFromContext(ctx)
		return nil
	})
	stop := start(t, w)
	ctx, parent := provider.Tracer("test").Start(t.Context(), "request")
	if _, err := w.Schedule(ctx, Request{Key: "app:t:t:1", JSON: refund{7}}); err != nil {
		t.Fatal(err)
	}

	parent.End()
	if got, want := <-types, (strict{}).ContentType(); got != want {
		t.Errorf("content type %q, want that of the codec, %q", got, want)
	}
	if got := <-spans; got.TraceID() != parent.SpanContext().TraceID() {
		t.Errorf("the handler's span %s is not in the trace of the call", got.TraceID())
	}
	if _, err := w.Schedule(ctx, Request{Key: "app:t:t:2", JSON: map[string]int{"Amount": 1, "Unknown": 2}}); err != nil {
		t.Fatal(err)
	}

	if r := ended(t, w, "app:t:t:2", "dead"); r.Reason != "decode" {
		t.Errorf("%+v, want the reason decode", r)
	}
	stop()

	m.mu.Lock()
	defer m.mu.Unlock()
	for _, want := range []string{"app:t:t scheduled 1", "app:t:t delivered ", "app:t:t dead decode", "app:t:t late true",
		"app:t:t handled true"} {
		if m.list[want] == 0 {
			t.Errorf("the metrics have %v, want %q too", m.list, want)
		}
	}

	kinds := map[string]trace.SpanKind{}
	for _, s := range recorder.Ended() {
		kinds[s.Name()] = s.SpanKind()
	}
	if kinds["process app:t:t"] != trace.SpanKindConsumer {
		t.Errorf("spans %v, want process app:t:t of a consumer", kinds)
	}
	if n := lines.FilterField(zap.String("outcome", "delivered")).Len(); n != 0 || lines.Len() == 0 {
		t.Errorf("%d of %d lines are of delivered notices, want only failed attempts", n, lines.Len())
	}
}

func TestNewListsAllWrongOptions(t *testing.T) {
	_, err := New(Options{Redis: "http://redis", Grace: time.Hour, Durability: "disk", Concurrency: -1, Takeover: time.Millisecond,
		SentinelPassword: "hidden"})
	for _, want := range []string{"Options.Redis: ", "Options.Grace=", "Options.Durability=", "Options.Concurrency=", "Options.Takeover=",
		"Options.SentinelPassword: needs Options.RedisMode=sentinel"} {
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrConfig with %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v contains a secret", err)
	}
}

// A wrong part of the address, which only the client of Redis finds, is listed beside the other wrong options.
func TestNewListsAWrongAddressBesideOtherOptions(t *testing.T) {
	for _, o := range []Options{{Grace: time.Hour}, {History: "mysql://h/d"}} {
		o.Redis = "redis://u:hidden@127.0.0.1:6379/first"
		_, err := New(o)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Options.Redis: ") || strings.Count(err.Error(), "Options.") != 2 ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v, want ErrConfig of two options, one of them Options.Redis", err)
		}
	}
}

func TestHistoryWithoutItsDriverNamesTheImport(t *testing.T) {
	for address, want := range map[string]string{"sqlite:///tmp/h.db": `import _ "notifier/worker/sqlitehistory"`,
		"postgres://u:hidden@h/d": `import _ "notifier/worker/pghistory"`, "postgresql://u:hidden@h/d": `import _ "notifier/worker/pghistory"`,
		"sqlite://h.db": "three slashes", "mysql://u:hidden@h/d": "want postgres://"} {
		_, err := New(Options{History: address})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Options.History: ") ||
			strings.Contains(err.Error(), "NOTIFIER_") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want ErrConfig of Options.History with %q", address, err, want)
		}
	}
}

func TestFromEnvReadsTheVariablesOfTheService(t *testing.T) {
	for name, value := range map[string]string{"NOTIFIER_REDIS_URL": "redis://redis:6380/1", "NOTIFIER_NAMESPACE": "other",
		"NOTIFIER_RETENTION": "0", "NOTIFIER_TAKEOVER": "lease", "NOTIFIER_DURABILITY": "replicas:2", "NOTIFIER_GRACE": "20ms",
		"NOTIFIER_LOG_ATTEMPTS": "1/10", "NOTIFIER_CONFIGURE_REDIS": "false", "NOTIFIER_ROUTES": "ignored", "NOTIFIER_RETAIN": "7",
		"NOTIFIER_HISTORY_URL": "sqlite:///data/h.db", "NOTIFIER_HISTORY_RETENTION": "48h", "NOTIFIER_HISTORY_BODIES": "drop"} {
		t.Setenv(name, value)
	}

	o, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}

	c, err := o.config()
	if err != nil {
		t.Fatal(err)
	}
	if c.Redis.URL != "redis://redis:6380/1" || c.Namespace != "other" || c.Retention != 0 || c.Takeover != 0 || c.Durability.Replicas != 2 ||
		c.Grace != 20*time.Millisecond || c.LogAttempts.String() != "1/10" || c.ConfigureRedis || c.Retain != 7 ||
		c.ShutdownTimeout != 25*time.Second || c.Concurrency != 512 {
		t.Errorf("%+v of %+v", c, o)
	}

	if h := c.History; string(h.URL) != "sqlite:///data/h.db" || h.Bodies != "drop" || h.Retention != 48*time.Hour || h.Backlog != 1_000_000 {
		t.Errorf("%+v, want the history of the variables", h)
	}

	t.Setenv("NOTIFIER_GRACE", "1h")
	if _, err := FromEnv(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "NOTIFIER_GRACE") {
		t.Errorf("%v, want ErrConfig with NOTIFIER_GRACE", err)
	}
}
