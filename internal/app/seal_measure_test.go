//go:build measure

package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// TestMeasureSealOverHTTP measures what a sealed route costs a producer and in callbacks, beside a route in clear text, in SEAL_PAIRS
// alternating pairs: single schedules of 64 clients, batches of 500, and callbacks of notices that are due at once. Producers, instance
// and receiver share this process, Redis has its own. Bodies have 200 bytes, keys are of 100 audiences.
//
//	go test -tags measure ./internal/app -run TestMeasureSealOverHTTP -v -timeout 20m
func TestMeasureSealOverHTTP(t *testing.T) {
	const singles, batch, batches = 20000, 500, 16
	pairs, _ := strconv.Atoi(os.Getenv("SEAL_PAIRS"))
	pairs = max(pairs, 3)
	var got atomic.Int64
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got.Add(1)
		_, _ = w.Write([]byte("ok"))
	}))
	defer shop.Close()
	srv := testkit.StartRedis(t)
	i := serveOn(t, srv, "ROUTES=plain,sealed", "ROUTE_PLAIN_PREFIX=app1", "ROUTE_SEALED_PREFIX=app2",
		"ROUTE_PLAIN_TARGET=notice", "ROUTE_SEALED_TARGET=notice",
		"ROUTE_SEALED_SEAL=audience", "SEAL_KEYS=k=a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=", "ROUTE_PLAIN_ALLOW=127.0.0.0/8",
		"ROUTE_SEALED_ALLOW=127.0.0.0/8", "LOG_LEVEL=warn")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	post := func(path, kind, body string) {
		res, err := client.Post("http://"+i.Addr()+path, kind, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode/100 != 2 || bytes.Contains(text, []byte(`"status":4`)) {
			t.Errorf("%d: %.300s", res.StatusCode, text)
		}
	}
	item := func(prefix string, round, n int, delay time.Duration) string {
		return fmt.Sprintf(`{"key":"%s:pay:n%d:%d","delay":"%dms","url":"%s/","audience":"m%d","body":{"text":"%0188d"}}`, prefix, round, n,
			delay.Milliseconds(), shop.URL, n%100, 0)
	}

	names := []string{"single schedules", "processor time of them", "Redis's processor time of them", "batches", "callbacks"}
	measure := func(variant, round int) (took []time.Duration) {
		prefix := []string{"app1", "app2"}[variant]
		own, redis := testkit.CPU(t, srv)
		from := time.Now()
		var all sync.WaitGroup
		for c := range 64 {
			all.Go(func() {
				for n := c; n < singles; n += 64 {
					post("/v1/notices", "application/json", item(prefix, 2*round, n, time.Hour))
				}
			})
		}
		all.Wait()
		took = append(took, time.Since(from))
		own2, redis2 := testkit.CPU(t, srv)
		took = append(took, own2-own, redis2-redis)

		from = time.Now()
		due := from.Add(10 * time.Second)
		before := got.Load()
		for b := range batches {
			items := make([]string, batch)
			for n := range items {
				items[n] = item(prefix, 2*round+1, b*batch+n, time.Until(due))
			}
			post("/v1/notices/batch", "application/x-ndjson", strings.Join(items, "\n"))
		}
		took = append(took, time.Since(from))
		if time.Until(due) < 0 {
			t.Fatalf("%d batches took %s", batches, time.Since(from))
		}
		for got.Load() < before+batch*batches {
			time.Sleep(time.Millisecond) // sleep: a poll
		}
		return append(took, time.Since(due))
	}

	testkit.Pairs(t, pairs, names, measure) // clear first, sealed second
}
