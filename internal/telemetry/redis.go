package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Redis is the connection whose traffic is collected. Traffic must not wait for Redis.
type Redis interface {
	Traffic() (trips map[string]uint64, used, idle int)
}

var (
	tripsDesc = desc("notifier_redis_round_trips_total",
		"Commands and pipelines sent to Redis, by script or command. A pipeline counts as its first command.", "op")
	connectionsDesc = desc("notifier_redis_connections", "Open connections to Redis by state, without those of subscriptions.", "state")
)

// traffic collects the traffic with Redis without waiting for Redis.
type traffic struct{ redis atomic.Pointer[Redis] }

// ObserveRedis sets the connection whose traffic each scrape reads.
func (m *Metrics) ObserveRedis(r Redis) {
	if m != nil {
		m.traffic.redis.Store(&r)
	}
}

// Describe implements [prometheus.Collector].
func (t *traffic) Describe(ch chan<- *prometheus.Desc) {
	ch <- tripsDesc
	ch <- connectionsDesc
}

// Collect implements [prometheus.Collector].
func (t *traffic) Collect(ch chan<- prometheus.Metric) {
	r := t.redis.Load()
	if r == nil {
		return
	}

	trips, used, idle := (*r).Traffic()
	for op, n := range trips {
		ch <- prometheus.MustNewConstMetric(tripsDesc, prometheus.CounterValue, float64(n), op)
	}

	ch <- value(connectionsDesc, float64(used), "used")
	ch <- value(connectionsDesc, float64(idle), "idle")
}
