package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"notifier/internal/fleet"
	"notifier/internal/store"
)

// scrapeTimeout bounds the read of gauges from Redis in a scrape. Prometheus waits 10 s by default.
const scrapeTimeout = 5 * time.Second

type observer struct {
	ask atomic.Pointer[func(context.Context) (fleet.Gauges, error)]
}

// Observe sets the function that each scrape calls for the gauges. If it returns an error, the gauges are missing and
// notifier_redis_up is 0.
func (m *Metrics) Observe(ask func(context.Context) (fleet.Gauges, error)) {
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
		"Shards whose cluster node did not answer this scrape. The gauges of routes do not include them.")
	hookDesc      = desc("notifier_hook_backlog", "Dead letters of routes with ON_DEAD whose hook's notice is not scheduled yet.")
	orphanedDesc  = desc("notifier_orphaned", "Notices whose prefix no route matches. They are not delivered.")
	unhandledDesc = desc("notifier_unhandled_prefixes",
		"Prefixes recorded for workers that have pending notices and no running worker. Their notices are not delivered.")
	sealKeysDesc = desc("notifier_seal_keys",
		"Keys of sealed notices by the service key that encrypts them. Every instance counts all, at most once a minute.", "key")
	sealedDesc = desc("notifier_sealed_waiting",
		"All overdue notices of routes with due notices that need a service key which no running instance has.")
	pendingDesc = desc("notifier_pending", "Notices scheduled and claimed.", "route")
	overdueDesc = desc("notifier_overdue", "Notices that are due and not claimed.", "route")
	dueDesc     = desc("notifier_due", "Notices that become due within a number of seconds, without claimed and parked ones. Every instance "+
		"reports the number of the whole fleet: take the maximum, not the sum.", "route", "within")
	deadDesc    = desc("notifier_dead", "Dead letters.", "route")
	settledDesc = desc("notifier_settled", "Delivered and cancelled notices that are still readable.", "route")
	repeatDesc  = desc("notifier_repeat_window_seconds",
		"How long after its settle a notice's repeated schedule call is recognised.", "route")
	repeatSetDesc = desc("notifier_repeat_window_setting_seconds",
		"The configured value: NOTIFIER_REPEAT_WINDOW, or the retention if that is shorter.", "route")
	inflightDesc = desc("notifier_inflight", "Handlers running in this process.", "route")
	waitingDesc  = desc("notifier_waiting",
		"Due notices deferred by a full host, a rate limit, a breaker, Redis or a pause, at all instances together, as "+
			"published in heartbeats, and those of an ordered route that wait for another notice of their sequence.", "route")
	oldestDesc = desc("notifier_waiting_oldest_seconds",
		"How long the first notice of an ordered route has waited for another notice of its sequence. 0 if none waits; only for ordered routes.",
		"route")
	hostsDesc = desc("notifier_hosts_waiting",
		"Hosts whose notices this process deferred within 15 s because all slots of the host were taken.", "route")
	failingDesc = desc("notifier_receivers_failing",
		"Receivers failing for more than 15 minutes, at all instances together.", "route")
	pausedDesc = desc("notifier_paused", "Whether the route is paused.", "route")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Page returns the handler of GET /metrics.
func (m *Metrics) Page() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(m.gatherer(r.Context()), promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	})
}

// gatherer combines the counters with the gauges of this moment.
func (m *Metrics) gatherer(ctx context.Context) prometheus.Gatherer {
	now := prometheus.NewRegistry()
	now.MustRegister(m.ask(ctx))
	return prometheus.Gatherers{m.registry, now}
}

// ask reads the gauges of this moment.
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
	s = append(s, historyGauges(g.History)...)
	if g.HookBacklog >= 0 {
		s = append(s, value(hookDesc, float64(g.HookBacklog)))
	}

	if g.Unhandled >= 0 {
		s = append(s, value(unhandledDesc, float64(g.Unhandled)))
	}

	for name, n := range g.SealKeys {
		s = append(s, value(sealKeysDesc, float64(n), name))
	}

	if g.SealedWaiting >= 0 {
		s = append(s, value(sealedDesc, float64(g.SealedWaiting)))
	}

	for _, r := range g.Routes {
		s = append(s, value(pendingDesc, float64(r.Pending), r.Route), value(overdueDesc, float64(r.Overdue), r.Route),
			value(deadDesc, float64(r.Dead), r.Route), value(settledDesc, float64(r.Settled), r.Route),
			value(repeatDesc, r.RepeatWindow.Seconds(), r.Route), value(repeatSetDesc, r.RepeatSetting.Seconds(), r.Route),
			value(inflightDesc, float64(r.InFlight), r.Route), value(pausedDesc, boolValue(r.Paused), r.Route),
			value(hostsDesc, float64(r.HostsWaiting), r.Route))
		for i, n := range r.Due {
			s = append(s, value(dueDesc, float64(n), r.Route, strconv.Itoa(int(store.DueWithin[i].Seconds()))))
		}

		if r.ReceiversFailing >= 0 {
			s = append(s, value(failingDesc, float64(r.ReceiversFailing), r.Route))
		}

		if r.Waiting >= 0 {
			s = append(s, value(waitingDesc, float64(r.Waiting), r.Route))
		}

		if r.LongestWait >= 0 {
			s = append(s, value(oldestDesc, r.LongestWait.Seconds(), r.Route))
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

// snapshot is a Collector of values that were read already.
type snapshot []prometheus.Metric

// Describe lists the descriptions of all gauges, including missing ones.
func (s snapshot) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, flowingDesc, orphanedDesc, unhandledDesc, sealKeysDesc, sealedDesc,
		hookDesc, missingDesc, pendingDesc, overdueDesc,
		dueDesc, deadDesc, settledDesc, repeatDesc, repeatSetDesc, inflightDesc, pausedDesc, waitingDesc, oldestDesc, hostsDesc, failingDesc,
		historyBacklogDesc, historyBoundDesc, historyLostDesc, historyLagDesc} {
		ch <- d
	}
}

// Collect sends the values.
func (s snapshot) Collect(ch chan<- prometheus.Metric) {
	for _, m := range s {
		ch <- m
	}
}
