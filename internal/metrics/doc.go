// Package metrics counts the service's work, such as attempts and claims, and exposes the counts to Prometheus.
//
// A nil *Metrics counts nothing, so callers need no check. Its methods are safe for concurrent use.
//
// # Labels
//
// Each label has few values, to bound the number of series. Most unexpected values are counted as "other". The
// label "route" has the name of a route. No label is empty, except the label "client" of some calls.
//
// # Series
//
// Most series that alerts use exist from the start with the value 0. Otherwise Prometheus's functions rate and increase
// would not count the step to the first value. Many other series appear with their first value.
//
// Some gauges, such as the numbers of notices by state, are read from Redis during each scrape; see [Metrics.Observe].
// While Redis is unavailable, these gauges are missing.
package metrics
