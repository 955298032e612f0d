// Package reconcile makes Redis send the expired events of due notices on time, and finds due notices whose event was
// lost. So a lost event costs a delay of one grace (50 ms), and never a notice.
//
//	                        ┌── wake message: an earlier notice was scheduled
//	                        ▼
//	Sweeper, by partition: sleep until the first due time ─▶ touch its timer ─▶ Redis sends the event
//	                        │                                                     (listener, dispatch)
//	                        └─ one grace later: notices that are still unclaimed ─▶ sweep (dispatch)
//
//	Janitor, every 5 s:    trim settled notices · read the pauses · move notices to their routes
//	Hooks, every second:   schedule a notice for each dead letter of a route with ON_DEAD
//
// Every pending notice is in the shadow, a sorted set in Redis ordered by due time. Most also have a timer: a Redis
// key that expires at the due time. A partition is the notices of one route in one shard.
//
// Redis sends an expired event when it deletes the timer. On its own, Redis may do so seconds or minutes after the due
// time. It does so at once when a client reads the timer. So a [Sweeper] sleeps until the earliest timer of its
// partition is due, and then touches the timer, which means to read it. The event makes an instance claim the notice.
// If a notice has no claim one grace after its due time, the Sweeper sweeps it: an instance claims the notice without
// an event.
//
// # Guarantees
//
//   - Lost: no notice, because the shadow contains all of them. Events and wake messages only save time. Notices
//     without a timer are swept when they are due. While no events arrive, all notices are.
//   - Duplicated: none by a sweep, because only one claim of a notice succeeds.
//   - Ordered: a sweep claims in the order of due times. Between partitions there is no order.
//   - Early: never. Redis's clock decides what is due. If the Sweeper touches a timer too early, the timer still
//     exists, and the Sweeper touches it again.
//
// # Failures
//
//   - An event is lost: the notice is swept one grace later.
//   - The subscription is lost, or events do not arrive: notices are swept at their due time.
//   - A wake message is lost: the next inspection finds the notice. A partition without due notices is inspected every
//     second, or every ten seconds while a subscription is alive.
//   - The preferred instance is dead: the next one sweeps one grace later (see below).
//   - A call fails: the sweeper retries after 20 ms, and later after up to 250 ms.
//
// # Cost
//
// Sweepers of a process that have no due notice inspect their partitions at the same instants and share calls
// ([Inspections]). So an idle instance sends hardly more commands with many routes than with one. An inspection for a
// due notice is sent at once.
//
// # Several instances
//
// The instances are ranked for each partition ([Assignment]). The first one, the preferred instance, inspects the
// partition and touches its timers. The others inspect it later and sweep notices that are still unclaimed: the second
// one grace and a few ms after a due time, the third after two graces, and so on. Without due notices they inspect the
// partition once a minute. So if the preferred instance dies, its notices are late by the grace and at most 20 ms, or
// by two graces if the second instance is dead too. All instances work on a backlog.
//
// All instances receive all events, and each notice is claimed by the instance that is preferred for its key. Notices
// that are due together are claimed as a group, by the instance preferred for the first of them. If instances have
// different configurations of a route, or the fleet is unknown, every instance is preferred for that route.
//
// # Instances of different configurations
//
// During a rollout, instances may have different routes for the same key: one app, another app:m. A notice is stored
// under the prefix of the route that its writer has. These rules keep it one notice that is delivered once:
//
//  1. A prefix is registered in each shard before any notice is stored under it, and it stays registered. A script
//     refuses a writer that does not know all registered prefixes. The writer then reads the list and writes again.
//  2. The script that creates a notice checks all registered prefixes that may contain its key: shorter ones, and
//     longer ones that the caller has no route for. If it finds a notice of that key, it returns or replaces that
//     notice and creates none.
//  3. A call that does not find a notice under its own prefix checks all other prefixes of the key in one script. If
//     the notice is being moved, the call follows it. The same holds for keys of plain timers that may be adopted.
//  4. A claim is named after the key alone, so it holds under every prefix. A claimed notice is settled under the
//     prefix where it was claimed, and moves only afterwards.
//  5. Each instance claims the notices under its own prefixes, and delivers them with its own settings of that route.
//     So during a rollout either configuration may deliver a notice. An instance ignores events of notices under
//     prefixes that it has no route for. An instance that has one receives the event too, or sweeps the notice one
//     grace later.
//  6. Instances publish the prefixes of their routes every few seconds, and remove them when they stop. Notices under a
//     prefix of another instance are not moved. Notices under a prefix of no instance are moved to the route that
//     matches their keys. That happens within seconds after the last such instance has left, or has published nothing
//     for 15 s. If a schedule call sends a wake message for such a prefix, it takes a second or two.
//  7. A notice may be stored under a shorter prefix than its best route, because it was scheduled before that route was
//     added, or by an instance without it. Such notices are moved at the start, repeatedly while instances of other
//     configurations are alive, and once after the last of these has ended.
//  8. A move never drops one of two different notices. Two notices of one key exist only if a writer ignores these
//     rules, such as an old copy of deploy/schedule.lua. If both have the same content, they are merged. A pending
//     notice replaces a settled one. Otherwise the second waits, counted as an orphan, until the first is finalized.
//
// Rules 1 to 4 hold at every moment. Rules 6 and 7 only save time: old data costs unnecessary moves, and no notice is
// lost.
package reconcile
