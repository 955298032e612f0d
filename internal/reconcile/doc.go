// Package reconcile makes Redis send the expired events of due notices on time, and claims the
// notices whose event is lost.
//
//	                        ┌── wake message: an earlier notice was scheduled
//	                        ▼
//	Sweeper, by partition: sleep until the first due time ─▶ touch its timer ─▶ Redis sends the event
//	                        │                                                     (listener, dispatch)
//	                        └─ one grace later: notices that are still unclaimed ─▶ sweep (dispatch)
//
//	Janitor, every 5 s:    trim settled notices · read the pauses · move notices to their routes
//
// Redis sends an expired event when it deletes the key, which may be seconds or minutes after the due
// time, but at once when a client reads the key. So a Sweeper sleeps until the earliest timer of its
// partition (a route in a shard) is due, and then touches it: it reads the timer, and the event triggers
// the claim. A notice without a claim one grace (50 ms) after its due time is swept: it is claimed
// without an event.
//
// # Guarantees
//
//   - Lost: no notice. The shadow, a zset in Redis, contains every pending notice, and nothing depends on
//     an event or a wake message; both only save time. Notices without a timer are swept when they are
//     due, and so are all notices while no events arrive.
//   - Duplicated: none by a sweep, since the claim decides.
//   - Ordered: a sweep claims in the order of due times. Between partitions there is no order.
//   - Early: never. Due times are by Redis's clock, which the Sweeper estimates to half a round trip. A
//     timer that was touched too early still exists, which the touch reports, and is touched again.
//
// # Failures
//
//   - An event is lost: the notice is swept one grace later.
//   - The subscription is lost, or events do not arrive: notices are swept at their due time.
//   - A wake message is lost: an idle partition is inspected every second, or every ten seconds while a
//     subscription is alive, since wake messages then arrive.
//   - The preferred instance is dead: the next one sweeps one grace later (see below).
//   - A call fails: the sweeper retries after 20 ms, at most after 250 ms.
//
// # Cost
//
// The sweepers of a process that wait for nothing inspect their partitions at the same instants and
// share calls ([Inspections]). So the commands of an idle instance hardly grow with its routes. An
// inspection that a due notice waits for shares no call.
//
// # Several instances
//
// For each partition the instances are ranked ([Assignment]). The first, the preferred one, inspects and
// touches. The second inspects one grace and a few ms after a due time, the third after two graces, and so
// on; without due notices each of them inspects once a minute. They sweep the notices that are still
// unclaimed. So if the preferred instance dies, its partitions are late by the grace and 20 ms at most,
// and by two graces if the second has died too. All instances work on a backlog.
//
// Each notice is claimed by the instance that is preferred for its key; all of them receive the events.
// Notices that are due together are grouped, and a group goes to the preferred instance of its first
// notice. So all instances use their slots evenly. If instances have a route configured differently, or
// the fleet is unknown, all are preferred for it.
//
// # Instances of different configurations
//
// During a rollout, instances may give the same key to different routes: one to app, another to app:m. A
// notice is stored under the prefix of the route in its writer's configuration. These rules keep it one
// notice that is delivered once:
//
//  1. Every prefix that any configuration ever had is registered in each shard before anything is stored
//     under it, and stays registered. Scripts refuse a writer that does not know all of them. The writer
//     then reads the list and writes again.
//  2. The script that creates a notice checks every registered prefix that may contain its key: shorter
//     ones, and longer ones that are no route of the caller. A notice found there is returned, or replaced
//     in place.
//  3. A call that does not find a notice under its own prefix checks all others that cover the key, in one
//     script, and follows the notice if it is moved at that time. The same holds for keys of plain timers
//     that may be adopted.
//  4. A claim is named by the key alone, so it holds under every prefix. A claimed notice is settled where
//     it was claimed, and is not moved before.
//  5. Each instance claims and delivers the notices under its own prefixes by that route's settings. For
//     the minutes of a rollout a notice is delivered by either configuration. An event for a notice that is
//     stored under another prefix finds nothing; the instance that serves that prefix receives the event
//     too, or sweeps the notice a grace later.
//  6. Instances publish the prefixes that they serve every few seconds, and remove them when they stop.
//     Notices under a prefix that another instance serves are left to that one. Notices under a prefix
//     without an instance are moved to the route that covers it. That happens within seconds after the last
//     such instance has left or has published nothing for 15 s, and within a second or two after a schedule
//     call whose wake message names such a prefix.
//  7. A notice that belongs to a longer prefix than it is stored under was scheduled before that route was
//     added, or by an instance without it. Such notices are moved at the start, repeatedly while instances
//     of other configurations are alive, and once after the last of them has ended.
//  8. A move never drops one of two different notices. Two notices of one key are only created by writers
//     that ignore these rules, such as copies of an older deploy/schedule.lua. Equal ones are merged, and a
//     pending one replaces a settled one. Otherwise the second waits, counted as an orphan, until the first
//     is finalized.
//
// Rules 1 to 4 hold at every moment. Rules 6 and 7 save time. They may be late or wrong, for example about
// a paused instance: that costs moves, and no notice.
package reconcile
