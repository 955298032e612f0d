package metrics

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeTimeout is how long a scrape waits for what Redis holds. Prometheus itself
// waits 10 s by default.
const scrapeTimeout = 5 * time.Second

// Gauges is what stands at one moment, as far as it is known.
type Gauges struct {
	Routes []RouteGauges
	// History is nil where nothing is handed over.
	History *HistoryGauges
	// Missing is how many shards of a cluster the numbers of Routes are without, because
	// their node does not answer.
	Missing int
	// Orphaned notices lie under a prefix that no route has.
	Orphaned int64
	// EventsFlowing: expired events arrive and trigger claims. Without them the
	// reconciler claims due notices.
	EventsFlowing bool
}

// RouteGauges is what Redis holds of one route, and what this process works on.
type RouteGauges struct {
	Route   string // its name
	Pending int64  // scheduled and claimed
	Overdue int64  // due, and claimed by nobody
	Dead    int64
	Settled int64
	// RepeatWindow is for how long after it was settled a notice is recognised when its
	// schedule call is repeated, RepeatSetting for how long it should be.
	RepeatWindow, RepeatSetting time.Duration
	InFlight                    int64 // in this process
	Paused                      bool
	// due notices that wait for a limit, a host or the end of a pause, at all instances together; -1 = not known
	Waiting          int64
	HostsWaiting     int // hosts whose slots are all taken
	ReceiversFailing int // receivers that fail for more than 15 minutes; -1 = unknown
}

type observer struct {
	ask atomic.Pointer[func(context.Context) (Gauges, error)]
}

// Observe sets who is asked for the gauges whenever somebody scrapes. An error
// leaves them out and shows notifier_redis_up as 0.
func (m *Metrics) Observe(ask func(context.Context) (Gauges, error)) {
	if m == nil {
		return
	}
	m.observe.ask.Store(&ask)
}

var (
	upDesc      = desc("notifier_redis_up", "Whether Redis answered this scrape.")
	flowingDesc = desc("notifier_events_flowing",
		"Whether expired events arrive at this process and trigger claims. If not, the reconciler claims due notices.")
	missingDesc = desc("notifier_shards_missing",
		"Shards whose node of the cluster did not answer this scrape: the numbers of routes are without them.")
	orphanedDesc = desc("notifier_orphaned", "Notices under a prefix that no route has: nobody delivers them.")
	pendingDesc  = desc("notifier_pending", "Notices scheduled and claimed.", "route")
	overdueDesc  = desc("notifier_overdue", "Notices that are due and claimed by nobody.", "route")
	deadDesc     = desc("notifier_dead", "Dead letters.", "route")
	settledDesc  = desc("notifier_settled", "Delivered and cancelled notices that are still readable.", "route")
	repeatDesc   = desc("notifier_repeat_window_seconds",
		"For how long after it was settled a notice is recognised when its schedule call is repeated.", "route")
	repeatSetDesc = desc("notifier_repeat_window_setting_seconds",
		"For how long it should be: NOTIFIER_REPEAT_WINDOW, or the retention if that is shorter.", "route")
	inflightDesc = desc("notifier_inflight", "Handlers that run in this process.", "route")
	waitingDesc  = desc("notifier_waiting",
		"Due notices that wait for a slot of their host, a rate, a breaker, their Redis or the end of a pause, at all instances together, as "+
			"these publish it.", "route")
	hostsDesc = desc("notifier_hosts_waiting",
		"Hosts of which this process has put off notices within 15 s because all their slots were taken.", "route")
	failingDesc = desc("notifier_receivers_failing",
		"Receivers whose attempts have failed for more than 15 minutes, at all instances together.", "route")
	pausedDesc = desc("notifier_paused", "Whether the route is paused.", "route")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Page answers GET /metrics.
func (m *Metrics) Page() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(m.gatherer(r.Context()), promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	})
}

// gatherer puts the gauges of this moment beside what was counted.
func (m *Metrics) gatherer(ctx context.Context) prometheus.Gatherer {
	now := prometheus.NewRegistry()
	now.MustRegister(m.ask(ctx))
	return prometheus.Gatherers{m.registry, now}
}

// ask has the gauges of this moment, once.
func (m *Metrics) ask(ctx context.Context) snapshot {
	ask := m.observe.ask.Load()
	if ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	g, err := (*ask)(ctx)
	if err != nil {
		m.RedisError("stats")
		return snapshot{value(upDesc, 0)}
	}
	s := snapshot{value(upDesc, 1), value(flowingDesc, boolValue(g.EventsFlowing)), value(orphanedDesc, float64(g.Orphaned)),
		value(missingDesc, float64(g.Missing))}
	s = append(s, g.History.gauges()...)
	for _, r := range g.Routes {
		s = append(s, value(pendingDesc, float64(r.Pending), r.Route), value(overdueDesc, float64(r.Overdue), r.Route),
			value(deadDesc, float64(r.Dead), r.Route), value(settledDesc, float64(r.Settled), r.Route),
			value(repeatDesc, r.RepeatWindow.Seconds(), r.Route), value(repeatSetDesc, r.RepeatSetting.Seconds(), r.Route),
			value(inflightDesc, float64(r.InFlight), r.Route), value(pausedDesc, boolValue(r.Paused), r.Route),
			value(hostsDesc, float64(r.HostsWaiting), r.Route))
		if r.ReceiversFailing >= 0 {
			s = append(s, value(failingDesc, float64(r.ReceiversFailing), r.Route))
		}
		if r.Waiting >= 0 {
			s = append(s, value(waitingDesc, float64(r.Waiting), r.Route))
		}
	}
	return s
}

func value(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// snapshot is a Collector of values that are there already.
type snapshot []prometheus.Metric

// Describe promises the gauges, whether or not they could be had.
func (s snapshot) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, flowingDesc, orphanedDesc, missingDesc, pendingDesc, overdueDesc, deadDesc, settledDesc,
		repeatDesc, repeatSetDesc, inflightDesc,
		pausedDesc, waitingDesc, hostsDesc, failingDesc, historyBacklogDesc, historyBoundDesc, historyLostDesc, historyLagDesc} {
		ch <- d
	}
}

// Collect hands them over.
func (s snapshot) Collect(ch chan<- prometheus.Metric) {
	for _, m := range s {
		ch <- m
	}
}
