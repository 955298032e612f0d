// Package metrics counts the service's work and exposes the counts to Prometheus.
//
// A nil *Metrics counts nothing, so callers need no check. Its methods are safe for concurrent use.
//
// # Labels
//
// Each label has a fixed set of values; any other value becomes "other". The label route has the name of a route. No
// label is empty, except client and operation of calls without one.
//
// # Series
//
// Series that alerts or dashboards use exist from the start with the value 0, because Prometheus's rate and increase
// miss the first value of a new series. For each route these are the attempts by outcome, lateness, claims, events,
// and unreadable records by reason. Other series appear with their first value. An idle route has about a hundred
// series, of which 88 are buckets of the lateness.
//
// The numbers of stored notices are read from Redis during each scrape; see [Metrics.Observe]. While Redis is
// unavailable, only these are missing.
package metrics
