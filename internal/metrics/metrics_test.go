package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/notice"
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

func TestCounting(t *testing.T) {
	m := New("v1", []string{"orders"})
	m.Observe(func(context.Context) (Gauges, error) {
		return Gauges{Orphaned: 3, Subscribed: true, Routes: []RouteGauges{{Route: "orders", Pending: 10, Overdue: 2, Dead: 4, Settled: 5, InFlight: 1,
			Paused: true}}}, nil
	})
	m.Scheduled("orders", 5)
	m.BodiesLost("orders", 2)
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonTimeout)
	m.Attempt("orders", notice.OutcomeRetry, "made up")
	m.Attempt("removed", notice.OutcomeDead, notice.ReasonGone)
	m.Claim(Event, Won, 7)
	m.Claim("moon", "eaten", 1)
	m.Lateness("orders", Event, 700*time.Microsecond)
	m.Lateness("orders", Sweep, -time.Second)
	m.Handler("orders", 20*time.Millisecond)
	m.Event(Foreign)
	m.Subscription()
	m.RedisError("claim")
	m.RedisError("SELECT * FROM")
	page := scrape(t, m)
	for _, want := range []string{
		`notifier_scheduled_total{route="orders"} 5`, `notifier_bodies_lost_total{route="orders"} 2`,
		`notifier_attempts_total{outcome="delivered",reason="",route="orders"} 1`,
		`notifier_attempts_total{outcome="retry",reason="timeout",route="orders"} 1`,
		`notifier_attempts_total{outcome="retry",reason="other",route="orders"} 1`,
		`notifier_attempts_total{outcome="dead",reason="gone",route="other"} 1`,
		`notifier_attempts_total{outcome="dead",reason="gone",route="orders"} 0`,
		`notifier_attempts_total{outcome="deferred",reason="breaker",route="orders"} 0`,
		`notifier_claims_total{result="won",source="event"} 7`,
		`notifier_claims_total{result="stale",source="sweep"} 0`,
		`notifier_claims_total{result="other",source="other"} 1`,
		`notifier_lateness_seconds_bucket{route="orders",source="event",le="0.0005"} 0`,
		`notifier_lateness_seconds_bucket{route="orders",source="event",le="0.001"} 1`,
		`notifier_lateness_seconds_sum{route="orders",source="sweep"} 0`,
		`notifier_lateness_seconds_bucket{route="orders",source="event",le="600"} 1`,
		`notifier_handler_seconds_count{route="orders"} 1`,
		`notifier_events_total{result="foreign"} 1`,
		`notifier_events_total{result="dropped"} 0`,
		`notifier_subscriptions_total 1`,
		`notifier_redis_errors_total{op="claim"} 1`,
		`notifier_redis_errors_total{op="other"} 1`,
		`notifier_redis_errors_total{op="settle"} 0`,
		`notifier_build_info{version="v1"} 1`,
		`notifier_redis_up 1`, `notifier_subscribed 1`, `notifier_orphaned 3`,
		`notifier_pending{route="orders"} 10`, `notifier_overdue{route="orders"} 2`, `notifier_dead{route="orders"} 4`,
		`notifier_settled{route="orders"} 5`, `notifier_inflight{route="orders"} 1`, `notifier_paused{route="orders"} 1`,
	} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	problems, err := testutil.GatherAndLint(m.gatherer(t.Context()))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestScrapeWithoutRedis(t *testing.T) {
	m := New("v1", []string{"orders"})
	if page := scrape(t, m); strings.Contains(page, "notifier_redis_up") {
		t.Error("up or down is told before anybody was asked")
	}
	m.Observe(func(ctx context.Context) (Gauges, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the scrape may wait for ever")
		}
		return Gauges{}, errors.New("gone")
	})
	_ = scrape(t, m) // the error is counted after the counters were gathered, or before
	page := scrape(t, m)
	for _, want := range []string{"notifier_redis_up 0", `notifier_scheduled_total{route="orders"} 0`} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, "notifier_pending") || !regexp.MustCompile(`errors_total{op="stats"} [12]\n`).MatchString(page) {
		t.Error("pending was told, or the error was not counted")
	}
}

func TestNilCountsNothing(t *testing.T) {
	var m *Metrics
	m.Scheduled("a", 1)
	m.Attempt("a", notice.OutcomeDead, "")
	m.Claim(Event, Won, 1)
	m.Lateness("a", Event, 1)
	m.Handler("a", 1)
	m.Event(Foreign)
	m.Subscription()
	m.RedisError("claim")
	m.Observe(nil)
	if s := m.Stats("a"); s.Scheduled != 0 || len(s.Outcomes) != len(notice.Outcomes) {
		t.Errorf("%+v", s)
	}
	w := httptest.NewRecorder()
	m.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("page: %d", w.Code)
	}
}

func TestStats(t *testing.T) {
	m := New("v1", []string{"orders", "idle"})
	m.Scheduled("orders", 3)
	for range 98 {
		m.Lateness("orders", Event, 900*time.Microsecond)
	}
	m.Lateness("orders", Sweep, 40*time.Millisecond)
	m.Lateness("orders", Sweep, 40*time.Millisecond)
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonDNS)
	m.Attempt("orders", notice.OutcomeRetry, notice.ReasonTLS)
	m.Attempt("orders", notice.OutcomeDead, notice.ReasonGone)
	m.Attempt("orders", notice.OutcomeDeferred, notice.ReasonBusy)
	before := strings.Count(scrape(t, m), "\n")
	s := m.Stats("orders")
	if got := fmt.Sprint(s.Outcomes); got != "map[dead:1 deferred:1 delivered:1 retry:2]" || s.Scheduled != 3 {
		t.Errorf("%+v", s)
	}
	if s.LatenessP50 < 500*time.Microsecond || s.LatenessP50 > time.Millisecond {
		t.Errorf("p50 %s", s.LatenessP50)
	}
	if s.LatenessP99 < 20*time.Millisecond || s.LatenessP99 > 50*time.Millisecond {
		t.Errorf("p99 %s", s.LatenessP99)
	}
	if idle := m.Stats("idle"); idle.LatenessP50 != 0 || idle.LatenessP99 != 0 {
		t.Errorf("idle: %+v", idle)
	}
	if after := strings.Count(scrape(t, m), "\n"); after != before {
		t.Errorf("reading made %d series", after-before)
	}
}

func TestQuantileBeyondTheLastBound(t *testing.T) {
	counts := make([]uint64, len(latenessBuckets)+1)
	counts[len(counts)-1] = 1
	if q := quantile(counts, 0.5); q != 10*time.Minute {
		t.Errorf("%s", q)
	}
	if !slices.IsSorted(latenessBuckets) || !slices.IsSorted(handlerBuckets) {
		t.Error("bounds are out of order")
	}
}

// A step that the store names and that is not in the set would be counted as
// other.
func TestOperationsAreTheStores(t *testing.T) {
	files, err := filepath.Glob("../store/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:newScript|fail)\("([a-z_]+)"`).FindAllStringSubmatch(string(b), -1) {
			if !slices.Contains(operations, m[1]) {
				t.Errorf("%s names the step %s, which is not among the operations", f, m[1])
			}
		}
	}
}

func BenchmarkHotPath(b *testing.B) {
	m := New("v1", []string{"orders"})
	b.ReportAllocs()
	for b.Loop() {
		m.Event(Dispatched)
		m.Lateness("orders", Event, time.Millisecond)
		m.Handler("orders", time.Millisecond)
		m.Attempt("orders", notice.OutcomeDelivered, "")
	}
}
