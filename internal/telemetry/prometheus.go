package telemetry

import (
	"cmp"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// other replaces a value outside a label's closed set. There should be none, and a fault must not create a series for
// each value.
const other = "other"

var (
	latenessBuckets = []float64{.0005, .001, .0015, .002, .003, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}
	callBuckets     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	handlerBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// operations are the Redis operations whose errors are counted: the steps of the store and the scrape.
var operations = []string{
	"schedule", "arm", "find", "waits", "amend", "restore", "claim", "settle", "look", "touch", "page", "trim", "bury", "buried", "unbury",
	"tombsin", "tombsend", "tombstones", "rehome", "counts", "kept", "announce", "hold", "side", "home", "elsewhere", "marks", "drop",
	"resharding", "whole", "moveout", "movein", "moveend", "moving", "room", "peek", "adopt", "strays", "unknown", "scan", "meta",
	"layout", "register", "pause", "resume", "paused", "ordered", "publish", "info", "key", "locate", "mark", "cross", "push", "serve",
	"unserve", "beat", "depart", "told", "minute", "minutes", "forecast", "signs", "tell", "listen", "stats", "identity", "client", "health",
	"outage", "ship", "shed", "endings", "backlog", "deaths", "receivers", "release", "held", "history", "forget", "replay", "redirect",
	"jobs", "tap", "tapend", "tapcopy", "taplisten", "audit", "auditclients", "auditmerge", "settings", "session", "beginsession",
	"endlink", "countresend", "link", "keeplink", "countpending", "deadcauses", "free", "define", "tick", "recurin",
	"recurend", "seal", "sealkey", "sealbring", "sealforget", "sealrecord", "sealrenew", "sealnamed", "sealunused", "rewrap",
}

// essential are the operations whose error series exist from the start.
var essential = []string{"schedule", "claim", "settle", "look"}

// confirmable are the operations that can wait for a durability.
var confirmable = []string{"schedule", "amend", "restore", "settle", "replay", "define", "tick"}

// unreadable are the reasons in the alert NotifierRecordsUnreadable.
var unreadable = []notice.Reason{notice.ReasonUnreadable, notice.ReasonMissing}

// lockWait adds the time that goroutines wait for locks, which shows whether more processors would help.
var lockWait = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/sync/mutex/wait/total:seconds$`)}

// Metrics holds the counters. Its methods may be called concurrently; a nil *Metrics counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	routes   map[string]*routeMetrics
	counters *fleet.Counters // for heartbeats and pages

	scheduled *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	reasons   *prometheus.CounterVec
	claims    *prometheus.CounterVec
	lateness  *prometheus.HistogramVec
	handler   *prometheus.HistogramVec
	events    *prometheus.CounterVec
	subs      prometheus.Counter
	redis     *prometheus.CounterVec
	unsettled *prometheus.CounterVec
	short     *prometheus.CounterVec
	foreign   *prometheus.CounterVec
	bodies    *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	lost      prometheus.Counter
	removed   *prometheus.CounterVec
	setup     *prometheus.GaugeVec
	full      prometheus.Gauge
	calls     *prometheus.CounterVec
	callTimes *prometheus.HistogramVec
	inFlight  prometheus.Gauge

	historyRows     prometheus.Counter
	historyFailures *prometheus.CounterVec
	replayed        *prometheus.CounterVec
	telemetry       *prometheus.CounterVec
	copies          *prometheus.CounterVec
	taps            taps

	observe observer
	fleet   fleetView
	traffic traffic

	shortages shortages
}

// routeMetrics holds the most frequently written series of one route.
type routeMetrics struct {
	scheduled prometheus.Counter
	handler   func() prometheus.Observer
	lateness  map[lateKey]prometheus.Observer
	attempts  map[notice.Outcome]prometheus.Counter
}

// lateKey identifies a series of a route's lateness.
type lateKey struct {
	source notice.Source
	held   notice.Held
}

// MetricsOptions configure [NewMetrics].
type MetricsOptions struct {
	// Version and Revision describe the program; empty = unknown.
	Version, Revision string
	Routes            []*route.Route
	// History adds the metrics of the relay to the history.
	History bool
	// Telemetry adds the metrics of the OpenTelemetry export.
	Telemetry bool
	// LogDropped returns the number of dropped log lines; nil = none.
	LogDropped func() int64
}

// NewMetrics returns the metrics of a process.
func NewMetrics(o MetricsOptions) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		routes:    map[string]*routeMetrics{},
		counters:  fleet.NewCounters(o.Routes),
		scheduled: counter("notifier_scheduled_total", "Notices accepted.", "route"),
		attempts: counter("notifier_attempts_total", "Attempts by outcome. An attempt handed to a consumer is counted again with its final "+
			"outcome.", "route", "outcome"),
		reasons: counter("notifier_attempt_reasons_total", "Attempts not delivered, by outcome and reason. A reason appears with its first "+
			"attempt.",
			"route", "outcome", "reason"),
		claims: counter("notifier_claims_total", "Claims by trigger (event or sweep) and result.", "source", "result"),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_lateness_seconds", Buckets: latenessBuckets,
			Help: "Time from the promised due time to the start of an exchange, by the cause of the longest wait."},
			[]string{"route", "source", "held"}),
		handler: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_handler_seconds", Buckets: handlerBuckets,
			Help: "Duration of a handler for one attempt."}, []string{"route"}),
		events: counter("notifier_events_total", "Expired events received, by result.", "result"),
		subs: prometheus.NewCounter(prometheus.CounterOpts{Name: "notifier_subscriptions_total",
			Help: "Subscriptions to expired events. Each one after the first replaces a lost subscription."}),
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifier_dead_removed_total",
			Help: "Dead letters removed by DEAD_RETENTION and DEAD_KEEP."}, []string{"route"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "notifier_data_lost_total",
			Help: "How often this process found that Redis has lost data: other data than before, or evicted keys."}),
		unsettled: counter("notifier_unsettled_total", "Attempts whose settle failed and is retried.", "route"),
		short: counter("notifier_unconfirmed_total", "Notices whose write was not confirmed with the configured durability, by operation; "+
			"a settle is retried up to five times.", "op"),
		foreign: counter("notifier_foreign_keys_total", "Timers that could not be set because another program has a key of the notice's name. "+
			"Such a notice is claimed by a sweep.", "route"),
		bodies: counter("notifier_bodies_lost_total", "Plain timers that expired before adoption or were too long. Their notices have no body.",
			"route"),
		tokens: counter("notifier_authentication_failures_total", "Requests with an unknown token, at the api or the pages.", "via"),
		redis: counter("notifier_redis_errors_total", "Failed Redis commands by operation. Rare operations appear with their first error.",
			"op"),
		calls: counter("notifier_http_requests_total", "API calls by client, operation and status. client is empty without a valid token.",
			"client", "operation", "status"),
		callTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifier_http_request_seconds", Buckets: callBuckets,
			Help: "Duration of API calls from the request's headers to the end of the response, by operation."}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "notifier_http_bytes_in_flight",
			Help: "Bytes of API request bodies in flight, limited by NOTIFIER_API_MEMORY."}),
		setup: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "notifier_redis_misconfigured",
			Help: "Whether this check of notifier doctor finds an error in the configuration of Redis. Absent until the first check."},
			[]string{"check"}),
	}
	m.full = prometheus.NewGauge(prometheus.GaugeOpts{Name: "notifier_redis_full",
		Help: "Whether Redis has refused a write of this process for lack of memory (maxmemory) within the last 10 s."})
	m.historyRows = prometheus.NewCounter(prometheus.CounterOpts{Name: "notifier_history_rows_total",
		Help: "Entries that this process has written to the history."})
	m.historyFailures = counter("notifier_history_failures_total", "Failures of the relay to the history, by kind. row, entry and memory "+
		"lose entries.", "kind")
	m.replayed = counter("notifier_replayed_total", "Notices of replays that this process has scheduled again (sent) or skipped, by reason.",
		"result")
	m.telemetry = counter("notifier_telemetry_items_total", "Spans (traces) and data points (metrics) for the OpenTelemetry collector: "+
		"exported, or dropped because the queue was full (overflow), the request failed, or the collector rejected them.", "signal", "result")
	m.registerTaps()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "notifier_build_info", Help: "Always 1. The labels have the version.",
		ConstLabels: prometheus.Labels{"version": cmp.Or(o.Version, "unknown"), "revision": cmp.Or(o.Revision, "unknown"),
			"go_version": runtime.Version()}})
	build.Set(1)
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "notifier_log_dropped_total",
		Help: "Log lines dropped because standard error was not read or closed."}, func() float64 {
		if o.LogDropped == nil {
			return 0
		}
		return float64(o.LogDropped())
	})
	m.registry.MustRegister(dropped, m.scheduled, m.attempts, m.reasons, m.claims, m.lateness, m.handler, m.events, m.subs, m.lost,
		m.removed, m.redis,
		m.unsettled, m.short, m.foreign, m.bodies, m.tokens, m.setup, m.full, m.calls, m.callTimes, m.inFlight, &m.fleet, &m.traffic,
		&m.shortages, build, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(lockWait)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.register(o.Routes)
	if o.Telemetry {
		m.registerTelemetry()
	}

	if o.History {
		m.registry.MustRegister(m.historyRows, m.historyFailures, m.replayed)
		for _, result := range ReplayResults {
			m.replayed.WithLabelValues(result)
		}

		for _, kind := range HistoryFailures {
			m.historyFailures.WithLabelValues(kind)
		}
	}

	return m
}

// register creates the series that exist from the start.
func (m *Metrics) register(routes []*route.Route) {
	for _, r := range routes {
		m.routes[r.Name] = m.route(r.Name)
		m.expectLate(r.Name, ownCause(r))
		for _, o := range notice.Outcomes {
			m.routes[r.Name].attempts[o] = m.attempts.WithLabelValues(r.Name, string(o))
		}

		for _, reason := range unreadable {
			m.reasons.WithLabelValues(r.Name, string(notice.OutcomeDead), string(reason))
		}

		if !r.HeadersTo.Empty() { // the alert NotifierHeld reads this series
			m.reasons.WithLabelValues(r.Name, string(notice.OutcomeDeferred), string(notice.ReasonHeaders))
		}

		if r.OAuth2 != nil {
			m.reasons.WithLabelValues(r.Name, string(notice.OutcomeDeferred), string(notice.ReasonToken))
		}

		if r.Adopt {
			m.bodies.WithLabelValues(r.Name)
		}
	}

	for _, s := range notice.ClaimSources {
		for _, r := range notice.ClaimResults {
			m.claims.WithLabelValues(string(s), string(r))
		}
	}

	for _, e := range notice.EventResults {
		m.events.WithLabelValues(string(e))
	}

	for _, op := range confirmable {
		m.short.WithLabelValues(op)
	}

	for _, op := range essential {
		m.redis.WithLabelValues(op)
	}
}

func (m *Metrics) route(name string) *routeMetrics {
	r := &routeMetrics{
		scheduled: m.scheduled.WithLabelValues(name),
		// No alert reads this series, so it appears with the first attempt.
		handler:  sync.OnceValue(func() prometheus.Observer { return m.handler.WithLabelValues(name) }),
		lateness: map[lateKey]prometheus.Observer{},
		attempts: map[notice.Outcome]prometheus.Counter{},
	}
	return r
}

// expectLate creates the series of a route's lateness that NotifierLate reads, so that the alert sees the first
// notices.
func (m *Metrics) expectLate(name string, causes ...notice.Held) {
	for _, h := range append(causes, notice.HeldNone) {
		for _, s := range notice.ClaimSources {
			m.routes[name].lateness[lateKey{s, h}] = m.lateness.WithLabelValues(name, string(s), string(h))
		}
	}
}

// ownCause returns the cause, besides none, that NotifierLate reads for the route's target.
func ownCause(r *route.Route) notice.Held {
	switch r.Target.Kind {
	case route.KindList, route.KindStream:
		return notice.HeldRedis
	case route.KindLog:
		return notice.HeldNone
	}
	return notice.HeldBusy
}

// series returns a route's series. All routes that are not configured share one series.
func (m *Metrics) series(route string) (*routeMetrics, string) {
	if r := m.routes[route]; r != nil {
		return r, route
	}
	return m.route(other), other
}

// Scheduled counts accepted notices.
func (m *Metrics) Scheduled(route string, n int) {
	if m == nil || n <= 0 {
		return
	}

	r, _ := m.series(route)
	r.scheduled.Add(float64(n))
	m.counters.Scheduled(route, n)
}

// BodiesLost counts adopted timers without a readable payload.
func (m *Metrics) BodiesLost(route string, n int) {
	if m == nil || n <= 0 {
		return
	}

	_, name := m.series(route)
	m.bodies.WithLabelValues(name).Add(float64(n))
}

// AuthenticationFailed counts a request with a wrong token, at the API or the pages.
func (m *Metrics) AuthenticationFailed(via string) {
	if m != nil {
		m.tokens.WithLabelValues(via).Inc()
	}
}

// Attempt counts the outcome of an attempt or of a deferral.
func (m *Metrics) Attempt(route string, o notice.Outcome, reason notice.Reason) {
	if m == nil {
		return
	}

	m.counters.Attempt(route, o, reason)
	r, name := m.series(route)
	if !slices.Contains(notice.Outcomes, o) {
		o = other
	}

	if c := r.attempts[o]; c != nil {
		c.Inc()
	} else {
		m.attempts.WithLabelValues(name, string(o)).Inc()
	}

	if reason == "" {
		return
	}

	if !slices.Contains(notice.Reasons, reason) {
		reason = other
	}

	m.reasons.WithLabelValues(name, string(o), string(reason)).Inc()
}

// Claim counts n claims by trigger and result.
func (m *Metrics) Claim(source notice.Source, result notice.ClaimResult, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.claims.WithLabelValues(oneOf(notice.ClaimSources, source), oneOf(notice.ClaimResults, result)).Add(float64(n))
}

// Lateness observes the time from the promised due time to the start of an exchange, by the cause of the wait. A
// sampled span of the exchange becomes the exemplar.
func (m *Metrics) Lateness(route string, source notice.Source, held notice.Held, d time.Duration, span trace.SpanContext) {
	if m == nil {
		return
	}

	r, name := m.series(route)
	o := r.lateness[lateKey{source, held}]
	if o == nil {
		o = m.lateness.WithLabelValues(name, oneOf(notice.ClaimSources, source), oneOf(notice.Helds[:], held))
	}

	observe(o, max(d, 0), span)
	m.counters.Lateness(route, source, held, d, span)
}

// Handler observes a handler's duration. A sampled span of the exchange becomes the exemplar.
func (m *Metrics) Handler(route string, d time.Duration, span trace.SpanContext) {
	if m == nil {
		return
	}

	r, _ := m.series(route)
	observe(r.handler(), d, span)
}

// observe adds a duration to a histogram. A sampled span becomes the exemplar.
func observe(o prometheus.Observer, d time.Duration, span trace.SpanContext) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String(), "span_id": span.SpanID().String()})
		return
	}
	o.Observe(d.Seconds())
}

// Event counts an expired event.
func (m *Metrics) Event(result notice.EventResult) {
	if m == nil {
		return
	}
	m.events.WithLabelValues(oneOf(notice.EventResults, result)).Inc()
}

// Subscription counts a new subscription.
func (m *Metrics) Subscription() {
	if m == nil {
		return
	}
	m.subs.Inc()
}

// DeadRemoved counts dead letters of a route that are removed because of their age or number.
func (m *Metrics) DeadRemoved(route string, n int) {
	if m != nil {
		m.removed.WithLabelValues(route).Add(float64(n))
	}
}

// DataLost counts a loss of data in Redis.
func (m *Metrics) DataLost() {
	if m != nil {
		m.lost.Inc()
	}
}

// Unsettled counts attempts whose settle failed and is retried.
func (m *Metrics) Unsettled(route string, n int) {
	if m == nil {
		return
	}

	_, name := m.series(route)
	m.unsettled.WithLabelValues(name).Add(float64(n))
}

// ForeignKeys counts keys of other programs that have the names of notices of a route.
func (m *Metrics) ForeignKeys(route string, n int) {
	if m == nil {
		return
	}

	_, name := m.series(route)
	m.foreign.WithLabelValues(name).Add(float64(n))
}

// Unconfirmed counts notices whose write was not confirmed in time.
func (m *Metrics) Unconfirmed(op string, n int) {
	if m == nil {
		return
	}
	m.short.WithLabelValues(oneOf(confirmable, op)).Add(float64(n))
}

// RedisError counts a failed command.
func (m *Metrics) RedisError(op string) {
	if m == nil {
		return
	}
	m.redis.WithLabelValues(oneOf(operations, op)).Inc()
}

// Misconfigured sets whether a check of the configuration of Redis found an error.
func (m *Metrics) Misconfigured(check string, wrong bool) {
	if m == nil {
		return
	}
	m.setup.WithLabelValues(check).Set(boolValue(wrong))
}

// RedisFull sets whether Redis refuses writes for lack of memory.
func (m *Metrics) RedisFull(full bool) {
	if m != nil {
		m.full.Set(boolValue(full))
	}
}

// oneOf returns v, or "other" if v is not in the label's closed set.
func oneOf[T ~string](set []T, v T) string {
	if slices.Contains(set, v) {
		return string(v)
	}
	return other
}
