package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/notice"
)

var shortageDesc = desc("notifier_local_shortage_seconds",
	"How long this process's machine has lacked a resource that attempts need, by cause. Absent a minute after the last deferral.", "cause")

// shortages is a Collector of the shortages of this machine. It does not depend on Redis.
type shortages struct {
	ask atomic.Pointer[func() map[notice.Shortage]time.Time]
}

// Describe implements [prometheus.Collector].
func (s *shortages) Describe(ch chan<- *prometheus.Desc) { ch <- shortageDesc }

// Collect implements [prometheus.Collector].
func (s *shortages) Collect(ch chan<- prometheus.Metric) {
	ask := s.ask.Load()
	if ask == nil {
		return
	}

	for cause, since := range (*ask)() {
		ch <- value(shortageDesc, max(time.Since(since).Seconds(), 1), oneOf(notice.Shortages, cause))
	}
}

// ObserveShortages sets the function that returns the start of each shortage of this machine when the metrics are collected.
func (m *Metrics) ObserveShortages(ask func() map[notice.Shortage]time.Time) {
	if m != nil {
		m.shortages.ask.Store(&ask)
	}
}
