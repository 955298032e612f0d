// Package metrics counts what the service does, for Prometheus.
//
// Every label has a closed set of values. A counter that appears with its first
// value hides that value from rate and increase, so that what an alert or a
// dashboard counts by exists from the start with 0: each route's attempts by
// outcome, the reasons of a record that cannot be read, lateness, claims and
// events. What is looked at only once something is wrong appears with its first
// value: an attempt's other reasons, the lateness of other causes, and the Redis
// operations beside the few that all work needs. So a route that has done nothing has
// some hundred series, eighty-eight of them the lateness that NotifierLate must
// see: of notices that nothing held, and of those that its target may keep waiting.
// No label is empty.
//
// A label of a route is the route's name. A nil *Metrics counts nothing, so
// that nobody needs to ask whether there is one.
//
// What Redis holds is not counted but asked for, when somebody scrapes: see
// [Metrics.Observe].
package metrics
