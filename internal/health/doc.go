// Package health tracks which receivers of each route are failing: since when, how many attempts in a row, the last
// success and the last answer. A receiver is a host with its port, or a list or stream in Redis to which notices are
// written. A route is the configuration for all notices (delayed callbacks) whose keys have one prefix.
//
// # Storage
//
// Each instance observes the attempts whose results it records ([Tracker]). Once a second it writes the changes to one
// hash per route (keys.Space.Health): those of receivers that began or ceased to fail, and of 64 others. When the
// instance stops, it writes all. A script merges the observations of several instances: the last success is the
// latest one, and a receiver is failing since the first failure after that success.
//
// A receiver gets an entry in the hash after a failed attempt. From then on, failures and the first success after them
// are written soon, and further successes only once a minute. An entry is kept for 48 hours after the last attempt.
//
// A hash has at most 2,500 entries, so that 2,000 failing receivers of one route are known. If it is full, a new entry
// replaces that of the healthy receiver with the oldest success. If all receivers are failing, the new one gets no
// entry. Dropped entries and receivers without an entry are counted, by clock hour.
//
// For each receiver with an entry, a second hash (keys.Space.HealthDay) has the attempts by hour for a day, and the
// last ten answers. The receiver's page on the dashboard shows them. A full route takes at most 4 MiB of Redis with
// both hashes: 2,500 receivers that were called in each hour of the day.
//
// # Accuracy
//
// The counts of attempts may be incomplete: an instance that is killed loses the observations that it has not written
// yet. A failed write is retried with the next one. If a success was lost, the receiver ceases to fail in the hash some
// 10 seconds after the next success, at whichever instance.
//
// The number of notices that wait for a receiver is more accurate: one instance counts the notices themselves
// ([Scanner]), and stores the number with the time of the count.
package health
