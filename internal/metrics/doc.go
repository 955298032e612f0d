// Package metrics counts the service's work and exposes it to Prometheus.
//
// Every label has a closed set of values; unexpected values become "other". A route's label is the route's name. No
// label is empty, except where a call has no client or operation.
//
// The functions rate and increase of Prometheus miss the first value of a new series. So the series that alerts or
// dashboards use exist from the start with the value 0: for each route the attempts by outcome, lateness, claims,
// events, and unreadable records by reason. Other series appear with their first value: rare reasons of attempts,
// lateness with rare causes, and errors of rare Redis operations. An idle route has about a hundred series, 88 of them
// buckets of the lateness, which the alert NotifierLate reads.
//
// Numbers of stored notices are not counted but read from Redis during each scrape, see [Metrics.Observe]. While Redis
// is unavailable, these are missing and the counters are served without them.
//
// A nil *Metrics counts nothing, so callers need no check. Its methods may be called concurrently.
package metrics
