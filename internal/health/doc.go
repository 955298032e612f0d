// Package health tracks which receivers of each route are failing: since when, how many attempts in a row, the last
// success and the last answer. A receiver is a host with its port, or a list or stream.
//
// # Storage
//
// Each instance observes the attempts that it settles ([Tracker]). Once a second it writes the changes to one hash per
// route (keys.Space.Health). A script merges the observations of several instances: the last success is the latest one,
// and a receiver is failing since the first failure after that.
//
// A receiver that has never failed has no entry. While a receiver with an entry succeeds, its entry is written once a
// minute. One write has at most 64 receivers. A hash has at most 1,000 entries. If it is full, the healthy receiver
// with the oldest last attempt is removed, and counted as removed. An entry is kept for 48 hours after the last
// attempt.
//
// A second hash (keys.Space.HealthDay) has, for the page of each of these receivers, its attempts by hour for a day and
// its last ten answers.
//
// # Accuracy
//
// The counts may be incomplete: an instance that is killed loses the observations of its last second. A failed write is
// retried with the next one.
//
// The number of waiting notices has no such error, because it is counted from the notices themselves ([Scanner]). One
// instance counts them and stores the time of the count.
package health
