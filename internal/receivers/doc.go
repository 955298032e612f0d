// Package receivers tracks which receivers are failing, and pauses and limits single ones. A receiver is a host with its
// port, or a list or stream in Redis to which notices (delayed callbacks) are written. A pause or limit may also name an
// audience (the producer's name for a customer). A route is the configuration for all notices whose keys have one prefix.
//
// # Health
//
// Each instance observes the attempts whose results it records ([Tracker]): since when a receiver fails, how many
// attempts in a row, the last success and the last answer. Once a second it writes the changes to one hash per route
// (keys.Space.Health): those of receivers that began or ceased to fail, and of 64 others. When the instance stops, it
// writes all. A script merges the observations of several instances: the last success is the latest one, and a receiver is
// failing since the first failure after that success.
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
// The counts of attempts may be incomplete: an instance that is killed loses the observations that it has not written
// yet. A failed write is retried with the next one. If a success was lost, the receiver ceases to fail in the hash some
// 10 seconds after the next success, at whichever instance.
//
// The number of notices that wait for a receiver is more accurate: one instance counts the notices themselves
// ([Scanner]), and stores the number with the time of the count.
//
// # Pauses and limits
//
//   - A pause holds the notices of a receiver: they stay pending, and are delivered after the pause.
//   - A resume ends a pause, and spreads the held notices over some time.
//   - A limit lowers the rate or the number of concurrent calls of a host on each route, for all instances together.
//
// Pauses and limits are stored in the hash notifier:receivers in Redis, and every instance follows its changes. While
// the hash cannot be read, an instance uses the pauses and limits that it has read last. Before it has read those for a
// shard (a part of the notices), it claims no notices of HTTP routes there.
//
// # Rules
//
// A route can pause receivers by rule ([Rules]): after three answers in a row with certain statuses, or after a time of
// failures without a success. Each instance counts the answers that it gets. The failures of all instances are merged in one more
// hash per route (keys.Space.HealthRules), as above. A pause by rule is made with a comparison in Redis, only if the receiver has
// no pause, so one instance of all makes it. Its prefix alone does not decide which notices it holds: [Holds.Ruled] does,
// so that it holds none of a longer route or of a narrower client.
//
// Every ten minutes one held notice of such a pause is called, the probe. The instance that chooses it stores its key, its
// creation time, the number of its attempt and that of its deferrals by a lock in the pause, with a comparison, so that instances
// choose one. All instances let that attempt pass, and no other. The numbers exclude a second attempt after the death of an
// instance, or after an answer with 423. The creation time excludes a notice that replaces the probe. A delivered probe resumes
// the receiver.
//
// # Holding
//
// A notice is claimed before its receiver is known. If the receiver is paused, package dispatch starts no attempt. It
// postpones the notice until after the pause, or by an hour if the pause has no end. It also lists the notice as held
// by this pause. Each partition (the notices of one route in one shard) has one such list.
//
// If the url or the headers of a held notice change, the notice is released: it is due again, and its next claim decides
// whether its receiver is paused. Any other change of the notice usually removes it from the list. If it stays listed by
// mistake, that has no effect: the list also has the time until which the notice was postponed, and a notice with another
// time is not released.
//
// # Resuming
//
// In every instance a [Walker] releases the held notices of pauses that have ended. It works in steps, each of which is
// one script: the step takes some notices off a list, and spreads the times of their next attempts evenly over the
// duration of the resume. So the receiver is not flooded. The due times of the notices stay the same. A step needs no
// state but the list, so any instance may run, stop or repeat it.
//
// The pause is deleted some seconds after its end, when its lists are empty. An instance that learns of the resume
// later may still hold notices. Therefore walkers regularly release notices whose pause was deleted.
package receivers
