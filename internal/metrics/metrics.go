// Package metrics counts what the service does, for Prometheus.
//
// Every label has a closed set of values, and every series that can be foreseen
// exists from the start with 0: an alert on a rate sees the first failure too.
// A label of a route is the route's name. A nil *Metrics counts nothing, so
// that nobody needs to ask whether there is one.
//
// What Redis holds is not counted but asked for, when somebody scrapes: see
// [Metrics.Observe].
package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"notifier/internal/notice"
)

// Sources of a claim: who found the notice due.
const (
	Event = "event" // the expired event of its timer
	Sweep = "sweep" // the reconciler
)

// Results of a claim.
const (
	Won   = "won"
	Lost  = "lost"  // another instance was first
	Stale = "stale" // it is not due any more: settled, cancelled or rescheduled
)

// Results of an expired event.
const (
	Dispatched = "dispatched"
	Unrouted   = "unrouted" // a notice key that no route covers
	Foreign    = "foreign"  // somebody else's key
	Dropped    = "dropped"  // the queue was full; the reconciler finds the notice
)

// other stands for a value outside its closed set: there should be none, and if
// there is one it must not make a new series for each.
const other = "other"

var (
	sources = []string{Event, Sweep}
	results = []string{Won, Lost, Stale}
	events  = []string{Dispatched, Unrouted, Foreign, Dropped}

	// deferrals are the reasons of an attempt that was put off.
	deferrals = []notice.Reason{notice.ReasonBusy, notice.ReasonBreaker, notice.ReasonShutdown, notice.ReasonLocked}

	latenessBuckets = []float64{.0005, .001, .002, .003, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}
	handlerBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// operations are what commands are for whose errors are counted: the steps that
// the store names, the subscription, and the scrape's own question.
var operations = []string{
	"schedule", "arm", "find", "amend", "claim", "settle", "push", "look", "touch", "page", "trim", "rehome", "counts", "kept",
	"peek", "adopt", "unknown", "scan", "meta", "register", "routes", "forget", "pause", "resume", "paused", "publish", "info", "subscribe", "stats",
}

// Metrics counts. Its methods may be called at the same time.
type Metrics struct {
	registry *prometheus.Registry
	routes   map[string]*routeMetrics

	scheduled *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	claims    *prometheus.CounterVec
	lateness  *prometheus.HistogramVec
	handler   *prometheus.HistogramVec
	events    *prometheus.CounterVec
	subs      prometheus.Counter
	redis     *prometheus.CounterVec
	unsettled *prometheus.CounterVec
	bodies    *prometheus.CounterVec

	observe observer
}

// routeMetrics holds the series of one route that are written most often.
type routeMetrics struct {
	scheduled prometheus.Counter
	handler   prometheus.Observer
	lateness  map[string]prometheus.Observer // by source
	delivered prometheus.Counter
}

// New makes the metrics of a process that serves the routes of these names.
func New(version string, routes []string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		routes:    map[string]*routeMetrics{},
		scheduled: counter("notifier_scheduled_total", "Notices accepted.", "route"),
		attempts:  counter("notifier_attempts_total", "Attempts, by what they came to and why.", "route", "outcome", "reason"),
		claims:    counter("notifier_claims_total", "Claims, by who found the notice due and whether the claim was won.", "source", "result"),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_lateness_seconds", Buckets: latenessBuckets,
			Help: "From the due time to the handler's start."}, []string{"route", "source"}),
		handler: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_handler_seconds", Buckets: handlerBuckets,
			Help: "How long a handler took for one attempt."}, []string{"route"}),
		events: counter("notifier_events_total", "Expired events received, by what became of them.", "result"),
		subs: prometheus.NewCounter(prometheus.CounterOpts{Name: "notifier_subscriptions_total",
			Help: "Subscriptions made to expired events; each beyond the first means that one was lost."}),
		unsettled: counter("notifier_unsettled_total", "Attempts whose settle Redis did not take at once; it is repeated.", "route"),
		bodies:    counter("notifier_bodies_lost_total", "Plain timers that expired before they were adopted, or were too long: their notices have no body.", "route"),
		redis:     counter("notifier_redis_errors_total", "Redis commands that failed, by what they were for.", "op"),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "notifier_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.scheduled, m.attempts, m.claims, m.lateness, m.handler, m.events, m.subs, m.redis, m.unsettled, m.bodies, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.foresee(routes)
	return m
}

// foresee makes the series that are known beforehand.
func (m *Metrics) foresee(routes []string) {
	for _, r := range routes {
		m.routes[r] = m.route(r)
		m.bodies.WithLabelValues(r)
		for _, reason := range notice.Reasons {
			outcomes := []notice.Outcome{notice.OutcomeRetry, notice.OutcomeDead}
			if slices.Contains(deferrals, reason) {
				outcomes = []notice.Outcome{notice.OutcomeDeferred}
			}
			for _, o := range outcomes {
				m.attempts.WithLabelValues(r, string(o), string(reason))
			}
		}
	}
	for _, s := range sources {
		for _, r := range results {
			m.claims.WithLabelValues(s, r)
		}
	}
	for _, e := range events {
		m.events.WithLabelValues(e)
	}
	for _, op := range operations {
		m.redis.WithLabelValues(op)
	}
}

func (m *Metrics) route(name string) *routeMetrics {
	r := &routeMetrics{
		scheduled: m.scheduled.WithLabelValues(name),
		handler:   m.handler.WithLabelValues(name),
		lateness:  map[string]prometheus.Observer{},
		delivered: m.attempts.WithLabelValues(name, string(notice.OutcomeDelivered), ""),
	}
	for _, s := range sources {
		r.lateness[s] = m.lateness.WithLabelValues(name, s)
	}
	return r
}

// of finds a route's series; a route that is not configured has them under
// another name, together with all its kind.
func (m *Metrics) of(route string) (*routeMetrics, string) {
	if r := m.routes[route]; r != nil {
		return r, route
	}
	return m.route(other), other
}

// Scheduled counts notices accepted.
func (m *Metrics) Scheduled(route string, n int) {
	if m == nil || n <= 0 {
		return
	}
	r, _ := m.of(route)
	r.scheduled.Add(float64(n))
}

// BodiesLost counts adopted timers whose payload was not to be had.
func (m *Metrics) BodiesLost(route string, n int) {
	if m == nil || n <= 0 {
		return
	}
	_, name := m.of(route)
	m.bodies.WithLabelValues(name).Add(float64(n))
}

// Attempt counts what an attempt, or a deferral, came to.
func (m *Metrics) Attempt(route string, o notice.Outcome, reason notice.Reason) {
	if m == nil {
		return
	}
	r, name := m.of(route)
	if o == notice.OutcomeDelivered && reason == "" {
		r.delivered.Inc()
		return
	}
	if !slices.Contains(notice.Outcomes, o) {
		o = other
	}
	if reason != "" && !slices.Contains(notice.Reasons, reason) {
		reason = other
	}
	m.attempts.WithLabelValues(name, string(o), string(reason)).Inc()
}

// Claim counts claims tried.
func (m *Metrics) Claim(source, result string, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.claims.WithLabelValues(within(sources, source), within(results, result)).Add(float64(n))
}

// Lateness takes the time from the due time to the handler's start.
func (m *Metrics) Lateness(route, source string, d time.Duration) {
	if m == nil {
		return
	}
	r, name := m.of(route)
	o := r.lateness[source]
	if o == nil {
		o = m.lateness.WithLabelValues(name, other)
	}
	o.Observe(max(d, 0).Seconds())
}

// Handler takes how long a handler took.
func (m *Metrics) Handler(route string, d time.Duration) {
	if m == nil {
		return
	}
	r, _ := m.of(route)
	r.handler.Observe(d.Seconds())
}

// Event counts an expired event.
func (m *Metrics) Event(result string) {
	if m == nil {
		return
	}
	m.events.WithLabelValues(within(events, result)).Inc()
}

// Subscription counts a subscription made.
func (m *Metrics) Subscription() {
	if m == nil {
		return
	}
	m.subs.Inc()
}

// Unsettled counts attempts whose settle failed and is repeated.
func (m *Metrics) Unsettled(route string, n int) {
	if m == nil {
		return
	}
	_, name := m.of(route)
	m.unsettled.WithLabelValues(name).Add(float64(n))
}

// RedisError counts a command that failed.
func (m *Metrics) RedisError(op string) {
	if m == nil {
		return
	}
	m.redis.WithLabelValues(within(operations, op)).Inc()
}

// within keeps a label's set closed.
func within(set []string, s string) string {
	if slices.Contains(set, s) {
		return s
	}
	return other
}
