package telemetry

import (
	"cmp"
	"strconv"
	"time"
)

// Call counts an answered API call and observes its duration. The operation is empty if the path or method is unknown.
func (m *Metrics) Call(client, operation string, status int, took time.Duration) {
	if m == nil {
		return
	}

	operation = cmp.Or(operation, "none")
	m.calls.WithLabelValues(client, operation, strconv.Itoa(status)).Inc()
	m.callTimes.WithLabelValues(operation).Observe(took.Seconds())
}

// BytesInFlight adds to the bytes of API request bodies in flight.
func (m *Metrics) BytesInFlight(delta int64) {
	if m != nil {
		m.inFlight.Add(float64(delta))
	}
}
