package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func routesNamed(names ...string) []*route.Route {
	var list []*route.Route
	for _, n := range names {
		list = append(list, &route.Route{Name: n, Adopt: n == "adopts"})
	}
	return list
}

// talks is a fake connection to Redis.
type talks struct{}

func (talks) Traffic() (trips map[string]uint64, used, idle int) {
	return map[string]uint64{"claim": 7}, 2, 3
}

func TestPageShowsCounts(t *testing.T) {
	m := NewMetrics(MetricsOptions{Version: "v1", Revision: "abc", Routes: routesNamed("orders", "adopts")})
	m.Observe(func(context.Context) (fleet.Gauges, error) {
		return fleet.Gauges{Orphaned: 3, Unhandled: 2, HookBacklog: 6, EventsFlowing: true,
			SealKeys: map[string]int{"2026-11": 8}, SealedWaiting: 9, Routes: []fleet.RouteGauges{{Route: "orders",
				Pending: 10, Overdue: 2, Due: []int64{1, 20, 300}, Dead: 4, Settled: 5, InFlight: 1,
				Paused: true, RepeatWindow: 90 * time.Second, RepeatSetting: time.Hour, Waiting: 7, LongestWait: 90 * time.Second,
				HostsWaiting: 3, ReceiversFailing: 2},
				{Route: "adopts", Waiting: -1, LongestWait: -1}}}, nil
	})
	m.Scheduled("orders", 5)
	m.BodiesLost("orders", 2)
	m.AuthenticationFailed("api")
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonTimeout)
	m.Attempt("orders", notice.OutcomeRetry, "made up")
	m.Attempt("removed", notice.OutcomeDead, notice.ReasonGone)
	m.Claim(notice.SourceEvent, notice.ClaimWon, 7)
	m.Claim("moon", "eaten", 1)
	m.Lateness("orders", notice.SourceEvent, notice.HeldNone, 700*time.Microsecond, trace.SpanContext{})
	m.Lateness("orders", notice.SourceSweep, notice.HeldNone, -time.Second, trace.SpanContext{})
	m.Handler("orders", 20*time.Millisecond, trace.SpanContext{})
	m.Event(notice.EventForeign)
	m.Subscription()
	m.RedisError("claim")
	m.Call("shop", "schedule", 429, 3*time.Millisecond)
	m.Call("", "", 404, 0)
	m.BytesInFlight(70)
	m.BytesInFlight(-30)
	m.ObserveRedis(talks{})
	m.RedisError("SELECT * FROM")
	m.Misconfigured("memory", true)
	m.Misconfigured("rights", false)
	page := scrape(t, m)
	for _, want := range []string{
		`notifier_http_requests_total{client="shop",operation="schedule",status="429"} 1`,
		`notifier_http_requests_total{client="",operation="none",status="404"} 1`,
		`notifier_http_request_seconds_bucket{operation="schedule",le="0.005"} 1`,
		`notifier_http_request_seconds_bucket{operation="schedule",le="0.0025"} 0`,
		`notifier_http_bytes_in_flight 40`,
		`notifier_redis_round_trips_total{op="claim"} 7`, `notifier_redis_connections{state="used"} 2`,
		`notifier_redis_connections{state="idle"} 3`,
		`notifier_scheduled_total{route="orders"} 5`, `notifier_bodies_lost_total{route="orders"} 2`,
		`notifier_bodies_lost_total{route="adopts"} 0`, `notifier_authentication_failures_total{via="api"} 1`,
		`notifier_attempts_total{outcome="delivered",route="orders"} 1`,
		`notifier_attempts_total{outcome="retry",route="orders"} 2`,
		`notifier_attempts_total{outcome="dead",route="orders"} 0`,
		`notifier_attempts_total{outcome="deferred",route="orders"} 0`,
		`notifier_attempts_total{outcome="dead",route="other"} 1`,
		`notifier_attempt_reasons_total{outcome="retry",reason="timeout",route="orders"} 1`,
		`notifier_attempt_reasons_total{outcome="retry",reason="other",route="orders"} 1`,
		`notifier_attempt_reasons_total{outcome="dead",reason="gone",route="other"} 1`,
		`notifier_attempt_reasons_total{outcome="dead",reason="unreadable",route="orders"} 0`,
		`notifier_attempt_reasons_total{outcome="dead",reason="missing",route="orders"} 0`,
		`notifier_claims_total{result="won",source="event"} 7`,
		`notifier_claims_total{result="stale",source="sweep"} 0`,
		`notifier_claims_total{result="other",source="other"} 1`,
		`notifier_lateness_seconds_bucket{held="none",route="orders",source="event",le="0.0005"} 0`,
		`notifier_lateness_seconds_bucket{held="none",route="orders",source="event",le="0.001"} 1`,
		`notifier_lateness_seconds_sum{held="none",route="orders",source="sweep"} 0`,
		`notifier_lateness_seconds_bucket{held="none",route="orders",source="event",le="600"} 1`,
		`notifier_handler_seconds_count{route="orders"} 1`,
		`notifier_events_total{result="foreign"} 1`,
		`notifier_events_total{result="dropped"} 0`,
		`notifier_subscriptions_total 1`,
		`notifier_redis_errors_total{op="claim"} 1`,
		`notifier_redis_errors_total{op="other"} 1`,
		`notifier_redis_errors_total{op="settle"} 0`,
		`notifier_build_info{go_version="` + runtime.Version() + `",revision="abc",version="v1"} 1`,
		`notifier_redis_misconfigured{check="memory"} 1`, `notifier_redis_misconfigured{check="rights"} 0`,
		`notifier_redis_up 1`, `notifier_events_flowing 1`, `notifier_orphaned 3`, `notifier_unhandled_prefixes 2`,
		`notifier_seal_keys{key="2026-11"} 8`, `notifier_sealed_waiting 9`,
		`notifier_pending{route="orders"} 10`, `notifier_overdue{route="orders"} 2`, `notifier_due{route="orders",within="60"} 1`,
		`notifier_due{route="orders",within="300"} 20`, `notifier_due{route="orders",within="900"} 300`, `notifier_dead{route="orders"} 4`,
		`notifier_repeat_window_seconds{route="orders"} 90`, `notifier_repeat_window_setting_seconds{route="orders"} 3600`,
		`notifier_claims_total{result="parked",source="sweep"} 0`, `notifier_waiting_oldest_seconds{route="orders"} 90`,
		`notifier_hook_backlog 6`, `notifier_waiting{route="orders"} 7`, `notifier_receivers_failing{route="orders"} 2`, `notifier_hosts_waiting{route="orders"} 3`,
		`notifier_settled{route="orders"} 5`, `notifier_inflight{route="orders"} 1`, `notifier_paused{route="orders"} 1`,
	} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, `notifier_waiting{route="adopts"}`) || strings.Contains(page, `notifier_waiting_oldest_seconds{route="adopts"}`) {
		t.Error("an unknown value is shown")
	}
	problems, err := testutil.GatherAndLint(m.gatherer(t.Context()))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A page of one route had 179 series, almost all 0, and empty labels, which Prometheus drops. Series that alerts read
// must exist before their first value.
func TestPageOfIdleRouteIsShort(t *testing.T) {
	m := NewMetrics(MetricsOptions{Routes: routesNamed("orders")})
	page := scrape(t, m)
	own := regexp.MustCompile(`(?m)^notifier_.*$`).FindAllString(page, -1)
	perRoute := 0
	for _, line := range own {
		if strings.Contains(line, `route="orders"`) && !strings.HasPrefix(line, "notifier_lateness_seconds") {
			perRoute++
		}
	}
	if perRoute > 8 || len(own) > 137 {
		t.Errorf("%d series, %d of a route without its lateness:\n%s", len(own), perRoute, strings.Join(own, "\n"))
	}
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Attempt("orders", notice.OutcomeDeferred, notice.ReasonBusy)
	m.Handler("orders", time.Millisecond, trace.SpanContext{})
	m.RedisError("trim")
	page = scrape(t, m)
	if strings.Contains(page, `=""`) {
		t.Errorf("an empty label:\n%s", page)
	}
	for _, standard := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds",
		"go_goroutines",
		"go_memstats_alloc_bytes", "go_info", "go_sync_mutex_wait_total_seconds_total"} {
		if !strings.Contains(page, "\n"+standard) {
			t.Errorf("no %s", standard)
		}
	}
}

func TestScrapeWithoutRedisShowsCounters(t *testing.T) {
	m := NewMetrics(MetricsOptions{Version: "v1", Revision: "abc", Routes: routesNamed("orders")})
	if page := scrape(t, m); strings.Contains(page, "notifier_redis_up") {
		t.Error("notifier_redis_up exists without an observer")
	}
	m.Observe(func(ctx context.Context) (fleet.Gauges, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the scrape has no timeout")
		}
		return fleet.Gauges{}, errors.New("gone")
	})
	_ = scrape(t, m) // the error may be counted before or after the counters were gathered
	page := scrape(t, m)
	for _, want := range []string{"notifier_redis_up 0", `notifier_scheduled_total{route="orders"} 0`} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, "notifier_pending") || !regexp.MustCompile(`errors_total{op="stats"} [12]\n`).MatchString(page) {
		t.Error("pending exists, or the error was not counted")
	}
}

func TestNilMetricsCountNothing(t *testing.T) {
	var m *Metrics
	m.Scheduled("a", 1)
	m.Attempt("a", notice.OutcomeDead, "")
	m.Claim(notice.SourceEvent, notice.ClaimWon, 1)
	m.Lateness("a", notice.SourceEvent, notice.HeldNone, 1, trace.SpanContext{})
	m.Handler("a", 1, trace.SpanContext{})
	m.Event(notice.EventForeign)
	m.Subscription()
	m.RedisError("claim")
	m.Observe(nil)
	m.AuthenticationFailed("api")
	if s := m.Totals("a"); s.Scheduled != 0 || len(s.Outcomes) != len(notice.Outcomes) {
		t.Errorf("%+v", s)
	}
	w := httptest.NewRecorder()
	m.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("page: %d", w.Code)
	}
}

func TestStatsOfRoute(t *testing.T) {
	m := NewMetrics(MetricsOptions{Version: "v1", Revision: "abc", Routes: routesNamed("orders", "idle")})
	m.Scheduled("orders", 3)
	for range 98 {
		m.Lateness("orders", notice.SourceEvent, notice.HeldNone, 900*time.Microsecond, trace.SpanContext{})
	}
	m.Lateness("orders", notice.SourceSweep, notice.HeldNone, 40*time.Millisecond, trace.SpanContext{})
	m.Lateness("orders", notice.SourceSweep, notice.HeldNone, 40*time.Millisecond, trace.SpanContext{})
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonDNS)
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonTLS)
	m.Attempt("orders", notice.OutcomeDead, notice.ReasonGone)
	m.Attempt("orders", notice.OutcomeDeferred, notice.ReasonBusy)
	m.Attempt("orders", notice.OutcomeHanded, "")
	before := strings.Count(scrape(t, m), "\n")
	s := m.Totals("orders")
	if got := fmt.Sprint(s.Outcomes); got != "map[dead:1 deferred:1 delivered:1 handed:1 retry:2]" || s.Scheduled != 3 {
		t.Errorf("%+v", s)
	}
	if s.LatenessP50 < 850*time.Microsecond || s.LatenessP50 > 960*time.Microsecond {
		t.Errorf("p50 %s", s.LatenessP50)
	}
	if s.LatenessP99 < 37*time.Millisecond || s.LatenessP99 > 43*time.Millisecond {
		t.Errorf("p99 %s", s.LatenessP99)
	}
	if idle := m.Totals("idle"); idle.LatenessP50 != 0 || idle.LatenessP99 != 0 {
		t.Errorf("idle: %+v", idle)
	}
	if after := strings.Count(scrape(t, m), "\n"); after != before {
		t.Errorf("reading created %d series", after-before)
	}
}

func TestBucketsAreInOrder(t *testing.T) {
	if !slices.IsSorted(latenessBuckets) || !slices.IsSorted(handlerBuckets) {
		t.Error("bounds are out of order")
	}
}

// A step of the store missing from the set would be counted as "other"; a name that no step uses would always be 0.
func TestOperationsMatchStepsOfStore(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	named := map[string]bool{"stats": true} // the scrape
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:NewScript\(|(?:w|Wire|Wire\(\))\.(?:Fail|Wrapped)\(|failFleet\(|setPaused\(ctx, )"([a-z_]+)"`).FindAllStringSubmatch(string(b), -1) {
			if !slices.Contains(operations, m[1]) {
				t.Errorf("%s uses the step %s, which is missing from operations", f, m[1])
			}
			named[m[1]] = true
		}
	}
	for _, op := range operations {
		if !named[op] {
			t.Errorf("no step is named %s", op)
		}
	}
}

func BenchmarkHotPath(b *testing.B) {
	m := NewMetrics(MetricsOptions{Version: "v1", Revision: "abc", Routes: routesNamed("orders")})
	b.ReportAllocs()
	for b.Loop() {
		m.Event(notice.EventDispatched)
		m.Lateness("orders", notice.SourceEvent, notice.HeldNone, time.Millisecond, trace.SpanContext{})
		m.Handler("orders", time.Millisecond, trace.SpanContext{})
		m.Attempt("orders", notice.OutcomeDelivered, "")
	}
}

// A sampled span is the exemplar of both histograms if the client accepts OpenMetrics.
func TestSampledSpanIsExemplar(t *testing.T) {
	m := NewMetrics(MetricsOptions{Routes: routesNamed("orders")})
	config := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}
	unsampled := trace.NewSpanContext(config)
	config.TraceFlags = trace.FlagsSampled
	sampled := trace.NewSpanContext(config)
	page := func() string {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text")
		w := httptest.NewRecorder()
		m.Page().ServeHTTP(w, r)
		return w.Body.String()
	}
	m.Lateness("orders", notice.SourceEvent, notice.HeldNone, time.Millisecond, unsampled)
	m.Handler("orders", time.Millisecond, trace.SpanContext{})
	if strings.Contains(page(), "trace_id") {
		t.Error("an unsampled span is an exemplar")
	}
	m.Lateness("orders", notice.SourceEvent, notice.HeldNone, time.Millisecond, sampled)
	m.Handler("orders", time.Millisecond, sampled)
	for _, name := range []string{"notifier_lateness_seconds", "notifier_handler_seconds"} {
		if !regexp.MustCompile(name + `_bucket{[^}]*} 2 # {[^}]*trace_id="01000000000000000000000000000000"`).MatchString(page()) {
			t.Errorf("%s has no exemplar:\n%s", name, page())
		}
	}
}
