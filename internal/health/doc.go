// Package health tracks which receivers of each route are failing: since when, how many attempts in a row, the last
// success and the last answer. A receiver is a host with its port, or a list or stream.
//
// # Storage
//
// Each instance observes the attempts that it settles ([Tracker]). Once a second it writes the changes to one hash per
// route (keys.Space.Health). A script merges the observations of several instances: the last success is the latest
// one, and a receiver is failing since the first failure after that.
//
// A receiver that has never failed has no entry. A succeeding receiver with an entry is written once a minute. A write
// has at most 64 receivers, and a hash at most 1,000 entries. If the hash is full, the healthy receiver with the
// oldest last attempt is removed, and counted as removed. An entry is kept for 48 hours after the last attempt.
//
// For each of these receivers, a second hash (keys.Space.HealthDay) has the attempts by hour for a day, and the last
// ten answers. The receiver's page shows them.
//
// # Accuracy
//
// The counts may be incomplete: an instance that is killed loses the observations of its last second. A failed write
// is retried with the next one.
//
// The number of waiting notices does not have this error, because one instance counts the notices themselves
// ([Scanner]). It stores the number with the time of the count.
package health
