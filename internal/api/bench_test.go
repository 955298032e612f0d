package api_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// What the API itself costs, without Redis and without the network.
func BenchmarkSchedule(b *testing.B) {
	bench := newBench(b)
	for i := range b.N {
		r := httptest.NewRequest("POST", "/v1/notices", strings.NewReader(line(i)))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		if bench.handler.ServeHTTP(w, r); w.Code != 201 {
			b.Fatal(w.Body)
		}
	}
}

func line(i int) string {
	return fmt.Sprintf(`{"key":"app2:load:test:%d","delay":"1h","body":%q}`+"\n", i, strings.Repeat("x", 198))
}

func BenchmarkBatch(b *testing.B) {
	bench := newBench(b)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 500 {
		var s strings.Builder
		for j := range 500 {
			s.WriteString(line(i + j))
		}
		r := httptest.NewRequest("POST", "/v1/notices/batch", strings.NewReader(s.String()))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		if bench.handler.ServeHTTP(w, r); w.Code != 201 {
			b.Fatal(w.Body)
		}
	}
}
