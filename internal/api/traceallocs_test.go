package api

import (
	"net/http/httptest"
	"testing"
)

// Without a tracer, a schedule call allocates nothing for tracing.
func TestUntracedCallAllocatesNothing(t *testing.T) {
	a, c := &api{}, &calling{op: &operation{call: call{id: "schedule"}}}
	bare, sent := httptest.NewRequest("POST", "/v1/notices", nil), httptest.NewRequest("POST", "/v1/notices", nil)
	sent.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	sent.Header.Set("Tracestate", "a=1")
	if n := testing.AllocsPerRun(1000, func() {
		if traceOf(a.beginSpan(bare, c)).parent != "" || traceOf(a.beginSpan(sent, c)).state != "a=1" {
			panic("another context")
		}
		c.traced(nil)
		a.endSpan(c, 201)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
