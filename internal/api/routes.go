package api

import (
	"context"
	"net/http"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Route is a route as the API shows it: without secrets, and without the address of a fixed target, which may contain some.
type Route struct {
	Name        string   `json:"name" example:"orders"`
	Prefix      string   `json:"prefix" example:"app1:orders"`
	Target      string   `json:"target" enum:"url,notice,list,stream,log"`
	TargetKey   string   `json:"target_key,omitempty" doc:"The Redis key of a list or stream."`
	Retry       []string `json:"retry" doc:"The delays between attempts."`
	Summary     string   `json:"summary" example:"9 retries over 25h13m15s"`
	Ack         string   `json:"ack" example:"2xx" doc:"The acknowledgement of a delivery: a rule of ACK, report, or push or log line for a target that does not answer."`
	OnStatus    string   `json:"on_status,omitempty" doc:"The consequences of answers that do not acknowledge, by status." example:"401:pause,404:dead"`
	PauseAfter  string   `json:"pause_after,omitempty" doc:"The time of failures without a success after which a receiver is paused. Absent: never." example:"24h"`
	TimeoutMS   int64    `json:"timeout_ms"`
	Concurrency int      `json:"concurrency"`
	Expires     string   `json:"expires,omitempty" doc:"The time after due in which a notice without an expires of its own may be sent. Absent: it does not expire." example:"1h"`
	Rate        float64  `json:"rate,omitempty" doc:"Attempts a second. Absent: unlimited."`
	Signed      bool     `json:"signed" doc:"Callbacks carry a signature."`
	Sign        []string `json:"sign,omitempty" doc:"The schemes that sign, if callbacks are signed."`
	SignPer     string   `json:"sign_per,omitempty" doc:"The owner of the key that signs, if standard, stripe, github, sorted or sorted-jeepay sign: route, host, audience or host,route."`
	Paused      bool     `json:"paused"`
}

// Routes answers GET /v1/routes.
type Routes struct {
	Items    []Route          `json:"items"`
	Recorded []RecordedPrefix `json:"recorded,omitempty" doc:"The prefixes that are recorded for workers: programs with handlers for notices."`
	Missing
}

func viewRoute(r *route.Route) Route {
	v := Route{Name: r.Name, Prefix: r.Prefix, Target: string(r.Target.Kind), TargetKey: r.Target.Key, Retry: make([]string, len(r.Ladder)),
		Summary: r.Ladder.Summary(), Ack: r.Acknowledgement(), OnStatus: r.OnStatus.String(), TimeoutMS: r.Timeout.Milliseconds(),
		Concurrency: r.Concurrency, Rate: r.Rate}
	v.Sign = r.SignedBy()
	v.Signed = len(v.Sign) > 0
	if r.Signing().Shared() {
		v.SignPer = string(r.Signs())
	}

	if r.PauseAfter > 0 {
		v.PauseAfter = notice.Short(r.PauseAfter)
	}

	if r.Expires > 0 {
		v.Expires = notice.Short(r.Expires)
	}

	for i, d := range r.Ladder {
		v.Retry[i] = notice.StepText(d)
	}

	return v
}

func (a *api) counts(ctx context.Context) (map[string]store.Counts, []wire.Lost, error) {
	all, missing, err := a.counter.Counts(ctx) // each shard stores which routes are paused
	if err != nil {
		return nil, nil, err
	}

	byPrefix := make(map[string]store.Counts, len(all))
	for _, c := range all {
		byPrefix[c.Prefix] = c
	}

	return byPrefix, missing, nil
}

// listRoutes serves GET /v1/routes. A route that is wider than the caller's scope is listed, because it has the
// caller's notices.
func (a *api) listRoutes(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	counts, missing, err := a.counts(r.Context())
	if err != nil {
		return err
	}

	out := Routes{Items: []Route{}, Missing: at.missing(missing)}
	for _, route := range a.routes.All() {
		if at.Meets(route.Prefix) {
			v := viewRoute(route)
			v.Paused = counts[route.Prefix].Paused
			out.Items = append(out.Items, v)
		}
	}

	if out.Recorded, err = a.recorded(r.Context(), at, counts); err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, out)
}

// switchRoute pauses or resumes a route. The caller must be allowed to see all notices of the route.
func (a *api) switchRoute(w http.ResponseWriter, r *http.Request, at site, paused bool) error {
	if err := empty(w, r); err != nil {
		return err
	}

	route, err := a.routeNamed(at.param, at.caller)
	if err != nil {
		return err
	}
	if !at.Owns(route.Prefix) {
		return problem(http.StatusForbidden, "route %s also has notices of other clients; this client may not pause or resume it", route.Name)
	}

	action, do := audit.Resume, a.operator.Resume
	if paused {
		action, do = audit.Pause, a.operator.Pause
	}

	err = do(r.Context(), route.Prefix)
	a.operated(r, at, audit.Entry{Action: action, Route: route.Name, Prefix: route.Prefix}, err)
	if err != nil {
		return err
	}

	v := viewRoute(route)
	v.Paused = paused
	return writeJSON(w, http.StatusOK, v)
}

func (a *api) pause(w http.ResponseWriter, r *http.Request, at site) error {
	return a.switchRoute(w, r, at, true)
}

func (a *api) resume(w http.ResponseWriter, r *http.Request, at site) error {
	return a.switchRoute(w, r, at, false)
}

// Stats answers GET /v1/stats.
type Stats struct {
	Routes []RouteNumbers `json:"routes"`
	Missing
}

// RouteNumbers are the numbers of one route. Counts come from Redis; in_flight, outcomes and lateness are of the
// answering instance since its start.
type RouteNumbers struct {
	Route         string           `json:"route" doc:"The route's name; for a prefix without a configured route, the prefix."`
	Prefix        string           `json:"prefix"`
	Configured    bool             `json:"configured" doc:"false: Redis has notices under a prefix that is no longer configured."`
	Recorded      bool             `json:"recorded,omitempty" doc:"The prefix is recorded for workers: no route delivers its notices."`
	Paused        bool             `json:"paused"`
	Pending       int64            `json:"pending" doc:"Scheduled and claimed notices."`
	Overdue       int64            `json:"overdue" doc:"Pending notices that are due and not claimed."`
	Dead          int64            `json:"dead"`
	Settled       int64            `json:"settled" doc:"Delivered and cancelled notices that are still stored."`
	NextDue       codec.Stamp      `json:"next_due,omitzero" doc:"The earliest due time of pending notices without a running attempt."`
	InFlight      int              `json:"in_flight" doc:"Running attempts of the answering instance."`
	Outcomes      map[string]int64 `json:"outcomes" doc:"Attempts of the answering instance since its start, by outcome; handed: a consumer has the notice and has not reported yet."`
	LatenessP50MS float64          `json:"lateness_p50_ms"`
	LatenessP99MS float64          `json:"lateness_p99_ms"`
}

// stats serves GET /v1/stats.
func (a *api) stats(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	counts, missing, err := a.counter.Counts(r.Context())
	if err != nil {
		return err
	}

	local := map[string]fleet.RouteStats{}
	for _, s := range a.counter.Stats() {
		local[s.Prefix] = s
	}

	out := Stats{Routes: []RouteNumbers{}, Missing: at.missing(missing)}
	add := func(prefix string, c store.Counts) {
		if !at.Owns(prefix) {
			return
		}

		s := local[prefix]
		n := RouteNumbers{Route: prefix, Prefix: prefix, Paused: c.Paused, Pending: c.Pending, Overdue: c.Overdue,
			Dead: c.Dead, Settled: c.Settled, NextDue: codec.Stamp(c.NextDue), InFlight: s.InFlight, Outcomes: map[string]int64{},
			LatenessP50MS: millis(s.LatenessP50), LatenessP99MS: millis(s.LatenessP99)}
		if route := a.routes.Prefix(prefix); route != nil {
			n.Route, n.Configured, n.Recorded = route.Name, true, route.Recorded
		}

		for _, o := range notice.Outcomes {
			n.Outcomes[string(o)] = s.Outcomes[o]
		}

		out.Routes = append(out.Routes, n)
	}
	seen := map[string]bool{}
	byPrefix := map[string]store.Counts{}
	for _, c := range counts {
		byPrefix[c.Prefix] = c
	}

	for _, route := range a.routes.All() {
		seen[route.Prefix] = true
		add(route.Prefix, byPrefix[route.Prefix])
	}

	for _, c := range counts {
		if !seen[c.Prefix] {
			add(c.Prefix, c)
		}
	}

	return writeJSON(w, http.StatusOK, out)
}

// Health answers GET /healthz and /readyz.
type Health struct {
	Ready    bool     `json:"ready"`
	Degraded bool     `json:"degraded,omitempty" doc:"The service works with a limitation, which reasons names."`
	Reasons  []string `json:"reasons,omitempty"`
}

// alive serves GET /healthz. It does not check Redis, because a restart of this process does not fix Redis.
func (a *api) alive(w http.ResponseWriter, _ *http.Request, _ site) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready serves GET /readyz.
func (a *api) ready(w http.ResponseWriter, r *http.Request, _ site) error {
	s := a.prober.Ready(r.Context())
	status := http.StatusOK
	if !s.Ready {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}

	return writeJSON(w, status, Health{Ready: s.Ready, Degraded: len(s.Degraded) > 0, Reasons: s.AllReasons()})
}

// serveMetrics serves GET /metrics, to clients without a prefix only: metrics cover all routes.
func (a *api) serveMetrics(w http.ResponseWriter, r *http.Request, at site) error {
	if at.Prefix != "" {
		return problem(http.StatusForbidden, "the metrics cover all routes; use the token of a client without a prefix")
	}
	if a.metrics == nil {
		return wrongPath("/metrics")
	}

	a.metrics.ServeHTTP(w, r)
	return nil
}

// serveDocs serves GET /docs.
func (a *api) serveDocs(w http.ResponseWriter, _ *http.Request, _ site) error {
	a.docs().Page(w)
	return nil
}

// serveDocsStyle serves GET /docs/style.css.
func (a *api) serveDocsStyle(w http.ResponseWriter, _ *http.Request, _ site) error {
	a.docs().Style(w)
	return nil
}

// serveDocument serves GET /openapi.json.
func (a *api) serveDocument(w http.ResponseWriter, _ *http.Request, _ site) error {
	return writeRaw(w, http.StatusOK, "application/json", a.document())
}
