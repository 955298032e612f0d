package engine_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
)

// A notice that was scheduled before HEADERS_TO changed is not called and uses no attempt. When
// the configuration allows its origin it is called with the headers, late because of them.
func TestPendingNoticeWaitsForItsHeaders(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	srv := testkit.SharedRedis(t)
	got := make(chan string, 8)
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer shop.Close()
	partition := keys.Partition{Prefix: "app1"}
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}

	// run runs an engine with this HEADERS_TO during step.
	run := func(to string, step func(e *engine.Engine, m *telemetry.Metrics)) {
		t.Helper()
		r := shopRoute(t)
		r.Headers = []notice.Header{{Name: "Authorization", Value: "Bearer abc"}}
		var err error
		if r.HeadersTo, err = route.ParseOrigins(to); err != nil {
			t.Fatal(err)
		}
		e, m, stop := runShops(t, srv, r)
		step(e, m)
		stop()
	}

	due := time.Now().Truncate(time.Millisecond)
	req := store.Request{Key: key, Due: due, Content: notice.Content{URL: shop.URL + "/hook"}}
	if _, err := store.New(store.Options{Client: srv.Client(), Space: space}).Schedule(t.Context(), partition,
		[]store.Request{req}); err != nil {
		t.Fatal(err)
	}
	run("127.0.0.1", func(e *engine.Engine, m *telemetry.Metrics) {
		shows(t, m, `notifier_attempt_reasons_total{outcome="deferred",reason="headers",route="shops"}`)
		f, err := e.Find(t.Context(), key)
		if err != nil || f.State != notice.Scheduled || f.AttemptsMade != 0 || len(f.Attempts) != 0 || f.Due.Sub(due).Abs() > 20*time.Second {
			t.Errorf("%+v, %v", f, err)
		}
		if wait := f.NextAttemptAt().Sub(f.Due); wait < time.Minute || wait > 15*time.Minute {
			t.Errorf("the next attempt is %s after the due time", wait)
		}
	})
	if len(got) > 0 {
		t.Fatalf("it was called, with Authorization %q", <-got)
	}

	// The wait is over: the fraction of the score is the cause of the postponement.
	score := srv.Client().ZScore(t.Context(), space.Shadow(partition), key).Val()
	_, cause := math.Modf(score)
	// The label names the longest wait. The wait for headers ends after the engine has
	// started, or a slow start would be longer.
	ends := time.Now().Add(3 * time.Second)
	srv.Client().ZAdd(t.Context(), space.Shadow(partition), redis.Z{Score: float64(ends.UnixMilli()) + cause, Member: key})
	run(shop.URL, func(_ *engine.Engine, m *telemetry.Metrics) {
		if sent := testkit.Next(t, "it is called", got); sent != "Bearer abc" {
			t.Errorf("Authorization %q", sent)
		}
		shows(t, m, `notifier_lateness_seconds_count{held="headers",route="shops",`)
	})
}

// shows waits until the metrics have a line that begins so and is not 0.
func shows(t *testing.T, m *telemetry.Metrics, series string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + `[^\n]* [1-9]`)
	testkit.Await(t, func() error {
		w := httptest.NewRecorder()
		m.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !line.MatchString(w.Body.String()) {
			return fmt.Errorf("no %s in\n%s", series, w.Body)
		}
		return nil
	})
}
