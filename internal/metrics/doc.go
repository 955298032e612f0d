// Package metrics counts the service's work and exposes the counts to Prometheus.
//
// Each label has a fixed set of values; any other value becomes "other". The label route has the name of a route. No
// label is empty, except client and operation of calls without one.
//
// The functions rate and increase of Prometheus miss the first value of a new series. So series that alerts or
// dashboards use exist from the start with the value 0: for each route the attempts by outcome, lateness, claims,
// events, and unreadable records by reason. Other series appear with their first value. An idle route has about a
// hundred series. 88 of them are buckets of the lateness, which the alert NotifierLate reads.
//
// The numbers of stored notices are read from Redis during each scrape; see [Metrics.Observe]. While Redis is
// unavailable, these are missing, and all others are served.
//
// A nil *Metrics counts nothing, so callers need no check. Its methods are safe for concurrent use.
package metrics
