package callback

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"notifier/internal/notice"
)

// BenchmarkHandle compares one signed callback with all its limits to a plain client that sends the same
// body, over the same kept connections.
func BenchmarkHandle(b *testing.B) {
	const callers = 16
	base := server(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "success")
	}).URL
	body := bytes.Repeat([]byte(`{"order":"4711","paid":true}`), 7)
	b.Run("handler", func(b *testing.B) {
		h := newHandler(b, Options{})
		r := fixedRoute(base)
		r.HostConcurrency = 4 * callers
		r.Secrets = secrets(b, vectorSecret)
		b.SetParallelism(callers / 2)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if res := h.Handle(context.Background(), r, testNotice(string(body))); res.Outcome != notice.OutcomeDelivered {
					b.Errorf("%+v", res)
					return
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		t := &http.Transport{MaxIdleConnsPerHost: 4 * callers}
		b.Cleanup(t.CloseIdleConnections)
		c := &http.Client{Transport: t, Timeout: fixedRoute(base).Timeout}
		b.SetParallelism(callers / 2)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := c.Post(base, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	})
}
