package engine

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"notifier/internal/callback"
	"notifier/internal/testkit"
)

// BenchmarkCallbacks is notices that are due in one millisecond, delivered by
// HTTP to one receiver in this process.
func BenchmarkCallbacks(b *testing.B) {
	srv := testkit.StartRedis(b)
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
	drain(b, srv, e, n, done)
}
