package app

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/callback"
	"notifier/internal/redistest"
	"notifier/internal/store"
)

// BenchmarkCallbacks is notices that are due in one millisecond, delivered by
// HTTP to one receiver in this process.
func BenchmarkCallbacks(b *testing.B) {
	srv := redistest.Start(b)
	n := max(b.N, 2000)
	var got atomic.Int64
	done := make(chan struct{})
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		if got.Add(1) == int64(n) {
			close(done)
		}
	}))
	defer r.Close()
	h := callback.New(callback.Options{Concurrency: 512})
	defer h.Close()
	e := benchEngineTo(b, srv, h, r.URL, 64)
	due := time.Now().Add(time.Duration(n)*40*time.Microsecond + 500*time.Millisecond)
	for i := 0; i < n; i += 500 {
		reqs := make([]store.Request, min(500, n-i))
		for j := range reqs {
			reqs[j] = request(i+j, 0, due)
		}
		for _, r := range e.ScheduleMany(context.Background(), reqs) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportAllocs()
	mine, redis := cost(b, srv)
	<-time.After(time.Until(due))
	b.ResetTimer()
	<-done
	took := time.Since(due)
	b.StopTimer()
	report(b, srv, n, took, mine, redis)
}
