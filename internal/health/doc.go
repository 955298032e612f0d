// Package health keeps, for each route, which receivers fail: since when, how many attempts in
// a row, the last success and the last answer.
//
// A receiver is a host with its port (without the scheme's default port), or a list or stream. Each
// instance observes the attempts that it settles (Tracker). Once a second it writes the changes to
// one hash per route, keys.Space.Health. A script merges the observations of several instances: the
// last success is the latest one, and a receiver fails since the first failure after it.
//
// A receiver that has never failed has no entry. While a receiver with an entry succeeds, its entry
// is written once a minute. One write has at most 64 receivers. A hash has at most 1,000: if it is
// full, the healthy receiver with the oldest last attempt is removed, and the hash counts it as
// removed. An entry is kept for 48 hours after the last attempt.
//
// A second hash, keys.Space.HealthDay, has the attempts of each of these receivers by hour, for
// a day, and its last ten answers, for the page of the receiver.
//
// The counts are observations and may be incomplete: a killed instance loses the observations of
// its last second. A failed write is retried with the next one. Waiting notices are counted by
// reading the notices themselves (Scanner), so that number has no such error. One instance counts
// them; the result has the time when the count ended.
package health
