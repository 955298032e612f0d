// Package health keeps, for each route, which receivers fail: since when, how many attempts in
// a row, the last success and the last answer.
//
// A receiver is a host with its port (without it if it is the scheme's own), or a list or
// stream. Each instance observes the attempts that it settles (Tracker) and, once a second,
// writes the changes to one hash per route, keys.Space.Health. A script merges the observations
// of several instances: the last success is the latest one, and a receiver fails since the
// first failure after it.
//
// Nothing is written of a receiver that has never failed. A receiver that recovered is written
// once a minute while it answers. One write has at most 64 receivers. A hash has at most 1,000:
// if it is full, the healthy receiver with the oldest last attempt is dropped and counted as
// one of the others. An entry is kept for 48 hours after the last attempt.
//
// A second hash, keys.Space.HealthDay, has the attempts of each of these receivers by hour, for a day, and its last
// ten answers. It is read for the page of one receiver.
//
// The counts are observations, not the truth: an instance that is killed loses those of its
// last second, and a failed write is retried with the next one. The number of waiting notices
// is counted by reading the notices (Scanner), so it cannot drift. One instance counts; the
// result has the time when the count ended.
package health
